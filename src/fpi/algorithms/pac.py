"""FPI-PAC, Algorithm 1 of the paper, with exact freezing.

Stages h = 1..H of the paper are stages 0..H-1 here. For every stage there is a dataset D_h, an ordered list of
(s, a, q) with q the return observed from (s, a) on. With phi_i = phi(s_i, a_i) and

    Sigma_{h,k} = ridge * I + sum_{i <= k} phi_i phi_i'                                     eq. (4)
    Q~_k(s, a)  = <phi(s, a), Sigma_{h,k}^{-1} sum_{i <= k} phi_i q_i>

(s, a) is covered by the first k data if |phi(s, a)| in Sigma_{h,k}^{-1} is at most epsilon   eq. (1)
k_t(s) is the first k that covers all actions of s, the freezing index                        eq. (2)
Q_t(s, a) = Q~_{k_t(s)}(s, a), which later data do not change                                  eq. (3)

Algorithm 1. In every episode t,
  3   pi_t(s) = argmax_a Q_t(s, a) where all actions of s are covered, else any uncovered action
  4   play pi_t
  5   h_t = the last stage at which the played (s, a) was uncovered
  6-8 if there is one, append (s, a, sum of rewards from h_t on) to D_{h_t}

Later states of that episode are covered, hence frozen: the stored return stays a sample of Q^{pi_t} for ever.
Theorem 1: with probability 1 - delta all but O~(d^2 H^4 / eps^2) episodes are eps-optimal, if Q^pi is linear in phi for
every policy pi and transitions are deterministic. (The eps of the theorem is a loss, 2H(alpha * epsilon + kappa).)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi.algorithms.agent import WIDEST, Agent, init_from_settings, linear_constants
from fpi.algorithms.exploring import UncoveredState, explore
from fpi.algorithms.theory import Constants
from fpi.data import Act, Dataset, Trajectory, check_column
from fpi.datasets import Datasets
from fpi.errors import InputError
from fpi.evaluation import Decision
from fpi.features import FeatureMap, as_feature_map
from fpi.kernels.choose import best
from fpi.settings import UNLIMITED, PACSettings
from fpi.training import TrainingState


@dataclass(frozen=True)
class Explanation:
    """Why the agent acts as it does at one state, and what it knows there. Values are in units of your rewards."""

    action: int
    """What `predict` answers."""
    covered: bool
    """All actions have widths of at most epsilon: the state is well explored."""
    freezing_index: int | None
    """k_t(s), eq. (2): this many of the stage's data cover it; None while uncovered."""
    prefix: int
    """How many data the values rest on: k_t(s) under exact freezing, all of them at an uncovered state."""
    widths: NDArray[np.float64]
    """|phi(s, a)| at that prefix, per action: what is compared with epsilon."""
    values: NDArray[np.float64]
    """Q~(s, a) at that prefix, per action."""
    level: int | None
    """The accuracy level, for algorithms that have several; None here."""
    value_error: NDArray[np.float64]
    """With probability 1 - delta, |Q~(s, a) - Q^pi(s, a)| is at most this, per action (Lemma 4)."""
    gap: float
    """With probability 1 - delta the policy loses at most this from here on (Lemma 6); infinite while uncovered."""
    vacuous: bool
    """The gap bound is no better than the trivial one, the span of rewards times the number of stages left."""
    advice: str
    """What would make a vacuous bound bite; empty if it is not vacuous."""

    def __str__(self) -> str:
        state = f"covered by the first {self.freezing_index} data" if self.covered else "not covered yet"
        rows = "\n".join(
            f"  action {a}: value {q:.4g}, width {w:.4g}, error at most {e:.4g}"
            for a, (q, w, e) in enumerate(zip(self.values, self.widths, self.value_error, strict=True))
        )
        bound = f"nothing here: {self.advice}" if self.vacuous else f"a loss of at most {self.gap:.4g}"
        return f"action {self.action}; the state is {state}\n{rows}\n  the theory promises {bound}"


class FrozenValues(NamedTuple):
    """What line 3 of Algorithm 1 rests on at one state."""

    freezing_index: int | None
    """k_t(s), or None where an action is uncovered."""
    prefix: int
    """Data that the next two rest on: k_t(s) of them under exact freezing, all of them at an uncovered state."""
    widths: NDArray[np.float64]
    values: NDArray[np.float64]
    """Q_t(s, .), where covered."""
    uncovered: NDArray[np.bool_]


class OpenTrajectory(NamedTuple):
    """What an episode may still tell: its steps up to the last one after which it took none but frozen actions."""

    episode: int
    observations: NDArray[Any]
    actions: NDArray[np.int64]
    returns: NDArray[np.float64]
    """From every step on, divided by the span of rewards."""

    @property
    def stage(self) -> int:
        """Of the last step that is left."""
        return len(self.actions) - 1


class PAC(Agent):
    """Frozen Policy Iteration, PAC version (Algorithm 1).

    >>> import gymnasium as gym, fpi
    >>> env = gym.make("CartPole-v1")
    >>> features = fpi.TileCoding.for_env(env, tiles=4, tilings=4)
    >>> agent = fpi.PAC(features, actions=2, horizon=500, epsilon=1.0, ridge=1e-3)
    >>> history = agent.learn(env, episodes=50, seed=0)
    >>> len(history.returns)
    50

    `features` is a feature map, or a plain function of (observation) or (observation, stage) that gives an array with
    one row per action; a function gets observations as they are, those of Dict and Tuple spaces, too.
    `fpi.settings.PACSettings` says what the other arguments mean. `explore` may be a function as well: of an
    `fpi.algorithms.UncoveredState`, giving one of its uncovered actions. That is slower, needs engine="gymnasium", and
    is passed to `fpi.load` again.

    Ties: values within 1e-9 * (1 + |max|) of the largest are equal and the lowest action wins; a width within
    1e-9 * epsilon of epsilon counts as covered.
    """

    settings: PACSettings
    datasets: Datasets

    @init_from_settings(PACSettings)
    def __init__(self, features: FeatureMap | Callable[..., Any], settings: PACSettings) -> None:
        known = as_feature_map(features, settings.actions)
        super().__init__(settings, Datasets(known, settings.horizon, float(settings.ridge), [float(settings.epsilon)]))
        self._all = np.ones(self.actions, np.bool_)
        self.whole_episodes = self.deterministic_rewards = self.datasets.several = bool(settings.hindsight)
        self.open: dict[int, list[OpenTrajectory]] = {}
        """With hindsight: by the stage of their last step, earlier episodes that may still tell something."""
        self._ending: tuple[TrainingState, OpenTrajectory] | None = None

    def pi(self, observation: Any, stage: int, episode: int | None = None) -> Decision:
        """Line 3: pi_t(s) in the episode of this number, the coming one if None, as the paper has it."""
        known = self._frozen_values(observation, stage)
        if known.freezing_index is not None:
            return Decision(int(best(known.values, self._all)), True)  # argmax of Q_t
        state = UncoveredState(observation, stage, known.uncovered, known.widths, known.values, *self._draw(episode))
        return Decision(explore(self.settings.explore, state, self.rewards.span), False)  # an uncovered action

    def _frozen_values(self, observation: Any, stage: int) -> FrozenValues:
        """k_t(s) and Q_t(s, .), or what all data say of an uncovered state."""
        self.check_stage(stage)
        found = self.datasets.look(self.datasets.rows(observation, stage), stage)
        size, k = self.datasets.size(stage), found.covered_at
        if k is None:  # an action is not covered, eq. (1)
            return FrozenValues(None, size, found.widths, found.values, found.uncovered)
        prefix = max(k, size - self.settings.window + 1)  # eq. (2); the oldest prefix that is kept, if not all are
        widths, values = self.datasets.estimate(observation, stage, prefix)  # eq. (3)
        return FrozenValues(k, prefix, widths, values, found.uncovered)

    def begin_episode(self, training_state: TrainingState) -> Act:
        """Line 3 for an episode: `pi` on the datasets as they stand before it, quickly, since states come back.

        Lines 4 to 8, playing it and keeping the last uncovered step, are the same for every agent: `training.learn` and
        `Agent.end_episode`.
        """
        assert training_state.seed is not None
        rule, question = self.settings.explore, (training_state.seed, training_state.episodes)
        if isinstance(rule, str):
            return self.datasets.begin_episode(self.settings.window, rule, *question)
        quick = self.datasets.begin_episode(self.settings.window, "first", *question)  # right where it does not explore

        def act(observation: Any, stage: int) -> tuple[int, bool]:
            action, explores = quick(observation, stage)
            if explores:
                action = self.pi(observation, stage, training_state.episodes).action
                self.datasets.keep(self.datasets.rows(observation, stage), observation, action, 1)
            return action, explores

        return act

    # --- hindsight ----------------------------------------------------------------------------------------------------

    def end_trajectory(
        self, training_state: TrainingState, explored: tuple[int, int, float] | None, trajectory: Trajectory
    ) -> int:
        """Lines 5 to 8 with hindsight; how many data were stored.

        All that an episode did after its last uncovered step was frozen. So it is a sample of that step, now or
        later; and where the state of a step has become covered and the frozen action is the one taken, of the step
        before, too. Rewards are deterministic, so that a return may be used again.
        """
        before, steps = self.data_stored, 0 if explored is None else explored[0] + 1
        returns = np.array([math.fsum(trajectory.rewards[stage:]) for stage in range(steps)]) / self.rewards.span
        number, actions = training_state.episodes - 1, trajectory.actions[:steps].copy()
        self._ending = training_state, OpenTrajectory(number, trajectory.observations[:steps], actions, returns)
        self._finish_pending()
        if training_state.episodes == 1:
            self.warn_if_all_covered()
        return self.data_stored - before

    def _finish_pending(self) -> None:
        """An interrupt may come between any two lines: stages that are settled again stay as they are.

        What an episode tells comes first: if that fails, the episode is not counted, either.
        """
        if self._ending is not None:
            training_state, ended = self._ending
            arrived, stage = [ended], ended.stage
            while arrived and stage >= 0:
                arrived = self._settle(stage, arrived, ended.episode)
                stage -= 1
            self.training_state = training_state
            self._ending = None
        super()._finish_pending()

    def _settle(self, stage: int, arrived: list[OpenTrajectory], number: int) -> list[OpenTrajectory]:
        """Store what trajectories tell of a stage, the oldest first; those that then go on to the stage before."""
        numbers = {each.episode for each in arrived}
        here = [each for each in self.open.get(stage, []) if each.episode not in numbers]
        here = sorted([*here, *arrived], key=lambda each: each.episode)
        for each in here:
            observation, action = each.observations[stage], int(each.actions[stage])
            rows = self.datasets.rows(observation, stage)
            while self.datasets.look(rows, stage).uncovered[action]:
                self.datasets.keep(rows, observation, action, 1)
                self.datasets.append(self.datasets.kept, stage, action, float(each.returns[stage]), number)
        waiting, going_on = [], []
        for each in here:
            known = self._frozen_values(each.observations[stage], stage)
            if known.freezing_index is None:
                waiting.append(each)  # for the other actions
            elif best(known.values, self._all) == each.actions[stage] and stage > 0:
                shorter = each.observations[:stage], each.actions[:stage], each.returns[:stage]
                going_on.append(OpenTrajectory(each.episode, *shorter))
        before = [each for each in self.open.get(stage - 1, []) if each.episode not in numbers]
        self.open = {**self.open, stage: waiting, stage - 1: [*before, *going_on]}
        return going_on

    def _open_tensors(self) -> dict[str, NDArray[Any]]:
        """The open trajectories, by age."""
        trajectories = sorted((each for stage in self.open.values() for each in stage), key=lambda each: each.episode)
        if not trajectories:
            return {}
        observations = np.concatenate([each.observations for each in trajectories])
        return {
            "episode": np.array([each.episode for each in trajectories], np.int64),
            "length": np.array([len(each.actions) for each in trajectories], np.int64),
            "action": np.concatenate([each.actions for each in trajectories]),
            "return": np.concatenate([each.returns for each in trajectories]),
            "observation": observations.astype(WIDEST[observations.dtype.kind]),
        }

    def _restore_open(self, tensors: dict[str, NDArray[Any]]) -> None:
        """What `_open_tensors` gave, after checking it; raises InputError."""
        self.open = {}
        if not tensors:
            return
        if not self.settings.hindsight:
            raise InputError("it holds open trajectories, but has no hindsight")
        n, lengths = len(tensors["episode"]), tensors["length"]
        check_column(tensors, "episode", np.int64, (n,), (0, self.episodes))
        check_column(tensors, "length", np.int64, (n,), (1, self.horizon + 1))
        steps = int(lengths.sum())
        check_column(tensors, "action", np.int64, (steps,), (0, self.actions))
        check_column(tensors, "return", np.float64, (steps,))
        if len(tensors["observation"]) != steps or not np.isfinite(tensors["return"]).all():
            raise InputError("its open trajectories do not fit")
        if np.any(np.diff(tensors["episode"]) <= 0):
            raise InputError("its open trajectories are out of order")
        columns = (np.split(tensors[name], np.cumsum(lengths)[:-1]) for name in ("observation", "action", "return"))
        for episode, *parts in zip(tensors["episode"].tolist(), *columns, strict=True):
            each = OpenTrajectory(episode, *parts)
            self.datasets.rows(each.observations[-1], each.stage)  # raises if it does not fit
            self.open.setdefault(each.stage, []).append(each)

    def decide(self, observation: Any, stage: int, episode: int | None = None) -> Decision:
        """What `pi` answers, as quickly as an episode would."""
        self.check_stage(stage)
        rule = self.settings.explore
        if not isinstance(rule, str):
            return self.pi(observation, stage, episode)
        action, explores = self.datasets.decide(observation, stage, self.settings.window, rule, *self._draw(episode))
        return Decision(action, not explores)

    def greedy(self, observation: Any, stage: int) -> int:
        """argmax of Q_t at a covered state, else of the estimate on all data."""
        return int(best(self._frozen_values(observation, stage).values, self._all))

    def explain(self, observation: Any, stage: int) -> Explanation:
        """What the agent would do here, why, and what the theory promises."""
        self.check_not_shifted()
        frozen, prefix, widths, values, _ = self._frozen_values(observation, stage)
        alpha = self.alpha(stage, prefix)
        errors = (
            np.full(self.actions, math.inf) if math.isinf(alpha) else alpha * widths + self.settings.misspecification
        )
        left, span = self.horizon - stage, self.rewards.span
        gap = math.inf
        if frozen is not None:
            later = sum(self.alpha(h) for h in range(stage + 1, self.horizon)) * self.settings.epsilon
            later += (left - 1) * self.settings.misspecification
            gap = 2 * float(errors.max()) + 2 * later  # Lemma 6, from this stage on
        return Explanation(
            action=self.predict(observation, stage),
            covered=frozen is not None,
            freezing_index=frozen,
            prefix=prefix,
            widths=widths,
            values=span * values,
            level=None,
            value_error=span * errors,
            gap=span * gap,
            vacuous=not gap < left,
            advice="" if gap < left else self._advice(frozen is not None),
        )

    def _advice(self, covered: bool) -> str:
        if self.settings.window != UNLIMITED:
            return "only exact freezing keeps stored returns valid"
        try:
            epsilon = self.theory.epsilon_for(self.horizon)
        except InputError:
            return "with this misspecification no epsilon would do; better features might"
        if self.settings.epsilon > epsilon:
            return (
                f"it would take an epsilon of at most {epsilon:.3g} instead of {self.settings.epsilon:g}, and more data"
            )
        return "the data are still few" if covered else "the state is not covered yet; more episodes will change that"

    def dataset(self, stage: int) -> Dataset:
        """The data of one stage: features, actions, targets and episode numbers, in order."""
        self.check_stage(stage)
        return self.datasets.dataset(stage).times(self.rewards.span)

    # --- the constants of Section 4.2 ---------------------------------------------------------------------------------

    @property
    def theory(self) -> Constants:
        """The constants of the analysis for these settings; needs features that have shown their dimension.

        Losses are in spans of rewards, see `fpi.envs.RewardRange`.
        """
        return linear_constants(self, self.settings, self.settings.ridge)

    @property
    def dataset_bound(self) -> float:
        """D, eq. (5): no stage ever holds more data (Lemma 1)."""
        return self.theory.dataset_bound(self.settings.epsilon)

    def alpha(self, stage: int, prefix: int | None = None) -> float:
        """|Q~_k(s, a) - Q^pi(s, a)| <= alpha |phi(s, a)| + kappa with probability 1 - delta (Lemma 4).

        "paper" is the paper's constant. "tight" uses the data at hand: their number and log determinant at the prefix
        (None: all of them). Infinite without exact freezing, since stored returns then go stale. In spans of rewards.
        """
        if self.settings.window != UNLIMITED:
            return math.inf
        if self.settings.constants == "paper":
            return self.theory.alpha(self.dataset_bound, stage=stage)
        n = self.datasets.size(stage) if prefix is None else prefix
        return self.theory.alpha(n, self.datasets.log_det(stage, n), stage=stage)
