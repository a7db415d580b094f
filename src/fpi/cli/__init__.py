"""The command line, `fpi`.

`commands` has train, evaluate, check and render with their options; `config` makes environments and agents by name,
`training` what goes on beside learning, `console` tables and texts, `gif` pictures of the policy; `verify`, `compare`
and `reproduce` are the commands of these names, `progress` the live table of a study, `report` its pictures and page.
Heavy modules are imported inside the commands, so that `fpi --help` answers at once.
"""

from fpi.cli import compare, reproduce, verify  # noqa: F401 - registers their commands
from fpi.cli.commands import app, main

__all__ = ["app", "main"]
