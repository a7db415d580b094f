"""How much faster than before compiled code was rewritten: an earlier commit and the working tree, in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from rich.table import Table

from benchmarks.compare_versions import ROOT, checkout, commit_of
from benchmarks.timed_rows import ROWS

BEFORE = "09cce01"
TARGETS = {
    "`compiled.learn`, 4 tilings, 20,000 episodes": "at least 1.4",
    "`compiled.learn`, 4 tilings, 55,000 episodes": "at least 1.4",
    "`fpi reproduce figure2 --engine compiled`, 2 seeds × 55,000 episodes": "at least 2",
}


class Version:
    """A process with one version of fpi, which times rows when it is asked."""

    def __init__(self, source: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(source)}
        script = Path(__file__).with_name("timed_rows.py")
        call = [sys.executable, "-P", str(script), str(source)]
        self._process = subprocess.Popen(
            call, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def time(self, row: str, small: bool = False) -> tuple[float, int, str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        asked: IO[str] = self._process.stdin
        print(f"{'-' if small else '+'}{row}", file=asked, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{row!r} could not be timed; what is above says why.")
        seconds, steps, digest = json.loads(answer)
        return seconds, steps, digest

    def end(self) -> None:
        self._process.communicate()


def run() -> Iterator[Table | str]:
    if not commit_of(BEFORE):
        yield f"git knows no commit {BEFORE} here, so this cannot be measured."
        return
    table = Table(
        "the same work, the same results",
        "steps",
        "µs a step before",
        "now",
        "times as fast (least, most)",
        "target",
        title=f"Commit {BEFORE} and now, medians of runs in turns",
    )
    before, now = Version(checkout(BEFORE) / "src"), Version(ROOT / "src")
    for row, (_, _, times) in ROWS.items():
        for version in (before, now):
            version.time(row, small=True)
        turns = [(before.time(row), now.time(row)) for _ in range(times)]
        if len({found[1:] for turn in turns for found in turn}) > 1:
            raise SystemExit(f"{row!r}: both versions have different results.")
        steps = turns[0][0][1]
        seconds = np.array([[then[0], here[0]] for then, here in turns])
        ratios = seconds[:, 0] / seconds[:, 1]
        cells = (f"{each:.3g}" for each in np.median(seconds, axis=0) / steps * 1e6)
        found = f"{np.median(ratios):.2f} ({ratios.min():.2f}, {ratios.max():.2f})"
        table.add_row(row, f"{steps:,}", *cells, found, TARGETS.get(row, "at least 1"))
    for version in (before, now):
        version.end()
    yield table
