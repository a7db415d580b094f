"""The training loop.

A learner does not change within an episode; when the episode has ended it is told once what to store. `TrainingState`
holds everything needed to resume bit by bit.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fpi import envs, replays
from fpi._interrupts import held
from fpi._validation import check_whole, shown
from fpi.data import Act, Trajectory
from fpi.determinism import replay
from fpi.envs import Env, RewardRange
from fpi.errors import EnvironmentMismatch, InputError
from fpi.evaluation import EnvActions, Player, list_actions, with_grid
from fpi.generators import GeneratorState, get_generator, set_generator
from fpi.history import History
from fpi.observations import copied
from fpi.progress import bar


@dataclass(frozen=True)
class TrainingState:
    """What a learner needs to resume after an episode: seed, episode count, generator state, visit counts.

    `generator` is that of the environment after the last episode.
    """

    seed: int | None = None
    episodes: int = 0
    generator: GeneratorState | None = None  # of the environment, after the last episode
    environment: str | None = None  # what it learned on
    visits: NDArray[np.int64] | None = field(default=None, compare=False)
    """Per stage, the decisions taken there and those of them at covered states, except for the uncounted."""
    uncounted: tuple[bytearray, Any] | None = field(default=None, compare=False)
    """Per-episode exploration flags, as a linked list (newest, rest); folded into `visits` in batches."""

    def counted(self, horizon: int) -> TrainingState:
        """The same with all decisions in `visits`."""
        visits = np.zeros((2, horizon), np.int64) if self.visits is None else self.visits.copy()
        episodes, rest = [], self.uncounted
        while rest is not None:
            exploring, rest = rest
            episodes.append(exploring)
        longest = max(map(len, episodes), default=0)
        padded = b"".join(exploring.ljust(longest, b"\2") for exploring in episodes)  # 2 is no decision
        grid = np.frombuffer(padded, np.uint8).reshape(len(episodes), longest)
        visits[0, :longest] += np.count_nonzero(grid < 2, axis=0)
        visits[1, :longest] += np.count_nonzero(grid == 0, axis=0)
        return replace(self, visits=visits, uncounted=None)


class Learner(Player, Protocol):
    """What the loop asks of an algorithm."""

    rewards: RewardRange
    training_state: TrainingState

    def begin_episode(self, training_state: TrainingState) -> Act:
        """How to act in the coming episode: (observation, stage) -> (action, whether it explores)."""

    def end_episode(self, training_state: TrainingState, explored: tuple[int, int, float] | None) -> None:
        """End the episode: from now on `training_state` holds. `explored` is the (stage, action, return) to store."""

    @property
    def data_stored(self) -> int:
        """How many data it holds."""


class TrajectoryLearner(Learner, Protocol):
    """A learner that stores more of an episode than one step, and says so by `whole_episodes`."""

    whole_episodes: bool

    def end_trajectory(
        self, training_state: TrainingState, explored: tuple[int, int, float] | None, trajectory: Trajectory
    ) -> int:
        """`end_episode` with all that happened; how many data were stored."""


@dataclass(frozen=True)
class Episode:
    """One finished episode, as callbacks see it. Stages count from 0, rewards are raw."""

    number: int
    agent: Any
    observations: list[Any]
    """Arrays, or dictionaries and tuples of them where the environment has such."""
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    stored_stage: int
    """Stage of the datum that was stored, or -1."""
    covered_steps: int
    """Decisions taken at covered states."""

    @property
    def length(self) -> int:
        """How many steps it took."""
        return len(self.rewards)

    @property
    def total_reward(self) -> float:
        """The sum of the rewards."""
        return math.fsum(self.rewards)


Callback = Callable[[Episode], Any]


def together(callbacks: Sequence[Callback], stop: Callable[[], bool] = lambda: False) -> Callback:
    """All of these in one, which ends learning when it is time to stop."""

    def call(episode: Episode) -> bool:
        for each in callbacks:
            each(episode)
        return stop()

    return call


COUNTED_TOGETHER = 64  # episodes


# Engines are named here, not imported: compiled code stands above the algorithms whose data it fills.
ENGINES = {"gymnasium": "fpi.training:learn", "compiled": "fpi.compiled.engine:learn_in"}


def find_engine(name: str) -> Callable[..., History]:
    """How episodes are played: a function with the arguments of `learn`."""
    if not isinstance(name, str) or name not in ENGINES:
        raise InputError(f"there is no engine {name!r}; choose one of {', '.join(ENGINES)}.")
    module, _, function = ENGINES[name].partition(":")
    engine: Callable[..., History] = getattr(importlib.import_module(module), function)
    return engine


def learn(
    learner: Learner,
    env: Env,
    episodes: int,
    seed: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> History:
    """Play and learn; see `fpi.PAC.learn`."""
    check_whole("episodes", episodes)
    if callback is not None and not callable(callback):
        raise InputError(
            f"callback is {shown(callback)}; pass a function, which gets an fpi.training.Episode. "
            "For several, pass one that calls them: lambda episode: any([each(episode) for each in callbacks])."
        )
    env = with_grid(env, learner)
    whole = cast(TrajectoryLearner, learner) if getattr(learner, "whole_episodes", False) else None
    rows: list[tuple[float, int, int, int]] = []
    stored: list[int] = []
    warned: set[str] = getattr(learner, "warned", set())
    with held.often(), first_seed(learner, seed):
        training_state, seed, env_actions = _begin(learner, env, seed)
        name, inner = training_state.environment, env.unwrapped  # whose generator is asked for after every episode
        with bar(learner, episodes if progress else 0) as tick:
            for _ in range(episodes):
                number = training_state.episodes
                watched = replays.is_watched(number)
                before = training_state.generator if seed is None else dict(np.random.PCG64(seed).state)
                observation = envs.reset(env, seed)
                seed = None  # it seeds the first reset only
                keep = watched or callback is not None or whole is not None
                play = _play(learner, env, training_state, observation, env_actions, keep)
                uncounted = play.exploring, training_state.uncounted
                training_state = TrainingState(
                    training_state.seed, number + 1, get_generator(inner), name, training_state.visits, uncounted
                )
                if number % COUNTED_TOGETHER == 0:
                    training_state = training_state.counted(learner.horizon)
                if watched:
                    played = [env_actions[action] for action in play.actions]
                    report = replay(env, before, played, play.observations, rewards=play.rewards, end=play.end)
                    replays.judge(report, env, number, warned, getattr(learner, "deterministic_rewards", False))
                explored = _explored(learner, play)
                with held:
                    if whole is None:
                        learner.end_episode(training_state, explored)
                    else:
                        stored.append(whole.end_trajectory(training_state, explored, play.trajectory))
                rows.append((play.total_reward, len(play.actions), play.stored_stage, play.covered_steps))
                tick(1, play.total_reward, len(play.actions), play.covered_steps)
                if callback is not None:
                    seen = play.observations, *play.arrays, play.stored_stage, play.covered_steps
                    if callback(Episode(number, learner, *seen)):
                        break
                    if get_generator(inner) != training_state.generator:  # the callback played in this environment
                        set_generator(env, training_state.generator)
        if not episodes and not training_state.episodes:
            learner.end_episode(training_state, None)  # keeps the seed for the next call
    returns, *counts = zip(*rows, strict=True) if rows else ((), (), (), ())
    lengths, stages, covered = (np.array(column, np.int64) for column in counts)
    several = None if whole is None else np.array(stored, np.int64)
    return History(np.array(returns, np.float64), lengths, stages, covered, several)


def _begin(learner: Learner, env: Env, seed: int | None) -> tuple[TrainingState, int | None, EnvActions]:
    """Check that all fits; the state to go on from, what to seed the first reset with, and the actions."""
    env_actions = list_actions(env, learner)
    envs.check_horizon(env, learner.horizon)
    name = environment_name(env)
    training_state = learner.training_state
    if training_state.environment not in (None, name):
        raise EnvironmentMismatch(
            f"this agent learned on {training_state.environment} and is now given {name}. Its data would not fit: use "
            "the same environment, or a new agent."
        )
    training_state = replace(training_state, environment=name)
    seed = seed_to_begin_with(training_state, seed)
    if seed is None:
        set_generator(env, training_state.generator)
        return training_state, None, env_actions
    return replace(training_state, seed=seed, generator=None), seed, env_actions


def seed_to_begin_with(training_state: TrainingState, seed: int | None) -> int | None:
    """The seed given, that of a first episode, or None where the generator goes on."""
    return (None if training_state.episodes else training_state.seed) if seed is None else int(seed)


@contextlib.contextmanager
def first_seed(learner: Learner, seed: int | None) -> Iterator[None]:
    """The seed of a first episode, given or new, is kept at once: after Ctrl-C in that episode `learn` goes on with it.

    After an error the learner is as it was, without a seed.
    """
    before = learner.training_state
    if seed is not None:
        check_whole("seed", seed)
    if not before.episodes:
        chosen = next(each for each in (seed, before.seed, int.from_bytes(os.urandom(4))) if each is not None)
        learner.training_state = replace(before, seed=int(chosen))
    try:
        yield
    except Exception:
        if not learner.training_state.episodes:
            learner.training_state = before
        raise


@dataclass
class _Play:
    """The raw record of an episode."""

    actions: list[int]
    rewards: list[float]
    total_reward: float
    observations: list[Any]
    last: Any
    """The observation that the episode ended with."""
    end: tuple[bool, bool]
    exploring: bytearray
    """1 at uncovered states, 0 at covered ones."""

    @property
    def stored_stage(self) -> int:
        """h_t, the last stage at which it explored, or -1."""
        return self.exploring.rfind(1)

    @property
    def covered_steps(self) -> int:
        return self.exploring.count(0)

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Actions and rewards."""
        return np.array(self.actions, np.int64), np.array(self.rewards, np.float64)

    @property
    def trajectory(self) -> Trajectory:
        return Trajectory(np.array([*self.observations, self.last]), *self.arrays, self.end[0])


def _play(
    learner: Learner, env: Env, training_state: TrainingState, observation: Any, env_actions: EnvActions, keep: bool
) -> _Play:
    """One episode. The learner does not change in here, so an error or Ctrl-C loses nothing but the episode."""
    act = learner.begin_episode(training_state)
    step, copy = env.step, np.array if env.observation_space.shape is not None else copied
    actions: list[int] = []
    exploring = bytearray()
    rewards: list[float] = []
    observations: list[Any] = []
    stage = 0
    terminated = truncated = False
    try:
        for stage in range(learner.horizon):
            action, explores = act(observation, stage)
            if keep:
                observations.append(copy(observation))
            answer = step(env_actions[action])
            try:
                observation, reward, terminated, truncated, _ = answer
                ended = bool(terminated or truncated)
            except (TypeError, ValueError):
                raise envs.wrong_step(answer) from None
            actions.append(action)
            exploring.append(1 if explores else 0)
            rewards.append(reward)  # type: ignore[arg-type]
            if ended:
                break
    except InputError as error:
        raise EnvironmentMismatch(
            f"at step {stage} of episode {training_state.episodes + 1}: {error} The agent is as it was before this "
            "episode."
        ) from error
    end = envs.checked_end(terminated, truncated)
    ret = _checked_return(learner.rewards, rewards, training_state.episodes)
    if truncated and not terminated and len(actions) < learner.horizon:
        raise EnvironmentMismatch(
            f"the environment cut episode {training_state.episodes + 1} off after {len(actions)} steps, before the "
            f"agent's horizon of {learner.horizon}: what would have come is unknown. Make the agent with "
            f"horizon={len(actions)} or less."
        )
    return _Play(actions, rewards, ret, observations, copy(observation), end, exploring)


def _checked_return(allowed: RewardRange, rewards: list[float], number: int) -> float:
    try:
        ret = math.fsum(rewards)
        distinct = set(rewards)
        if ret == ret and allowed.low <= min(distinct) and max(distinct) <= allowed.high:  # the sum is NaN if one is
            return ret
    except (TypeError, ValueError, OverflowError):
        pass  # not plain numbers: look at each
    for step, reward in enumerate(rewards, start=1):
        try:
            allowed.check(envs.checked_reward(reward, step), step)
        except EnvironmentMismatch as error:
            raise EnvironmentMismatch(f"in episode {number + 1}: {error}") from None
    rewards[:] = map(float, rewards)
    return math.fsum(rewards)


def _explored(learner: Learner, play: _Play) -> tuple[int, int, float] | None:
    """Stage and action of the step to store, and the return from there on, divided by the span of rewards.

    An early end is an absorbing state of reward 0.
    """
    stage = play.stored_stage
    if stage < 0:
        return None
    return stage, play.actions[stage], math.fsum(play.rewards[stage:]) / learner.rewards.span


def environment_name(env: Env) -> str:
    """How a learner remembers what it learned on."""
    kind = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    settings = {} if env.spec is None else {k: v for k, v in env.spec.kwargs.items() if k != "render_mode"}
    made = f" made with {settings}" if settings else ""
    with held:  # numpy writes "..." for an array ever after, if Ctrl-C comes at the wrong moment of its first writing
        return f"{kind} with observations {env.observation_space}{made}"
