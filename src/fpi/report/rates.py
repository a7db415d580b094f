"""How what was measured grows: a power law through the means over seeds, beside what the paper allows.

A bound of the paper has an exponent and logarithms. Where it can be computed, `allowed` has its values with explicit
constants, and its slope over the same range is what the measured slope is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi import statistics
from fpi.report.results import Run, Setting
from fpi.statistics import Floats, Interval

UNFINISHED = 0.02  # share of what is counted that may fall into the last tenth of the episodes


@dataclass(frozen=True)
class Rate:
    """One quantity against another, both positive."""

    of: str
    against: str
    x: Sequence[float]
    values: Floats
    """Seeds × x."""
    exponent: float
    paper: str
    """What has this exponent in the paper, whose logarithms it leaves out."""
    allowed: Sequence[float] = ()
    """The bound with its constants at every x, where there is one."""
    lines: Mapping[str, Sequence[float]] | None = None
    """Further curves to draw, means over seeds."""

    @property
    def slope(self) -> Interval:
        return statistics.slope(self.x, self.values)

    @property
    def allowed_slope(self) -> float:
        """Of the bound over the same range, or the exponent."""
        return float(statistics.slope(self.x, [self.allowed]).estimate) if self.allowed else self.exponent

    @property
    def exceeds(self) -> bool:
        """Whether the bound is broken somewhere."""
        return bool(self.allowed) and bool((self.values > np.asarray(self.allowed)).any())

    def __str__(self) -> str:
        estimate, low, high = self.slope
        bound = f", with its logarithms {self.allowed_slope:.2f} here" if self.allowed else ""
        return f"slope {estimate:.2f} ({low:.2f} to {high:.2f}); {self.paper} has {self.exponent:g}{bound}"

    def to_data(self) -> dict[str, Any]:
        """As JSON can hold it, with what is drawn."""
        band = statistics.bootstrap_interval(self.values, resamples=statistics.CURVE_RESAMPLES)
        curve = {name: np.asarray(ends).tolist() for name, ends in band._asdict().items()}
        return {**asdict(self), "values": self.values.tolist(), "curve": curve, "slope": self.slope._asdict()}


COUNTED: dict[str, Callable[[Run, float], NDArray[np.bool_]]] = {  # episodes, by what counts as a loss
    "episodes that lose more": lambda run, loss: run.rows["gap"] > loss,
    "episodes that explore": lambda run, _: run.rows["stored_stage"] >= 0,
}
MEASURED: dict[str, Callable[[Run], float]] = {
    "loss per episode at the end": lambda run: float(statistics.last_tenth(run.rows["gap"]).mean()),
    "processor seconds": lambda run: float(run.manifest["cost"]["processor_seconds"]),
    "bytes": lambda run: float(run.manifest["cost"]["bytes"]),
}


def between_settings(
    found: Mapping[str, Setting],
    settings: Sequence[str],
    of: str,
    against: str,
    x: Sequence[float],
    exponent: float,
    paper: str,
    allowed: Sequence[float] = (),
    losses: Sequence[float] = (),
) -> Rate:
    """One number of every run, against what differs between settings; `losses` is what counts as a loss in each."""
    if of in COUNTED:
        columns = [[float(np.count_nonzero(each)) for each in group] for group in _counted(found, settings, of, losses)]
    else:
        columns = [[MEASURED[of](run) for run in found[name].runs] for name in settings]
    return Rate(of, against, x, np.array(columns).T, exponent, paper, allowed)


def over_episodes(
    found: Mapping[str, Setting], settings: Sequence[str], x: Sequence[int], exponent: float, paper: str
) -> Rate:
    """Regret against T, of the setting that has lost most by then; as far as was played."""
    played = min(len(run.rows["gap"]) for name in settings for run in found[name].runs)
    x = [each for each in x if each <= played]
    at = np.array(x, np.int64) - 1
    regrets = {
        name: np.array([statistics.regret(run.rows["gap"])[at] for run in found[name].runs]) for name in settings
    }
    lines = {found[name].label: regret.mean(axis=0).tolist() for name, regret in regrets.items()}
    worst = np.max(list(regrets.values()), axis=0)
    return Rate("regret", "episodes T", x, worst, exponent, paper, lines=lines)


def unfinished(
    found: Mapping[str, Setting], settings: Sequence[str], of: str, losses: Sequence[float] = (), **_: Any
) -> bool:
    """Whether what is counted still goes on at the end of a run."""
    return of in COUNTED and any(
        np.count_nonzero(statistics.last_tenth(each)) > UNFINISHED * np.count_nonzero(each)
        for group in _counted(found, settings, of, losses)
        for each in group
    )


def _counted(
    found: Mapping[str, Setting], settings: Sequence[str], of: str, losses: Sequence[float]
) -> Iterator[list[NDArray[np.bool_]]]:
    """Which episodes count: a row for every run, of one setting after the other."""
    for name, loss in zip(settings, losses or [0.0] * len(settings), strict=True):
        yield [COUNTED[of](run, loss) for run in found[name].runs]
