"""A folder of results read back, and what pictures need of it.

Everything is found in the files alone: `study.json`, `summary.json`, and for every finished run its `manifest.json` and
the columns in `rows.safetensors`. A setting is called `panel--label`: the settings of a panel are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi import model_files
from fpi.errors import InputError

WINDOWS = 110  # points of a curve; the paper's 55,000 episodes make windows of 500
RESAMPLES = 2_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """A mean over seeds with its 95% bootstrap band."""

    episodes: Floats
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Run:
    """A finished run, thinned out: what was measured per episode is averaged over windows."""

    seed: int
    manifest: dict[str, Any]
    windows: Floats
    """Episode in which each window ends."""
    probes: Floats
    """Episodes after which the agent was looked at."""
    series: dict[str, Floats]
    """`return`, `frozen` and `explored` per window; `stale` and `data` (per stage) per probe, if there are any."""


@dataclass(frozen=True)
class Setting:
    """What was compared, and its finished runs in the order of their seeds."""

    name: str
    config: dict[str, Any]
    runs: Sequence[Run]

    @property
    def panel(self) -> str:
        panel, _, label = self.name.rpartition("--")
        return (panel if label else self.name).replace("--", ", ") or str(self.config.get("env", ""))

    @property
    def label(self) -> str:
        return self.name.rpartition("--")[2]

    def has(self, series: str) -> bool:
        return bool(self.runs) and all(series in run.series for run in self.runs)

    def band(self, series: str) -> Band:
        """A series of numbers over seeds."""
        first = self.runs[0]
        episodes = first.probes if series == "stale" else first.windows
        return band(episodes, np.array([run.series[series] for run in self.runs]))

    @property
    def growth(self) -> Floats:
        """Data stored per stage (row) and probe (column), the mean over seeds."""
        mean: Floats = np.mean([run.series["data"] for run in self.runs], axis=0).T
        return mean


@dataclass(frozen=True)
class Results:
    study: dict[str, Any]
    summary: dict[str, Any]
    settings: Sequence[Setting]
    asked: int
    """Runs that the study consists of; some may be unfinished."""

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
        return (run for setting in self.settings for run in setting.runs)


def band(episodes: Floats, values: Floats) -> Band:
    """Mean and band of values with one row per seed. The resampling is the same in every call."""
    seeds = len(values)
    draws = np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975), axis=0)
    return Band(episodes, values.mean(axis=0), low, high)


def read(folder: Path) -> Results:
    """Read a folder of results; runs that are not finished are left out."""
    study = _json(folder / "study.json")
    summary = _json(folder / "summary.json") if (folder / "summary.json").exists() else {}
    settings = [
        Setting(name, config, [_run(folder / "runs" / each) for each in _finished(folder, name, study["seeds"])])
        for name, config in study["settings"].items()
    ]
    return Results(study, summary, settings, asked=len(study["seeds"]) * len(settings))


def _finished(folder: Path, setting: str, seeds: Sequence[int]) -> Iterator[str]:
    for seed in seeds:
        name = f"{setting}--seed-{seed:03d}"
        manifest = folder / "runs" / name / "manifest.json"
        if manifest.exists() and _json(manifest).get("finished"):
            yield name


def _run(folder: Path) -> Run:
    manifest, path = _json(folder / "manifest.json"), folder / "rows.safetensors"
    try:
        columns, _ = model_files.read(path)
        length = columns["length"].astype(float)
        edges = np.linspace(0, len(length), min(WINDOWS, len(length)) + 1).astype(np.int64)
        sums = {
            name: np.add.reduceat(column.astype(float), edges[:-1])
            for name, column in [("length", length), *((name, columns[name]) for name in ("return", "covered_steps"))]
        }
        explored = np.add.reduceat((columns["stored_stage"] >= 0).astype(float), edges[:-1])
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{path} does not hold the rows of a run: {error}. Delete the folder {folder} and reproduce again: the "
            "other runs are kept."
        ) from error
    series = {
        "return": sums["return"] / np.diff(edges),
        "covered_steps": sums["covered_steps"] / sums["length"],
        "stored_stage": explored / np.diff(edges),
    }
    probed = {name: columns[f"probe.{name}"].astype(float) for name in ("stale", "data") if f"probe.{name}" in columns}
    probes = columns.get("probe.episode", np.zeros(0)).astype(float)
    return Run(int(manifest["seed"]), manifest, edges[1:].astype(float), probes, series | probed)


def _json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}. A folder of results is made by `fpi reproduce`; name one of those."
        ) from error
    return content
