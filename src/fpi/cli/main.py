"""The command `fpi`: its own help, and how errors and warnings are printed. Each command has a file of its name."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

import fpi
from fpi.cli.console import in_options
from fpi.cli.options import flag
from fpi.errors import FpiError

STOPPED = 130  # what shells report after Ctrl-C


class PlainHelp:
    """Lists --help as the flag that it is, and in usage lines what is needed without typer's braces."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = " "  # as in `fpi.cli.options.flag`
        return option

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.strip("{}") for piece in pieces]


class Command(PlainHelp, TyperCommand):
    """One command."""


class Group(PlainHelp, TyperGroup):
    """Commands behind a word."""


class Commands(Group):
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
        except BrokenPipeError:
            raise  # whoever read the output has seen enough
        except OSError as error:
            _complain("Error", _why(error))
            raise typer.Exit(2) from error
        except MemoryError as error:
            _complain("Error", "there is not enough memory for this. Ask for fewer tiles, steps, seeds or workers.")
            raise typer.Exit(2) from error


def _why(error: OSError) -> str:
    """An error of the system, in words."""
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the folder you are in does not exist any more. Change to another one."
    where = "" if error.filename is None else f" ({error.filename})"
    return f"{error.strerror or error}{where}. Look whether the disk is full, and where the output goes."


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
    typer.echo(f"{kind}: {in_options(' '.join(str(message).split()))}", err=True)


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def main() -> None:
    """The command `fpi`, whatever its output is connected to."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed before the command began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):  # file names and signs that the terminal does not know
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="fpi")
        finally:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try once more to write what is left
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        _complain("Error", _why(error))
        sys.exit(2)


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
