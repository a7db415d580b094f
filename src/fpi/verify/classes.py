"""The last appendix: what is claimed of FPI for function classes. Numbers of lemmas are those of the paper.

The algorithm is that of Section 5, and so are most monitors. Lemma 24 is Lemma 8 for a class, Lemma 26 is Lemma 16, and
Theorem 4 is Theorem 2. The paper says that Lemmas 20 and 21 still hold; 9, 10 and 22 do not speak of features. And
Theorem 3 follows from them, though the appendix does not say so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from fpi.algorithms.levels import LevelState
from fpi.testbeds.base import FloatArray, Testbed
from fpi.verify.accuracy import scaled
from fpi.verify.exact import lowest_value
from fpi.verify.level_losses import LevelAccuracy, Losses
from fpi.verify.levels import LevelCounts, LevelOnPolicy, LevelSizes, StaysTheSame, _LevelData
from fpi.verify.monitors import Monitor

ACCURACY = ("Lemma 26", "Lemma 20a for F", "Lemma 20b for F")
LOSSES = ("Lemma 21 for F", "Theorem 3 for F", "Theorem 4")
NAMES = {"Lemma 8": "Lemma 24", "Lemma 16": "Lemma 26", "Theorem 2": "Theorem 4"}  # the others "for F"


class TrueFunction(_LevelData):
    """Lemma 25: Q^pi is in F_k for every k, that is, at most sqrt(beta_k) away from f_k on the data.

    beta is that of the theory, whatever the scale of the agent. Counts where it is below the most that f_k, with values
    from 0 to `top`, could be away.
    """

    def __init__(self, testbed: Testbed, agent: Any) -> None:
        super().__init__(testbed, agent, "Lemma 25")
        self._checked: dict[tuple[int, int], int] = {}

    def check(self) -> None:
        agent: Any = self.agent
        for (stage, level), stored in self.data.items():
            prefixes, rows = agent.datasets.prefixes(stage, level), agent.dataset(stage, level).features
            truth = np.array([datum.value for datum in stored])
            most = np.cumsum(np.maximum(truth, agent.function_class.max_value - truth) ** 2)
            for k in range(self._checked.get((stage, level), 0) + 1, len(stored) + 1):
                apart = np.sum((prefixes.estimates(rows[:k], k) - truth[:k]) ** 2)
                self.counts[0].add(apart, agent.beta(level, k) / agent.settings.scale, most[k - 1])
            self._checked[stage, level] = len(stored)


class ClassAccuracy(LevelAccuracy):
    """Lemma 26: |Q^(l) - Q^pi| <= 2^-l where covered. Lemma 20 as for features; a scaled beta owes none of them."""

    def __init__(self, testbed: Testbed, agent: Any, *, walks: int) -> None:
        claims = ("Lemma 16", "Lemma 20a", "Lemma 20b")
        Monitor.__init__(self, testbed, agent, *(scaled(claim, agent.settings.scale) for claim in claims))
        self._walks = walks
        self._lowest = lowest_value(testbed)
        self._checks = 0

    def _errors(self, stage: int, level_state: LevelState, values: FloatArray) -> None:
        if level_state.covered is not None:
            errors = np.abs(level_state.values - values)[:, level_state.allowed]
            self.counts[0].add(errors, self.agent.level_gap(level_state.level), self.agent.horizon - stage)


def make_class_monitors(testbed: Testbed, agent: Any, claims: Collection[str], walks: int) -> list[Monitor[Any]]:
    """Those that these claims of the appendix need. They look at any agent with levels."""
    monitors: list[Monitor[Any]] = []
    if "Lemma 24" in claims:
        monitors.append(LevelSizes(testbed, agent))
    if "Lemma 25" in claims:
        monitors.append(TrueFunction(testbed, agent))
    if "Lemma 9 for F" in claims:
        monitors.append(StaysTheSame(testbed, agent, walks=walks))
    if "Lemma 10 for F" in claims:
        monitors.append(LevelOnPolicy(testbed, agent))
    if not set(ACCURACY).isdisjoint(claims):
        monitors.append(ClassAccuracy(testbed, agent, walks=walks))
    if not set(LOSSES).isdisjoint(claims):
        monitors.append(Losses(testbed, agent))
    if "Lemma 22 for F" in claims:
        monitors.append(LevelCounts(testbed, agent))
    for monitor in monitors:
        for counts in monitor.counts:
            counts.claim = _renamed(counts.claim)
    return monitors


def _renamed(claim: str) -> str:
    """A claim of Section 5 as it is called for function classes."""
    lemma, comma, scale = claim.partition(",")
    name = lemma if lemma == "Lemma 25" else NAMES.get(lemma, f"{lemma} for F")
    return name + comma + scale.replace("α", "β")
