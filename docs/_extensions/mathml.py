"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LACKING = {"dots": "ldots", "dotsc": "ldots", "dotsb": "cdots"}  # unknown to docutils


def drawn(node, as_block):
    source = re.sub(r"\\(\w+)", lambda found: rf"\{LACKING.get(found[1], found[1])}", node.astext())
    try:
        return tex2mathml(source, as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
        return ""


def inline(translator, node):
    translator.body.append(drawn(node, as_block=False))
    raise nodes.SkipNode


def block(translator, node):
    translator.body.append(f'<div class="formula">{drawn(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
