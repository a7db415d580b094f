"""The command line, `fpi`.

`commands` has the options and the help, `making` environments and agents by name, `running` what goes on beside
learning, `showing` tables and texts, `pictures` the GIF, `verifying` the command that checks the paper's claims,
`comparing` the one that compares methods, `reproducing` the one that carries out studies, `watching` its live table,
`reporting` its pictures and page. Heavy modules are imported inside the commands, so that `fpi --help` answers at once.
"""

from fpi.cli import comparing, reproducing, verifying  # noqa: F401 - registers their commands
from fpi.cli.commands import app, main

__all__ = ["app", "main"]
