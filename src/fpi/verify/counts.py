"""Counting the checks of a claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 1e-9  # relative; exact values are sums of a few means


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

    def add(self, actual: ArrayLike, bound: ArrayLike, trivial: ArrayLike) -> None:
        """Check arrays of numbers, or single ones; `trivial` is what the actual number cannot exceed anyway."""
        actual, bound, trivial = np.broadcast_arrays(actual, bound, trivial)
        self.checks += actual.size
        self.violations += int(np.sum(actual > bound + ROUNDING * (1 + np.abs(bound))))
        biting = bound < trivial - ROUNDING * (1 + np.abs(trivial))
        self.counting += int(biting.sum())
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
    violations: int
    violating_runs: int
    allowed_runs: int
    """Runs that may violate it: none, or a share delta where the claim holds with probability 1 - delta."""
    share: float
    scaled: bool
    """With constants smaller than the theory's: shown, but nothing that must hold."""

    @property
    def broken(self) -> bool:
        return not self.scaled and self.violating_runs > self.allowed_runs

    @property
    def vacuous(self) -> bool:
        return self.counting < ENOUGH


ENOUGH = 10_000  # counting checks without which a row says nothing


def judge(
    claim: str, delta: float | None, found: Iterable[tuple[str, CheckCounts]], *, scaled: bool = False
) -> Verdict:
    """Sum up (instance, tally) of all runs; delta is None for a claim that holds always."""
    rows = [(instance, counts) for instance, counts in found if counts.claim == claim]
    return Verdict(
        claim=claim,
        instances=len({instance for instance, _ in rows}),
        runs=len(rows),
        checks=sum(counts.checks for _, counts in rows),
        counting=sum(counts.counting for _, counts in rows),
        violations=sum(counts.violations for _, counts in rows),
        violating_runs=sum(counts.violations > 0 for _, counts in rows),
        allowed_runs=0 if delta is None else int(delta * len(rows)),
        share=max((counts.share for _, counts in rows), default=0.0),
        scaled=scaled,
    )
