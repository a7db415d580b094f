"""The site: `make docs` builds it into build/site, from where it opens without a server and without network."""

import sys
from pathlib import Path

from docutils import nodes

import fpi

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
sys.path.insert(0, str(HERE / "_extensions"))

project = "fpi"
author = "The fpi authors"
version = release = fpi.__version__
extensions = ["myst_nb", "sphinx_copybutton", "mathml", "notebooks", "reference"]
exclude_patterns = ["_extensions"]

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "notebook-cache")
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True

smartquotes = False  # -- of options is no dash
html_theme = "furo"
html_title = "fpi: Frozen Policy Iteration"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
python_maximum_signature_line_length = 72


def without_last_line(app, doctree):
    """Doctests in Markdown need an empty line at their end, which readers do not."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource == block.astext():
            block.rawsource = block.rawsource.rstrip()
            block[:] = [nodes.Text(block.rawsource)]


def setup(app):
    app.connect("doctree-read", without_last_line)
