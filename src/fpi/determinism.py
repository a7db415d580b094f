"""Are transitions deterministic? Replays, and the check behind `fpi check`.

FPI needs deterministic transitions; rewards and start states may be random. Determinism is judged by replaying whole
action sequences from the same start, with the environment's generator exchanged after the reset so that noise drawn
from it shows too. Copying an environment or stepping again from an observation would mislead: a copy of a MuJoCo
environment diverges at once, and CartPole shows float32 observations of its float64 state.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from fpi.envs import Env, check_actions, check_horizon, check_observations, range_to_pass, rollout, time_limit
from fpi.errors import EnvironmentMismatch, InputError
from fpi.features import FeatureMap, Function, optional_methods
from fpi.generators import GeneratorState, get_generator, set_generator
from fpi.observations import form, leaves

LONGEST_EPISODE = 10_000
MOST_RESETS = 20  # until a start is given up that the generator does not bring back


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
    start_reproducible: bool = True
    """Whether the generator alone brought the start back; else further resets did, by chance."""

    @property
    def agrees(self) -> bool:
        """Whether the replay went as before."""
        return self.step is None


def replay(
    env: Env,
    start_state: GeneratorState | None,
    actions: Sequence[Any],
    observations: Sequence[Any],
    *,
    rewards: Sequence[float] | None = None,
    end: tuple[bool, bool] | None = None,
) -> ReplayReport | None:
    """Play recorded actions again from the same start and compare bit for bit.

    `start_state` is the generator's state before the recorded reset; `actions` are as given to `env.step`;
    `observations` begin with that of the reset, and the last one may be missing; `end` is (terminated,
    truncated) after the last action. Rewards may differ, which the report mentions. A start that the generator does
    not bring back is waited for, some resets long; returns None if it does not come, so that nothing can be said. The
    generator is left as it was found.
    """
    found = get_generator(env)
    stochastic = False
    try:
        set_generator(env, start_state)
        starts = (env.reset()[0] for _ in range(MOST_RESETS))
        same = ((i, each) for i, each in enumerate(starts) if _difference(each, observations[0]) is None)
        resets, observation = next(same, (MOST_RESETS, None))
        if resets == MOST_RESETS:
            return None
        reproducible = resets == 0
        _exchange_numbers(env)
        played = rollout(env, observation, lambda _, stage: actions[stage], len(actions))
        for step, (observation, reward, *ended) in enumerate(played, start=1):
            if rewards is not None and _difference(reward, rewards[step - 1]) is not None:
                stochastic = True
            if step < len(observations):
                size = _difference(observation, observations[step])
                if size is not None:
                    reason = f"the observation differs by {size:.3g}"
                    return ReplayReport(step, size, reason, stochastic, reproducible)
            recorded = (False, False) if step < len(actions) else end
            if recorded is not None and tuple(ended) != recorded:
                reason = f"(terminated, truncated) is {tuple(ended)} instead of {recorded}"
                return ReplayReport(step, math.inf, reason, stochastic, reproducible)
        return ReplayReport(None, 0.0, "", stochastic, reproducible)
    finally:
        set_generator(env, found)


# Arguments of environments that make transitions random: how to tell, and what switches it off.
_NOISE: dict[str, tuple[Callable[[Any], bool], Any]] = {
    "is_slippery": (bool, False),  # FrozenLake, CliffWalking
    "repeat_action_probability": (bool, 0.0),  # Atari
    "frameskip": (lambda value: isinstance(value, tuple | list), 4),  # Atari, drawn from a range
}


def noise_advice(env: Env) -> str:
    """How to make the environment without the noise that it was made with, as far as that is known; else empty."""
    inner = env.unwrapped
    try:
        made = {name: each.default for name, each in inspect.signature(type(inner)).parameters.items()}
    except ValueError:  # some compiled classes do not tell their arguments
        made = {}
    made |= inner.spec.kwargs if inner.spec else {}
    off = [f"{name}={value!r}" for name, (noisy, value) in _NOISE.items() if name in made and noisy(made[name])]
    return f" Switch it off: gymnasium.make(id, {', '.join(off)})." if off else ""


def _exchange_numbers(env: Env) -> None:
    """Let the generator go on with unrelated numbers; in place, since `env` may know it by two names."""
    if get_generator(env) is not None:
        env.unwrapped.np_random.bit_generator.state = np.random.PCG64(np.random.SeedSequence(0, spawn_key=(1,))).state


def _difference(observed: Any, recorded: Any) -> float | None:
    """None when all bits agree (NaN with NaN too), else the largest absolute difference."""
    if not isinstance(recorded, dict | tuple):
        return _array_difference(observed, recorded)
    if form(observed) != form(recorded):
        return math.inf
    pairs = zip(leaves(observed), leaves(recorded), strict=True)
    found = [size for pair in pairs if (size := _array_difference(*pair)) is not None]
    return max(found, default=None)


def _array_difference(observed: ArrayLike, recorded: ArrayLike) -> float | None:
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
    `reproducible_starts` says whether the environment's generator brings every start back. `rewards` is the
    smallest and the largest reward, `horizon` the number of steps an episode was given, `early_ends` the number
    of episodes that ended before it, `feature_norm` the largest norm of a feature vector. `obstacles` forbid
    FPI; `changes` are what to do before learning; `notes` are good to know.

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
    reproducible_starts: bool
    horizon: int
    time_limit: int | None
    lengths: tuple[int, ...]
    early_ends: int
    feature_norm: float | None
    obstacles: tuple[str, ...]
    changes: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether FPI can learn here, after the changes if there are any."""
        return not self.obstacles

    @property
    def verdict(self) -> str:
        """The answer in plain words."""
        answer = "Fit for FPI with changes: " + _enumerate(self.changes) if self.changes else "Fit for FPI."
        if self.obstacles:
            unknown = self.deterministic is None and len(self.obstacles) == 1
            answer = "Fitness for FPI could not be judged: " if unknown else "Not fit for FPI because "
            answer += _enumerate(self.obstacles)
        return " ".join([answer, *self.notes])


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
    space = env.observation_space
    if space.shape is None:
        if not space.is_np_flattenable:
            check_observations(env)  # nothing can be compared: an error instead of a report
        env = gym.wrappers.FlattenObservation(env)
        if isinstance(features, Function):
            features = features.after(lambda flat: spaces.unflatten(space, flat))
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

    judged = [episode.replayed for episode in played if episode.replayed is not None]
    difference = next((report for report in judged if not report.agrees), None)
    strange = [i for i, each in enumerate(played, 1) if each.replayed is None or not each.replayed.start_reproducible]
    notes = []
    if strange and judged:
        notes.append(
            f"Its starts are not reproducible: that of episode {strange[0]} did not come back from the same generator "
            "state. FPI takes random starts, but no run can be repeated or continued to the bit."
        )
    if rewards and low == high == 0:
        notes.append(
            "Random play met no reward but 0: exploring has to find the others, and what range they have is not known "
            "from it. Without a reward range, [0, 1] is taken."
        )
    return CheckReport(
        environment=env.unwrapped.spec.id if env.unwrapped.spec else type(env.unwrapped).__name__,
        action_space=str(env.action_space),
        deterministic=False if difference is not None else (True if judged else None),
        difference=difference,
        stochastic_rewards=any(report.stochastic_rewards for report in judged),
        rewards=(low, high),
        random_starts=random_starts or bool(strange),
        reproducible_starts=not strange,
        horizon=longest,
        time_limit=limit,
        lengths=lengths,
        early_ends=sum(any(episode.end) and len(episode.actions) < longest for episode in played),
        feature_norm=norm,
        obstacles=tuple(_obstacles(env, played)),
        changes=tuple(changes),
        notes=tuple(notes),
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
        methods = optional_methods(features)  # the whole matrix is mostly 0, and large
        norms = (
            np.linalg.norm(methods.active(observation, stage)[1])
            if methods.active is not None
            else np.linalg.norm(np.atleast_2d(methods.rows(observation, stage)), axis=1).max()
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
    for requirement, *arguments in (
        (check_actions, env, actions),
        *(() if isinstance(features, Function) else ((check_observations, env),)),
        (check_horizon, env, horizon or 1),
    ):
        try:
            requirement(*arguments)
        except EnvironmentMismatch as error:
            texts.append(str(error))
    return texts


def _obstacles(env: Env, played: Sequence[_Episode]) -> list[str]:
    """The first undefined number, the first difference, and starts of which none came back."""
    texts = {}
    for number, episode in enumerate(played, start=1):
        report = episode.replayed
        if episode.undefined:
            place = f"step {len(episode.actions)} of episode {number}"
            texts["undefined"] = f"at {place} {episode.undefined}, and FPI takes finite numbers only."
        if report is not None and not report.agrees:
            texts.setdefault(
                "difference",
                f"its transitions are random: when the actions of episode {number} are replayed, "
                f"{report.reason} at step {report.step}. FPI needs the same actions to lead to the same "
                f"states.{noise_advice(env)}",
            )
    if all(episode.replayed is None for episode in played):
        texts["start"] = (
            "its starts are not reproducible. None came back from the same generator state, so that no episode could "
            "be replayed and whether transitions are deterministic is open. Draw start states from self.np_random, and "
            "leave out wrappers that remember past episodes."
        )
    return list(texts.values())


def _enumerate(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else " ".join(f"({i}) {text}" for i, text in enumerate(texts, start=1))
