"""What Algorithm 2 and its extension to function classes share: accuracy levels, action sets, freezing, what is stored.

Level l is Algorithm 1 with accuracy 2^-l on datasets of its own. With D^(l) the data of level l and of the stage of s,

    I^(l)(s)    = all actions of A^(l)(s) are covered by D^(l) with accuracy 2^-l                     eq. (6)
    A^(1)(s)    = all actions
    A^(l+1)(s)  = the actions of A^(l)(s) whose value Q^(l) is within 2H Delta_l of the best          eq. (7)
    k^(l)(s)    = the first prefix of D^(l) that covers A^(l)(s), the freezing index
    Q^(l)(s, a) = the estimate from the first k^(l)(s) data
    pi^(l)(s)   = argmax of Q^(l)(s, a) over A^(l)(s)                                                 eq. (8)

None of these changes any more once I^(1)(s), ..., I^(l)(s) are true. Algorithm 2, in every episode t:
  3      l = min(t, L-bar)
  5      for every stage h:
  6-8      if I^(1)(s), ..., I^(l)(s) are true: play pi^(l)(s)
  9-13     else h_t = h, l = the first level whose I^(l)(s) is false, play an uncovered action of A^(l)(s)
  17-20  if there is an h_t, append (s, a, sum of rewards from h_t on) to D_{h_t}^(l)

Data exist for levels below L-bar only, so at L-bar itself any action of A^(L-bar) will do: pi^(L-bar - 1).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi import _kernels
from fpi.algorithms.agent import Agent
from fpi.datasets import EXPLORING, Dataset, Decide
from fpi.errors import InputError
from fpi.learning import Trail

MOST_LEVELS = 40  # 4^40 episodes would be needed to fill a level beyond


class Standing(NamedTuple):
    """A state at one level. Values are in units of [0, 1] a stage."""

    level: int
    covered: int | None
    """k^(l)(s): so many of the level's data cover all allowed actions; None while I^(l)(s) is false."""
    allowed: NDArray[np.bool_]
    """A^(l)(s), per action."""
    uncovered: NDArray[np.bool_]
    """The allowed actions that the level's data do not cover."""
    values: NDArray[np.float64]
    widths: NDArray[np.float64]
    """Both at k^(l)(s), or on all data of the level; NaN for actions that are not allowed."""
    action: int | None
    """pi^(l)(s), where covered."""
    survives: NDArray[np.bool_] | None
    """A^(l+1)(s), where covered."""
    errors: NDArray[np.float64]
    """How far each value may be off, as far as the elimination counts it per action."""
    bar: float
    """What value plus error had to reach to survive."""


@dataclass
class _Known:
    """What is remembered of a state that may come back: frozen levels, and how far the query of the next has come."""

    frozen: list[Standing] = field(default_factory=list)
    progress: Any = None


class LeveledAgent(Agent):
    """The procedure. An algorithm adds data that can `look`, and `margins`."""

    levels: int
    """The last level that is tested and stored, L-bar - 1 or less."""
    played: tuple[int, ...]
    """l_h of the last episode, for every step."""

    def _begin(self) -> None:
        """Nothing played, nothing remembered."""
        self.played = ()
        self._playing: list[int] = []
        self._remembered: dict[tuple[int, Hashable], _Known] = {}

    def level_gap(self, level: int) -> float:
        """Delta_l, the accuracy of level l."""
        raise NotImplementedError

    def margins(self, stage: int, level: int, prefix: int) -> tuple[float, float, float]:
        """(error, bias, slack): values err by error times their width plus bias, and slack more may be missing."""
        raise NotImplementedError

    def decider(self, trail: Trail) -> Decide:
        """Lines 3 to 13 of an episode; `learning.learn` and `Agent.commit` do the rest."""
        assert trail.seed is not None
        seed, episode, rule = trail.seed, trail.episodes, EXPLORING[self.settings.explore]
        level = min(episode + 1, self.levels + 1)  # line 3
        self._playing = playing = []

        def decide(observation: Any, stage: int) -> int:
            nonlocal level
            rows = self.datasets.rows(observation, stage)
            standings = self._climb(rows, observation, stage, min(level, self.levels))
            last = standings[-1]
            if last.action is not None:  # lines 6 to 8
                playing.append(level)
                return 2 * last.action
            level = last.level  # lines 10 to 12
            playing.append(level)
            # Greedy: the best by the frozen values of the level below, which has them for all allowed actions.
            values = standings[-2].values if level > 1 else last.values
            candidates = np.where(last.uncovered, -1.0, 0.0)
            action: int = _kernels.explore(rule, candidates, np.square(last.widths), values, seed, episode, stage)
            self.datasets.keep(rows, observation, action, level)
            return 2 * action + 1

        return decide

    def commit(self, trail: Trail, explored: tuple[int, int, float] | None) -> None:
        """Lines 17 to 20; the level was kept with the step."""
        self.played = tuple(self._playing)
        super().commit(trail, explored)

    def _climb(self, rows: Any, observation: Any, stage: int, until: int) -> list[Standing]:
        """The state at levels 1, 2, ... `until`, or up to the first that does not cover it."""
        key = self.datasets.key(observation, stage)
        known = None if key is None else self._remembered.setdefault((stage, key), _Known())
        standings = [] if known is None else known.frozen[:until]
        while len(standings) < until:
            standing = self._stand(rows, stage, standings, known)
            standings.append(standing)
            if standing.covered is None:
                break
            if known is not None:
                known.progress = None  # first, since an interrupt may come in between
                known.frozen.append(standing)
        return standings

    def _stand(self, rows: Any, stage: int, below: list[Standing], known: _Known | None = None) -> Standing:
        """The state one level above those it is frozen at."""
        level = len(below) + 1
        allowed = below[-1].survives if below else np.ones(self.actions, np.bool_)
        assert allowed is not None
        k, values, widths, uncovered = self.datasets.look(rows, stage, level, allowed, known)
        errors = np.zeros(self.actions)
        if k is None:
            return Standing(level, None, allowed, uncovered, values, widths, None, None, errors, 0.0)
        action = _kernels.best(values, -1.0 * allowed)  # eq. (8)
        survives = np.empty(self.actions, np.bool_)
        bar = _kernels.eliminate(values, widths, allowed, *self.margins(stage, level, k), errors, survives)  # eq. (7)
        return Standing(level, k, allowed, uncovered, values, widths, action, survives, errors, bar)

    # --- questions ----------------------------------------------------------------------------------------------------

    def standings(self, observation: Any, stage: int) -> tuple[Standing, ...]:
        """The state at levels 1, 2, ... up to the first that does not cover it, by the data so far."""
        self.check_stage(stage)
        rows = self.datasets.rows(observation, stage)
        known = self._remembered.get((stage, self.datasets.key(observation, stage)))
        standings = [] if known is None else list(known.frozen)
        while len(standings) < min(self.episodes + 1, self.levels):
            standings.append(self._stand(rows, stage, standings))
            if standings[-1].covered is None:
                break
        return tuple(standings)

    def predict(self, observation: Any, stage: int) -> int:
        """pi^(l) of the last level that covers the state; if none does, the best estimate on all data of level 1."""
        standings = self.standings(observation, stage)
        frozen = [standing.action for standing in standings if standing.action is not None]
        return frozen[-1] if frozen else int(_kernels.best(standings[0].values, -1.0 * standings[0].allowed))

    def dataset(self, stage: int, level: int) -> Dataset:
        """The data of one stage and level: features, actions, targets and episode numbers, in order."""
        self.check_stage(stage)
        if not isinstance(level, int | np.integer) or isinstance(level, bool) or not 1 <= level <= self.levels:
            raise InputError(f"level is {level!r}; this agent has levels 1 to {self.levels}.")
        return self.datasets.dataset(stage, level)
