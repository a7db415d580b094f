"""What all agents share: how they are made, learn, and are saved."""

from __future__ import annotations

import functools
import inspect
import math
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from fpi import model_files, observations, training
from fpi._validation import is_whole
from fpi.algorithms.theory import Constants
from fpi.data import Act, Estimator, ExploringStep
from fpi.datasets import Datasets
from fpi.envs import Env, RewardRange
from fpi.errors import CoverageWarning, InputError
from fpi.evaluation import Decision, Policy
from fpi.history import History
from fpi.setting_fields import is_own
from fpi.settings import Settings, TheorySettings
from fpi.training import Callback, TrainingState

P = ParamSpec("P")
S = TypeVar("S", bound=Settings)
A = TypeVar("A", bound="Agent")
D = TypeVar("D")


def init_from_settings(
    kind: Callable[P, S],
) -> Callable[[Callable[[A, D, S], None]], Callable[Concatenate[A, D, P], None]]:
    """Make `__init__(self, features, settings)` one that takes every setting as a keyword argument."""
    keywords = [
        each.replace(annotation=get_args(each.annotation)[0])  # without `Annotated`
        for each in inspect.signature(kind).parameters.values()
    ]

    def decorate(init: Callable[[A, D, S], None]) -> Callable[Concatenate[A, D, P], None]:
        described = list(inspect.signature(init).parameters.values())[:2]
        signature = inspect.Signature([*described, *keywords])

        @functools.wraps(init)
        def __init__(*args: Any, **kwargs: Any) -> None:
            bound = signature.bind(*args, **kwargs).arguments
            agent, features = (bound.pop(each.name) for each in described)
            make: Callable[..., S] = kind
            init(agent, features, make(**bound))

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        return __init__

    return decorate


ANY_REWARD = (-1e150, 1e150)


@dataclass(frozen=True)
class Summary:
    """What an agent has seen so far; arrays have one entry per stage."""

    episodes: int
    visits: NDArray[np.int64]
    """Decisions taken at the stage."""
    covered: NDArray[np.int64]
    """Those of them at covered states, where the decision stood."""
    data: NDArray[np.int64]
    """Data stored."""
    note: str = ""
    """What else is good to know."""

    def __str__(self) -> str:
        """A row for every stage, or for up to twelve runs of stages."""
        reached = int(np.flatnonzero(self.visits).max()) + 1 if self.visits.any() else 0
        total = int(self.visits.sum())
        share = f"{self.covered.sum() / total:.1%} of {total:,} decisions" if total else "nothing visited yet"
        lines = [f"{self.episodes:,} episodes, {int(self.data.sum()):,} data, covered: {share}"]
        if reached:
            lines.append("stages        decisions   covered      data")
        for stages in np.array_split(np.arange(reached), min(reached, 12)) if reached else ():
            visits, covered, data = (int(x[stages].sum()) for x in (self.visits, self.covered, self.data))
            name = f"{stages[0]}" if len(stages) == 1 else f"{stages[0]} to {stages[-1]}"
            lines.append(f"{name:<12}{visits:>11,}{covered / max(visits, 1):>10.1%}{data:>10,}")
        return "\n".join([*lines, *([self.note] if self.note else [])])


class Agent:
    """Base class of the algorithms: training loop, atomic end of an episode, save and load.

    A subclass provides `begin_episode` (how to act while learning), `decide` (the same without changing anything),
    `greedy` (the best estimate) and `explain`.

    `settings` shape it, `datasets` estimate: a `fpi.data.Estimator`.
    """

    def __init__(self, settings: Settings, datasets: Estimator) -> None:
        self.settings = settings
        self.datasets = datasets
        self.features = datasets.features
        self.actions = int(settings.actions)
        self.horizon = int(settings.horizon)
        self.rewards = RewardRange(*(settings.reward_range or ANY_REWARD))
        self.training_state = TrainingState()
        self.shifted = False
        """From a file of before rewards were divided only: its targets are those of rewards raised to 0 and above."""
        self.notes: dict[str, Any] = {}  # anything JSON can hold; saved along
        self._pending: tuple[TrainingState, ExploringStep | None, tuple[int, int, float] | None] | None = None
        self.warned: set[str] = set()
        """What it warned of already; once is enough."""
        self._samples: list[tuple[Any, int, NDArray[np.float64]]] = []  # to recognise a feature function by

    def __repr__(self) -> str:
        """The settings that are not the defaults, and what was learned."""
        values = ((each, getattr(self.settings, each.name)) for each in fields(self.settings))
        chosen = ", ".join(f"{each.name}={value!r}" for each, value in values if value != each.default)
        return f"<{type(self).__name__}({chosen}): {self.episodes:,} episodes, {self.data_stored:,} data>"

    def begin_episode(self, training_state: TrainingState) -> Act:
        """How to act in the coming episode: (observation, stage) -> (action, whether it explores)."""
        raise NotImplementedError

    def decide(self, observation: Any, stage: int, episode: int | None = None) -> Decision:
        """pi_t(s) in the episode of this number, the coming one if None, and whether the state is covered."""
        raise NotImplementedError

    def greedy(self, observation: Any, stage: int) -> int:
        """The best action by the data so far, also at a state that they do not cover."""
        raise NotImplementedError

    def predict(self, observation: Any, stage: int, explore: bool = True) -> int:
        """The action of the learned policy, the same for the same question until more is learned.

        It is that of the coming episode t: at a covered state the frozen decision, elsewhere an uncovered action by the
        exploring rule, as learning would take it. `explore=False` takes the best estimate on all data there; early
        stages may have no data at all. Whatever is promised (`explain`) rests on covered states and holds for both.
        """
        return self.decide(observation, stage).action if explore else self.greedy(observation, stage)

    def predict_batch(self, observations: Iterable[Any], stage: int, explore: bool = True) -> NDArray[np.int64]:
        """What `predict` answers at each of several observations of one stage: an array, or any sequence of them.

        It has a name of its own because only you know whether an array is one observation or several.
        """
        if not np.iterable(observations):
            raise InputError(f"{observations!r} is one observation: pass several, or use predict.")
        return np.array([self.predict(each, stage, explore) for each in observations], np.int64)

    def _draw(self, episode: int | None) -> tuple[int, int]:
        """What the exploring rule "random" hashes beside the stage: seed and episode."""
        return self.training_state.seed or 0, self.episodes if episode is None else episode

    def learn(
        self,
        env: Env,
        episodes: int,
        seed: int | None = None,
        progress: bool = False,
        callback: Callback | None = None,
        engine: str = "gymnasium",
    ) -> History:
        """Play `episodes` episodes and learn from them.

        `seed` seeds the first reset and the exploration. Without one, a second call goes on exactly where the first
        stopped, whatever the environment was used for in between. `callback` is called after every episode with an
        `fpi.training.Episode`; learning stops when it returns something true. Episodes 1, 2, 4, 8, ... are played
        twice to see whether transitions are deterministic.

        `engine="compiled"` plays the compiled version of `env` instead (see `fpi.compiled`): the same bits, many times
        faster. `env` must then be as `gymnasium.make` makes it, or in an `fpi.ActionGrid`, and there is no `callback`.
        """
        play = training.find_engine(engine)
        self.check_learns(episodes)
        with training.first_seed(self, seed):
            self._finish_pending()  # an ending may be left over from a learn that was interrupted twice
            try:
                return play(self, env, episodes, seed, progress, callback)
            finally:
                self._finish_pending()

    def check_learns(self, episodes: int) -> None:
        """Raise InputError if it cannot learn from so many episodes."""
        self.check_not_shifted()

    def check_not_shifted(self) -> None:
        """Raise InputError unless targets are as they are stored now."""
        if self.shifted:
            raise InputError(
                "this agent was saved when fpi still shifted negative rewards, and its frozen decisions rest on "
                "shifted targets: it predicts, but to learn or explain make a new one."
            )

    def end_episode(self, training_state: TrainingState, explored: tuple[int, int, float] | None) -> None:
        """Lines 5 to 8: end an episode and store its last uncovered step, if there was one."""
        self._pending = training_state, self.datasets.kept if explored else None, explored
        self._finish_pending()
        if training_state.episodes == 1:
            self.warn_if_all_covered()

    def warn_if_all_covered(self) -> None:
        """Warn, once, of features too small for the ridge: k = 0 covers every state then, at every level (D3)."""
        data = self.datasets
        if "coverage" in self.warned or not isinstance(data, Datasets):
            return
        square, ridge, epsilon = data.largest_square, data.ridge, data.thresholds[-1]
        if square > ridge * epsilon**2:
            return
        self.warned.add("coverage")
        warnings.warn(
            f"with a ridge of {ridge:g} and an accuracy (epsilon) of {epsilon:g} every state is covered before there "
            f"are any data, so nothing will be explored, stored or learned: the squared norm of the features, at most "
            f"{square:g} here, divided by the ridge is {square / ridge:g}, and epsilon² is {epsilon**2:g}. Use a "
            "smaller ridge (0.001 in the paper's experiments) or a smaller epsilon.",
            CoverageWarning,
            stacklevel=5,
        )

    def _finish_pending(self) -> None:
        """Carry out the ending. An interrupt may come between any two lines; doing it again is harmless."""
        if self._pending is None:
            return
        training_state, kept, explored = self._pending
        if kept and explored and self.datasets.last_episode < training_state.episodes - 1:
            stage, action, target = explored
            if kept.observation is not None and len(self._samples) == self.data_stored < SAMPLES:
                self._samples.append((kept.observation, stage, self.datasets.describe(kept.observation, stage)))
            self.datasets.append(kept, stage, action, target, training_state.episodes - 1)
        self.training_state = training_state
        self._pending = None

    @property
    def episodes(self) -> int:
        """Episodes learned from so far."""
        return self.training_state.episodes

    @property
    def data_stored(self) -> int:
        """Data in all datasets together."""
        return len(self.datasets)

    def summary(self) -> Summary:
        """How much of what was visited is covered, and how many data it took, per stage."""
        visits = self.training_state.counted(self.horizon).visits
        assert visits is not None
        data = self.datasets.sizes().sum(axis=0)
        return Summary(self.episodes, visits[0], visits[1], data)

    def policy(self) -> Policy:
        """The learned policy for ordinary loops; it counts stages and episodes itself."""
        return Policy(self)

    def check_stage(self, stage: int) -> None:
        """An InputError unless this is a stage of an episode."""
        if type(stage) is int and 0 <= stage < self.horizon:
            return  # quickly: policies ask at every step
        if not (is_whole(stage) and 0 <= stage < self.horizon):
            raise InputError(f"stage is {stage!r}; this agent has stages 0 to {self.horizon - 1}.")

    def _open_tensors(self) -> dict[str, NDArray[Any]]:
        """What an agent keeps of earlier episodes beside its data."""
        return {}

    def _restore_open(self, tensors: dict[str, NDArray[Any]]) -> None:
        if tensors:
            raise InputError(f"it holds open trajectories, which {type(self).__name__} does not have")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file, whole or not at all. `fpi.load` brings it back."""
        features = self.datasets.config
        tensors = {f"data.{name}": tensor for name, tensor in self.datasets.to_tensors().items()}
        tensors |= {f"open.{name}": tensor for name, tensor in self._open_tensors().items()}
        if features is None:
            for i, (observation, _, matrix) in enumerate(self._samples):
                for name, array in zip(leaf_names(i, observation), observations.leaves(observation), strict=True):
                    tensors[name] = array.astype(WIDEST[array.dtype.kind])
                tensors[f"sample.{i}.features"] = matrix
        training_state = asdict(self.training_state.counted(self.horizon))
        tensors["visits"] = training_state.pop("visits")
        del training_state["uncounted"]
        meta = {
            "algorithm": type(self).__name__,
            "settings": {each.name: _plain(getattr(self.settings, each.name)) for each in fields(self.settings)},
            "features": features,
            "samples": [(stage, observations.form(seen)) for seen, stage, _ in self._samples if features is None],
            "trail": training_state,
            "shifted": self.shifted,
            "notes": self.notes,
        }
        model_files.write(path, tensors, meta)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; code of one's own is left out."""
    if is_own(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def leaf_names(sample: int, observation: Any) -> list[str]:
    """What files call the arrays of a sample's observation: one, or the leaves of a dictionary or tuple."""
    name = f"sample.{sample}.observation"
    if not isinstance(observation, dict | tuple):
        return [name]
    return [f"{name}.{leaf}" for leaf in range(len(observations.leaves(observation)))]


def linear_constants(agent: Agent, settings: TheorySettings, ridge: float, **others: Any) -> Constants:
    """The constants of the analysis for features that have shown their dimension."""
    s, dim = settings, agent.features.dim
    if not dim:
        raise InputError("the feature function has not been called yet, so d is unknown. Learn or predict first.")
    bound = s.theta_bound if s.theta_bound is not None else math.sqrt(dim) * agent.horizon
    noise = agent.rewards.noise
    return Constants(agent.horizon, dim, ridge, s.delta, s.misspecification, bound, s.constants, noise=noise, **others)


SAMPLES = 16
WIDEST = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}  # what files hold of each kind of number
