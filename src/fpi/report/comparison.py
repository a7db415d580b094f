"""What `fpi compare table1` leaves to look at: a picture and a page."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fpi._files import write_bytes
from fpi.compare import table1
from fpi.compare.cells import FAILED, Cell
from fpi.compare.claims import SlipRow
from fpi.report import figures, tables
from fpi.report.page import Page

LINES = {"online": "-", "local": "--", "generative": ":", "oracle (cheats)": "-."}
SMALLEST = 1e-3  # gap that a log axis shows


def draw_gaps(cells: Sequence[Cell], path: Path) -> None:
    """Held-out gap against steps, log-log: a panel per testbed, the line style tells the access."""
    worlds = list(dict.fromkeys(cell.world for cell in cells))
    colours = _row_colours(list(dict.fromkeys(cell.row for cell in cells)))
    figure, panels = figures._panels(len(worlds), columns=3)
    for axes, world in zip(panels, worlds, strict=True):
        for cell in (cell for cell in cells if cell.world == world):
            steps, gaps = median_curve(cell)
            axes.plot(
                steps,
                np.maximum(gaps, SMALLEST),
                ls=LINES[cell.access],
                color=colours[cell.row],
                marker="o" if len(set(steps)) == 1 else None,
                ms=6,
                lw=2 if cell.row.startswith("FPI") else 1.2,
                label=cell.row,
            )
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="held-out gap", title=world)
        axes.grid(lw=0.4, alpha=0.6)
    figures.legend_beside(figure, loc="outside lower center", ncols=5, fontsize=8)
    figures.save(
        figure,
        path,
        "Median over seeds. Full line: online; dashed: local; dotted: generative; dots: planners; reds: FPI",
    )


def _row_colours(names: Sequence[str]) -> dict[str, Any]:
    """Reds for FPI, a colour of its own for every other method."""
    from matplotlib import colormaps

    own = [name for name in names if name.startswith("FPI")]
    others = [name for name in names if name not in own]
    reds = dict(zip(own, colormaps["Reds"](np.linspace(0.45, 0.95, len(own))), strict=True))
    colours = [colour for i, colour in enumerate(colormaps["tab20"].colors) if i not in (6, 7)]  # type: ignore[attr-defined]
    return reds | dict(zip(others, itertools.cycle(colours)))


def median_curve(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Steps and the median gap over seeds, at marks that all seeds passed; planners have one policy, so one point."""
    marks = min(len(run.rows["gap"]) for run in cell.runs)
    steps = np.median([run.rows["steps"][-marks:] for run in cell.runs], axis=0)
    gaps = np.median([run.rows["gap"][-marks:] for run in cell.runs], axis=0)
    known = np.isfinite(gaps)
    return steps[known], gaps[known]


def draw_claims(features: Sequence[Cell], slips: Sequence[SlipRow], folder: Path) -> None:
    """features.png: losses with and without features of weight 0. slip.png: what slips do to stored returns."""
    worlds = list(dict.fromkeys(cell.world for cell in features))
    figure, (axes,) = figures._panels(1)
    for shift, (method, colour) in enumerate({"FPI-PAC": figures.RED, "LSVI-UCB": figures.BLUE}.items()):
        own = [cell for cell in features if cell.row == method]
        places = np.arange(len(worlds)) + 0.4 * shift - 0.2
        axes.bar(places, [cell.late_loss for cell in own], 0.4, color=colour, alpha=0.5, label=method)
        for place, cell in zip(places, own, strict=True):
            axes.scatter([place] * len(cell.runs), cell.late_losses, 12, color=colour)
    axes.set_xticks(range(len(worlds)), worlds, rotation=20, ha="right")
    axes.set(ylabel="loss of a late episode")
    axes.legend(frameon=False)
    figures.save(figure, folder / "features.png", "Features of weight 0 added: medians, and every seed")
    figure, (left, right) = figures._panels(2)
    chances = sorted({row.slip for row in slips})
    for axes, names in ((left, ("violated",)), (right, ("gap", "change"))):
        for name, colour in zip(names, (figures.RED, figures.BLUE), strict=False):
            means = [np.mean([getattr(row, name) for row in slips if row.slip == chance]) for chance in chances]
            axes.plot(chances, means, color=colour, label=SLIP_LABELS[name])
            axes.scatter([row.slip for row in slips], [getattr(row, name) for row in slips], 12, color=colour)
        axes.set(xlabel="slip probability", ylim=(0, None))
    left.set(ylabel=SLIP_LABELS["violated"])
    right.legend(frameon=False)
    figures.save(figure, folder / "slip.png", "FPI-PAC where actions miss: means, and every seed")


SLIP_LABELS = {
    "violated": "share of stored pairs that Lemma 2 is wrong about",
    "gap": "loss of the policy",
    "change": "change of a stored pair's value",
}


def write_page(cells: Sequence[Cell], folder: Path, title: str, about: str, lead: str) -> Path:
    """Write `page.html`, one file with everything in it."""
    picture = base64.b64encode((folder / "gaps.png").read_bytes()).decode()
    heads, rows = table1.failures(cells)
    page = Page()
    page.add("table", "The methods", TABLE_TEXT, _table(*table1.summary(cells)))
    image = f'<img alt="gap against steps" width="100%" src="data:image/png;base64,{picture}">'
    page.add("gaps", "Gap against steps", "", image)
    for world in dict.fromkeys(cell.world for cell in cells):
        table = _table(table1.WORLD_HEADS, table1.world_rows(cells, world))
        page.add(world, world.capitalize(), f"{table1.WORLDS[world].why}.", table)
    page.add("failures", "Who fails where, and why", FAILURES_TEXT, _table(heads, rows))
    page.add("not-run", "Not run", "", _table(("method", "why"), list(table1.NOT_RUN.items())))
    page.add("scaled", "Constants", "", tables.prose(table1.scaled(cells)))
    path = folder / "page.html"
    write_bytes(path, page.text(title, about, lead).encode())
    return path


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tables.table([escape(head) for head in heads], [[escape(cell) for cell in row] for row in rows])


TABLE_TEXT = (
    "What each method may do, whether it uses the constants of its theorem, what its policy loses on Gate if that was "
    "played, and the most that it took on any testbed: seconds of a processor, restores, numbers stored at a time. "
    "Medians over seeds."
)
FAILURES_TEXT = (
    f"A method fails where the policy it ends with loses more than {FAILED:g}, the median over seeds. The "
    "reason is computed: from what the testbed declares and what the method's theorem needs. Too short: its theorem "
    "covers the testbed, and it was still learning when its steps ended."
)
