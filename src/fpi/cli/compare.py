"""The command `fpi compare bandit`: FPI-Regret beside the methods made for bandits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpi.cli.main import app
from fpi.cli.options import Workers, flag, option
from fpi.errors import SaveError

if TYPE_CHECKING:
    from fpi.compare import Line

QUICK_SEEDS, QUICK_EPISODES, QUICK_LONG = 3, 500, 2_000

group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(group, name="compare")


@group.callback()
def compare() -> None:
    """Compare FPI with other methods, on testbeds with exact values.

    Example: fpi compare bandit --quick
    """


@group.command()
def bandit(
    quick: Annotated[bool, flag("--quick", "Fewer and shorter runs: about a minute.")] = False,
    seeds: Annotated[int | None, option("Runs of every row.", "N", None, "5, or 3 if quick", min=1)] = None,
    episodes: Annotated[int | None, option("Episodes of a run.", "T", None, "8000, or 500 if quick", min=10)] = None,
    slope: Annotated[
        bool,
        typer.Option(
            "--slope",
            help="Then take sound rows and the best scaled row of FPI-Regret, as it is, to 100,000 episodes on other "
            "seeds, the latter on HubCorridor too, and measure how regret grows. Takes half an hour more.",
            metavar=" ",
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for pictures and numbers; older ones are replaced.", metavar="FOLDER")
    ] = Path("compare-bandit"),
    workers: Workers = None,
) -> None:
    """Regret of FPI-Regret, OFUL and SupLinUCB on a linear contextual bandit.

    With one stage (H = 1) all three solve the same problem. Rows with the
    constants of their theories are shown first; below are rows with constants
    that are multiplied by a smaller scale, which no theorem covers.

    Example: fpi compare bandit --quick
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(f"--out {out} is not a folder to write to: {error.strerror}. Choose another.") from error
    from fpi import compare
    from fpi.cli import console
    from fpi.report import figures

    seeds = seeds or (QUICK_SEEDS if quick else compare.SEEDS)
    episodes = episodes or (QUICK_EPISODES if quick else compare.EPISODES)
    tasks = [(compare.BANDIT, row, episodes, seed) for row in compare.ROWS for seed in range(seeds)]
    found = _play("comparing", tasks, workers)
    _write(out, "regret", found)
    about = f"regret of {episodes:,} episodes on {compare.BANDIT.name}, {seeds} seeds"
    for title, sound in (("Sound, the constants of the theory", True), ("Scaled, covered by no theorem", False)):
        rows = [compare.cells(line) for line in found if line.row.sound == sound]
        console.show_columns(f"{title}: {about}", compare.HEADS, rows)
    figures.draw_regrets(compare.shown(found), out / "regret.png")
    line = compare.best([line for line in found if line.row.sound and line.row.as_in_the_paper], "Regret")
    figures.draw_guarantees(line, compare.theory(line), out / "guarantees.png")
    told = "regret.png, guarantees.png, regret.csv and regret.json"
    if slope:
        _slope(compare.best([line for line in found if not line.row.sound], "Regret"), quick, workers, out)
        told += ", and the same of slope,"
    console.say(f"{told} are in {out}.")


def _slope(chosen: Line, quick: bool, workers: int | None, out: Path) -> None:
    from fpi import compare
    from fpi.cli import console
    from fpi.report import figures

    first, last = chosen.seeds[0], chosen.seeds[-1]
    console.say(
        f"Best on {chosen.episodes:,} episodes and seeds {first} to {last}, and fixed from here on: {chosen.row.name}."
    )
    episodes = QUICK_LONG if quick else compare.LONG
    seeds = range(last + 1, last + 1 + min(len(chosen.seeds), compare.LONG_SEEDS))
    rows = [*((compare.BANDIT, row) for row in compare.long_rows(chosen.row)), (compare.CORRIDOR, chosen.row)]
    found = _play("long runs", [(problem, row, episodes, seed) for problem, row in rows for seed in seeds], workers)
    _write(out, "slope", found)
    title = f"log-log slope of regret up to {episodes:,} episodes, seeds {seeds[0]} to {seeds[-1]}"
    console.show_columns(title, compare.SLOPE_HEADS, [compare.slope_cells(line) for line in found])
    panels: dict[str, list[Line]] = {}
    for line in found:
        panels.setdefault(f"{line.problem.name}, {'sound' if line.row.sound else 'scaled'}", []).append(line)
    figures.draw_regrets(panels, out / "slope.png", guide=True)


def _play(text: str, tasks: Sequence[tuple[Any, ...]], workers: int | None) -> list[Line]:
    from fpi import compare
    from fpi.cli import console
    from fpi.verify.run import run_all

    runs = []
    with console.bar(text, len(tasks)) as tick:
        for run in run_all(tasks, compare.play, workers):
            runs.append(run)
            tick(run)
    return compare.lines(runs)


def _write(folder: Path, name: str, found: Sequence[Line]) -> None:
    from fpi import compare

    (folder / f"{name}.csv").write_text(compare.to_csv(found))
    (folder / f"{name}.json").write_text(compare.to_json(found))
