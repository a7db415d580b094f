"""The command `fpi`: its own help, and how errors and warnings are printed. Each command has a file of its name."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

import fpi
from fpi.cli.options import flag
from fpi.errors import FpiError

STOPPED = 130  # what shells report after Ctrl-C


class Commands(TyperGroup):
    """Every error that is raised on purpose becomes one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except FpiError as error:
            _complain("Error", error)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo("Stopped.", err=True)
            raise typer.Exit(STOPPED) from error


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _complain("Warning", re.sub(r"\x1b\[\d*m|WARN: ", "", str(message)))  # Gymnasium's own decoration


def _complain(kind: str, message: BaseException | str) -> None:
    from fpi.cli.console import in_options

    typer.echo(f"{kind}: {in_options(' '.join(str(message).split()))}", err=True)


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def main() -> None:
    """The command `fpi`."""
    app(prog_name="fpi")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fpi {fpi.__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[bool, flag("--version", "Print the version.", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Frozen Policy Iteration: learn to act, see how well it went, and watch it.

    A first look:

    fpi check CartPole-v1
    fpi train CartPole-v1 --episodes 55000 --out cartpole.fpi
    fpi evaluate cartpole.fpi
    fpi render cartpole.fpi --out cartpole.gif

    More about a command: fpi train --help
    """
