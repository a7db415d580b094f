"""Formulas as MathML, which browsers draw by themselves: no script, no network. Their font comes with ziamath."""

import re
import shutil
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

# What docutils does not know, in words that it does.
SPELLED = (
    (r"\\dots[cb]?(?![a-zA-Z])", r"\\ldots"),
    (r"\\[bB]igg?(?![a-zA-Z])", ""),
    (r"\\iff(?![a-zA-Z])", r"\\Longleftrightarrow"),
    (r"\\texttt\{", r"\\text{"),
    (r"\\mathop\{", r"{"),
    (r"\\tag\{(.*?)\}", r"\\qquad (\1)"),
    # An index of a letter with an accent stands beside it, not below.
    (r"(\\(?:wide)?(?:tilde|hat|bar)\s*(?:\{[^{}]*\}|\\[a-zA-Z]+|[a-zA-Z]))(?=\s*[_^])", r"{\1{}}"),
)


def drawn(node, as_block):
    source = node.astext()
    for unknown, known in SPELLED:
        source = re.sub(unknown, known, source)
    try:
        # Of a pair of norm signs only the first would grow with what is between them.
        return re.sub("<mo[^>]*>‖", '<mo stretchy="false">‖', tex2mathml(source, as_block=as_block))
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
        return ""


def inline(translator, node):
    translator.body.append(drawn(node, as_block=False))
    raise nodes.SkipNode


def block(translator, node):
    translator.body.append(f'<div class="formula">{drawn(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def bring_font(app, error):
    if error is None:
        font = files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
        shutil.copyfile(font, Path(app.outdir, "_static", font.name))


def setup(app):
    app.connect("build-finished", bring_font)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
