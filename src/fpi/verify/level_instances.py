"""What `fpi verify` runs for Section 5.

With the constants of the theory little is eliminated within thousands of episodes, and only where there are one or two
stages and few features. There the instances called sound live. Those with a scale are for claims that hold whatever is
eliminated, and show the others in rows of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fpi.algorithms.regret import Regret
from fpi.settings import Elimination, Explore
from fpi.testbeds import Testbed
from fpi.verify.instances import DELTA, Problem

CLAIMS = {  # what it says, and with which probability it may fail
    "Lemma 8": ("a stage stores at most D_l data of level l", None),
    "Lemma 9": ("what is frozen at a level stays the same", None),
    "Lemma 10": ("pairs stored at a level stay on its policy", None),
    "Lemma 13": ("the noise of stored returns concentrates, all levels", DELTA),
    "Lemma 15": ("error of estimates at the frozen prefix of a level", DELTA),
    "Lemma 16": ("error of frozen values is at most Δ_l", DELTA),
    "Lemma 20a": ("loss of the policy of a level where covered", DELTA),
    "Lemma 20b": ("optimal actions survive elimination", DELTA),
    "Lemma 21": ("an episode loses at most 4H Σ Δ_{l-1}", DELTA),
    "Lemma 22": ("at most H·ΣD_l episodes have a step at level k or below", None),
    "Theorem 2": ("regret after every episode", DELTA),
    "Theorem 3": ("Uniform-PAC: N(ε) for all ε, after every episode", DELTA),
}


@dataclass(frozen=True)
class LevelInstance(Problem):
    """A problem, and an FPI-Regret agent for it."""

    scale: float = 1.0
    """1 is the theory."""
    explore: Explore = "greedy"
    elimination: Elimination = "paper"

    claims = CLAIMS

    def agent(self, testbed: Testbed, kind: type[Regret] = Regret) -> Regret:
        return kind(
            testbed.features,
            actions=testbed.actions,
            horizon=testbed.horizon,
            scale=self.scale,
            ridge=self.ridge,
            explore=self.explore,
            elimination=self.elimination,
            delta=DELTA,
            misspecification=testbed.misspecification,
            theta_bound=testbed.theta_bound,
        )


# Two arms, each a direction of its own: the theorems count after some ten thousand episodes.
_ARMS = LevelInstance(
    "levels, arms", "DeepSea", {"N": 1, "distract": 0.05}, ridge=0.3, episodes=40_000, seeds=3, walks=1
)
# One stage: optimal actions and what episodes lose.
_BANDIT = LevelInstance(
    "levels, bandit", "LinBandit", {"d": 3, "K": 10}, elimination="interval", episodes=8_000, seeds=6, walks=250
)
_DRIFTING = LevelInstance(
    "levels, adversarial",
    "LinBandit",
    {"d": 3, "K": 5, "order": "drifting"},
    explore="widest",
    episodes=6_000,
    seeds=4,
    walks=100,
)
_KAPPA_BANDIT = LevelInstance(
    "levels, bandit, κ=0.02",
    "LinBandit",
    {"d": 3, "K": 5},
    kappa=0.02,
    elimination="interval",
    episodes=4_000,
    seeds=4,
    walks=100,
)
# Two stages, with values of their own behind every action.
_SEA_2 = LevelInstance(
    "levels, sea, N=2", "DeepSea", {"N": 2}, ridge=0.02, elimination="stage", episodes=20_000, seeds=4, walks=1
)
_HUBS_2 = LevelInstance(
    "levels, hubs, H=2",
    "HubNet",
    {"B": 1, "m": 2, "K": 3, "p": 1},
    ridge=0.02,
    explore="random",
    elimination="interval",
    episodes=8_000,
    seeds=4,
    walks=60,
)
_KAPPA_CORRIDOR = LevelInstance(
    "levels, corridor, κ=0.02",
    "HubCorridor",
    {"B": 1, "m": 2, "K": 3, "p": 1, "q": 1, "junk": 1},
    kappa=0.02,
    ridge=0.02,
    episodes=2_000,
    seeds=3,
    walks=20,
)
# Smaller constants, so that much is eliminated.
_SCALED_BANDIT = LevelInstance(
    "levels, bandit, d=6", "LinBandit", {"d": 6, "K": 10}, scale=0.05, episodes=4_000, seeds=3, walks=60
)
_SCALED_HUBS = replace(_HUBS_2, name="levels, hubs, scaled", scale=0.05, ridge=0.1, episodes=3_000, seeds=3)
_SCALED_CORRIDOR = replace(
    _KAPPA_CORRIDOR, name="levels, corridor, scaled", kappa=0.0, scale=0.05, ridge=0.1, episodes=3_000, walks=40
)

FULL = (
    _ARMS,
    _BANDIT,
    _DRIFTING,
    _KAPPA_BANDIT,
    _SEA_2,
    _HUBS_2,
    _KAPPA_CORRIDOR,
    _SCALED_BANDIT,
    _SCALED_HUBS,
    _SCALED_CORRIDOR,
)
QUICK = (
    replace(_ARMS, arguments={"N": 1, "distract": 0.0}, episodes=24_000, seeds=1),
    replace(_BANDIT, episodes=4_096, walks=400, seeds=3),
    replace(_KAPPA_BANDIT, episodes=1_000, seeds=1),
    replace(_SEA_2, episodes=4_000, seeds=1),
    replace(_HUBS_2, episodes=5_000, walks=20, seeds=1),
    replace(_SCALED_CORRIDOR, episodes=1_000, walks=20, seeds=2),
)
