"""What came out of a study: everything is read from the folder that `fpi reproduce` leaves, and nothing is run.

`results` reads a folder, `claims` says what may be concluded, and `figures` draws with matplotlib, also for the
commands `verify` and `compare`. `page` writes one HTML page that opens from disk, without network: `charts` says what
plotly.js draws on it, `tables` what is tabulated; page.html is its frame, freezing.html draws what freezing is.
"""

from fpi.report.claims import summarise
from fpi.report.page import write_page
from fpi.report.results import Results, read

__all__ = ["Results", "read", "summarise", "write_page"]
