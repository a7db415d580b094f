"""Steps, data, reports and constants of an agent against definitions and formulas, from the raw data of episodes.

Nothing here asks the agent what it knows but to compare the answer. Classes whose widths are only bounds (balls) have
no definition to be compared with, and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from fpi.testbeds.base import FloatArray, State, random_policy
from fpi.training import Episode
from fpi.verify.counts import CheckCounts
from fpi.verify.exact import LevelStates, all_policies, pool
from fpi.verify.literal import Data, Ridge, Rung, Tables, TooNear, climb, hindsight
from fpi.verify.monitors import Monitor, same_actions

LOOKED_AT = 100  # episodes that are all looked at; of later ones ever fewer
REPORTS = 10  # states per stage and check
PROMISES = 5  # the same, for constants
POLICIES = 3  # drawn, for lemmas about all policies
DEEPEST = 11  # level up to which constants are compared
SEQUENCE = 100  # data of a dataset, for Lemma 14
STATES = 1_000  # whose rows are remembered
EQUAL = 1e-7  # relative; two programs that round differently


class RawData(Monitor):
    """Keeps what was played and, by dataset, what was stored of it; climbs levels from there."""

    def begin(self) -> None:
        levels = [0.5**level for level in range(1, self.constants.last)]
        self.accuracies = levels if self.leveled else [self.instance.epsilon]
        self.cells: dict[tuple[int, int], Data] = {}
        self.stored: defaultdict[tuple[int, int], list[Episode]] = defaultdict(list)
        self._frozen: defaultdict[State, list[Rung]] = defaultdict(list)
        self._episodes: list[Episode] = []  # with hindsight, as the next two
        self._paths: list[list[tuple[State, int]]] = []
        self._left: list[int] = []
        self._tables = getattr(self.testbed, "tables", None) if self.instance.algorithm == "Eluder" else None
        self.defined = self.instance.algorithm != "Eluder" or self._tables is not None
        self.rows = lru_cache(STATES)(self._rows)

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
                else Tables(len(self._tables), partial(self.constants.beta, level, stage=stage))
            )
        return self.cells[stage, level]

    def ladder(self, state: State, top: int) -> list[Rung]:
        """The state at all levels up to `top`, or to the first that does not cover it."""
        stage, first = state[0], self.constants.first
        known = self._frozen[state] if self.testbed.recurs(state) else []
        below = known[: top - first + 1]
        levels = ((level, self.data(stage, level)) for level in range(first + len(below), top + 1))
        margins = self._margins if self.leveled else None
        rungs = climb(self.rows(state), stage, below, levels, self.accuracies, margins)
        if self.testbed.recurs(state) and len(rungs) > len(known):
            self._frozen[state] = [rung for rung in rungs if rung.k is not None]
        return rungs

    def _margins(self, stage: int, level: int, k: int) -> tuple[float, float, float]:
        data = self.data(stage, level)
        log_det = data.log_dets[k] if isinstance(data, Ridge) else None
        margins: tuple[float, float, float] = self.constants.margins(
            self.instance.elimination, stage, level, k, log_det
        )
        return margins

    def see(self, episode: Episode) -> None:
        if not self.defined:
            return
        self.judge(episode, self.grown)
        steps: Iterable[tuple[Episode, int, int]] = ((episode, *cell) for cell in self.grown)
        try:
            for source, stage, level in self._look_back(episode) if self.instance.hindsight else steps:
                action, target = int(source.actions[stage]), float(source.rewards[stage:].sum()) / self.span
                self.data(stage, level).append(self.rows(self._state(source, stage))[action], target)
                self.stored[stage, level].append(source)
        except TooNear:
            self.defined = False  # from here on nothing says what hindsight has to store

    def _look_back(self, episode: Episode) -> Iterator[tuple[Episode, int, int]]:
        """What hindsight has to store after an episode."""
        states = [self._state(episode, stage) for stage in range(episode.length)]
        uncovered = [state[0] for state in states if self.ladder(state, 1)[-1].k is None]
        self._episodes.append(episode)
        self._paths.append(list(zip(states, episode.actions.tolist(), strict=True)))
        self._left.append(max(uncovered, default=-1))
        for number, stage in hindsight(self._paths, self._left, lambda state: self.ladder(state, 1)[-1]):
            yield self._episodes[number], stage, 1

    def judge(self, episode: Episode, grown: list[tuple[int, int]]) -> None:
        """An episode on the data before it, and the datasets that grew by it."""

    def _state(self, episode: Episode, stage: int) -> State:
        return self.testbed.state(episode.observations[stage])


class Definitions(RawData):
    """Algorithms 1 and 2: every step is one that the definitions allow, its level is l_h, and the datum is that of the
    last exploring step, in the dataset of that level. Looks at all of the first episodes, then at ever fewer. With
    hindsight every episode stores as many data as `literal.hindsight` does.

    Equations 1-3 and 6-8: coverage (all widths at most epsilon at k, and not at k - 1), freezing index, values, policy
    and action sets, as the agent reports them at fresh states.

    Lemma 7: a stored pair was wider than its accuracy. Lemma 19: what came after it was covered at all its levels.
    """

    def begin(self) -> None:
        super().begin()
        rows = {claim.removesuffix(" for F"): counts for claim, counts in zip(self.claims, self.counts, strict=True)}
        self._steps, self._reports, *later = rows.values()
        self._widths, self._covered = later or (CheckCounts(""), CheckCounts(""))
        self._measured: defaultdict[tuple[int, int], int] = defaultdict(int)
        """How many data of a dataset Lemma 7 was checked for."""
        self._next = 0.0

    def see(self, episode: Episode) -> None:
        super().see(episode)
        if self.instance.hindsight and self.defined:
            due = [len(self.data(stage, 1)) for stage in range(self.testbed.horizon)]
            self._steps.add(float(due != self.sizes[0].tolist()), 0.0, 1.0, ["stored"])

    def judge(self, episode: Episode, grown: list[tuple[int, int]]) -> None:
        if episode.number < self._next:
            return
        self._next = episode.number + max(1.0, episode.number / LOOKED_AT)
        states = [self._state(episode, stage) for stage in range(episode.length)]
        try:
            self._judge_steps(episode, states, grown)
        except TooNear:
            return

    def _judge_steps(self, episode: Episode, states: list[State], grown: list[tuple[int, int]]) -> None:
        first, tested = self.constants.first, len(self.accuracies)
        level = min(episode.number + first, tested + 1) if self.leveled else 1
        wrong, exploring, levels = [], None, []
        for stage, (state, action) in enumerate(zip(states, episode.actions.tolist(), strict=True)):
            rung = self.ladder(state, min(level, tested))[-1]
            if rung.k is None:
                level, exploring = rung.level, stage
                wrong.append(not rung.uncovered[action])
            else:
                wrong.append(action != rung.action)
            levels.append(level)
        due = [] if exploring is None else [(exploring, level)]
        if not self.instance.hindsight:
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
            if isinstance(data, Ridge) and len(data) > self._measured[stage, level]:
                widths = data.widths_when_stored(self._measured[stage, level])
                self._widths.add(self.accuracies[level - 1], widths, np.inf, [(stage, level)])
                self._measured[stage, level] = len(data)
            said = self.agent.dataset(stage, level) if self.leveled else self.agent.dataset(stage)
            same = len(said) == len(data) and equal(said.targets / self.span, data.targets)
            same = same and equal(said.features, np.reshape(data.rows, said.features.shape))
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
            same = equal([rung.values, rung.widths], [said.values / self.span, said.widths])
            return rung.k == said.freezing_index and acts and same
        said = LevelStates(self.testbed, self.agent).of(state)
        rungs = self.ladder(state, min(self.agent.episodes + self.constants.first, len(self.accuracies)))
        return len(said) == len(rungs) and all(
            (rung.level, rung.k, rung.action) == (each.level, each.covered, each.action)
            and equal([rung.values, rung.widths], [each.values, each.widths])
            and same_actions(rung.allowed, each.allowed)
            and same_actions(rung.survives, each.survives)
            and (rung.k is not None or same_actions(rung.uncovered, each.uncovered))
            for rung, each in zip(rungs, said, strict=True)
        )


class Dependence(RawData):
    """What the analysis rests on, for the worst of several policies, where the agent says that a state is covered.

    Lemma 14: |sum_i phi_i delta_i|^2 <= n kappa^2 in the norm of the data, delta_i being how far Q^pi is from linear in
    the features that the agent has stored, kappa what it was told. Counts where kappa > 0.
    Lemma 17: a covered feature is a combination of the data with sum c_i^2 <= epsilon^2, but for sqrt(ridge) epsilon.
    Lemmas 18 and 27: from a covered pair on, states that no stored return came through have actions that are worth
    nearly the same under every policy. Counts where that is less than what is left to be lost.
    """

    def begin(self) -> None:
        super().begin()
        self._worst_and_best = all_policies(self.testbed)
        self._drawn = [random_policy(self.testbed.actions, seed) for seed in range(POLICIES)]
        self._values = [self.testbed.values(policy) for policy in self._drawn]
        self._thetas = cache(lambda stage: [self.testbed.theta(stage, policy) for policy in self._drawn])
        self._spread = cache(self._largest_spread)
        self._exact: defaultdict[tuple[int, int], list[list[float]]] = defaultdict(list)
        """Q^pi of the first pairs of a dataset, for every policy drawn."""

    def check(self) -> None:
        if not self.defined:
            return
        if self._tables is None:
            self._check_misfit()
        at, met = LevelStates(self.testbed, self.agent), cache(self._met)
        for states in pool(self.testbed, REPORTS, seed=self.agent.episodes):
            for state in states:
                for level_state in at.of(state):
                    if level_state.covered is not None:
                        level = level_state.level
                        self._check_covered(state, level_state, partial(at.action, level=level), met(state[0], level))

    def _check_misfit(self) -> None:
        for (stage, level), data in self.cells.items():
            if not len(data):
                continue
            exact, kappa = self._exact[stage, level], self.agent.settings.misspecification
            for episode in self.stored[stage, level][len(exact) : SEQUENCE]:
                state, action = self._state(episode, stage), int(episode.actions[stage])
                exact.append([self.testbed.backup(state, value)[action] for value in self._values])
            rows = self.agent.dataset(stage, level).features[: len(exact)]
            inverse = np.linalg.inv(self.instance.ridge * np.eye(self.testbed.dim) + rows.T @ rows)
            bound = len(rows) * kappa**2
            for values, theta in zip(np.array(exact).T, self._thetas(stage), strict=True):
                total = rows.T @ (values - rows @ theta)
                self.counts[0].add(total @ inverse @ total, bound, np.inf if kappa else bound, [(stage, level)])

    def _check_covered(
        self, state: State, level_state: Any, action_of: Callable[[State], int | None], met: set[State]
    ) -> None:
        level, k = level_state.level, level_state.covered
        accuracy, data = self.accuracies[level - 1], self.data(state[0], level)
        bound = 2 * accuracy
        if isinstance(data, Ridge):
            before = np.array(data.rows[:k]).reshape(k, self.testbed.dim)
            rows, ridge = self.rows(state)[level_state.allowed], self.instance.ridge**0.5
            parts = rows @ data.inverses[k] @ before.T
            rests = np.linalg.norm(rows - parts @ before, axis=1)
            sizes = np.column_stack([(parts**2).sum(axis=1), rests])
            self.counts[1].add(sizes, [accuracy**2, ridge * accuracy], np.inf, [state])
            kappa, norm = self.testbed.misspecification, self.testbed.theta_bound
            bound = 2 * (kappa + (self.instance.ridge**0.5 * norm + len(data) ** 0.5 * kappa) * accuracy)
        for action in np.flatnonzero(level_state.allowed).tolist():
            here = self.testbed.next(state, action)
            while here is not None:
                if here not in met:
                    self.counts[-1].add(self._spread(here), bound, self.testbed.horizon - here[0], [here])
                chosen = action_of(here)
                here = self.testbed.next(here, self._drawn[-1](here) if chosen is None else chosen)

    def _largest_spread(self, state: State) -> float:
        """Of Q^pi over actions, for the policy where it is largest."""
        drawn = [self.testbed.backup(state, value) for value in self._values]
        return float(np.ptp([*self._worst_and_best.of_actions(state), *drawn], axis=1).max())

    def _met(self, stage: int, level: int) -> set[State]:
        """States that stored returns of a dataset came through."""
        episodes = self.stored[stage, level]
        return {self.testbed.state(seen) for each in episodes for seen in each.observations[stage + 1 : each.length]}


class Formulas(Monitor):
    """Every constant that decides or promises something, against `formulas`, beyond rounding."""

    def begin(self) -> None:
        self._once = True

    def compare(self, name: object, said: Any, typed: Any) -> None:
        said, typed = np.asarray(said, np.float64), np.asarray(typed, np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.where(said == typed, 0.0, np.abs(said - typed) / (1 + np.abs(typed)))
        self.counts[0].add(np.nan_to_num(apart, nan=np.inf), EQUAL, np.inf, [name])

    def check(self) -> None:
        if self._once:
            self._once = False
            (self._bounds_of_levels if self.leveled else self._bounds)()
            if self.instance.algorithm == "Eluder":
                self._bounds_of_classes()
        self._log_det = cache(self._log_det_of_prefix)  # nothing is learned during a check
        for states in pool(self.testbed, PROMISES, seed=self.agent.episodes):
            for state in states:
                known = self.agent.explain(self.testbed.observation(state), state[0])
                (self._promise_of_level if self.leveled else self._promise)(state[0], known)

    def _bounds(self) -> None:
        constants, epsilon, theory = self.constants, self.instance.epsilon, self.agent.theory
        self.compare("D", self.agent.dataset_bound, constants.most_in(epsilon))
        self.compare("gap", theory.gap(epsilon), constants.gap(epsilon))
        self.compare("episodes", theory.episodes_bound(epsilon), self.testbed.horizon * constants.most_in(epsilon))

    def _alpha(self, stage: int, k: int) -> float:
        """Of Section 4: "paper" has one for all datasets."""
        if self.instance.constants == "paper":
            return float(self.constants.alpha(self.constants.most_in(self.instance.epsilon), stage=stage))
        return float(self.constants.alpha(k, self._log_det(k, stage), stage=stage))

    def _log_det_of_prefix(self, k: int, *cell: int) -> float:
        features = self.agent.dataset(*cell).features[:k]
        return float(np.linalg.slogdet(np.eye(self.testbed.dim) + features.T @ features / self.instance.ridge)[1])

    def _promise(self, stage: int, known: Any) -> None:
        """Lemmas 4 and 6, from this stage on."""
        kappa, horizon = self.constants.kappa, self.testbed.horizon
        errors = self._alpha(stage, known.prefix) * known.widths + kappa
        self.compare(("error", stage), known.value_error / self.span, errors)
        if known.covered:
            alphas = [self._alpha(h, len(self.agent.dataset(h).targets)) for h in range(stage + 1, horizon)]
            later = sum(alpha * self.instance.epsilon + kappa for alpha in alphas)
            self.compare(("promise", stage), known.gap / self.span, 2 * errors.max() + 2 * later)

    def _bounds_of_levels(self) -> None:
        constants, theory = self.constants, self.agent.theory
        self.compare("levels", [self.agent.first_level, self.agent.levels], [constants.first, constants.last - 1])
        for level in range(1, min(constants.last, DEEPEST)):
            self.compare(("D", level), theory.dataset_bound(0.5**level), constants.most_data(level))
            self.compare(("Delta", level), self.agent.level_gap(level), constants.level_gap(level))
            self.compare(("loss", level), theory.level_loss(level), constants.loss(level))
            self.compare(("mistakes", level), theory.mistakes_bound(0.5**level), constants.mistakes(0.5**level))
        for episodes in 10 ** np.arange(1, 8):
            self.compare(("regret", episodes), theory.regret_bound(episodes), constants.regret(episodes))

    def _bounds_of_classes(self) -> None:
        """beta, and D_l where T does not hide it."""
        constants, episodes = self.constants, self.instance.episodes
        most_data = getattr(self.agent.function_class, "most_data", None)
        for level in range(1, min(constants.last, DEEPEST)):
            for k, stage in product((0, 1, 10, episodes), range(self.testbed.horizon)):
                typed = constants.beta(level, k, stage)
                self.compare(("beta", level, k, stage), self.agent.beta(level, k, stage), typed)
            if most_data is not None:
                typed = constants.most_of(0.5**level)
                for radius in (0.01, 1.0, self.agent.beta(level, episodes)):
                    said = most_data(0.5**level, radius)
                    self.compare(("most data", level), said, typed(radius))

    def _promise_of_level(self, stage: int, known: Any) -> None:
        """Lemma 20 from this stage on, and eq. (7) at every level."""
        left = self.testbed.horizon - stage
        gap = min(left, 2 * self.constants.later(stage, known.level)) if known.level else left
        self.compare(("promise", stage, known.level), known.gap / self.span, gap)
        for each in known.level_states:
            if each.covered is None:
                continue
            linear = self.instance.algorithm == "Regret"
            log_det = self._log_det(each.covered, stage, each.level) if linear else None
            factor, bias, slack = self.constants.margins(
                self.instance.elimination, stage, each.level, each.covered, log_det
            )
            lower = np.where(each.allowed, each.values / self.span - factor * each.widths - bias, -np.inf)
            self.compare(("threshold", stage, each.level), each.threshold / self.span, lower.max() - slack)


def equal(one: object, other: object) -> bool:
    """Up to rounding; NaN is equal to NaN."""
    return np.allclose(np.asarray(one), np.asarray(other), rtol=EQUAL, atol=EQUAL, equal_nan=True)
