"""Counting the checks of a claim, and judging what was counted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 1e-9  # relative; exact values are sums of a few means
FINITE = 1e300  # for what is not, beside bounds
ENOUGH = 10  # independent units without which a row says nothing
TABLE_ERROR = 0.01  # the probability that a table of true claims has a violated one


@dataclass
class CheckCounts:
    """The checks of one claim in one run: is the actual number at most the bound?"""

    claim: str
    checks: int = 0
    counting: int = 0
    """Checks that could have failed: their bound is below what is trivially true."""
    violations: int = 0
    share: float = 0.0
    """The largest share of its bound that the actual number took in a counting check."""
    units: int = 0
    """What the counting checks are about, each counted once: the run, its datasets, or its states."""
    seen: set[Hashable] = field(default_factory=set, compare=False, repr=False)

    def add(
        self, actual: ArrayLike, bound: ArrayLike, trivial: ArrayLike, units: Sequence[Hashable] = ("the run",)
    ) -> None:
        """Check arrays of numbers, or single ones; `trivial` is what the actual number cannot exceed anyway.

        `units` names what each row of the arrays is about, or all of them.
        """
        shape = np.broadcast(actual, bound, trivial).shape
        actual, bound, trivial = (np.add(numbers, np.zeros(shape)) for numbers in (actual, bound, trivial))
        if not actual.size:
            return
        self.checks += actual.size
        self.violations += int(np.count_nonzero(actual > bound + ROUNDING * (1 + np.abs(bound))))
        finite = np.minimum(trivial, FINITE)
        biting = bound < finite - ROUNDING * (1 + np.abs(finite))
        self.counting += int(np.count_nonzero(biting))
        if len(units) == 1:
            self.seen.update(units if biting.any() else ())
        else:
            rows = biting.reshape(len(units), -1)
            self.seen.update(unit for unit, row in zip(units, rows, strict=True) if row.any())
        self.units = len(self.seen)
        positive = biting & (bound > 0)
        if positive.any():
            self.share = max(self.share, float((actual[positive] / bound[positive]).max()))


@dataclass(frozen=True)
class Verdict:
    """One claim over all runs."""

    claim: str
    instances: int
    runs: int
    checks: int
    counting: int
    units: int
    violations: int
    violating_runs: int
    allowed_runs: int
    """Runs of one instance that may violate it, at most."""
    broken_on: tuple[str, ...]
    """Instances of which more runs did."""
    share: float
    scaled: bool
    """With constants smaller than the theory's: shown, but nothing that must hold."""

    @property
    def broken(self) -> bool:
        return not self.scaled and bool(self.broken_on)

    @property
    def vacuous(self) -> bool:
        return not self.scaled and self.units < ENOUGH


def allowed_runs(runs: int, delta: float | None, instances: int) -> int:
    """The number of failing runs that a claim exceeds with probability at most TABLE_ERROR / (2 instances).

    It fails with probability delta; None is never. All claims of an instance hold together with probability 1 - delta,
    but for Lemma 11, which has an event of its own: so much is all that the error of the table is to be divided by.
    """
    from scipy.stats import binom

    return 0 if delta is None else int(binom.isf(TABLE_ERROR / (2 * instances), runs, delta))


def judge(
    claim: str,
    delta: float | None,
    found: Iterable[tuple[str, CheckCounts]],
    *,
    instances: int = 1,
    scaled: bool = False,
) -> Verdict:
    """Sum up (instance, counts) of all runs in a table about so many instances; delta is None for what holds always."""
    rows = [(instance, counts) for instance, counts in found if counts.claim == claim]
    names = dict.fromkeys(instance for instance, _ in rows)
    failed = {name: [counts.violations > 0 for instance, counts in rows if instance == name] for name in names}
    allowed = {name: allowed_runs(len(runs), delta, instances) for name, runs in failed.items()}
    return Verdict(
        claim=claim,
        instances=len(names),
        runs=len(rows),
        checks=sum(counts.checks for _, counts in rows),
        counting=sum(counts.counting for _, counts in rows),
        units=sum(counts.units for _, counts in rows),
        violations=sum(counts.violations for _, counts in rows),
        violating_runs=sum(map(sum, failed.values())),
        allowed_runs=max(allowed.values(), default=0),
        broken_on=tuple(name for name in names if sum(failed[name]) > allowed[name]),
        share=max((counts.share for _, counts in rows), default=0.0),
        scaled=scaled,
    )
