"""Tables in Markdown, and their places in the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.table import Table

DOCS = Path(__file__).parents[1] / "docs"


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*names: str) -> list[str]:
    return [row(*names), "|---" * len(names) + "|"]


def markdown(parts: Iterable[Table | str]) -> Iterator[str]:
    """Lines as they are, and tables with their titles above them and a free line around."""
    before: Table | str | None = None
    for part in parts:
        if before is not None and not (isinstance(part, str) and isinstance(before, str)):
            yield ""
        before = part
        if isinstance(part, str):
            yield part
            continue
        if part.title:
            yield from (f"{part.title}:", "")
        yield from head(*(str(column.header) for column in part.columns))
        yield from (row(*cells) for cells in zip(*(column.cells for column in part.columns), strict=True))


def write(page: str, name: str, lines: Iterable[str]) -> None:
    """Replace the lines between `<!-- table: name -->` and `<!-- end -->` in a page of docs/."""
    path = DOCS / page
    place = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->\n)", re.DOTALL)
    table = "\n".join(lines) + "\n"
    text, found = place.subn(lambda marks: marks[1] + table + marks[2], path.read_text())
    if not found:
        raise SystemExit(f"{path} has no place for this table: put <!-- table: {name} --> and <!-- end --> there.")
    path.write_text(text)
