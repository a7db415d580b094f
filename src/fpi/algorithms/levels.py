"""What Algorithm 2 and its extension to function classes share: accuracy levels, action sets, freezing, what is stored.

Level l is Algorithm 1 with accuracy 2^-l on datasets of its own. With D^(l) the data of level l and of the stage of s,

    I^(l)(s)    = all actions of A^(l)(s) are covered by D^(l) with accuracy 2^-l                     eq. (6)
    A^(1)(s)    = all actions
    A^(l+1)(s)  = the actions of A^(l)(s) whose value Q^(l) is within 2H Delta_l of the best          eq. (7)
    k^(l)(s)    = the first prefix of D^(l) that covers A^(l)(s), the freezing index
    Q^(l)(s, a) = the estimate from the first k^(l)(s) data
    pi^(l)(s)   = argmax of Q^(l)(s, a) over A^(l)(s)                                                 eq. (8)

None of these changes any more once I^(1)(s), ..., I^(l)(s) are true. Algorithm 2, in every episode t:
  3      l = min(t, L-bar); min(t + l_1 - 1, L-bar) if it begins with level l_1, at which all actions are allowed
  5      for every stage h:
  6-8      if I^(1)(s), ..., I^(l)(s) are true: play pi^(l)(s)
  9-13     else h_t = h, l = the first level whose I^(l)(s) is false, play an uncovered action of A^(l)(s)
  17-20  if there is an h_t, append (s, a, sum of rewards from h_t on) to D_{h_t}^(l)

Data exist for levels below L-bar only, so at L-bar itself any action of A^(L-bar) will do: pi^(L-bar - 1).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi._validation import is_whole
from fpi.algorithms.agent import Agent
from fpi.algorithms.exploring import UncoveredState, explore
from fpi.data import Act, Dataset
from fpi.errors import InputError
from fpi.evaluation import Decision
from fpi.kernels.choose import best, eliminate
from fpi.settings import LevelSettings
from fpi.training import TrainingState


class LevelState(NamedTuple):
    """A state at one level. Values are in units of your rewards."""

    level: int
    covered: int | None
    """Freezing index k^(l)(s): size of the first prefix that covers all allowed actions; None while I^(l) is false."""
    allowed: NDArray[np.bool_]
    """A^(l)(s), per action."""
    uncovered: NDArray[np.bool_]
    """The allowed actions that the level's data do not cover."""
    values: NDArray[np.float64]
    widths: NDArray[np.float64]
    """Both at k^(l)(s), or on all data of the level; NaN for actions that are not allowed. Widths are what is compared
    with 2^-l."""
    action: int | None
    """pi^(l)(s), where covered."""
    survives: NDArray[np.bool_] | None
    """A^(l+1)(s), where covered."""
    errors: NDArray[np.float64]
    """How far each value may be off, as far as the elimination counts it per action."""
    threshold: float
    """Elimination threshold: what value plus error has to reach, eq. (7)."""

    def times(self, span: float) -> LevelState:
        """The same in units of rewards, of which estimators see the returns divided by their span.

        `span`: from the smaller of 0 and the lowest reward to the larger of 0 and the highest.
        """
        return self._replace(values=span * self.values, errors=span * self.errors, threshold=span * self.threshold)


@dataclass(frozen=True)
class Explanation:
    """Why the agent acts as it does at one state, and what it knows there. Values are in units of your rewards."""

    action: int
    """What `predict` answers."""
    covered: bool
    """The first level at least covers the state."""
    level: int
    """The last level that covers it, 0 if none does."""
    freezing_index: int | None
    """k^(l)(s) of that level: size of the prefix that the decision rests on."""
    level_states: tuple[LevelState, ...]
    """The state at every level, from the first, up to one that does not cover it: action sets, values, widths."""
    reasons: tuple[str, ...]
    """One for every action: still a candidate, or where and why it was eliminated."""
    gap: float
    """With probability 1 - delta the policy of that level loses at most this from here on; at most the span of rewards
    times the stages left."""
    vacuous: bool
    """The bound is no better than the trivial one."""
    scale: float
    """What the theory's constants were multiplied by: below 1 the bound is a rule of thumb."""

    @property
    def values(self) -> Any:
        """Estimates at the last level that covers the state, or at the first on all its data."""
        return self._last.values

    @property
    def widths(self) -> Any:
        """Widths, like `values`."""
        return self._last.widths

    @property
    def _last(self) -> LevelState:
        return next((each for each in self.level_states if each.level == self.level), self.level_states[0])

    def __str__(self) -> str:
        state = f"covered up to level {self.level}" if self.covered else "not covered yet"
        rows = "\n".join(f"  action {a}: {reason}" for a, reason in enumerate(self.reasons))
        who = "the theory promises" if self.scale >= 1 else f"with constants times {self.scale:g}, which is no promise:"
        bound = f"a loss of at most {self.gap:.4g} by the policy of level {self.level}"
        said = "nothing here yet" if self.vacuous else bound
        return f"action {self.action}; the state is {state}\n{rows}\n  {who} {said}"


class LeveledAgent(Agent):
    """Algorithm 2 for any estimator. Subclasses provide a dataset that can `look`, Delta_l and error bounds."""

    settings: LevelSettings

    levels: int
    """The last level that is tested and stored, L-bar - 1 or less."""
    first_level: int = 1
    """The first that is."""
    played: tuple[int, ...]
    """l_h of the last episode, for every step."""

    def __init__(self, settings: LevelSettings, datasets: Any) -> None:
        super().__init__(settings, datasets)
        self.played = ()
        self._everything = np.ones(self.actions, np.bool_)
        self.playing: list[int] = []  # l_h of the episode under way
        self.eliminated: bool | None = False
        """Whether an action of a state that was visited is eliminated; None if a file of before does not say."""
        self.eliminating = False  # in the episode under way
        self._frozen: dict[tuple[int, Hashable], list[LevelState]] = {}  # of states that may come back

    def stage_gaps(self, level: int) -> NDArray[np.float64]:
        """Delta_l of every stage, the accuracy of level l, in spans of rewards."""
        raise NotImplementedError

    def level_gap(self, level: int) -> float:
        """Delta_l, where it is largest."""
        return float(self.stage_gaps(level).max())

    def errors(self, stage: int, level: int, prefix: int) -> tuple[float, float]:
        """(factor, bias): with high probability estimates at this prefix err by at most factor * width + bias."""
        raise NotImplementedError

    def optimism(self, stage: int, level: int) -> float:
        """How many widths the exploring rule "optimistic" adds to an estimate."""
        raise NotImplementedError

    def margins(self, stage: int, level: int, prefix: int) -> tuple[float, float, float]:
        """What an action may be below the best in eq. (7): factor and bias of the errors, and a slack.

        The proof keeps pi*(s) for any threshold that is at least the errors of two estimates at s, plus 2 Delta_l for
        every later stage. The first part may follow the data at the frozen prefix, which stay; the second is about
        other states, whose prefixes are their own, so it must be a constant.
        """
        errors = self.errors(stage, level, prefix) if self.settings.elimination == "interval" else (0.0, 0.0)
        return *errors, self.slack(stage, level)

    def slack(self, stage: int, level: int) -> float:
        """The part of the threshold that is a constant."""
        if self.settings.elimination == "paper":
            return 2 * self.horizon * self.level_gap(level)
        first = stage if self.settings.elimination == "stage" else stage + 1
        return 2 * float(self.stage_gaps(level)[first:].sum())

    def begin_episode(self, training_state: TrainingState) -> Act:
        """Lines 3 to 13 of an episode; `training.learn` and `Agent.end_episode` do the rest."""
        assert training_state.seed is not None
        seed, episode = training_state.seed, training_state.episodes
        playing: list[int] = []
        self.playing, self.eliminating = playing, False

        def play(observation: Any, stage: int) -> tuple[int, bool]:
            level = playing[-1] if playing else None
            action, level, explores = self.act(observation, stage, level, seed, episode)
            playing.append(level)
            return action, explores

        return play

    def act(self, observation: Any, stage: int, level: int | None, seed: int, episode: int) -> tuple[int, int, bool]:
        """Lines 6 to 13: the action, the new l, and whether this step explores. There is no l before the first step."""
        rows = self.datasets.rows(observation, stage)
        if level is None:  # line 3; only features that were called show what the first level is
            level = min(episode + self.first_level, self.levels + 1)
        levels = self.ladder(rows, observation, stage, min(level, self.levels))
        if not self.eliminated:
            self.eliminating |= any(
                each.survives is not None and (each.allowed > each.survives).any() for each in levels
            )
        last = levels[-1]
        if last.action is not None:  # lines 6 to 8
            return last.action, level, False
        action = self._explore(levels, seed, episode, stage, observation)  # lines 10 to 12
        self.datasets.keep(rows, observation, action, last.level)
        return action, last.level, True

    def end_episode(self, training_state: TrainingState, explored: tuple[int, int, float] | None) -> None:
        """Lines 17 to 20; the level was kept with the step."""
        self.played = tuple(self.playing)
        self.eliminated = self.eliminating or self.eliminated
        super().end_episode(training_state, explored)

    def _open_tensors(self) -> dict[str, NDArray[Any]]:
        return {} if self.eliminated is None else {"eliminated": np.array([self.eliminated])}

    def _restore_open(self, tensors: dict[str, NDArray[Any]]) -> None:
        others = {name: tensor for name, tensor in tensors.items() if name != "eliminated"}
        self.eliminated = bool(tensors["eliminated"].any()) if len(others) < len(tensors) else None
        super()._restore_open(others)

    def ladder(self, rows: Any, observation: Any, stage: int, top: int, remember: bool = True) -> list[LevelState]:
        """The state at every level from the first up to one that does not cover it, and at most to `top`.

        `remember`: keep what is frozen, so that the next question about this state is quick.
        """
        key = self.datasets.key(observation, stage)
        frozen = self._frozen.get((stage, key), []) if key is not None else []
        count = top - self.first_level + 1
        levels = frozen[:count]
        while len(levels) < count and not (levels and levels[-1].covered is None):
            levels.append(self._next_level(rows, stage, levels, key if remember else None))
        if remember and key is not None and len(levels) > len(frozen):
            self._frozen[stage, key] = [each for each in levels if each.covered is not None]
        return levels

    def _next_level(self, rows: Any, stage: int, below: list[LevelState], key: Hashable | None = None) -> LevelState:
        """The state one level above those it is frozen at."""
        level = self.first_level + len(below)
        allowed = below[-1].survives if below else self._everything
        assert allowed is not None
        k, values, widths, uncovered = self.datasets.look(rows, stage, level, allowed, key)
        if k is None:
            return LevelState(level, None, allowed, uncovered, values, widths, None, None, np.zeros(self.actions), 0.0)
        errors, survives = np.empty(self.actions), np.empty(self.actions, np.bool_)
        margins = self.margins(stage, level, k)
        action, threshold = eliminate(values, widths, allowed, *margins, errors, survives)  # eqs. (7) and (8)
        return LevelState(level, k, allowed, uncovered, values, widths, action, survives, errors, threshold)

    def _explore(
        self, level_states: Sequence[LevelState], seed: int, episode: int, stage: int, observation: Any
    ) -> int:
        """Line 12: an uncovered action of A^(l)(s), for the last of these levels."""
        last = level_states[-1]
        # Greedy: the best by the frozen values of the level below, which has them for all allowed actions.
        values = level_states[-2].values if len(level_states) > 1 else last.values
        if self.settings.explore == "optimistic":
            values = last.values + self.optimism(stage, last.level) * last.widths
        state = UncoveredState(observation, stage, last.uncovered, last.widths, values, seed, episode)
        return explore(self.settings.explore, state, self.rewards.span)

    # --- questions ----------------------------------------------------------------------------------------------------

    def level_states(self, observation: Any, stage: int) -> tuple[LevelState, ...]:
        """The state at every level from the first up to one that does not cover it, by the data so far."""
        self.check_not_shifted()
        return tuple(each.times(self.rewards.span) for each in self._standing(observation, stage))

    def _standing(self, observation: Any, stage: int) -> list[LevelState]:
        """The same, as it is decided on: divided by the span of rewards."""
        self.check_stage(stage)
        rows = self.datasets.rows(observation, stage)
        top = min(self.episodes + self.first_level, self.levels)
        frozen = self._frozen.get((stage, self.datasets.key(observation, stage)), ())
        top = max([top, *(each.level for each in frozen[-1:])])
        return self.ladder(rows, observation, stage, top, remember=False)

    def decide(self, observation: Any, stage: int, episode: int | None = None) -> Decision:
        """pi^(l)(s) of the last level that covers the state; if none does, an uncovered action by the exploring rule.

        While learning, the level also depends on earlier states of the episode; here it does not (D22).
        """
        level_states = self._standing(observation, stage)
        action = _frozen_action(level_states)
        if action is not None:
            return Decision(action, True)
        return Decision(self._explore(level_states, *self._draw(episode), stage, observation), False)

    def greedy(self, observation: Any, stage: int) -> int:
        """pi^(l)(s) of the last level that covers the state; if none does, the best estimate on the first's data."""
        level_states = self._standing(observation, stage)
        action = _frozen_action(level_states)
        return int(best(level_states[0].values, level_states[0].allowed)) if action is None else action

    def explain(self, observation: Any, stage: int) -> Explanation:
        """What the agent would do here, why, and what the theory promises."""
        action = self.predict(observation, stage)
        level_states = self.level_states(observation, stage)
        frozen = [level_state for level_state in level_states if level_state.covered is not None]
        left = self.horizon - stage
        gap = min(left, 2 * self.stage_gaps(frozen[-1].level)[stage:].sum()) if frozen else left
        return Explanation(
            action=action,
            covered=bool(frozen),
            level=frozen[-1].level if frozen else 0,
            freezing_index=frozen[-1].covered if frozen else None,
            level_states=level_states,
            reasons=tuple(_reason(a, level_states) for a in range(self.actions)),
            gap=float(self.rewards.span * gap),
            vacuous=not gap < left,
            scale=float(self.settings.scale),
        )

    def dataset(self, stage: int, level: int) -> Dataset:
        """The data of one stage and level: features, actions, targets and episode numbers, in order."""
        self.check_stage(stage)
        if not (is_whole(level) and 1 <= level <= self.levels):
            raise InputError(f"level is {level!r}; this agent has levels 1 to {self.levels}.")
        data: Dataset = self.datasets.dataset(stage, level)
        return data.times(self.rewards.span)


def _frozen_action(level_states: Sequence[LevelState]) -> int | None:
    """The action of the last level that covers the state, if any does."""
    frozen = [level_state.action for level_state in level_states if level_state.action is not None]
    return frozen[-1] if frozen else None


def _reason(action: int, level_states: tuple[LevelState, ...]) -> str:
    for at in level_states:
        if at.survives is not None and not at.survives[action]:
            error = f" plus its error {at.errors[action]:.4g}" if at.errors[action] else ""
            return (
                f"eliminated at level {at.level}: its value {at.values[action]:.4g}{error} does not reach "
                f"{at.threshold:.4g}, which the best action, {at.action}, surpasses"
            )
    last = level_states[-1]
    state = "not covered yet" if last.uncovered[action] else "a candidate"
    return f"{state} at level {last.level}: value {last.values[action]:.4g}, width {last.widths[action]:.4g}"
