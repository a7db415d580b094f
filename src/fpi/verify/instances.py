"""What `fpi verify` runs: instances chosen so that the bounds bite.

Section 4, FPI-PAC: few stages and small epsilon. Section 5, FPI-Regret: with the constants of the theory little is
eliminated within thousands of episodes, and only where there are one or two stages and few features. Those with a scale
are for claims that hold whatever is eliminated, and show the others in rows of their own. The last appendix, function
classes: a short list of candidates is told apart within hundreds of episodes, so most need no scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fpi.algorithms import PAC, Eluder, Regret
from fpi.function_classes import FiniteClass, FunctionClass, GeneralizedLinear, LinearBall
from fpi.testbeds import LogitBandit, TableBandit, TableHubs, Testbed, make

DELTA = 0.01  # small, so that few failing runs of an instance tell
RUNS = 21  # of which more than 3 fail with probability 0.9 where 30% do, and 5e-5 where a share DELTA does


@dataclass(frozen=True)
class Instance:
    """A testbed, an agent for it, and how long it learns."""

    name: str
    family: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    algorithm: str = "PAC"
    kappa: float = 0.0
    epsilon: float = 0.1
    ridge: float = 0.1
    scale: float = 1.0
    """What alpha or beta is multiplied by; 1 is the theory. For PAC only in further rows of Lemmas 4 to 6."""
    explore: str | None = None
    elimination: str = "paper"
    constants: str = "tight"
    episodes: int = 1_000
    seeds: int = 5
    noise: str = "bernoulli"
    walks: int = 40
    """States per stage on which estimates are checked."""

    def testbed(self) -> Testbed:
        return make(self.family, kappa=self.kappa, **self.arguments)

    def agent(self, testbed: Testbed, kind: Any = None) -> Any:
        """An agent as the instance says, or of another `kind` of the same algorithm."""
        settings: dict[str, Any] = {"actions": testbed.actions, "horizon": testbed.horizon, "delta": DELTA}
        settings["constants"] = self.constants
        linear: dict[str, Any] = {
            "ridge": self.ridge,
            "misspecification": testbed.misspecification,
            "theta_bound": testbed.theta_bound,
        }
        if self.explore is not None:
            settings["explore"] = self.explore
        if self.algorithm == "PAC":
            return (kind or PAC)(testbed.features, epsilon=self.epsilon, **linear, **settings)
        settings |= {"scale": self.scale, "elimination": self.elimination}
        if self.algorithm == "Regret":
            return (kind or Regret)(testbed.features, **linear, **settings)
        return (kind or Eluder)(functions(testbed), episodes=self.episodes, **settings)


def functions(testbed: Testbed) -> FunctionClass:
    """What may be known of Q^pi on this testbed."""
    if isinstance(testbed, TableBandit | TableHubs):
        return FiniteClass(testbed.tables, max_value=testbed.horizon)
    if isinstance(testbed, LogitBandit):
        return GeneralizedLinear(testbed.arms, radius=testbed.radius)
    return LinearBall(testbed.features, radius=testbed.theta_bound, max_value=testbed.horizon)


# --- Section 4 --------------------------------------------------------------------------------------------------------

_ARMS_3, _ARMS_6 = {"d": 3, "K": 5}, {"d": 6, "K": 10}
_ONE_HUB, _ONE_CORRIDOR = {"B": 1, "m": 2, "K": 3, "p": 1}, {"B": 1, "m": 2, "K": 3, "p": 1, "q": 1, "junk": 1}

# One stage: all bounds bite, and few features make Theorem 1 count within thousands of episodes.
_BANDIT = Instance("bandit", "LinBandit", _ARMS_6, epsilon=0.06, episodes=3_000, seeds=8, walks=100)
_SMALL_BANDIT = Instance("bandit, d=3", "LinBandit", _ARMS_3, episodes=12_000, seeds=10, walks=150)
_DRIFTING = replace(
    _SMALL_BANDIT, name="bandit, adversarial", arguments={**_ARMS_3, "order": "drifting"}, episodes=3_000, seeds=6
)
_KAPPA_BANDIT = replace(_SMALL_BANDIT, name="bandit, κ=0.02", kappa=0.02, episodes=3_000, seeds=10)
_SEA_1 = Instance("sea, N=1", "DeepSea", {"N": 1}, epsilon=0.12, ridge=0.02, episodes=8_000, seeds=10)
# Two to four stages, with values of their own behind every action.
_SEA_2 = Instance("sea, N=2", "DeepSea", {"N": 2}, epsilon=0.05, ridge=0.02, episodes=60_000, seeds=4)
_SEA_3 = Instance("sea, N=3", "DeepSea", {"N": 3, "cost": 0.01}, ridge=0.02, episodes=6_000, seeds=6)
_HUBS_2 = Instance("hubs, H=2", "HubNet", _ONE_HUB, epsilon=0.05, ridge=0.02, episodes=5_000, seeds=10, walks=100)
_CORRIDOR_4 = Instance(
    "corridor, H=4", "HubCorridor", _ONE_CORRIDOR, epsilon=0.08, ridge=0.02, episodes=4_000, seeds=8, scale=0.5
)
_KAPPA_CORRIDOR = replace(_CORRIDOR_4, name="corridor, κ=0.02", kappa=0.02, epsilon=0.1, scale=1.0)
_DIAMOND = Instance("diamond", "Diamond", {"n": 3}, epsilon=0.2, ridge=0.02, episodes=8_000, seeds=4)
_TRAP = Instance("trap", "Trap", {"M": 4, "Lc": 2, "phase": 2_000}, epsilon=0.2, episodes=8_000, seeds=6)
# Longer ones: Lemmas 1 to 3 as they are, the others with smaller constants.
_HUBS_4 = Instance("hubs, H=4", "HubNet", {"B": 3, "m": 4, "K": 6}, epsilon=0.12, episodes=5_000, seeds=3, scale=0.5)
_CORRIDOR_7 = Instance(
    "corridor, H=7", "HubCorridor", {"B": 2, "m": 3, "K": 4, "junk": 2}, epsilon=0.2, episodes=5_000, seeds=3, scale=0.5
)

# --- Section 5 --------------------------------------------------------------------------------------------------------

_Level = partial(Instance, algorithm="Regret")
_Interval = partial(_Level, elimination="interval")

# Two arms, each a direction of its own: the theorems count after some ten thousand episodes.
_LEVEL_ARMS = _Level(
    "levels, arms", "DeepSea", {"N": 1, "distract": 0.05}, ridge=0.3, episodes=40_000, seeds=3, walks=1
)
# One stage: optimal actions and what episodes lose.
_LEVEL_BANDIT = _Interval("levels, bandit", "LinBandit", {"d": 3, "K": 10}, episodes=8_000, seeds=6, walks=250)
_LEVEL_DRIFTING = replace(
    _DRIFTING, name="levels, adversarial", algorithm="Regret", explore="widest", episodes=6_000, seeds=4, walks=100
)
_LEVEL_KAPPA = _Interval("levels, bandit, κ=0.02", "LinBandit", _ARMS_3, kappa=0.02, episodes=4_000, seeds=4, walks=100)
# Two stages, with values of their own behind every action.
_LEVEL_SEA = _Level(
    "levels, sea, N=2", "DeepSea", {"N": 2}, ridge=0.02, elimination="stage", episodes=20_000, seeds=4, walks=1
)
_LEVEL_HUBS = _Interval(
    "levels, hubs, H=2", "HubNet", _ONE_HUB, ridge=0.02, explore="random", episodes=8_000, seeds=4, walks=60
)
_LEVEL_CORRIDOR = _Level(
    "levels, corridor, κ=0.02", "HubCorridor", _ONE_CORRIDOR, kappa=0.02, ridge=0.02, episodes=2_000, seeds=3, walks=20
)
# Smaller constants, so that much is eliminated.
_LEVEL_BANDIT_6 = _Level("levels, bandit, d=6", "LinBandit", _ARMS_6, scale=0.05, episodes=4_000, seeds=3, walks=60)
_SCALED_HUBS = replace(_LEVEL_HUBS, name="levels, hubs, scaled", scale=0.05, ridge=0.1, episodes=3_000, seeds=3)
_SCALED_CORRIDOR = replace(
    _LEVEL_CORRIDOR, name="levels, corridor, scaled", kappa=0.0, scale=0.05, ridge=0.1, episodes=3_000, walks=40
)

# --- function classes -------------------------------------------------------------------------------------------------

_Class = partial(Instance, algorithm="Eluder")

# Two candidates: levels fill up, and the theorem counts after some thousand episodes.
_PAIR = {"contexts": 1, "K": 2, "N": 2, "seed": 363}
_TWO = _Class("class, two tables", "TableBandit", _PAIR, explore="random", episodes=16_384, seeds=3, walks=1)
# Candidates so close to each other that estimates are wrong by a little.
_CLOSE = replace(_TWO, name="class, close tables", arguments={"contexts": 1, "K": 2, "N": 400}, episodes=8_192)
# One stage, many states and candidates: high levels, and many actions eliminated.
_TABLES = _Class("class, tables", "TableBandit", {"contexts": 200, "K": 4, "N": 30}, episodes=4_096, seeds=4, walks=300)
_INTERVALS = replace(
    _TABLES, name="class, tables by intervals", explore="random", elimination="interval", episodes=2_048, walks=200
)
# Two stages, with values of their own behind every action.
_HUBS = _Class("class, hubs", "TableHubs", {"contexts": 60, "m": 2, "K": 2, "R": 5}, episodes=4_096, seeds=4, walks=100)
_STAGES = replace(_HUBS, name="class, hubs by stages", elimination="stage", explore="widest", seeds=3)
# Classes whose widths are upper bounds.
_BALL = _Class("class, ball", "LinBandit", {"d": 2, "K": 3}, episodes=1_024, seeds=3, walks=20)
_LOGIT = _Class("class, logistic", "LogitBandit", {"d": 2, "K": 3}, explore="widest", episodes=512, seeds=2, walks=10)
# A smaller beta.
_SCALED = _Class(
    "class, hubs, scaled", "TableHubs", {"contexts": 40, "m": 3, "K": 2, "R": 30}, scale=0.05, episodes=2_048, seeds=3
)

FULL = (
    *(_BANDIT, _SMALL_BANDIT, _DRIFTING, _KAPPA_BANDIT, _SEA_1, _SEA_2, _SEA_3, _HUBS_2, _CORRIDOR_4, _KAPPA_CORRIDOR),
    *(_DIAMOND, _TRAP, _HUBS_4, _CORRIDOR_7),
    *(_LEVEL_ARMS, _LEVEL_BANDIT, _LEVEL_DRIFTING, _LEVEL_KAPPA, _LEVEL_SEA, _LEVEL_HUBS, _LEVEL_CORRIDOR),
    *(_LEVEL_BANDIT_6, _SCALED_HUBS, _SCALED_CORRIDOR),
    *(_TWO, _CLOSE, _TABLES, _INTERVALS, _HUBS, _STAGES, _BALL, _LOGIT, _SCALED),
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
    replace(_LEVEL_ARMS, arguments={"N": 1, "distract": 0.0}, episodes=24_000, seeds=1),
    replace(_LEVEL_BANDIT, episodes=4_096, walks=400, seeds=3),
    replace(_LEVEL_KAPPA, episodes=1_000, seeds=1),
    replace(_LEVEL_SEA, episodes=4_000, seeds=1),
    replace(_LEVEL_HUBS, episodes=5_000, walks=20, seeds=1),
    replace(_SCALED_CORRIDOR, episodes=1_000, walks=20, seeds=2),
    replace(_TWO, episodes=8_192, seeds=1),
    replace(_TABLES, episodes=1_024, seeds=2),
    replace(_HUBS, episodes=1_024, seeds=1),
    replace(_BALL, episodes=256, seeds=1),
)
