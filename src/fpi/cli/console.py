"""Texts and tables for the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Rules: TypeAlias = tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]

# Errors and advice of the library are written for Python; here people type options.
_TYPED_INSTEAD: _Rules = (
    (r"Wrap the environment: fpi\.ActionGrid\(env, points=(\d+)\).*?\.\.\..*?\.", r"Give --action-grid \1."),
    (r"reward_range=\((\S+), (\S+)\)", r"--reward-range \1 \2"),
    (r"gymnasium\.make\(id, ([^()]+)\)", lambda found: _env_args(found[1])),
    (r"\bhorizon=(\d+)", r"--horizon \1"),
    (r"\bengine=\"(\w+)\"", r"--engine \1"),
    (r"\bthe engine (\w+)\.", r"--engine \1."),
    (r"\bgive the horizon", "give --horizon"),
    (r"\bthe class LinearBall", "--class linear-ball"),
)


# In a study people wrote a TOML file.
_WRITTEN_INSTEAD: _Rules = (
    (r"Wrap the environment: fpi\.ActionGrid\(env, points=(\d+)\).*?\.\.\..*?\.", r"Write action_grid = \1."),
    (r"reward_range=\((\S+), (\S+)\)", r"arguments.reward_range = [\1, \2]"),
    (r"gymnasium\.make\(id, ([^()]+)\)", lambda found: f"env_args = {{{_toml(found[1])}}}"),
    (r"\bhorizon=(\d+)", r"arguments.horizon = \1"),
    (r"\bgive the horizon", "give arguments.horizon"),
    (r"\bthe class LinearBall", 'function_class.type = "LinearBall"'),
)


def _toml(arguments: str) -> str:
    return arguments.replace("=False", "=false").replace("=", " = ")


def _env_args(arguments: str) -> str:
    """Arguments of gymnasium.make as options, whose values are JSON."""
    return " ".join(f"--env-arg {each.replace('=False', '=false')}" for each in arguments.split(", "))


def in_options(text: str) -> str:
    """A text of the library in words of the command line."""
    return _reworded(text, _TYPED_INSTEAD)


def in_toml(text: str) -> str:
    """A text of the library in words of a TOML file."""
    return _reworded(text, _WRITTEN_INSTEAD)


def _reworded(text: str, rules: _Rules) -> str:
    for python, instead in rules:
        text = re.sub(python, instead, text)
    return text


def say(text: str) -> None:
    """Print a text as it is; the terminal wraps it."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def show_table(title: str, rows: dict[str, str]) -> None:
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE, show_header=False)
    for name, value in rows.items():
        table.add_row(name, Text(value))
    Console().print(table)


def show_columns(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table with heads; its first column is never broken."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE, padding=0)
    for head, *cells in zip(heads, *rows, strict=True):
        words = [word for cell in (head, *cells) for word in cell.split()]
        table.add_column(head, no_wrap=head == heads[0], min_width=max(map(len, words)))
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner, where there is a terminal to show it."""
    with Console(stderr=True).status(text):
        yield


@contextmanager
def bar(text: str, total: int) -> Iterator[Callable[[Any], None]]:
    """A progress bar over runs, where there is a terminal to show it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        yield lambda _: progress.advance(task)
