"""One self-contained HTML page of a folder of results: it opens from disk, without network.

`write` makes it from the files alone. `charts` says what is drawn, `tables` what is tabulated, `template` holds frame,
style and script. Drawing happens in the reader's browser, by the plotly.js inside the page.
"""

from fpi.page.writing import write

__all__ = ["write"]
