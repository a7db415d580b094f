"""A folder of results read back.

Everything is found in the files alone: `study.json`, `summary.json`, and for every finished run its `manifest.json` and
the columns in `rows.safetensors`. A setting is called `panel--label`: the settings of a panel are compared.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fpi import statistics
from fpi._files import as_path
from fpi.errors import InputError
from fpi.experiment.run import COLUMNS
from fpi.experiment.storage import finished_runs, read_study, read_summary
from fpi.experiment.study import SEPARATOR
from fpi.history import data_frame
from fpi.statistics import Floats, Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

WINDOWS = 110  # points of a curve; the paper's 55,000 episodes make windows of 500


@dataclass(frozen=True)
class Run:
    """A finished run."""

    seed: int
    manifest: dict[str, Any]
    rows: dict[str, NDArray[Any]]
    """`rows.safetensors`: `return`, `length`, `stored_stage` and `covered_steps` per episode, and the probes."""

    @property
    def windows(self) -> Floats:
        """Episode in which each window ends."""
        return self._edges[1:].astype(np.float64)

    @property
    def probes(self) -> Floats:
        """Episodes after which the agent was looked at."""
        return self.rows["probe.episode"].astype(np.float64)

    @cached_property
    def series(self) -> dict[str, Floats]:
        """Means per window: `return`, `covered_share`, `exploring_share`. Per probe: `data`, and `stale` if known."""
        episodes, steps = np.diff(self._edges), self._sums(self.rows["length"])
        return {
            "return": self._sums(self.rows["return"]) / episodes,
            "covered_share": self._sums(self.rows["covered_steps"]) / steps,
            "exploring_share": self._sums(self.rows["stored_stage"] >= 0) / episodes,
            **{name: self.rows[f"probe.{name}"].astype(float) for name in PROBED if f"probe.{name}" in self.rows},
        }

    @property
    def _edges(self) -> NDArray[np.int64]:
        episodes = len(self.rows["return"])
        return np.linspace(0, episodes, min(WINDOWS, episodes) + 1).astype(np.int64)

    def _sums(self, column: NDArray[Any]) -> Floats:
        return np.add.reduceat(column.astype(np.float64), self._edges[:-1])


PROBED = ("data", "stale")


@dataclass(frozen=True)
class Setting:
    """What was compared, and its finished runs in the order of their seeds."""

    name: str
    config: dict[str, Any]
    runs: Sequence[Run]

    @property
    def panel(self) -> str:
        panel, _, label = self.name.rpartition(SEPARATOR)
        return (panel if label else self.name).replace(SEPARATOR, ", ") or str(self.config.get("env", ""))

    @property
    def label(self) -> str:
        return self.name.rpartition(SEPARATOR)[2]

    def has(self, series: str) -> bool:
        return bool(self.runs) and all(series in run.series for run in self.runs)

    def curve(self, series: str) -> tuple[Floats, Interval]:
        """Episodes, and there the mean of a series over seeds with its bootstrap interval."""
        first = self.runs[0]
        values = np.array([run.series[series] for run in self.runs])
        interval = statistics.bootstrap_interval(values, resamples=statistics.CURVE_RESAMPLES)
        return (first.probes if series in PROBED else first.windows), interval

    @property
    def growth(self) -> Floats:
        """Data stored per stage (row) and probe (column), the mean over seeds."""
        mean: Floats = np.mean([run.series["data"] for run in self.runs], axis=0).T
        return mean

    @property
    def returns(self) -> Floats:
        """Of every episode: seeds × episodes."""
        return np.stack([run.rows["return"] for run in self.runs])

    @property
    def headline(self) -> Floats:
        """Mean return over the last tenth, per seed."""
        means: Floats = statistics.last_tenth(self.returns).mean(axis=1)
        return means

    @property
    def stale(self) -> Floats | None:
        """Share of the stored returns that no longer belong to the policy at the end, per seed; None if not known."""
        if not all("probe.stale" in run.rows for run in self.runs):
            return None
        return np.array([run.rows["probe.stale"][-1] for run in self.runs])


@dataclass(frozen=True, repr=False)
class Results:
    """A study and what came out of it."""

    folder: Path
    study: dict[str, Any]
    summary: dict[str, Any]
    settings: Sequence[Setting]

    def __repr__(self) -> str:
        done = sum(1 for _ in self.runs)
        return f"<Results of {self.study['name']}: {len(self.settings)} settings, {done} of {self.asked} runs finished>"

    @property
    def asked(self) -> int:
        """Runs that the study consists of; some may be unfinished."""
        return len(self.study["seeds"]) * len(self.settings)

    @cached_property
    def panels(self) -> dict[str, list[Setting]]:
        """Settings with something to draw, grouped by what they are compared in."""
        found: dict[str, list[Setting]] = {}
        for setting in self.settings:
            if setting.runs:
                found.setdefault(setting.panel, []).append(setting)
        return found

    @property
    def labels(self) -> list[str]:
        """Of all curves, in the study's order."""
        return list(dict.fromkeys(setting.label for setting in self.settings))

    @property
    def runs(self) -> Iterator[Run]:
        """All finished runs, setting by setting."""
        return (run for setting in self.settings for run in setting.runs)

    @property
    def speeds(self) -> dict[str, float]:
        """Steps per second and core, of learning and its environment together."""
        found: defaultdict[str, list[Run]] = defaultdict(list)
        for setting in self.settings:
            for run in setting.runs:
                found[f"{setting.config['env']}, {run.manifest['engine']} engine"].append(run)
        return {
            what: sum(run.manifest["steps"] for run in runs) / max(sum(run.manifest["seconds"] for run in runs), 1e-9)
            for what, runs in found.items()
        }

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with a row for every episode of every finished run, and the setting and seed of each."""
        pairs = [(setting.name, run) for setting in self.settings for run in setting.runs]
        lengths = [len(run.rows["return"]) for _, run in pairs]
        columns = {
            "setting": np.repeat(np.array([name for name, _ in pairs], object), lengths),
            "seed": np.repeat(np.array([run.seed for _, run in pairs], np.int64), lengths),
            "episode": np.concatenate([np.arange(length) for length in lengths] or [np.zeros(0, np.int64)]),
            **{name: np.concatenate([run.rows[name] for _, run in pairs] or [np.zeros(0)]) for name in COLUMNS},
        }
        return data_frame(columns).astype({"setting": "category"})

    def plot(self) -> Figure:
        """The learning curves: one panel per environment, one curve with its interval over seeds per setting.

        Of a study of rates, what it measured on log-log axes instead.
        """
        from fpi.report import figures

        return figures.rates(self) if self.summary.get("rates") else figures.learning_curves(self)


STALE_COUNTED = "only for PAC with tiles or one-hot features, without hindsight"


def uncounted(results: Results) -> str:
    """A sentence on the settings whose stale data nobody counted; empty if there are none."""
    names = [f"`{setting.name}`" for setting in results.settings if setting.runs and setting.stale is None]
    which = "here" if len(names) == len(results.settings) else f"for {', '.join(names)}"
    return f"Stale data are not counted {which}, {STALE_COUNTED}." if names else ""


def read(folder: str | os.PathLike[str]) -> Results:
    """Read a folder of results; runs that are not finished are left out."""
    place = as_path(folder, "the folder")
    study = read_study(place)
    if not study:
        raise InputError(
            f"{place} has no study.json. A folder of results is made by `fpi reproduce`; name one of those."
        )
    settings = [
        Setting(name, config, [Run(*found) for found in finished_runs(place, name, config, study["seeds"])])
        for name, config in study["settings"].items()
    ]
    return Results(place, study, read_summary(place), settings)
