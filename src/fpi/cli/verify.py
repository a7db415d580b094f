"""The command `fpi verify`: the paper's claims checked on exact testbeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fpi.cli.commands import app
from fpi.errors import InputError, SaveError


@app.command()
def verify(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and shorter runs: about a minute.", metavar=" ")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of every instance.", metavar="N", show_default="as many as its claims need"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes. The numbers do not depend on it.", metavar="N", show_default="all cores"),
    ] = None,
    claims: Annotated[
        str | None,
        typer.Option(
            help="Only these: lemmas by number, theorems as T1 to T4. Example: 1,2,20,T2",
            metavar="LIST",
            show_default="all",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Draw pictures into DIR instead.", metavar="DIR", show_default=False)
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--show", help="Measure episodes, data and remaining loss on longer problems instead.", metavar=" "
        ),
    ] = False,
) -> None:
    """Check what the paper claims, on testbeds whose every value is known exactly.

    Watches learning runs and counts, for every lemma and theorem, the checks
    made, those that could have failed, and violations: Lemmas 1 to 6 and
    Theorem 1 are about FPI-PAC; Lemmas 24 to 26, Theorem 4 and rows "for F" are
    about classes of functions; the others are about FPI-Regret. The exit code is
    1 if there are more violations than the failure probability δ allows.

    Example: fpi verify --quick
    """
    for name, number in (("--seeds", seeds), ("--workers", workers)):
        if number is not None and number < 1:
            raise InputError(f"{name} {number} is too small: give a whole number of at least 1.")
    if plots is not None:
        _draw(plots, seeds, workers)
    if show:
        _study(seeds, workers)
    if plots is None and not show:
        _check(quick, seeds, workers, claims)


def _check(quick: bool, seeds: int | None, workers: int | None, claims: str | None) -> None:
    from fpi.cli import console
    from fpi.verify import class_instances, instances, level_instances, report

    names = list(report.CLAIMS) if claims is None else _chosen(claims)
    suites = instances, level_instances, class_instances
    suite = [instance for each in suites for instance in (each.QUICK if quick else each.FULL)]
    with console.bar("verifying", len(report.tasks(suite, seeds, names))) as tick:
        verdicts = report.verify(suite, seeds, workers, tick, names)
    console.show_columns("Claims of the paper", report.HEADS, [report.cells(verdict) for verdict in verdicts])
    console.say(f"{report.legend(verdicts)}\n{report.conclusion(verdicts)}")
    if any(verdict.broken for verdict in verdicts):
        raise typer.Exit(1)


def _chosen(claims: str) -> list[str]:
    """Claims by their numbers; 20 is both of its parts, for features and for a class F, T is T1."""
    from fpi.verify.report import CLAIMS

    shorts = {name: re.sub("Lemma |[ab]?( for F)?$", "", name.replace("Theorem ", "T")) for name in CLAIMS}
    asked = {"T1" if word in ("t", "T") else word.upper() for word in claims.replace(" ", "").split(",")}
    if not asked <= set(shorts.values()):
        raise InputError(
            f"--claims {claims} is not a list like 1,2,T: there are {', '.join(dict.fromkeys(shorts.values()))}."
        )
    return [name for name, short in shorts.items() if short in asked]


def _study(seeds: int | None, workers: int | None) -> None:
    from fpi.cli import console
    from fpi.verify import show

    numbers = range(seeds or show.SEEDS)
    seas = _measure("DeepSea", show.solve_sea, show.SEAS, numbers, workers)
    for sea, runs in zip(show.SEAS, seas, strict=True):
        console.show_table(f"{sea.name}, ε = {sea.epsilon:g}, {len(numbers)} seeds", show.sea_rows(runs, sea))
    growths = _measure("data and loss", show.grow, show.GROWTHS, numbers, workers)
    title = f"Data and loss, {len(numbers)} seeds: mean (smallest–largest)"
    console.show_columns(title, show.GROWTH_HEADS, [show.growth_cells(runs) for runs in growths])


def _draw(folder: Path, seeds: int | None, workers: int | None) -> None:
    from fpi.cli import console
    from fpi.report import figures
    from fpi.verify import curves

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(f"--plots {folder} is no folder to write to: {error.strerror}. Choose another.") from error
    numbers = range(seeds or curves.SEEDS)
    learning, growing = _measure("learning", curves.trace, (curves.LEARNING, curves.GROWING), numbers, workers)
    maps = _measure("freezing", curves.map_freezing, curves.FREEZING, range(1), workers)
    figures.draw_learning(learning, folder / "learning.png")
    figures.draw_growth(growing, folder / "growth.png")
    figures.draw_freezing([each[0] for each in maps], folder / "freezing.png")
    console.say(f"learning.png, growth.png and freezing.png are in {folder}.")


def _measure(
    text: str, work: Callable[..., Any], instances: Sequence[Any], seeds: range, workers: int | None
) -> list[list[Any]]:
    """The runs of every instance."""
    from fpi.cli import console
    from fpi.verify.run import run_all

    tasks = [(instance, seed) for instance in instances for seed in seeds]
    runs = []
    with console.bar(text, len(tasks)) as tick:
        for run in run_all(tasks, work, workers):
            runs.append(run)
            tick(run)
    return [runs[first : first + len(seeds)] for first in range(0, len(runs), len(seeds))]
