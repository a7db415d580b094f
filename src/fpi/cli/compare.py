"""The commands `fpi compare table1`, every method that can be run, and `fpi compare bandit`, those of one stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpi import _files
from fpi._validation import counted
from fpi.cli import console
from fpi.cli.main import Command, Group, app
from fpi.cli.options import Address, BackendName, Workers, chosen_size, flag, look_here, option
from fpi.errors import InputError

if TYPE_CHECKING:
    from fpi.compare.bandit import Line, Problem, Row
    from fpi.experiment import Study

QUICK_SEEDS, QUICK_EPISODES, QUICK_LONG = 3, 500, 2_000

group = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(group, name="compare")


@group.callback()
def compare() -> None:
    """Compare FPI with other methods, on testbeds with exact values.

    Example: fpi compare table1 --quick
    """


@group.command("table1", cls=Command)
def table_1(
    quick: Annotated[bool, flag("--quick", "2 seeds and short runs: about a minute.")] = False,
    full: Annotated[
        bool, flag("--full", "10 seeds, longer runs, and the methods that take millions of steps.")
    ] = False,
    seeds: Annotated[int | None, option("Runs of every row.", "N", None, "5; 2 if quick, 10 if full", min=1)] = None,
    method: Annotated[
        list[str] | None,
        option(
            "A method of your own as well, by module and class; may be repeated.", "MODULE:CLASS", callback=look_here
        ),
    ] = None,
    testbed: Annotated[
        list[str] | None,
        option(
            "Only this testbed: hubs, corridor, sea, trap, gate, slip or bandit; may be repeated.", "NAME", None, "all"
        ),
    ] = None,
    backend: BackendName = "local",
    address: Address = None,
    workers: Workers = None,
    out: Annotated[Path | None, option("Folder for the results.", "DIR", None, "runs/table1-SIZE")] = None,
) -> None:
    """Table 1 of the paper, measured.

    Every method plays by the same rules: it is given the access that it
    declares, pays one bill, and its policy is judged by exact values. The
    command may be interrupted at any time: finished runs are kept.

    Example: fpi compare table1 --quick
    """
    size = chosen_size(quick, full)
    from fpi.compare import table1

    plan = _restricted(table1.table1(size, method or ()).resized(seeds, None), testbed)
    place = out or Path("runs", f"{plan.name}-{plan.size}")
    _carry_out(plan, place, "fpi compare table1", workers, backend, address)
    _report(plan, place)


@group.command(cls=Command)
def claims(
    quick: Annotated[bool, flag("--quick", "2 seeds and short runs: less than a minute.")] = False,
    seeds: Annotated[int | None, option("Runs of every row.", "N", None, "5, or 2 if quick", min=1)] = None,
    workers: Workers = None,
    out: Annotated[
        Path | None, option("Folder for the results.", "DIR", None, "runs/claims, or runs/claims-quick")
    ] = None,
) -> None:
    """Two claims of the paper that need other methods and other worlds.

    That adding features never hurts, where it breaks methods that need Bellman
    completeness; and what random transitions do to stored returns.

    Example: fpi compare claims --quick
    """
    from fpi.compare import claims, table1
    from fpi.compare.cells import read
    from fpi.experiment import storage
    from fpi.report import comparison
    from fpi.verify.run import run_all

    seeds = seeds or (2 if quick else 5)
    share = 0.2 if quick else 1.0
    out = out or Path("runs", "claims-quick" if quick else "claims")
    _carry_out(claims.features_study(seeds, share), out, "fpi compare claims", workers)
    tasks = [(slip, seed, round(claims.SLIP_EPISODES * share)) for slip in claims.SLIPS for seed in range(seeds)]
    with storage.locked(out):
        slipped = []
        with console.bar("slipping", len(tasks)) as tick:
            for row in run_all(tasks, claims.slip, workers):
                slipped.append(row)
                tick(row)
        added = read(out)
        told = counted(seeds, "seed")
        console.show_columns(f"Features of weight 0 added, {told}", claims.FEATURES_HEADS, claims.features_table(added))
        console.show_columns(f"FPI-PAC on Slip, {told}", claims.SLIP_HEADS, claims.slip_table(slipped))
        _files.write_bytes(out / "features.csv", table1.to_csv(added).encode())
        _files.write_bytes(out / "slip.csv", claims.to_csv(slipped).encode())
        comparison.draw_claims(added, slipped, out)
    console.say(f"features.png, slip.png and their rows (CSV) are in {out}.")


def _carry_out(
    plan: Study, place: Path, command: str, workers: int | None, backend: str = "local", address: str | None = None
) -> None:
    from fpi.cli import study_run

    host = study_run.make_backend(backend, address, workers)
    console.say(f"{plan.about}\n{counted(len(plan.settings) * len(plan.seeds), 'run')} into {place}.")
    study_run.play(plan, place, command, host)


def _restricted(plan: Study, testbeds: Sequence[str] | None) -> Study:
    from fpi.compare.table1 import WORLDS
    from fpi.experiment.study import SEPARATOR

    unknown = sorted(set(testbeds or ()) - set(WORLDS))
    if unknown:
        raise InputError(f"--testbed {', '.join(unknown)}: choose of {', '.join(WORLDS)}.")
    kept = {
        name: setting
        for name, setting in plan.settings.items()
        if not testbeds or name.partition(SEPARATOR)[0] in testbeds
    }
    return replace(plan, settings=kept)


def _report(plan: Study, place: Path) -> None:
    from fpi.compare import table1
    from fpi.compare.cells import read
    from fpi.report import comparison

    cells = read(place)
    console.show_columns("Table 1, measured: the most that each took on any testbed", *table1.summary(cells))
    for world in dict.fromkeys(cell.world for cell in cells):
        title = f"{world}: {table1.WORLDS[world].why}; steps to a held-out gap, {counted(len(plan.seeds), 'seed')}"
        console.show_columns(title, table1.WORLD_HEADS, table1.world_rows(cells, world))
    console.show_columns("Who fails where, and why", *table1.failures(cells))
    console.show_columns("Not run", ("method", "why"), list(table1.NOT_RUN.items()))
    console.say(table1.scaled(cells))
    _files.write_bytes(place / "rows.csv", table1.to_csv(cells).encode())
    comparison.draw_gaps(cells, place / "gaps.png")
    lead = f"{counted(len(plan.seeds), 'seed')}, {len(cells)} pairs of a method and a testbed."
    page = comparison.write_page(cells, place, plan.title, plan.about, lead)
    console.say(f"gaps.png and rows.csv are in {place}; the page is {page}.")


@group.command(cls=Command)
def bandit(
    quick: Annotated[bool, flag("--quick", "Fewer and shorter runs: about a minute.")] = False,
    seeds: Annotated[int | None, option("Runs of every row.", "N", None, "5, or 3 if quick", min=1)] = None,
    episodes: Annotated[int | None, option("Episodes of a run.", "T", None, "8000, or 500 if quick", min=10)] = None,
    slope: Annotated[
        bool,
        flag(
            "--slope",
            "Then take sound rows and the best scaled row of FPI-Regret with levels from 1, as it is, to 100,000 "
            "episodes on other seeds, the latter on HubCorridor too, and measure how regret grows. Ten minutes more.",
        ),
    ] = False,
    out: Annotated[
        Path | None, option("Folder for the results.", "DIR", None, "runs/bandit, or runs/bandit-quick")
    ] = None,
    workers: Workers = None,
) -> None:
    """Regret of FPI-Regret, OFUL and SupLinUCB on a linear contextual bandit.

    With one stage (H = 1) all three solve the same problem. Rows with the
    constants of their theories are shown first; below are rows with constants
    that are multiplied by a smaller scale, which no theorem covers.

    The command may be interrupted at any time: finished runs are kept.

    Example: fpi compare bandit --quick
    """
    from fpi.compare import bandit as compare
    from fpi.report import figures

    seeds = seeds or (QUICK_SEEDS if quick else compare.SEEDS)
    episodes = episodes or (QUICK_EPISODES if quick else compare.EPISODES)
    out = out or Path("runs", "bandit-quick" if quick else "bandit")
    found = _play([(compare.BANDIT, row) for row in compare.ROWS], episodes, range(seeds), quick, workers, out)
    _write(out, "regret", found)
    about = f"regret of {episodes:,} episodes on {compare.BANDIT.name}, {counted(seeds, 'seed')}"
    for title, sound in (("Sound, the constants of the theory", True), ("Scaled, covered by no theorem", False)):
        rows = [compare.cells_of(line) for line in found if line.row.sound == sound]
        console.show_columns(f"{title}: {about}", compare.HEADS, rows)
    figures.draw_regrets(compare.shown(found), out / "regret.png")
    line = compare.best([line for line in found if line.row.sound and line.row.as_in_the_paper], "FPI-Regret")
    figures.draw_guarantees(line, compare.theory(line), out / "guarantees.png")
    told = "regret.png, guarantees.png, regret.csv and regret.json"
    if slope:
        _slope(compare.best([line for line in found if not line.row.sound], "FPI-Regret"), quick, workers, out)
        told += ", and the same of slope,"
    console.say(f"{told} are in {out}.")


def _slope(chosen: Line, quick: bool, workers: int | None, out: Path) -> None:
    from fpi.compare import bandit as compare
    from fpi.report import figures

    first, last = chosen.seeds[0], chosen.seeds[-1]
    console.say(
        f"Best on {chosen.episodes:,} episodes and seeds {first} to {last}, and fixed from here on: {chosen.row.name}."
    )
    episodes = QUICK_LONG if quick else compare.LONG
    seeds = range(last + 1, last + 1 + min(len(chosen.seeds), compare.LONG_SEEDS))
    rows = [*((compare.BANDIT, row) for row in compare.long_rows(chosen.row)), (compare.CORRIDOR, chosen.row)]
    found = _play(rows, episodes, seeds, quick, workers, out / "slope")
    _write(out, "slope", found)
    title = f"up to {episodes:,} episodes, seeds {seeds[0]} to {seeds[-1]}"
    console.show_columns(f"Regret {title}", *compare.growth(found))
    slopes = [compare.slope_cells(line) for line in found]
    console.show_columns(f"log-log slope of regret {title}", compare.SLOPE_HEADS, slopes)
    panels: dict[str, list[Line]] = {}
    for line in found:
        panels.setdefault(f"{line.problem.name}, {'sound' if line.row.sound else 'scaled'}", []).append(line)
    figures.draw_regrets(panels, out / "slope.png", guide=True)


def _play(
    rows: Sequence[tuple[Problem, Row]],
    episodes: int,
    seeds: Sequence[int],
    quick: bool,
    workers: int | None,
    place: Path,
) -> list[Line]:
    from fpi.compare import bandit as compare

    plan = compare.study(rows, episodes, seeds, "quick" if quick else "default")
    _carry_out(plan, place, "fpi compare bandit", workers)
    return compare.read(place, rows)


def _write(folder: Path, name: str, found: Sequence[Line]) -> None:
    from fpi.compare import bandit as compare

    _files.write_bytes(folder / f"{name}.csv", compare.to_csv(found).encode())
    _files.write_bytes(folder / f"{name}.json", compare.to_json(found).encode())
