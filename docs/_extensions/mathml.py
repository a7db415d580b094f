"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError


def drawn(node, as_block):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        raise ExtensionError(
            f"{node.source}:{node.line}: this formula cannot be drawn, {error}: {node.astext()}"
        ) from None


def inline(translator, node):
    translator.body.append(drawn(node, as_block=False))
    raise nodes.SkipNode


def block(translator, node):
    translator.body.append(f'<div class="formula">{drawn(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
