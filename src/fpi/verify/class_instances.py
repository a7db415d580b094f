"""What `fpi verify` runs for the last appendix, on function classes.

A short list of candidates is told apart within hundreds of episodes, with the constants of the theory: unlike those of
Section 5, most of these instances need no scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fpi.algorithms.eluder import Eluder
from fpi.function_classes import FiniteClass, FunctionClass, GeneralizedLinear, LinearBall
from fpi.settings import Elimination, Explore
from fpi.testbeds import LogitBandit, TableBandit, TableHubs, Testbed
from fpi.verify.instances import DELTA, Problem

CLAIMS = {  # what it says, and with which probability it may fail
    "Lemma 9 for F": ("what is frozen at a level stays the same", None),
    "Lemma 10 for F": ("pairs stored at a level stay on its policy", None),
    "Lemma 20a for F": ("loss of the policy of a level where covered", DELTA),
    "Lemma 20b for F": ("optimal actions survive elimination", DELTA),
    "Lemma 21 for F": ("an episode loses at most 4H Σ 2^(1-l)", DELTA),
    "Lemma 22 for F": ("at most H·ΣD_l episodes have a step at level k or below", None),
    "Lemma 24": ("a stage stores at most D_l data of level l, for a class F", None),
    "Lemma 25": ("Q^π is in the confidence sets F_k of all levels", DELTA),
    "Lemma 26": ("error of frozen values is at most 2^-l", DELTA),
    "Theorem 3 for F": ("Uniform-PAC, which follows from Lemmas 21 and 22 here too", DELTA),
    "Theorem 4": ("regret after every episode, for a class F", DELTA),
}


@dataclass(frozen=True)
class ClassInstance(Problem):
    """A problem, and an agent that knows a class of functions for it."""

    scale: float = 1.0
    """1 is the theory."""
    explore: Explore = "greedy"
    elimination: Elimination = "paper"

    claims = CLAIMS

    def agent(self, testbed: Testbed, kind: type[Eluder] = Eluder) -> Eluder:
        return kind(
            functions(testbed),
            actions=testbed.actions,
            horizon=testbed.horizon,
            episodes=self.episodes,
            scale=self.scale,
            explore=self.explore,
            elimination=self.elimination,
            delta=DELTA,
        )


def functions(testbed: Testbed) -> FunctionClass:
    """What may be known of Q^pi on this testbed."""
    if isinstance(testbed, TableBandit | TableHubs):
        return FiniteClass(testbed.tables, max_value=testbed.horizon)
    if isinstance(testbed, LogitBandit):
        return GeneralizedLinear(testbed.arms, radius=testbed.radius)
    return LinearBall(testbed.features, radius=testbed.theta_bound, max_value=testbed.horizon)


# Two candidates: levels fill up, and the theorem counts after some thousand episodes.
_TWO = ClassInstance(
    "class, two tables",
    "TableBandit",
    {"contexts": 1, "K": 2, "N": 2, "seed": 363},
    explore="random",
    episodes=16_384,
    seeds=3,
    walks=1,
)
# Candidates so close to each other that estimates are wrong by a little.
_CLOSE = ClassInstance(
    "class, close tables",
    "TableBandit",
    {"contexts": 1, "K": 2, "N": 400},
    explore="random",
    episodes=8_192,
    seeds=3,
    walks=1,
)
# One stage, many states and candidates: high levels, and many actions eliminated.
_TABLES = ClassInstance(
    "class, tables", "TableBandit", {"contexts": 200, "K": 4, "N": 30}, episodes=4_096, seeds=4, walks=300
)
_INTERVALS = replace(
    _TABLES, name="class, tables by intervals", explore="random", elimination="interval", episodes=2_048, walks=200
)
# Two stages, with values of their own behind every action.
_HUBS = ClassInstance(
    "class, hubs", "TableHubs", {"contexts": 60, "m": 2, "K": 2, "R": 5}, episodes=4_096, seeds=4, walks=100
)
_STAGES = replace(_HUBS, name="class, hubs by stages", elimination="stage", explore="widest", seeds=3)
# Classes whose widths are upper bounds.
_BALL = ClassInstance("class, ball", "LinBandit", {"d": 2, "K": 3}, episodes=1_024, seeds=3, walks=20)
_LOGIT = ClassInstance(
    "class, logistic", "LogitBandit", {"d": 2, "K": 3}, explore="widest", episodes=512, seeds=2, walks=10
)
# A smaller beta.
_SCALED = ClassInstance(
    "class, hubs, scaled", "TableHubs", {"contexts": 40, "m": 3, "K": 2, "R": 30}, scale=0.05, episodes=2_048, seeds=3
)

FULL = (_TWO, _CLOSE, _TABLES, _INTERVALS, _HUBS, _STAGES, _BALL, _LOGIT, _SCALED)
QUICK = (
    replace(_TWO, episodes=8_192, seeds=1),
    replace(_TABLES, episodes=1_024, seeds=2),
    replace(_HUBS, episodes=1_024, seeds=1),
    replace(_BALL, episodes=256, seeds=1),
)
