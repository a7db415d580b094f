"""FPI inside a learnt model: for deterministic tasks that should be learned in a handful of episodes.

Algorithm 1 stores one return an episode. But where transitions are deterministic, every visited (s, a) -> (r, s', end)
stays true for ever, and a regression of them is a simulator on the known set, the states near visited ones. In it,
starts may be chosen and nothing is ever spent: local access, earned online. After every episode

  1  fit the model: dynamics, rewards, ends, and the known set           `fpi.modelling.model`, or `.table`
  2  plan in it: frozen stages, the last one first                       `fpi.modelling.planners`
  3  play: at an unknown state the action that was tried least nearby; at a known one the best of some imagined windows
     and of the window chosen before, which is kept unless a rival is clearly better

What is FPI here: stage h is complete, and frozen, before stage h - 1 begins, so that no return goes stale (Lemma 2).
What is not: eq. (1) to (3). Coverage is nearness to data, Q_h uses all data of its stage, starts lie at all
stages, and windows end where the known set does. No bound of the paper holds for it, and `explain` says "heuristic".
docs/model.md has the differences one by one, and what was measured of each part.

With numbered states the model is a table and exact, planning is exact, and with pessimism 0 it is R-MAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fpi import envs
from fpi.algorithms.agent import Agent, init_from_settings
from fpi.data import Act, Trajectory
from fpi.envs import Env
from fpi.errors import EnvironmentMismatch, InputError
from fpi.evaluation import Decision
from fpi.kernels.nets import UNTRIED
from fpi.kernels.numerics import pick
from fpi.modelling.certificate import Certificate
from fpi.modelling.coordinates import first_hold
from fpi.modelling.experience import Experience, Observations
from fpi.modelling.model import fit_model, reward_bounds
from fpi.modelling.planners import PLANNERS, Plan, Planner, TablePlanner
from fpi.modelling.presets import PRESETS
from fpi.modelling.report import ModelReport, report_of
from fpi.modelling.table import TablePlan, plan_table
from fpi.settings import ModelSettings
from fpi.training import TrainingState

Floats = NDArray[np.float64]

PESSIMISM = 0.5


@dataclass(frozen=True)
class ModelExplanation:
    """Why the agent acts as it does at one state. Values are in units of your rewards.

    `interval` is the number of steps that a decision lasts, `promise` what of this is certain, in words.
    """

    action: int
    known: bool
    """Some action has data near enough, or with numbered states all actions were tried."""
    values: Floats
    """For each first action, the return that plans count on for the best window, with rewards far from data doubted;
    NaN where nothing is known."""
    window: NDArray[np.int64]
    """The decisions planned; each lasts `interval` steps."""
    interval: int
    distance: float
    """Of the nearest step from data, in units of the model's kernel: below 1 it is known; 0 in a table."""
    exact: bool
    """The values are those of the environment itself, if it is deterministic; else they are a heuristic."""
    step_error: float
    """The most that the model's first step can be off, see `fpi.modelling.certificate`: in scaled units, and if what
    the trend leaves of the dynamics has at most twice the norm that the data need. NaN where nothing bounds it: that
    step is not known, or no smooth function explains it."""
    promise: str

    def __str__(self) -> str:
        state = "known" if self.known else "not known yet"
        rows = "\n".join(f"  action {a}: {value:.4g}" for a, value in enumerate(self.values))
        return f"action {self.action}; the state is {state}\n{rows}\n  {self.promise}"


MOST_VALUES = 10**8  # of a table: 800 MB


class ModelFPI(Agent):
    """Learns a deterministic environment from its transitions and plans in it by Frozen Policy Iteration.

    >>> import gymnasium as gym, fpi
    >>> env = gym.make("CliffWalking-v1", max_episode_steps=50)
    >>> agent = fpi.ModelFPI.for_env(env)
    >>> history = agent.learn(env, episodes=100, seed=0)
    >>> float(fpi.evaluate(agent, env, episodes=1).mean)
    -13.0

    `for_env` is all that most tasks need; `fpi.settings.ModelSettings` says what can be set.
    """

    settings: ModelSettings
    datasets: Experience  # type: ignore[assignment]  # the part of an Estimator that saving needs
    whole_episodes = True

    @init_from_settings(ModelSettings)
    def __init__(self, observations: Observations, settings: ModelSettings) -> None:
        if not isinstance(observations, Observations):
            raise InputError(f"{observations!r} does not describe observations: use fpi.ModelFPI.for_env(env).")
        if (observations.states or 0) * settings.actions * settings.horizon > MOST_VALUES:
            raise InputError(
                f"a plan for {observations.states:,} states, {settings.actions:,} actions and {settings.horizon:,} "
                f"stages holds a value for each, more than {MOST_VALUES:,}. Take a shorter horizon or fewer states."
            )
        experience: Any = Experience(observations, settings.horizon, settings.actions)
        super().__init__(settings, experience)
        for name in ("scales", "angles"):
            self._check_entries(name, getattr(settings, name))
        self.action_grid = settings.grid
        self.planner: Planner = PLANNERS[settings.planner] if isinstance(settings.planner, str) else settings.planner
        """May be exchanged before learning; files hold nothing of that."""
        self._plan: tuple[int, Plan | TablePlan | None] | None = None

    def _check_entries(self, name: str, value: Any) -> None:
        size = self.features.size
        if name == "scales" and value is not None and len(value) != size:
            raise InputError(f"scales has {len(value)} numbers, but observations have {size} entries.")
        if name == "angles" and any(len(pair) != 2 or not all(0 <= j < size for j in pair) for pair in value or ()):
            raise InputError(f"angles is {value!r}; pass pairs of entries, counted from 0 to {size - 1}.")

    @classmethod
    def for_env(cls, env: Env, *, preset: bool = False, **settings: Any) -> Self:
        """An agent for this environment; what is given comes before what the preset or the environment says.

        A continuous action space becomes a small grid. `preset=True` takes the settings of `fpi.modelling.presets`.
        """
        envs.check_observations(env)
        if preset:
            name = env.spec.id if env.spec is not None else str(env)
            if name not in PRESETS:
                raise InputError(f"there is no preset for {name}; there are presets for {', '.join(PRESETS)}.")
            settings = {**PRESETS[name], **settings}
        if "grid" not in settings and not hasattr(env.action_space, "n"):
            settings["grid"] = envs.small_grid(env).tolist()
        if settings.get("grid") is not None:
            settings.setdefault("actions", len(settings["grid"]))
        else:
            settings.setdefault("actions", envs.action_count(env))
        if settings.setdefault("horizon", envs.time_limit(env)) is None:
            raise EnvironmentMismatch(
                "the environment has no time limit, so the steps of an episode are yours to choose: pass horizon=."
            )
        make: Callable[..., Self] = cls
        return make(observations_of(env), **settings)

    # --- learning -----------------------------------------------------------------------------------------------------

    def begin_episode(self, training_state: TrainingState) -> Act:
        assert training_state.seed is not None
        return _Acting(self, training_state.seed, training_state.episodes)

    def end_trajectory(
        self, training_state: TrainingState, explored: tuple[int, int, float] | None, trajectory: Trajectory
    ) -> int:
        """Keep the whole episode."""
        self.datasets.append(trajectory)
        self.training_state = training_state
        return len(trajectory.actions)

    def _finish_pending(self) -> None:
        """An interrupt may have come between the two lines of `end_trajectory`; the episode is then not there yet."""
        super()._finish_pending()
        del self.datasets.episodes[self.episodes :]

    @property
    def plan(self) -> Plan | TablePlan | None:
        """The plan of all episodes so far; None while there are too few data. It follows from them alone."""
        if self._plan is None or self._plan[0] != self.episodes:
            self._plan = self.episodes, self._make_plan(self.datasets)
        return self._plan[1]

    def _make_plan(self, experience: Experience) -> Plan | TablePlan | None:
        pessimism = self.settings.pessimism
        if self.features.states is not None:
            if not experience.episodes:
                return None
            exact = plan_table(experience, reward_bounds(experience, self.settings), pessimism or 0.0)
            return self.planner.prepare_table(exact) if isinstance(self.planner, TablePlanner) else exact
        model = fit_model(experience, self.settings)
        if model is None:
            return None
        return self.planner.prepare(model, self.settings.window, PESSIMISM if pessimism is None else pessimism)

    # --- acting -------------------------------------------------------------------------------------------------------

    def decide(self, observation: Any, stage: int, episode: int | None = None) -> Decision:
        """What is done at a state that comes by itself: without a window from before."""
        self.check_stage(stage)
        action, explores = _Acting(self, *self._draw(episode))(observation, stage)
        return Decision(action, not explores)

    def greedy(self, observation: Any, stage: int) -> int:
        return self.decide(observation, stage).action

    def episode_policy(self, episode: int) -> Callable[[Any, int], Decision]:
        """How to act in one episode, as learning does: decisions last, and windows are kept."""
        acting = _Acting(self, *self._draw(episode))

        def follow(observation: Any, stage: int) -> Decision:
            self.check_stage(stage)
            action, explores = acting(observation, stage)
            return Decision(action, not explores)

        return follow

    # --- what is known ------------------------------------------------------------------------------------------------

    def explain(self, observation: Any, stage: int) -> ModelExplanation:
        """What the agent would do here, why, and how far that can be trusted."""
        action, known = self.decide(observation, stage)
        plan, read = self.plan, self.features.read(observation)
        nothing = np.full(self.actions, np.nan)
        if isinstance(plan, TablePlan):
            state = int(read[0])
            exact, promise = plan.promise(state, stage)
            error = 0.0 if plan.after[state, action] != UNTRIED and not plan.contradictions else np.nan
            return ModelExplanation(
                action, bool(known), plan.values[stage, state].copy(), np.array([action]), 1, 0.0, exact, error, promise
            )
        if plan is None:
            promise, hold = "nothing is promised: there is no model yet", first_hold(self.datasets)
            return ModelExplanation(action, False, nothing, np.array([action]), hold, np.inf, False, np.nan, promise)
        z, interval = plan.model.coordinates(read), plan.model.coordinates.interval
        distance = plan.distance(z)
        if not known:
            promise = "nothing is promised: no data are near, and the action tried least nearby is explored"
            return ModelExplanation(
                action, False, nothing, np.array([action]), interval, distance, False, np.nan, promise
            )
        draw = *self._draw(None), stage // interval
        window = plan.choose(z, np.empty(0, np.int64), *draw)
        begun = [
            plan.choose(z, np.array([a]), *draw[:2], 0).values[a] for a in range(self.actions)
        ]  # where none was tried
        values = np.maximum(window.values, begun)
        error = Certificate(plan.model.dynamics)(z, action)
        promise = f"heuristic: what the model promises for {plan.horizon} decisions; no bound holds for it. " + (
            "Nothing bounds the error of the first step: it is not known, or no smooth function explains it"
            if np.isnan(error)
            else f"The first step is off by at most {error:.2g} scaled units, if what the trend leaves of the "
            "dynamics has at most twice the norm that the data need"
        )
        return ModelExplanation(action, True, values, window.actions, interval, distance, False, error, promise)

    def report(self) -> ModelReport:
        """What the model is worth; it takes two episodes, and a fit without the last one."""
        if isinstance(self.plan, TablePlan):
            raise InputError(
                "states are numbered here, and the model is a table of what was seen: it is off nowhere, and there is "
                "nothing to report. explain says whether its values are exact."
            )
        if self.episodes < 2 or self.plan is None:
            raise InputError("a report takes a model and two episodes: the others predict the last. Learn more first.")
        earlier = Experience(self.features, self.horizon, self.actions)
        earlier.episodes = self.datasets.episodes[:-1]
        plan = self._make_plan(earlier)
        if not isinstance(plan, Plan):
            raise InputError("there was no model before the last episode, so nothing was predicted. Learn more first.")
        return report_of(plan, self.datasets)


def observations_of(env: Env) -> Observations:
    """What the observations of an environment are."""
    states = getattr(env.observation_space, "n", None)
    return (
        Observations(states=int(states))
        if states is not None
        else Observations(size=envs.observation_box(env).low.size)
    )


class _Acting:
    """How to act in one episode. The window in hand is kept only while the environment does what the model said.

    In a table, the actions `taken` at each state of this episode are remembered, see `TablePlan.best`.
    """

    def __init__(self, agent: ModelFPI, seed: int, episode: int) -> None:
        self.plan, self.features, self.actions = agent.plan, agent.features, agent.actions
        self.hold = agent.settings.interval or first_hold(agent.datasets)
        self.draw = seed, episode
        self.next_stage = -1
        self.held = (0, True)
        self.left = 0
        self.kept: NDArray[np.int64] = np.empty(0, np.int64)
        self.came_from: Floats | None = None
        self.expected: Floats | None = None
        self.taken: dict[int, set[int]] = {}

    def __call__(self, observation: Any, stage: int) -> tuple[int, bool]:
        read = self.features.read(observation)
        plan = self.plan
        if isinstance(plan, TablePlan):
            state = int(read[0])
            taken = self.taken.setdefault(state, set())
            action = plan.best(state, stage, taken)
            taken.add(action)
            return action, not plan.known(state)
        if plan is None:
            return int(pick(*self.draw, stage // self.hold, self.actions)), True
        if stage != self.next_stage or not self.left:
            if stage != self.next_stage:
                self.kept = self.kept[:0]
            self.left = plan.model.coordinates.interval
            self.held = self._decide(plan, plan.model.coordinates(read), stage)
        self.left -= 1
        self.next_stage = stage + 1
        return self.held

    def _decide(self, plan: Plan, z: Floats, stage: int) -> tuple[int, bool]:
        if plan.distance(z) >= 1.0:
            self.kept = self.kept[:0]
            return plan.model.least_tried(z), True
        if self.came_from is not None and self.expected is not None:
            surprise = ((z - self.expected) ** 2).sum()
            if surprise >= ((z - self.came_from) ** 2).sum():
                self.kept = self.kept[:0]
        window = plan.choose(z, self.kept, *self.draw, stage // plan.model.coordinates.interval)
        action = int(window.actions[0])
        self.kept = window.actions[1:]
        self.came_from = z
        self.expected = plan.model.coordinates(plan.model.step(z * plan.model.coordinates.scales, action)[0])
        return action, False
