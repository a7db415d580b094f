"""What a study whose runs end when they are solved leaves to look at: one table, and a page with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

import numpy as np

from fpi._files import write_bytes
from fpi.domain_studies import DOMAINS, PEERS_TEXT, missing
from fpi.experiment.study import SEPARATOR
from fpi.report import tables
from fpi.report.page import Page
from fpi.report.results import Results, Setting

HEADS = (
    "domain (threshold)",
    "agent",
    "solved",
    "episodes, median (range)",
    "steps, median",
    "best mean, median",
    "random play",
    "seconds, median",
    "peers, episodes",
)
Row = tuple[str, ...]
TABLE_TEXT = (
    f"A run is solved at the first judgement where the mean return of the fixed starts reaches the threshold, and ends "
    f"there; episodes and steps are those of solved runs until then. Where no run is solved, the best judgement "
    f"says how far it came. Seconds are of learning, on one processor. {PEERS_TEXT}"
)


def kinds(results: Results) -> dict[str, list[Row]]:
    """The rows of the table by the kind of domain, in the study's order; what a missing package would bring says so."""
    found = {setting.name: setting for setting in results.settings}
    rows: dict[str, list[Row]] = {}
    for name, domain in DOMAINS.items():
        told = f"{name} ({domain.threshold:g})" + (f", {domain.note}" if domain.note else "")
        for label in domain.learners:
            setting = found.get(f"{name}{SEPARATOR}{label}")
            if setting is not None and setting.runs:
                cells = _cells(setting, domain.threshold)
            elif results.study["size"] != "quick" or domain.quick:
                cells = (f"{NOT_RUN}: {missing(domain)}" if missing(domain) else NOT_RUN, *[""] * 5)
            else:
                continue
            rows.setdefault(domain.kind, []).append((told, label, *cells, domain.peers))
    return rows


def _cells(setting: Setting, threshold: float) -> Row:
    runs = setting.runs
    best = [float(run.rows["judge.mean"].max()) for run in runs]
    solved = [run for run, mean in zip(runs, best, strict=True) if mean >= threshold]
    episodes = [len(run.rows["return"]) for run in solved]
    return (
        f"{len(solved)} of {len(runs)}",
        _spread(episodes) if solved else f"not solved in {_spread([len(run.rows['return']) for run in runs])}",
        f"{np.median([run.manifest['steps'] for run in solved]):,.0f}" if solved else "",
        f"{np.median(best):.4g}",
        f"{np.mean([run.rows['random'] for run in runs]):.4g}",
        f"{np.median([run.manifest['cost']['processor_seconds'] for run in runs]):.1f}",
    )


def _spread(counts: list[int]) -> str:
    middle = f"{np.median(counts):,g}"
    return middle if min(counts) == max(counts) else f"{middle} ({min(counts):,}–{max(counts):,})"


NOT_RUN = "not run"


def brief(rows: list[Row]) -> tuple[list[str], list[list[str]], list[str]]:
    """What fits on a terminal, without thresholds, steps and peers: heads, rows of what was run, and what was not."""
    short = [[row[0].partition(" ")[0], *row[1:4], *row[5:8]] for row in (HEADS, *rows)]
    run = [row for row in short[1:] if not row[2].startswith(NOT_RUN)]
    return short[0], run, [f"{row[0]}, {row[1]}: {row[2]}" for row in short[1:] if row not in run]


def markdown(rows: Mapping[str, list[Row]]) -> Iterator[str]:
    """Lines of one table with a row of its own before every kind."""
    yield f"| {' | '.join(HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    for kind, found in rows.items():
        yield f"| **{kind}** |" + " |" * (len(HEADS) - 1)
        yield from (f"| {' | '.join(row)} |" for row in found)


def write(results: Results) -> list[Path]:
    """Write page.html and table.md into the folder of the results."""
    rows, folder, page = kinds(results), results.folder, Page()
    page.add("how", "How it is judged", TABLE_TEXT, " ")
    for number, (kind, found) in enumerate(rows.items()):
        content = tables.table(HEADS, [[escape(cell) for cell in row] for row in found])
        page.add(f"kind-{number}", kind[0].upper() + kind[1:], "", content)
    page.add("settings", "Settings", "", tables.settings(results))
    page.add("rerun", "Run it again", "", tables.rerun(results))
    study = results.study
    lead = (
        f"Study {study['name']}, size {study['size']}: {len(study['settings'])} settings × {len(study['seeds'])} seeds."
    )
    text = page.text(study["title"], study["about"], lead)
    write_bytes(folder / "page.html", text.encode())
    write_bytes(folder / "table.md", ("\n".join(markdown(rows)) + "\n").encode())
    return [folder / "page.html", folder / "table.md"]
