"""Every page with code cells is offered as a notebook, too: the text as it stands in docs/, to be run by the reader."""

from pathlib import Path

import nbformat
from docutils import nodes
from myst_nb.core.read import read_myst_markdown_notebook

FOLDER = "notebooks"


def is_notebook(text):
    return "\n```{code-cell}" in text


def offer(app, doctree):
    """A link below the title of the page."""
    document = app.env.docname
    if not is_notebook(app.env.doc2path(document).read_text()):
        return
    name = f"{Path(document).name}.ipynb"
    up = "../" * document.count("/")
    link = f'<p class="notebook"><a href="{up}{FOLDER}/{name}" download>Download as a notebook</a></p>'
    title = next(doctree.findall(nodes.title))
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", link, format="html"))


def write(app, error):
    if error:
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    for document in app.env.found_docs:
        text = app.env.doc2path(document).read_text()
        if is_notebook(text):
            notebook = read_myst_markdown_notebook(text)
            for number, cell in enumerate(notebook.cells):
                cell["id"] = f"cell-{number}"  # the same bytes from the same page
            nbformat.write(notebook, folder / f"{Path(document).name}.ipynb")


def setup(app):
    app.connect("doctree-read", offer)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
