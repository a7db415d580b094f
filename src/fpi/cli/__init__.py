"""The command line, `fpi`.

`commands` has the options and the help, `making` environments and agents by name, `running` what goes on beside
learning, `showing` tables and texts, `pictures` the GIF, `verifying` the command that checks the paper's claims. Heavy
modules are imported inside the commands, so that `fpi --help` answers at once.
"""

from fpi.cli import verifying  # noqa: F401 - registers `fpi verify`
from fpi.cli.commands import app, main

__all__ = ["app", "main"]
