"""Does an environment fit FPI? Play random actions, replay every episode exactly, and say what was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fpi.control import (
    Env,
    GeneratorState,
    ReplayReport,
    RewardRange,
    check_actions,
    check_horizon,
    check_observations,
    get_generator,
    replay,
    set_generator,
    time_limit,
)
from fpi.errors import EnvironmentMismatch, InputError

if TYPE_CHECKING:
    from fpi.features import FeatureMap

LONGEST_EPISODE = 10_000


@dataclass(frozen=True)
class CheckReport:
    """What `check` saw.

    `deterministic` is None where it could not be judged, `difference` the first difference a replay met.
    `rewards` is the smallest and the largest reward, `horizon` the number of steps an episode was given,
    `early_ends` the number of episodes that ended before it, `feature_norm` the largest norm of a feature
    vector. `obstacles` forbid FPI; `changes` are what to do before learning.
    """

    environment: str
    action_space: str
    deterministic: bool | None
    difference: ReplayReport | None
    stochastic_rewards: bool
    rewards: tuple[float, float]
    random_starts: bool
    horizon: int
    time_limit: int | None
    lengths: tuple[int, ...]
    early_ends: int
    feature_norm: float | None
    obstacles: tuple[str, ...]
    changes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether FPI can learn here, after the changes if there are any."""
        return not self.obstacles

    @property
    def verdict(self) -> str:
        """The answer in plain words."""
        if self.obstacles:
            return "Not fit for FPI because " + _enumerate(self.obstacles)
        if self.changes:
            return "Fit for FPI with changes: " + _enumerate(self.changes)
        return "Fit for FPI."


def check(
    env: Env,
    *,
    features: FeatureMap | None = None,
    horizon: int | None = None,
    episodes: int = 5,
    seed: int = 0,
) -> CheckReport:
    """Say whether FPI can learn in `env`. The environment's generator is left as it was found."""
    if episodes < 1 or (horizon is not None and horizon < 1):
        raise InputError(f"episodes={episodes}, horizon={horizon}: both must be at least 1.")
    changes = _misfits(env, features, horizon)
    if env.observation_space.shape is None:
        if not env.observation_space.is_np_flattenable:
            check_observations(env)  # nothing can be compared: an error instead of a report
        env = gym.wrappers.FlattenObservation(env)
    limit = time_limit(env)
    longest = min(horizon or LONGEST_EPISODE, limit or LONGEST_EPISODE, LONGEST_EPISODE)
    found = get_generator(env)
    try:
        played, random_starts = _play(env, longest, episodes, seed)
    finally:
        set_generator(env, found)

    rewards = [reward for episode in played for reward in episode.rewards if math.isfinite(reward)]
    low, high = min(rewards, default=0.0), max(rewards, default=0.0)
    lengths = tuple(len(episode.actions) for episode in played)
    norm = None if features is None else max(episode.feature_norm(features) for episode in played)
    cut = [len(episode.actions) for episode in played if episode.end == (False, True)]
    if cut and min(cut) < longest:
        changes.append(f"use horizon={min(cut)} or less: an episode was cut off (truncated) after so many steps.")
    elif horizon is None and limit is None:
        seen = f"took {min(lengths)} to {max(lengths)} steps" if max(lengths) < longest else "did not end"
        changes.append(f"choose a horizon: no time limit is declared, and episodes of random actions {seen}.")
    if low < 0 or high > 1:
        changes.append(_reward_advice(low, high))
    if norm is not None and norm > 1 + 1e-9:
        changes.append(f"scale the features: the largest norm is {norm:.4g}, and the theory takes at most 1.")

    replays = [episode.replayed for episode in played]
    difference = next((report for report in replays if report is not None and not report.agrees), None)
    return CheckReport(
        environment=env.unwrapped.spec.id if env.unwrapped.spec else type(env.unwrapped).__name__,
        action_space=str(env.action_space),
        deterministic=False if difference is not None else (None if None in replays else True),
        difference=difference,
        stochastic_rewards=any(report is not None and report.stochastic_rewards for report in replays),
        rewards=(low, high),
        random_starts=random_starts,
        horizon=longest,
        time_limit=limit,
        lengths=lengths,
        early_ends=sum(any(episode.end) and len(episode.actions) < longest for episode in played),
        feature_norm=norm,
        obstacles=tuple(_obstacles(played)),
        changes=tuple(changes),
    )


@dataclass
class _Episode:
    start_state: GeneratorState | None
    observations: list[NDArray[Any]]
    actions: list[Any]
    rewards: list[float]
    end: tuple[bool, bool] = (False, False)
    replayed: ReplayReport | None = None

    @property
    def undefined(self) -> str | None:
        """What is not a finite number at the last step, if anything."""
        if not np.isfinite(self.observations[-1]).all():
            return f"the observation is {self.observations[-1]}"
        if not np.isfinite(self.rewards[-1:]).all():
            return f"the reward is {self.rewards[-1]}"
        return None

    def feature_norm(self, features: FeatureMap) -> float:
        """The largest norm of the features of this episode's decisions."""
        norms = (
            np.linalg.norm(features.active(observation, stage)[1])
            if hasattr(features, "active")
            else np.linalg.norm(features(observation, stage), axis=1).max()
            for stage, observation in enumerate(self.observations[: len(self.actions)])
        )
        return float(max(norms, default=0.0))


def _play(env: Env, longest: int, episodes: int, seed: int) -> tuple[list[_Episode], bool]:
    """Episodes of random actions, replayed, up to the first undefined number; and whether starts vary."""
    sampler: spaces.Space[Any] = deepcopy(env.action_space)
    sampler.seed(seed)
    env.reset(seed=seed)
    played: list[_Episode] = []
    starts: set[bytes] = set()
    while len(played) < episodes and not (played and played[-1].undefined):
        start_state = get_generator(env)
        episode = _Episode(start_state, [np.array(env.reset()[0])], [], [])
        while len(episode.actions) < longest and not any(episode.end) and not episode.undefined:
            action = sampler.sample()
            episode.actions.append(deepcopy(action))  # an environment may write into its action
            observation, reward, terminated, truncated, _ = env.step(action)
            episode.observations.append(np.array(observation))
            episode.rewards.append(float(reward))
            episode.end = bool(terminated), bool(truncated)
        episode.replayed = replay(
            env, start_state, episode.actions, episode.observations, rewards=episode.rewards, end=episode.end
        )
        played.append(episode)
        starts.add(episode.observations[0].tobytes())
    starts.add(np.array(env.reset()[0]).tobytes())
    return played, len(starts) > 1


def _misfits(env: Env, features: FeatureMap | None, horizon: int | None) -> list[str]:
    """What an agent would complain about before learning."""
    actions = features.actions if features is not None else getattr(env.action_space, "n", 0)
    texts = []
    for requirement, arguments in (
        (check_actions, (env, actions)),
        (check_observations, (env,)),
        (check_horizon, (env, horizon or 1)),
    ):
        try:
            requirement(*arguments)
        except EnvironmentMismatch as error:
            texts.append(str(error))
    return texts


def _obstacles(played: Sequence[_Episode]) -> list[str]:
    """The first undefined number, the first difference, and the first start that did not come back."""
    texts = {}
    for number, episode in enumerate(played, start=1):
        report = episode.replayed
        if episode.undefined:
            place = f"step {len(episode.actions)} of episode {number}"
            texts["undefined"] = f"at {place} {episode.undefined}, and FPI takes finite numbers only."
        if report is None:
            texts.setdefault(
                "start",
                f"determinism cannot be judged: the start of episode {number} did not come back from the "
                "same generator state. Draw start states from self.np_random, and leave out wrappers that "
                "remember past episodes.",
            )
        elif not report.agrees:
            texts.setdefault(
                "difference",
                f"its transitions are random: when the actions of episode {number} are replayed, "
                f"{report.reason} at step {report.step}. FPI needs the same actions to lead to the same "
                "states.",
            )
    return list(texts.values())


def _reward_advice(low: float, high: float) -> str:
    """Suggest a range with two digits, rounded outwards."""
    extended = RewardRange(min(low, 0.0), max(high, 0.0))
    unit = 10.0 ** (math.floor(math.log10(extended.high - extended.low)) - 1)
    rounded = math.floor(extended.low / unit) * unit, math.ceil(extended.high / unit) * unit
    return (
        f"pass reward_range=({rounded[0]:g}, {rounded[1]:g}), or a wider one if you know it: the rewards "
        f"seen go from {low:.6g} to {high:.6g}, outside [0, 1]."
    )


def _enumerate(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else " ".join(f"({i}) {text}" for i, text in enumerate(texts, start=1))
