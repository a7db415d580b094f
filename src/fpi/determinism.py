"""Are transitions deterministic? The state of an environment's generator, replays, and the check behind `fpi check`.

FPI needs deterministic transitions; rewards and start states may be random. Determinism is judged by replaying whole
action sequences from the same start, with the environment's generator exchanged after the reset so that noise drawn
from it shows too. Copying an environment or stepping again from an observation would mislead: a copy of a MuJoCo
environment diverges at once, and CartPole shows float32 observations of its float64 state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from fpi.envs import Env, check_actions, check_horizon, check_observations, range_to_pass, rollout, time_limit
from fpi.errors import EnvironmentMismatch, InputError

if TYPE_CHECKING:
    from fpi.features import FeatureMap

GeneratorState: TypeAlias = dict[str, Any]

LONGEST_EPISODE = 10_000


def get_generator(env: Env) -> GeneratorState | None:
    """The state of the environment's generator; None unless it is a PCG64, the kind that Gymnasium makes."""
    generator = getattr(env.unwrapped, "np_random", None)
    if not isinstance(generator, np.random.Generator) or type(generator.bit_generator) is not np.random.PCG64:
        return None
    return cast(GeneratorState, generator.bit_generator.state)


def set_generator(env: Env, state: GeneratorState | None) -> None:
    """Give the environment a new generator in this state; does nothing for None."""
    if state is not None:
        env.unwrapped.np_random = np.random.Generator(check_generator(state))


def check_generator(state: GeneratorState | None) -> np.random.PCG64:
    """A bit generator in this state, or any for None; raises InputError where it is no state."""
    bits = np.random.PCG64(0)
    if state is None:
        return bits
    kind = state.get("bit_generator") if isinstance(state, dict) else None
    if isinstance(kind, str) and kind != "PCG64":
        raise InputError(
            f"this generator state is of the kind {kind!r}, and fpi knows PCG64 only, which Gymnasium's environments "
            "have. The environment's generator is unchanged. Give the environment a PCG64 before learning."
        )
    if not _is_pcg64(state):  # numpy would take numbers out of range
        raise InputError(
            "this is not the state of a numpy PCG64: an entry is missing, not a whole number, or out of range. The "
            "environment's generator is unchanged. Use a state that get_generator returned."
        )
    bits.state = cast(Any, state)
    return bits


def _is_pcg64(state: Any) -> bool:
    limits = {"state": 2**128, "inc": 2**128, "has_uint32": 2, "uinteger": 2**32}
    try:
        numbers = {**state, **state["state"]}
    except (KeyError, TypeError):
        return False
    return (
        state.keys() == {"bit_generator", "state", "has_uint32", "uinteger"}
        and numbers.pop("bit_generator") == "PCG64"
        and numbers.keys() == limits.keys()
        and all(type(number) is int and 0 <= number < limits[name] for name, number in numbers.items())
    )


@dataclass(frozen=True)
class ReplayReport:
    """What a replay showed: the step of the first difference (None: all agree), its size and its kind.

    `step` is where the first difference was met, `reason` says what differed, and `stochastic_rewards` whether rewards
    alone did.
    """

    step: int | None
    difference: float
    reason: str
    stochastic_rewards: bool

    @property
    def agrees(self) -> bool:
        """Whether the replay went as before."""
        return self.step is None


def replay(
    env: Env,
    start_state: GeneratorState | None,
    actions: Sequence[Any],
    observations: Sequence[ArrayLike],
    *,
    rewards: Sequence[float] | None = None,
    end: tuple[bool, bool] | None = None,
) -> ReplayReport | None:
    """Play recorded actions again from the same start and compare bit for bit.

    `start_state` is the generator's state before the recorded reset; `actions` are as given to `env.step`;
    `observations` begin with that of the reset, and the last one may be missing; `end` is (terminated,
    truncated) after the last action. Rewards may differ, which the report mentions. Returns None where the
    start itself does not come back, so that nothing can be said. The generator is left as it was found.
    """
    found = get_generator(env)
    stochastic = False
    try:
        set_generator(env, start_state)
        observation, _ = env.reset()
        if _difference(observation, observations[0]) is not None:
            return None
        _exchange_numbers(env)
        played = rollout(env, observation, lambda _, stage: actions[stage], len(actions))
        for step, (observation, reward, *ended) in enumerate(played, start=1):
            if rewards is not None and _difference(reward, rewards[step - 1]) is not None:
                stochastic = True
            if step < len(observations):
                size = _difference(observation, observations[step])
                if size is not None:
                    return ReplayReport(step, size, f"the observation differs by {size:.3g}", stochastic)
            recorded = (False, False) if step < len(actions) else end
            if recorded is not None and tuple(ended) != recorded:
                reason = f"(terminated, truncated) is {tuple(ended)} instead of {recorded}"
                return ReplayReport(step, math.inf, reason, stochastic)
        return ReplayReport(None, 0.0, "", stochastic)
    finally:
        set_generator(env, found)


def _exchange_numbers(env: Env) -> None:
    """Let the generator go on with unrelated numbers; in place, since `env` may know it by two names."""
    if get_generator(env) is not None:
        env.unwrapped.np_random.bit_generator.state = np.random.PCG64(np.random.SeedSequence(0, spawn_key=(1,))).state


def _difference(observed: ArrayLike, recorded: ArrayLike) -> float | None:
    """None when all bits agree (NaN with NaN too), else the largest absolute difference."""
    expected = np.asarray(recorded)
    array = np.asarray(observed).astype(expected.dtype)
    if array.shape != expected.shape:
        return math.inf
    if array.tobytes() == expected.tobytes():
        return None
    a, b = array.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(gaps, nan=math.inf, posinf=math.inf).max())


@dataclass(frozen=True)
class CheckReport:
    """What `check` saw.

    `deterministic` is None where it could not be judged, `difference` the first difference a replay met.
    `rewards` is the smallest and the largest reward, `horizon` the number of steps an episode was given,
    `early_ends` the number of episodes that ended before it, `feature_norm` the largest norm of a feature
    vector. `obstacles` forbid FPI; `changes` are what to do before learning.

    `action_space` is as Gymnasium prints it, `time_limit` that of the environment, if it has one. `stochastic_rewards`
    and `random_starts` say what is random though it may be.
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
        changes.append(f"use horizon={min(cut)} or less: an episode was truncated after that many steps.")
    elif horizon is None and limit is None:
        seen = f"took {min(lengths)} to {max(lengths)} steps" if max(lengths) < longest else "did not end"
        changes.append(f"choose a horizon: no time limit is declared, and episodes of random actions {seen}.")
    if low < 0 or high > 1:
        changes.append(
            f"pass {range_to_pass(low, high)}, or a wider one if you know it: the rewards seen go from {low:.6g} to "
            f"{high:.6g}, outside [0, 1]."
        )
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
        active = getattr(features, "active", None)
        norms = (
            np.linalg.norm(active(observation, stage)[1])
            if active is not None
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
        start = np.array(env.reset()[0])
        episode = _Episode(start_state, [start], [], [])

        def act(observation: Any, stage: int, actions: list[Any] = episode.actions) -> Any:
            action = sampler.sample()
            actions.append(deepcopy(action))  # an environment may write into its action
            return action

        for observation, reward, *end in rollout(env, start, act, 0 if episode.undefined else longest):
            episode.observations.append(np.array(observation))
            episode.rewards.append(reward)
            episode.end = end[0], end[1]
            if episode.undefined:
                break
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


def _enumerate(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else " ".join(f"({i}) {text}" for i, text in enumerate(texts, start=1))
