"""What a study of methods leaves: for every method on every testbed its runs, and what is known of both."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fpi.baselines import Generative, Local, Method, Online, Oracle, Run, facts
from fpi.baselines.harness import COLUMNS
from fpi.errors import InputError
from fpi.experiment.storage import finished_runs, read_study
from fpi.experiment.study import SEPARATOR
from fpi.run_config import RunConfig

FAILED = 0.1  # what a policy may lose in the end, the median over seeds
ACCESS = {Online: "online", Local: "local", Generative: "generative", Oracle: "oracle (cheats)"}


@dataclass(frozen=True)
class Cell:
    """The runs of one method on one testbed, one per seed."""

    world: str
    row: str
    method: Method
    holds: frozenset[str]
    seeds: tuple[int, ...]
    runs: tuple[Run, ...]
    size: str = "full"
    """Of the study."""

    @property
    def access(self) -> str:
        return ACCESS[self.method.access]

    @property
    def verdict(self) -> str:
        """Whether the method's theorem covers this: "yes", or why not."""
        return self.method.verdict(self.holds)

    @cached_property
    def gap(self) -> float:
        """What the last policy loses, the median over seeds; NaN if most runs came to none."""
        return float(np.median([run.gap for run in self.runs]))

    def last(self, column: str) -> float:
        return float(np.median([run.rows[column][-1] for run in self.runs]))

    def steps_to(self, gap: float) -> tuple[float, float, float]:
        """Median, smallest and largest over seeds; infinite where a run did not come there."""
        steps = sorted(run.steps_to(gap) for run in self.runs)
        return steps[len(steps) // 2], steps[0], steps[-1]

    @property
    def online(self) -> bool:
        return self.method.access in (Online, Oracle)

    @property
    def regret(self) -> float:
        return float(np.median([run.losses.sum() for run in self.runs]))

    @property
    def late_losses(self) -> list[float]:
        """Loss per episode in the last quarter, for every seed."""
        return [float(run.losses[-max(1, len(run.losses) // 4) :].mean()) for run in self.runs]

    @property
    def late_loss(self) -> float:
        return float(np.median(self.late_losses))

    @property
    def failed(self) -> bool:
        return not self.gap <= FAILED

    @property
    def too_short(self) -> bool:
        """Whether a failure says nothing yet, and a larger size may tell: there is no policy, or its theorem covers
        this and it was still learning. Without a theorem nothing promises that more steps would help.
        """
        unfinished = math.isnan(self.gap) or (self._covered and self.still_learning)
        return self.failed and unfinished and bool(self._larger)

    @property
    def still_learning(self) -> bool:
        """Whether most runs of an online method stored more in the second half of their steps."""
        grew = []
        for run in self.runs:
            steps, numbers = run.rows["steps"], run.rows["numbers"]
            half = max(0, int(np.searchsorted(steps, steps[-1] / 2, side="right")) - 1)
            grew.append(numbers[-1] > numbers[half])
        return self.online and bool(np.mean(grew) > 0.5)

    @property
    def _covered(self) -> bool:
        return self.verdict in ("yes", "scaled constants")

    @property
    def _larger(self) -> str:
        """What to do for more steps; planners have as many in the quick size as in the default one."""
        if self.size == "quick" and self.online:
            return "leave out --quick"
        return "" if self.size == "full" else "give --full"

    @property
    def why(self) -> str:
        """The reason for a failure, as far as theorems tell."""
        steps, advice = f"{self.last('steps'):,.0f} steps", f"; {self._larger}" if self.too_short else ""
        if math.isnan(self.gap):
            return f"no policy within {steps}{advice}"
        if self.too_short:
            return f"{steps} are too few at this size{advice}"
        if self._covered:
            return (
                f"still learning after {steps}" if self.still_learning else f"its accuracy is coarser than {FAILED:g}"
            )
        return self.verdict


def read(folder: Path) -> list[Cell]:
    """All cells whose runs are finished, in the order of the study."""
    study = read_study(folder)
    if not study:
        raise InputError(f"{folder} has no study.json: it is not a folder that `fpi compare` has written.")
    cells = []
    for name, data in study["settings"].items():
        found = {seed: rows for seed, _, rows in finished_runs(folder, name, data, study["seeds"])}
        if found:
            setting = RunConfig.from_data(data)
            runs = (Run({mark: rows[f"mark.{mark}"] for mark in COLUMNS}, rows["loss"]) for rows in found.values())
            world, _, row = name.rpartition(SEPARATOR)
            method, holds = setting.make_method(0), facts(*setting.make_testbed())
            cells.append(Cell(world, row, method, holds, tuple(found), tuple(runs), study["size"]))
    return cells


def csv_text(heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((heads, *rows))
    return text.getvalue()
