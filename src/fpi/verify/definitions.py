"""Steps, data and reports of an agent against the definitions, decided by `literal` from the raw data of episodes.

Nothing here asks the agent what it knows but to compare the answer. Classes whose widths are only bounds (balls) have
no definition to be compared with, and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fpi.testbeds.base import FloatArray, State
from fpi.training import Episode
from fpi.verify.constants import constants_of
from fpi.verify.counts import CheckCounts
from fpi.verify.exact import pool
from fpi.verify.literal import Data, Ridge, Rung, Tables, TooNear, climb
from fpi.verify.monitors import Monitor

LOOKED_AT = 150  # episodes that are all looked at; of later ones ever fewer
REPORTS = 10  # states per stage and check
EQUAL = 1e-7  # relative; two programs that round differently


class RawData(Monitor):
    """Keeps what was played and, by dataset, what was stored of it; climbs levels from there."""

    def begin(self) -> None:
        self.constants = constants_of(self.testbed, self.instance)
        self.accuracies = self.constants.accuracies
        self.cells: dict[tuple[int, int], Data] = {}
        self.stored: defaultdict[tuple[int, int], list[Episode]] = defaultdict(list)
        self._sizes = np.zeros((len(self.accuracies), self.testbed.horizon), np.int64)
        self._frozen: defaultdict[State, list[Rung]] = defaultdict(list)
        self._tables = getattr(self.testbed, "tables", None) if self.instance.algorithm == "Eluder" else None
        self.defined = self.instance.algorithm != "Eluder" or self._tables is not None
        self.rows = cache(self._rows) if self.testbed.finite else self._rows

    def _rows(self, state: State) -> FloatArray:
        """What is known of each action: features, or the values of all functions."""
        if self._tables is None:
            return self.testbed.phi(state)
        return np.ascontiguousarray(self._tables[:, state[0], state[1], :].T)

    def data(self, stage: int, level: int) -> Data:
        if (stage, level) not in self.cells:
            self.cells[stage, level] = (
                Ridge(self.testbed.dim, self.instance.ridge)
                if self._tables is None
                else Tables(len(self._tables), self.constants.radius(level))
            )
        return self.cells[stage, level]

    def ladder(self, state: State, top: int) -> list[Rung]:
        """The state at levels 1 to `top`, or to the first that does not cover it."""
        levels = [self.data(state[0], level) for level in range(1, top + 1)]
        known = self._frozen[state] if self.testbed.recurs(state) else []
        rungs = climb(
            self.rows(state), state[0], levels, self.accuracies, self._margins if self.leveled else None, known[:top]
        )
        if self.testbed.recurs(state) and len(rungs) > len(known):
            self._frozen[state] = [rung for rung in rungs if rung.k is not None]
        return rungs

    def _margins(self, stage: int, level: int, k: int) -> tuple[float, float, float]:
        data = self.data(stage, level)
        margins: tuple[float, float, float] = self.constants.margins(
            stage, level, k, data.log_dets[k] if isinstance(data, Ridge) else None
        )
        return margins

    def see(self, episode: Episode) -> None:
        if not self.defined:
            return
        sizes = self.agent.datasets.sizes()
        grown = [(int(stage), int(level) + 1) for level, stage in np.argwhere(sizes > self._sizes)]
        self.judge(episode, grown)
        for stage, level in grown:
            action, target = int(episode.actions[stage]), float(episode.rewards[stage:].sum())
            self.data(stage, level).append(self.rows(self._state(episode, stage))[action], target)
            self.stored[stage, level].append(episode)
        self._sizes = sizes

    def judge(self, episode: Episode, grown: list[tuple[int, int]]) -> None:
        """An episode on the data before it, and the datasets that grew by it."""

    def _state(self, episode: Episode, stage: int) -> State:
        return self.testbed.state(episode.observations[stage])


class Definitions(RawData):
    """Algorithms 1 and 2: every step is one that the definitions allow, its level is l_h, and the datum is that of the
    last exploring step, in the dataset of that level. Looks at all of the first episodes, then at ever fewer.

    Equations 1-3 and 6-8: coverage (all widths at most epsilon at k, and not at k - 1), freezing index, values, policy
    and action sets, as the agent reports them at fresh states.

    Lemma 7: a stored pair was wider than its accuracy. Lemma 19: what came after it was covered at all its levels.
    """

    def begin(self) -> None:
        super().begin()
        rows = {claim.removesuffix(" for F"): counts for claim, counts in zip(self.claims, self.counts, strict=True)}
        self._steps, self._reports, *later = rows.values()
        self._widths, self._covered = later or (CheckCounts(""), CheckCounts(""))
        self._next = 0.0

    def judge(self, episode: Episode, grown: list[tuple[int, int]]) -> None:
        states = [self._state(episode, stage) for stage in range(episode.length)]
        if self._tables is None:
            for stage, level in grown:
                row = self.rows(states[stage])[episode.actions[stage]]
                data, accuracy = self.data(stage, level), self.accuracies[level - 1]
                width = data.widths(row[None], len(data))[0]
                self._widths.add(accuracy, width, np.inf, [(stage, level)])
        if episode.number < self._next:
            return
        self._next = episode.number + max(1.0, episode.number / LOOKED_AT)
        try:
            self._judge_steps(episode, states, grown)
        except TooNear:
            return

    def _judge_steps(self, episode: Episode, states: list[State], grown: list[tuple[int, int]]) -> None:
        tested = len(self.accuracies)
        level = min(episode.number + 1, tested + 1) if self.leveled else 1
        wrong, exploring, levels = [], None, []
        for stage, (state, action) in enumerate(zip(states, episode.actions.tolist(), strict=True)):
            rung = self.ladder(state, min(level, tested))[-1]
            if rung.k is None:
                level = len(self.ladder(state, min(level, tested)))
                exploring = stage
                wrong.append(not rung.uncovered[action])
            else:
                wrong.append(action != rung.action)
            levels.append(level)
        due = [] if exploring is None else [(exploring, level)]
        wrong.append(grown != due)
        if self.leveled:
            wrong.append(self.agent.played != tuple(levels))
        self._steps.add(np.array(wrong, float), 0.0, 1.0, [*states, *["stored", "levels"][: len(wrong) - len(states)]])
        for stage, level in grown:
            covered = [all(rung.k is not None for rung in self.ladder(each, level)) for each in states[stage + 1 :]]
            self._covered.add(1.0 - np.array(covered, float), 0.0, 1.0, states[stage + 1 :])

    def check(self) -> None:
        """What the agent says it has stored is what was played, and what it says of states follows from that."""
        if not self.defined:
            return
        for (stage, level), data in self.cells.items():
            said = self.agent.dataset(stage, level) if self.leveled else self.agent.dataset(stage)
            same = len(said) == len(data) and equal(said.targets, data.targets)
            same = same and all(map(equal, said.features, data.rows))
            self._steps.add(float(not same), 0.0, 1.0, [(stage, level)])
        for states in pool(self.testbed, REPORTS, seed=self.agent.episodes):
            for state in states:
                try:
                    same = self._reports_agree(state)
                except TooNear:
                    continue
                self._reports.add(float(not same), 0.0, 1.0, [state])

    def _reports_agree(self, state: State) -> bool:
        seen, stage = self.testbed.observation(state), state[0]
        if not self.leveled:
            (rung,) = self.ladder(state, 1)
            said = self.agent.explain(seen, stage)
            acts = rung.action == said.action if rung.k is not None else bool(rung.uncovered[said.action])
            return (
                rung.k == said.freezing_index and acts and equal([rung.values, rung.widths], [said.values, said.widths])
            )
        said = self.agent.level_states(seen, stage)
        rungs = self.ladder(state, min(self.agent.episodes + 1, len(self.accuracies)))
        return len(said) == len(rungs) and all(
            (rung.k, rung.action) == (each.covered, each.action)
            and equal([rung.values, rung.widths], [each.values, each.widths])
            and same_actions(rung.allowed, each.allowed)
            and same_actions(rung.survives, each.survives)
            and (rung.k is not None or same_actions(rung.uncovered, each.uncovered))
            for rung, each in zip(rungs, said, strict=True)
        )


def equal(one: object, other: object) -> bool:
    """Up to rounding; NaN is equal to NaN."""
    return np.allclose(np.asarray(one), np.asarray(other), rtol=EQUAL, atol=EQUAL, equal_nan=True)


def same_actions(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> bool:
    return one is other if one is None or other is None else bool(np.array_equal(one, other))
