"""The study of every kind of domain that the paper names: what is learned, what counts as solved, when it is given up.

All settings stand in `DOMAINS`. Control tasks are PAC's here; `fpi.ModelFPI` on them is measured by a stricter rule,
see docs/model.md.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fpi.experiment.study import SEPARATOR, Study
from fpi.run_config import TESTBED, JudgeSettings, RunConfig

STARTS = 10


@dataclass(frozen=True)
class Learner:
    """An agent on a domain, and for how long it may learn."""

    algorithm: str
    episodes: int
    every: int
    """Episodes between two judgements."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    features: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 30.0
    """Of processor time."""


@dataclass(frozen=True)
class Domain:
    """A task, and what solves it."""

    kind: str
    env: str
    threshold: float
    learners: Mapping[str, Learner]
    env_args: Mapping[str, Any] = field(default_factory=dict)
    action_grid: int | None = None
    name: str = ""
    """In tables, if it is not that of the environment."""
    needs: tuple[str, str] | None = None
    """A module, and the extra that brings it."""
    starts: int = STARTS
    """1 where all episodes begin alike."""
    judge_args: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment when it is judged, where they differ."""
    peers: str = ""
    """Episodes to the threshold, see `PEERS_TEXT`."""
    note: str = ""
    quick: bool = False
    """Whether `--quick` has it."""


PEERS_TEXT = (
    "Peers are PPO, DQN and SAC of Stable-Baselines3 2.9.2 with hyper-parameters that RL Zoo tuned for the task, 3 to "
    "5 seeds: training episodes until the mean of 20 fixed starts first reached the threshold (PPO on CartPole: 100). "
    "They were measured once, elsewhere; `python -m benchmarks peers` in a checkout repeats them by a stricter rule."
)
MUJOCO, ATARI, BSUITE = ("mujoco", "mujoco"), ("ale_py", "atari"), ("bsuite", "bsuite")
_ONE_HOT = {"epsilon": 0.9, "ridge": 1e-3, "explore": "first"}  # one return is enough for a new state and action


def _numbered(rewards: tuple[float, float], episodes: int, every: int, **learners: Learner) -> dict[str, Learner]:
    """PAC with and without hindsight on numbered states, and others."""
    arguments = {**_ONE_HOT, "reward_range": rewards}
    return {
        "PAC, hindsight": Learner("PAC", episodes, every, {**arguments, "hindsight": True}),
        "PAC": Learner("PAC", episodes, every, arguments),
        **learners,
    }


def _regret(rewards: tuple[float, float], episodes: int, every: int) -> Learner:
    """With constants that no theorem allows: with a hundred times larger ones nothing was learned in 4,800 episodes."""
    return Learner("Regret", episodes, every, {"reward_range": rewards, "scale": 1e-4})


def _tiles(rewards: tuple[float, float], **arguments: Any) -> dict[str, Learner]:
    """PAC as in the paper's experiments: 4 tilings of 4 tiles a dimension, random exploration."""
    arguments = {"epsilon": 1.0, "ridge": 1e-3, "explore": "random", "reward_range": rewards, **arguments}
    tiles = {"type": "TileCoding", "tiles": 4, "tilings": 4}
    return {"PAC, tiles": Learner("PAC", 100_000, 1_000, arguments, tiles, seconds=10.0)}


def _control(
    env: str, threshold: float, rewards: tuple[float, float], peers: str, action_grid: int | None = None
) -> Domain:
    return Domain("classic control", env, threshold, _tiles(rewards), action_grid=action_grid, peers=peers)


def _mujoco(env: str, threshold: float, learners: dict[str, Learner], peers: str = "") -> Domain:
    return Domain("MuJoCo", env, threshold, learners, action_grid=3, needs=MUJOCO, peers=peers)


def _model(episodes: int, every: int, seconds: float = 30.0, **arguments: Any) -> Learner:
    return Learner("ModelFPI", episodes, every, arguments, {}, seconds)


def _sea(size: int) -> Domain:
    """Solved by the treasure of 1; all ways to it cost 0.01."""
    learners = _numbered((-0.01, 1.0), 3 * size * size, size, ModelFPI=_model(size * size, 5))
    return Domain(
        "bsuite",
        "fpi.adapters:bsuite/deep_sea-v0",
        0.98,
        {name: replace(each, arguments={**each.arguments, "horizon": size}) for name, each in learners.items()},
        {"size": size, "seed": "run"},
        name=f"deep_sea-{size}",
        needs=BSUITE,
        starts=1,
        peers="PPO, DQN: not in 5,000 (N = 20, actions permuted)" if size == 20 else "",
        quick=size == 10,
    )


def _game(
    game: str, threshold: float, memory: list[list[int]], moves: list[int], frameskip: int, rewards: tuple[float, float]
) -> Domain:
    """64 decisions of a game; PAC and ModelFPI see the number of the decision and cells of some bytes."""
    arguments: dict[str, Any] = {"horizon": 64, "reward_range": rewards}
    return Domain(
        "Atari",
        "fpi.adapters:ALE/Cells-v0",
        threshold,
        {
            "PAC, hindsight": Learner(
                "PAC", 2_000, 50, {**_ONE_HOT, **arguments, "explore": "random", "hindsight": True}
            ),
            "ModelFPI": _model(500, 10, 60.0, **arguments),
        },
        {"game": game, "memory": memory, "moves": moves, "frameskip": frameskip, "decisions": 64},
        name=game,
        needs=ATARI,
        starts=1,
    )


_BANDIT = {"d": 6, "K": 10}
DOMAINS: dict[str, Domain] = {
    each.name or each.env: each
    for each in (
        Domain(
            "toy text",
            "FrozenLake-v1",
            1.0,
            _numbered((0.0, 1.0), 5_000, 50, Regret=_regret((0.0, 1.0), 5_000, 50), ModelFPI=_model(500, 5)),
            {"is_slippery": False},
            starts=1,
            quick=True,
        ),
        Domain(
            "toy text",
            "CliffWalking-v1",
            -13.0,
            _numbered((-100.0, 0.0), 20_000, 200, Regret=_regret((-100.0, 0.0), 20_000, 200), ModelFPI=_model(500, 5)),
            {"max_episode_steps": 50},
            starts=1,
            note="50 steps",
        ),
        Domain(
            "linear bandit",
            "fpi/LinBandit-v0",
            0.83,
            {
                "PAC": Learner("PAC", 20_000, 50, {"epsilon": 0.1, "explore": "widest"}, {"type": TESTBED}),
                "Regret": Learner("Regret", 20_000, 50, {"scale": 0.01}, {"type": TESTBED}),
                "ModelFPI": _model(100, 20, 15.0),
            },
            _BANDIT,
            name="LinBandit",
            judge_args={"noise": "none"},
            note="the best is 0.84",
            quick=True,
        ),
        *(_sea(size) for size in (10, 20, 30, 40, 50)),
        _game("Freeway", 4.0, [[14, 16], [106, 16]], [0, 1], 16, (0.0, 1.0)),
        _game("Boxing", 3.0, [[32, 16], [34, 16]], [0, 1, 2, 3, 4, 5], 8, (-3.0, 3.0)),
        _game("Pong", 1.0, [[54, 32], [51, 16]], [0, 2, 3], 8, (-1.0, 1.0)),
        _game("Breakout", 5.0, [[72, 8], [99, 32]], [0, 1, 2, 3], 8, (0.0, 7.0)),
        Domain("toy text", "Taxi-v4", 7.0, _numbered((-10.0, 20.0), 100_000, 1_000, ModelFPI=_model(2_000, 50))),
        _control("CartPole-v1", 475.0, (0.0, 1.0), "PPO 123–181, DQN 372–451"),
        _control("MountainCar-v0", -110.0, (-1.0, 0.0), "DQN 330–560, PPO 2,108–4,033"),
        _control("Acrobot-v1", -100.0, (-1.0, 0.0), "PPO 16–153, DQN 90–130"),
        _control("Pendulum-v1", -200.0, (-16.3, 0.0), "SAC, DQN 15–25, PPO 100–120", 3),
        _mujoco("InvertedPendulum-v5", 950.0, _tiles((0.0, 1.0)), "PPO 144–291, DQN 800–1,102"),
        _mujoco("InvertedDoublePendulum-v5", 9_100.0, {"ModelFPI": _model(20, 1, 60.0)}),
        _mujoco("Reacher-v5", -3.75, {"ModelFPI": _model(20, 1, 60.0)}),
        _mujoco("Swimmer-v5", 360.0, {"ModelFPI": _model(10, 1, 60.0)}),
    )
}
SEEDS = {"quick": 2, "default": 10, "full": 20}


def missing(domain: Domain) -> str:
    """What to install for it, if anything."""
    if domain.needs is None or importlib.util.find_spec(domain.needs[0]) is not None:
        return ""
    return f'pip install "frozen-policy-iteration[{domain.needs[1]}]"'


def domains(size: str) -> Study:
    """Every kind of domain that the paper names, as far as the packages of its environments are there."""
    return Study(
        name="domains",
        title="Every domain of the paper",
        settings={
            f"{name}{SEPARATOR}{label}": RunConfig(
                env=domain.env,
                episodes=learner.episodes,
                features=learner.features,
                algorithm=learner.algorithm,
                arguments=learner.arguments,
                env_args=domain.env_args,
                action_grid=domain.action_grid,
                judge=JudgeSettings(
                    threshold=domain.threshold,
                    starts=domain.starts,
                    every=learner.every,
                    seconds=learner.seconds,
                    env_args=domain.judge_args,
                ),
            )
            for name, domain in DOMAINS.items()
            if (domain.quick or size != "quick") and not missing(domain)
            for label, learner in domain.learners.items()
        },
        seeds=tuple(range(SEEDS[size])),
        about="Episodes until a policy is good enough: the mean return of fixed starts, judged between training "
        "episodes, reaches the threshold. Every run has a cap of episodes and of processor seconds.",
        size=size,
    )
