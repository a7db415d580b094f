"""What `fpi verify` runs for Section 4: instances chosen so that the bounds bite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fpi.algorithms.pac import PAC
from fpi.testbeds import Testbed, make

DELTA = 0.05
CLAIMS = {  # what it says, and with which probability it may fail
    "Lemma 1": ("a stage stores at most D data", None),
    "Lemma 2": ("stored pairs stay on-policy", None),
    "Lemma 3": ("the noise of stored returns concentrates", DELTA),
    "Lemma 4": ("error of estimates from every prefix", DELTA),
    "Lemma 5": ("error of frozen values", DELTA),
    "Lemma 6": ("loss of the policy where covered", DELTA),
    "Theorem 1": ("at most H·D episodes lose more than ε̄", DELTA),
}


@dataclass(frozen=True)
class Problem:
    """A testbed and how long to learn on it."""

    name: str
    family: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kappa: float = 0.0
    ridge: float = 0.1
    episodes: int = 1_000
    seeds: int = 5
    noise: str = "bernoulli"
    walks: int = 40
    """States per stage on which estimates are checked."""

    def testbed(self) -> Testbed:
        return make(self.family, kappa=self.kappa, **self.arguments)


@dataclass(frozen=True)
class Instance(Problem):
    """A problem, and an FPI-PAC agent for it."""

    epsilon: float = 0.1
    scale: float | None = None
    """Check Lemmas 4 to 6 also with alpha times this, in rows of their own."""

    claims = CLAIMS

    def agent(self, testbed: Testbed, kind: type[PAC] = PAC) -> PAC:
        return kind(
            testbed.features,
            actions=testbed.actions,
            horizon=testbed.horizon,
            epsilon=self.epsilon,
            ridge=self.ridge,
            delta=DELTA,
            misspecification=testbed.misspecification,
            theta_bound=testbed.theta_bound,
        )


# One stage: all bounds bite, and few features make Theorem 1 count within thousands of episodes.
_BANDIT = Instance("bandit", "LinBandit", {"d": 6, "K": 10}, epsilon=0.06, episodes=3_000, seeds=8, walks=100)
_SMALL_BANDIT = Instance("bandit, d=3", "LinBandit", {"d": 3, "K": 5}, episodes=12_000, seeds=10, walks=150)
_DRIFTING = replace(
    _SMALL_BANDIT, name="bandit, adversarial", arguments={"d": 3, "K": 5, "order": "drifting"}, episodes=3_000, seeds=6
)
_KAPPA_BANDIT = replace(_SMALL_BANDIT, name="bandit, κ=0.02", kappa=0.02, episodes=3_000, seeds=10)
_SEA_1 = Instance("sea, N=1", "DeepSea", {"N": 1}, epsilon=0.12, ridge=0.02, episodes=8_000, seeds=10)
# Two to four stages, with values of their own behind every action.
_SEA_2 = Instance("sea, N=2", "DeepSea", {"N": 2}, epsilon=0.05, ridge=0.02, episodes=60_000, seeds=4)
_SEA_3 = Instance("sea, N=3", "DeepSea", {"N": 3, "cost": 0.01}, ridge=0.02, episodes=6_000, seeds=6)
_HUBS_2 = Instance(
    "hubs, H=2",
    "HubNet",
    {"B": 1, "m": 2, "K": 3, "p": 1},
    epsilon=0.05,
    ridge=0.02,
    episodes=5_000,
    seeds=10,
    walks=100,
)
_CORRIDOR_4 = Instance(
    "corridor, H=4",
    "HubCorridor",
    {"B": 1, "m": 2, "K": 3, "p": 1, "q": 1, "junk": 1},
    epsilon=0.08,
    ridge=0.02,
    episodes=4_000,
    seeds=8,
    scale=0.5,
)
_KAPPA_CORRIDOR = replace(_CORRIDOR_4, name="corridor, κ=0.02", kappa=0.02, epsilon=0.1, scale=None)
_DIAMOND = Instance("diamond", "Diamond", {"n": 3}, epsilon=0.2, ridge=0.02, episodes=8_000, seeds=4)
_TRAP = Instance("trap", "Trap", {"M": 4, "Lc": 2, "phase": 2_000}, epsilon=0.2, episodes=8_000, seeds=6)
# Longer ones: Lemmas 1 to 3 as they are, the others with smaller constants.
_HUBS_4 = Instance("hubs, H=4", "HubNet", {"B": 3, "m": 4, "K": 6}, epsilon=0.12, episodes=5_000, seeds=3, scale=0.5)
_CORRIDOR_7 = Instance(
    "corridor, H=7", "HubCorridor", {"B": 2, "m": 3, "K": 4, "junk": 2}, epsilon=0.2, episodes=5_000, seeds=3, scale=0.5
)

FULL = (
    _BANDIT,
    _SMALL_BANDIT,
    _DRIFTING,
    _KAPPA_BANDIT,
    _SEA_1,
    _SEA_2,
    _SEA_3,
    _HUBS_2,
    _CORRIDOR_4,
    _KAPPA_CORRIDOR,
    _DIAMOND,
    _TRAP,
    _HUBS_4,
    _CORRIDOR_7,
)
QUICK = (
    replace(_BANDIT, episodes=1_000, epsilon=0.1, seeds=1),
    replace(_SMALL_BANDIT, episodes=1_000, walks=600, seeds=5),
    replace(_KAPPA_BANDIT, episodes=800, seeds=2),
    replace(_SEA_1, seeds=3),
    replace(_HUBS_2, episodes=4_000, seeds=2),
    replace(_CORRIDOR_4, epsilon=0.12, episodes=2_000, walks=10, seeds=3),
    replace(_KAPPA_CORRIDOR, epsilon=0.15, episodes=1_000, walks=10, seeds=2),
    replace(_SEA_3, epsilon=0.15, seeds=2),
    replace(_DIAMOND, seeds=1),
    replace(_TRAP, seeds=1),
    replace(_CORRIDOR_7, epsilon=0.25, episodes=1_500, walks=3, seeds=2),
)
