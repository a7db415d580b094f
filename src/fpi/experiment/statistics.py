"""What may be said about a study: bands over seeds, paired differences, and the verdict on every claim.

Bands are 95% percentile bootstraps over seeds, of the mean and of the interquartile mean (IQM). With five seeds such a
band is too narrow to decide anything by: of normal numbers it holds the true mean in 85 of 100 cases. That one setting
earns more than another is therefore decided by the differences between runs of one seed and Student's 95% interval,
which keeps its word for few seeds too; and so is whether a mean agrees with a reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fpi import testbeds
from fpi.experiment.config import Claim, Job, Study, probe_episodes
from fpi.experiment.storage import read_tensors

RESAMPLES = 10_000
LAST = 0.1  # the share of a run whose mean return is the headline
HOLDS, CONTRADICTED, UNKNOWN = "holds", "contradicted", "not shown"
WIDEST = 3.0  # times the interval of a reference: what is wider would agree with anything
EXACT = 1e-9  # residuals below this are rounding

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""Of values with one entry per seed on the last axis."""


def mean(values: Floats) -> Floats:
    centre: Floats = values.mean(axis=-1)
    return centre


def iqm(values: Floats) -> Floats:
    """The mean of the middle half."""
    centre: Floats = stats.trim_mean(values, 0.25, axis=-1)
    return centre


@dataclass(frozen=True)
class Band:
    """A statistic over seeds with its 95% bootstrap band."""

    centre: float
    low: float
    high: float


def digits(*numbers: float) -> int:
    """Digits after the point that show two figures of the largest number, and one at least."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return max(1, 1 - math.floor(math.log10(largest))) if largest > 0 else 1


def interval(centre: float, low: float, high: float) -> str:
    n = digits(centre, low, high)
    return f"{centre:.{n}f} ({low:.{n}f} to {high:.{n}f})"


def bootstrap(values: Floats, statistic: Statistic = mean) -> Band:
    """The same values give the same band in every call."""
    draws = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(statistic(values[draws]), (0.025, 0.975))
    return Band(float(statistic(values)), float(low), float(high))


@dataclass(frozen=True)
class Difference:
    """One setting minus another, seed by seed."""

    mean: float
    low: float
    high: float
    """Student's 95% interval; infinite for one seed."""
    above: int
    below: int
    """Seeds in which the first setting has more, and less."""
    seeds: int

    def __str__(self) -> str:
        if self.mean == self.low == self.high == 0:
            return f"equal in all {self.seeds} seeds"
        n = digits(self.mean, self.low, self.high)
        likely = f"95% CI {self.low:+.{n}f} to {self.high:+.{n}f}" if self.seeds > 1 else "no CI from one seed"
        side, count = ("below", self.below) if self.mean < 0 else ("above", self.above)
        return f"{self.mean:+.{n}f}, {likely}, {count} of {self.seeds} seeds {side} 0"


def paired(first: Floats, second: Floats) -> Difference:
    gaps = first - second
    n, centre = len(gaps), float(gaps.mean())
    spread = float(gaps.std(ddof=1)) / math.sqrt(n) * float(stats.t.ppf(0.975, n - 1)) if n > 1 else math.inf
    return Difference(centre, centre - spread, centre + spread, int((gaps > 0).sum()), int((gaps < 0).sum()), n)


@dataclass(frozen=True)
class Measured:
    """The finished runs of one setting, one row per seed."""

    returns: Floats
    stale: Floats | None
    """Share of stored pairs whose kept suffix the policy would no longer follow, per probe."""

    @property
    def windows(self) -> Floats:
        """Mean return in each of the eleven windows."""
        ends = probe_episodes(self.returns.shape[1])
        parts = np.split(self.returns, ends[:-1], axis=1)
        return np.stack([part.mean(axis=1) for part in parts], axis=1)

    @property
    def headline(self) -> Floats:
        """Mean return over the last tenth."""
        last = max(1, round(LAST * self.returns.shape[1]))
        tail: Floats = self.returns[:, -last:].mean(axis=1)
        return tail


def measure(study: Study, out: Path) -> dict[str, Measured]:
    """Read the rows of a finished study."""
    found = {}
    for name, setting in study.settings.items():
        ids = (Job(name, setting, seed, "").id for seed in study.seeds)
        runs = [read_tensors(out / "runs" / each / "rows.safetensors")[0] for each in ids]
        stale = np.stack([run["probe.stale"] for run in runs]) if "probe.stale" in runs[0] else None
        found[name] = Measured(np.stack([run["return"] for run in runs]), stale)
    return found


@dataclass(frozen=True)
class Verdict:
    text: str
    verdict: str
    detail: str


def summarise(study: Study, found: Mapping[str, Measured]) -> dict[str, Any]:
    """The content of summary.json."""
    return {
        "seeds": list(study.seeds),
        "settings": {name: _setting(measured) for name, measured in found.items()},
        "claims": [asdict(judge(claim, found)) for claim in study.judged],
    }


def _setting(measured: Measured) -> dict[str, Any]:
    windows = [bootstrap(values) for values in measured.windows.T]
    headline = measured.headline
    return {
        "episodes": probe_episodes(measured.returns.shape[1]),
        "mean": [band.centre for band in windows],
        "low": [band.low for band in windows],
        "high": [band.high for band in windows],
        "iqm": [bootstrap(values, iqm).centre for values in measured.windows.T],
        "last": {
            "mean": asdict(bootstrap(headline)),
            "iqm": asdict(bootstrap(headline, iqm)),
            "per_seed": headline.tolist(),
        },
        "stale": None if measured.stale is None else measured.stale.mean(axis=0).tolist(),
    }


# --- claims -----------------------------------------------------------------------------------------------------------


def judge(claim: Claim, found: Mapping[str, Measured]) -> Verdict:
    verdict, detail = JUDGES[claim.kind](found, **claim.arguments)
    return Verdict(claim.text, verdict, detail)


def _above(found: Mapping[str, Measured], first: str, second: str) -> tuple[str, str]:
    """The first setting earns more in the last tenth."""
    gap = paired(found[first].headline, found[second].headline)
    if gap.low > 0:
        return HOLDS, str(gap)
    if gap.high < 0:
        return CONTRADICTED, str(gap)
    return f"{UNKNOWN}: CI includes 0" if gap.seeds > 1 else f"{UNKNOWN}: one seed", str(gap)


def _equal(found: Mapping[str, Measured], first: str, second: str) -> tuple[str, str]:
    """Both settings give the same returns, to the bit."""
    differ = (found[first].returns != found[second].returns).sum()
    return (CONTRADICTED if differ else HOLDS), f"{differ:,} of {found[first].returns.size:,} episodes differ"


def _level(found: Mapping[str, Measured], setting: str, low: float, high: float, episodes: int) -> tuple[str, str]:
    """Student's interval of the mean return in the last tenth meets the reference, which is for so many episodes."""
    headline = found[setting].headline
    played = found[setting].returns.shape[1]
    if played != episodes:
        return f"{UNKNOWN}: other length", f"{played:,} episodes, the reference has {episodes:,}"
    level = paired(headline, np.zeros(len(headline)))
    if level.seeds == 1:
        return f"{UNKNOWN}: one seed", f"{level.mean:.{digits(level.mean)}f}"
    if level.high - level.low > WIDEST * (high - low):
        return f"{UNKNOWN}: CI too wide", "95% CI " + interval(level.mean, level.low, level.high)
    overlap = level.low <= high and level.high >= low
    return (HOLDS if overlap else CONTRADICTED), "95% CI " + interval(level.mean, level.low, level.high)


def _stale(found: Mapping[str, Measured], setting: str, low: float, high: float) -> tuple[str, str]:
    """So large a share of the stored returns no longer belongs to the policy, at the end of the run."""
    shares = found[setting].stale
    if shares is None:
        return f"{UNKNOWN}: not measured", "this algorithm keeps no record of suffixes"
    last = shares[:, -1]
    inside = ((last >= low) & (last <= high)).all()
    least, most = f"{last.min():.1%}", f"{last.max():.1%}"
    share = least if least == most else f"{least} to {most}"
    return (HOLDS if inside else CONTRADICTED), f"{share} stale at the end, {len(last)} seeds"


def _realizable(found: Mapping[str, Measured], testbed: str, **arguments: Any) -> tuple[str, str]:
    """Q^pi is linear in the features for an optimal and for random policies."""
    residual = getattr(testbeds, testbed)(**arguments).verify().residual
    return (HOLDS if residual <= EXACT else CONTRADICTED), f"largest residual of Q^π {residual:.1e}"


def _incomplete(found: Mapping[str, Measured], testbed: str, **arguments: Any) -> tuple[str, str]:
    """Some linear function has a Bellman backup that is not linear."""
    residual = getattr(testbeds, testbed)(**arguments).verify().bellman_residual
    return (HOLDS if residual > EXACT else CONTRADICTED), f"largest residual of a backup {residual:.1e}"


JUDGES: dict[str, Callable[..., tuple[str, str]]] = {
    "above": _above,
    "equal": _equal,
    "level": _level,
    "stale": _stale,
    "realizable": _realizable,
    "incomplete": _incomplete,
}
