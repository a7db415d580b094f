"""What `fpi verify` runs: instances chosen so that the bounds bite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fpi.algorithms.pac import PAC
from fpi.testbeds import Testbed, make

DELTA = 0.05


@dataclass(frozen=True)
class Instance:
    """A testbed, an agent for it and how long it learns."""

    name: str
    family: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kappa: float = 0.0
    epsilon: float = 0.1
    ridge: float = 0.1
    episodes: int = 1_000
    seeds: int = 5
    noise: str = "bernoulli"
    walks: int = 40
    """States per stage on which estimates are checked."""
    scale: float | None = None
    """Check Lemmas 4 to 6 also with alpha times this, in rows of their own."""

    def testbed(self) -> Testbed:
        return make(self.family, kappa=self.kappa, **self.arguments)

    def agent(self, testbed: Testbed) -> PAC:
        return PAC(
            testbed.features,
            actions=testbed.actions,
            horizon=testbed.horizon,
            epsilon=self.epsilon,
            ridge=self.ridge,
            delta=DELTA,
            misspecification=testbed.misspecification,
            theta_bound=testbed.theta_bound,
        )


FULL = (
    # one stage: all bounds bite; small d for Theorem 1, whose H D must be below the number of episodes
    Instance("bandit", "LinBandit", {"d": 6, "K": 10}, epsilon=0.08, episodes=6_000, seeds=6),
)
QUICK = tuple(replace(instance, seeds=2) for instance in FULL)
