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
from fpi.envs import RewardRange
from fpi.function_classes import FiniteClass, FunctionClass, GeneralizedLinear, LinearBall
from fpi.testbeds import Misspecified, Testbed, WorstStarts, make
from fpi.verify.worlds import Described, Paid

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
    adversary: str = ""
    """"means": the perturbation by kappa is the worst. "starts": an episode begins where most would be lost."""
    described: str = ""
    """By which of the built-in features the agent knows states, if not by those of the testbed: see `Described`."""
    paid: tuple[float, float] = (0.0, 1.0)
    """What rewards of 0 and 1 become: see `Paid`."""
    first_level: int | str = 1
    explore: str | None = None
    elimination: str = "paper"
    constants: str = "tight"
    hindsight: bool = False
    """Of PAC; takes `noise` of "none"."""
    episodes: int = 1_000
    seeds: int = RUNS
    noise: str = "bernoulli"
    walks: int = 40
    """States per stage on which estimates are checked."""
    only: tuple[str, ...] = ()
    """Claims it is for, where runs must be long; others of the same monitors are watched along."""

    def testbed(self) -> Testbed:
        testbed: Any
        if self.adversary == "means":
            testbed = Misspecified(make(self.family, **self.arguments), self.kappa, adversarial=True)
        else:
            testbed = make(self.family, kappa=self.kappa, **self.arguments)
        if self.adversary == "starts":
            return WorstStarts(testbed)
        if self.described:
            return Described(testbed, self.described)
        return Paid(testbed, *self.paid) if self.paid != (0.0, 1.0) else testbed

    def agent(self, testbed: Testbed, kind: Any = None) -> Any:
        """An agent as the instance says, or of another `kind` of the same algorithm."""
        settings: dict[str, Any] = {
            "actions": testbed.actions,
            "horizon": testbed.horizon,
            "delta": DELTA,
            "constants": self.constants,
            "reward_range": (min(self.paid), max(self.paid)),
        }
        linear: dict[str, Any] = {
            "ridge": self.ridge,
            "misspecification": testbed.misspecification,
            "theta_bound": testbed.theta_bound,
        }
        if self.explore is not None:
            settings["explore"] = self.explore
        if self.algorithm == "PAC":
            settings["hindsight"] = self.hindsight
            return (kind or PAC)(testbed.features, epsilon=self.epsilon, **linear, **settings)
        settings |= {"scale": self.scale, "elimination": self.elimination}
        if self.algorithm == "Regret":
            return (kind or Regret)(testbed.features, first_level=self.first_level, **linear, **settings)
        low, high = RewardRange(*settings["reward_range"]).value_range(testbed.horizon)
        return (kind or Eluder)(functions(testbed, low, high), episodes=self.episodes, **settings)


def functions(testbed: Any, low: float, high: float) -> FunctionClass:
    """What may be known of Q^pi on this testbed, with values in this range."""
    if hasattr(testbed, "tables"):
        return FiniteClass(testbed.tables, min_value=low, max_value=high)
    if hasattr(testbed, "arms"):
        return GeneralizedLinear(testbed.arms, radius=testbed.radius)
    return LinearBall(testbed.features, radius=testbed.theta_bound, min_value=low, max_value=high)


# --- Section 4 --------------------------------------------------------------------------------------------------------

_ARMS_3, _ARMS_6 = {"d": 3, "K": 5}, {"d": 6, "K": 10}
_ONE_HUB, _ONE_CORRIDOR = {"B": 1, "m": 2, "K": 3, "p": 1}, {"B": 1, "m": 2, "K": 3, "p": 1, "q": 1, "junk": 1}
_LONG_HUBS = {"B": 4, "m": 2, "K": 3, "p": 1}
_TABLE = {"contexts": 6, "m": 2, "K": 2, "R": 1}
_TWO_CLAIMS = ("Lemma 24", "Lemma 25", "Lemma 21 for F", "Lemma 22 for F", "Theorem 3 for F", "Theorem 4")
_BANDIT_CLAIMS, _LEVEL_CLAIMS = ("Lemma 1", "Theorem 1"), ("Lemma 8", "Lemma 21", "Theorem 2", "Theorem 3", "Lemma 22")

# One stage: all bounds bite, and few features make Theorem 1 count within thousands of episodes.
_BANDIT = Instance("bandit", "LinBandit", _ARMS_3, episodes=1_000, walks=20)
_BANDIT_6 = Instance("bandit, d=6", "LinBandit", _ARMS_6, episodes=1_000, walks=10)
_DRIFTING = replace(_BANDIT, name="bandit, adversarial", arguments={**_ARMS_3, "order": "drifting"}, episodes=512)
_KAPPA_BANDIT = replace(_BANDIT, name="bandit, κ=0.02", kappa=0.02, episodes=512)
_BIASED_BANDIT = replace(
    _BANDIT, name="bandit, κ=0.2, worst", kappa=0.2, adversary="means", epsilon=0.04, episodes=2_048, walks=8
)
_PAPER_BANDIT = replace(_BANDIT, name="bandit, paper", constants="paper", epsilon=0.05, episodes=1_500, walks=10)
_SEA_1 = Instance("sea, N=1", "DeepSea", {"N": 1}, epsilon=0.12, ridge=0.02, episodes=4_000, only=_BANDIT_CLAIMS)
# Two to four stages, with values of their own behind every action.
_SEA_3 = Instance("sea, N=3", "DeepSea", {"N": 3, "cost": 0.01}, ridge=0.02, episodes=1_000)
_HUBS_2 = Instance("hubs, H=2", "HubNet", _ONE_HUB, epsilon=0.05, ridge=0.02, episodes=1_500, walks=10)
_WORST_HUBS = replace(_HUBS_2, name="hubs, worst starts", adversary="starts", epsilon=0.08, episodes=500)
_CORRIDOR_4 = Instance(
    "corridor, H=4", "HubCorridor", _ONE_CORRIDOR, epsilon=0.12, ridge=0.02, episodes=700, scale=0.5, walks=4
)
_KAPPA_CORRIDOR = replace(_CORRIDOR_4, name="corridor, κ=0.02", kappa=0.02, epsilon=0.15, scale=1.0, episodes=400)
_TILES = Instance("tables, tilings", "TableHubs", _TABLE, described="tilings", epsilon=0.15, ridge=0.02, episodes=800)
_ONE_HOT = replace(_TILES, name="tables, one-hot", described="one-hot")
_COSINES = replace(_TILES, name="tables, cosines", described="cosines")
# Ways that no policy tells apart, and early ends.
_DIAMOND = Instance("diamond", "Diamond", {"n": 3}, epsilon=0.2, ridge=0.02, episodes=800)
_TRAP = Instance("trap", "Trap", {"M": 4, "Lc": 2, "phase": 400}, epsilon=0.2, episodes=800)
# Other rewards: an early end is then worth most, the span is 2, the noise is half.
_NEGATIVE = replace(_TRAP, name="trap, rewards -1 to 0", paid=(0.0, -1.0))
_SIGNED = replace(_BANDIT, name="bandit, rewards -1 to 1", paid=(-1.0, 1.0), episodes=512)
_NARROW = replace(_BANDIT, name="bandit, rewards 1/2 to 1", paid=(0.5, 1.0), episodes=512)
# Hindsight, for rewards without noise: two stages, where Lemma 6 bites, and four, where old episodes tell something.
_Hindsight = partial(Instance, hindsight=True, noise="none")
_HINDSIGHT_2 = _Hindsight("hubs, hindsight", "HubNet", _ONE_HUB, ridge=0.02, episodes=128, walks=10)
_HINDSIGHT_4 = _Hindsight(
    "corridor, hindsight",
    "HubCorridor",
    {"B": 1, "m": 3, "K": 4, "p": 2, "q": 1, "junk": 2},
    epsilon=0.5,
    ridge=0.02,
    episodes=128,
    walks=4,
)
# Longer ones: Lemmas 1 to 3 as they are, the others with smaller constants.
_HUBS_5 = Instance("hubs, H=5", "HubNet", _LONG_HUBS, epsilon=0.15, episodes=800, scale=0.5, walks=4)

# --- Section 5 --------------------------------------------------------------------------------------------------------

_Level = partial(Instance, algorithm="Regret")
_Interval = partial(_Level, elimination="interval")

# Two arms, each a direction of its own: the theorems count after some 6,000 episodes.
_LEVEL_ARMS = _Level(
    "levels, arms", "DeepSea", {"N": 1, "distract": 0.0}, ridge=0.3, episodes=10_000, walks=1, only=_LEVEL_CLAIMS
)
# One stage: optimal actions and what episodes lose.
_LEVEL_BANDIT = _Interval("levels, bandit", "LinBandit", {"d": 3, "K": 10}, episodes=1_200, walks=12)
_LEVEL_DRIFTING = replace(
    _DRIFTING, name="levels, adversarial", algorithm="Regret", explore="widest", episodes=300, walks=10
)
_LEVEL_KAPPA = _Interval("levels, bandit, κ=0.02", "LinBandit", _ARMS_3, kappa=0.02, episodes=500, walks=8)
_LEVEL_BIASED = replace(_LEVEL_KAPPA, name="levels, κ=0.2, worst", kappa=0.2, adversary="means")
_LEVEL_PAPER = replace(_LEVEL_KAPPA, name="levels, paper", kappa=0.0, constants="paper")
# Two stages, with values of their own behind every action.
_LEVEL_SEA = _Level("levels, sea, N=2", "DeepSea", {"N": 2}, ridge=0.02, elimination="stage", episodes=1_000, walks=1)
_LEVEL_HUBS = _Interval("levels, hubs, H=2", "HubNet", _ONE_HUB, ridge=0.02, explore="random", episodes=600, walks=6)
_LEVEL_WORST = replace(_LEVEL_HUBS, name="levels, worst starts", adversary="starts", episodes=300)
_LEVEL_TILES = replace(
    _LEVEL_HUBS, name="levels, tilings", family="TableHubs", arguments=_TABLE, described="tilings", elimination="stage"
)
_LEVEL_ONE_HOT = replace(_LEVEL_TILES, name="levels, one-hot", described="one-hot")
_LEVEL_COSINES = replace(_LEVEL_TILES, name="levels, cosines", described="cosines")
# Other rewards, other first levels.
_LEVEL_NEGATIVE = replace(_LEVEL_HUBS, name="levels, rewards -1 to 0", paid=(0.0, -1.0))
_LEVEL_SIGNED = replace(_LEVEL_KAPPA, name="levels, rewards -1 to 1", kappa=0.0, paid=(-1.0, 1.0))
_LEVEL_THREE = replace(_LEVEL_HUBS, name="levels from 3", first_level=3)
_LEVEL_AUTO = replace(_LEVEL_BANDIT, name="levels from auto", first_level="auto")
_LEVEL_CORRIDOR = _Level(
    "levels, corridor, κ=0.02", "HubCorridor", _ONE_CORRIDOR, kappa=0.02, ridge=0.02, episodes=300, walks=3
)
# Many ways that features do not tell apart: an episode that is covered at its start meets states that are not.
_LEVEL_DROPS = _Level("levels, drops", "Diamond", {"n": 12}, explore="random", episodes=300)
_LEVEL_TRAP = _Level("levels, trap", "Trap", {"M": 4, "Lc": 2, "phase": 200}, episodes=400)
# Smaller constants, so that much is eliminated.
_LEVEL_BANDIT_6 = _Level("levels, bandit, d=6", "LinBandit", _ARMS_6, scale=0.05, episodes=600, walks=6)
_SCALED_CORRIDOR = replace(_LEVEL_CORRIDOR, name="levels, corridor, scaled", kappa=0.0, scale=0.05, ridge=0.1)
_SCALED_HUBS = replace(
    _LEVEL_HUBS, name="levels, hubs, H=5", arguments=_LONG_HUBS, scale=0.05, elimination="paper", episodes=400, walks=2
)

# --- function classes -------------------------------------------------------------------------------------------------

_Class = partial(Instance, algorithm="Eluder")

# Two candidates: levels fill up, and the theorem counts after some thousand episodes.
_PAIR = {"contexts": 1, "K": 2, "N": 2, "seed": 363}
_TWO = _Class("class, two tables", "TableBandit", _PAIR, explore="random", episodes=8_192, walks=1, only=_TWO_CLAIMS)
# Candidates so close to each other that estimates are wrong by a little.
_CLOSE = _Class(
    "class, close tables", "TableBandit", {"contexts": 1, "K": 2, "N": 60}, explore="random", episodes=1_024, walks=1
)
# One stage, many states and candidates: high levels, and many actions eliminated.
_TABLES = _Class("class, tables", "TableBandit", {"contexts": 30, "K": 4, "N": 20}, episodes=300, walks=20)
_INTERVALS = replace(_TABLES, name="class, tables by intervals", explore="random", elimination="interval")
_PAPER_TABLES = replace(_TABLES, name="class, paper", constants="paper", arguments={"contexts": 4, "K": 2, "N": 6})
# Two stages, with values of their own behind every action; hubs that nobody has seen need not matter.
_HUBS = _Class("class, hubs", "TableHubs", {"contexts": 20, "m": 2, "K": 2, "R": 5}, episodes=300, walks=10)
_STAGES = replace(
    _HUBS,
    name="class, many hubs",
    arguments={"contexts": 30, "m": 5, "K": 2, "R": 1},
    elimination="stage",
    explore="widest",
    episodes=64,
)
_NEGATIVE_HUBS = replace(_HUBS, name="class, rewards -1 to 0", paid=(0.0, -1.0))
# Classes whose widths are upper bounds.
_BALL = _Class("class, ball", "LinBandit", {"d": 2, "K": 3}, episodes=256, walks=5)
_LOGIT = _Class("class, logistic", "LogitBandit", {"d": 2, "K": 3}, explore="widest", episodes=128, walks=3)
# A smaller beta.
_SCALED = replace(_HUBS, name="class, hubs, scaled", arguments={"contexts": 20, "m": 3, "K": 2, "R": 6}, scale=0.05)

FULL = (
    *(_BANDIT, _BANDIT_6, _DRIFTING, _KAPPA_BANDIT, _BIASED_BANDIT, _PAPER_BANDIT, _SEA_1, _SEA_3, _HUBS_2),
    *(_WORST_HUBS, _CORRIDOR_4, _KAPPA_CORRIDOR, _TILES, _ONE_HOT, _COSINES, _DIAMOND, _TRAP, _NEGATIVE, _SIGNED),
    *(_NARROW, _HINDSIGHT_2, _HINDSIGHT_4, _HUBS_5),
    *(_LEVEL_ARMS, _LEVEL_BANDIT, _LEVEL_DRIFTING, _LEVEL_KAPPA, _LEVEL_BIASED, _LEVEL_PAPER, _LEVEL_SEA, _LEVEL_HUBS),
    *(_LEVEL_WORST, _LEVEL_TILES, _LEVEL_ONE_HOT, _LEVEL_COSINES, _LEVEL_CORRIDOR, _LEVEL_DROPS, _LEVEL_TRAP),
    *(_LEVEL_NEGATIVE, _LEVEL_SIGNED, _LEVEL_THREE, _LEVEL_AUTO, _LEVEL_BANDIT_6, _SCALED_CORRIDOR, _SCALED_HUBS),
    *(_TWO, _CLOSE, _TABLES, _INTERVALS, _PAPER_TABLES, _HUBS, _STAGES, _NEGATIVE_HUBS, _BALL, _LOGIT, _SCALED),
)
_FEW = {
    2: (
        _BIASED_BANDIT,
        _HUBS_2,
        _NEGATIVE,
        _HINDSIGHT_2,
        _HINDSIGHT_4,
        _CORRIDOR_4,
        _TILES,
        _LEVEL_SEA,
        _LEVEL_THREE,
        _LEVEL_CORRIDOR,
        _LEVEL_DROPS,
        _SCALED_CORRIDOR,
    ),
    3: (_LEVEL_KAPPA, _TABLES, _HUBS, _BALL, _SCALED),
    5: (_BANDIT, _LEVEL_BANDIT, _CLOSE, _STAGES),
    10: (_SEA_1, _TWO),
}
"""How many runs in the quick suite: two at least, for one may always fail."""
QUICK = tuple(replace(instance, seeds=seeds) for seeds, chosen in _FEW.items() for instance in chosen)
