"""Slips that bounds would forgive, one at a time: each is caught by a monitor of `fpi verify` that is named here."""

import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.verifying import distinct, healthy, violated

from fpi import PAC, Eluder, Regret
from fpi.algorithms.levels import LeveledAgent
from fpi.algorithms.theory import Constants
from fpi.evaluation import Decision
from fpi.function_classes import LinearBall
from fpi.function_classes.finite import FinitePrefixes
from fpi.verify import formulas, instances, literal
from fpi.verify.instances import Instance
from fpi.verify.run import prepare, watch

BANDIT = Instance("bandit", "LinBandit", {"d": 3, "K": 5}, epsilon=0.2, episodes=128, walks=5)
HUBS = Instance("hubs", "HubNet", {"B": 1, "m": 2, "K": 3, "p": 1}, epsilon=0.2, episodes=128, walks=5)
HINDSIGHT = replace(instances._HINDSIGHT_4, episodes=64)
KAPPA = replace(HUBS, name="κ", kappa=0.05)
LEVELS = replace(BANDIT, algorithm="Regret", elimination="interval", episodes=128)
LEVEL_HUBS = replace(HUBS, algorithm="Regret", scale=0.05)
LEVEL_KAPPA = replace(LEVEL_HUBS, name="κ", kappa=0.05, elimination="stage")
ELIMINATING = replace(LEVEL_HUBS, arguments={"B": 1, "m": 2, "K": 20, "p": 1}, scale=0.03)
DROPS = replace(LEVEL_HUBS, name="drops", family="Diamond", arguments={"n": 12}, explore="random")
TABLES = Instance(
    "tables", "TableBandit", {"contexts": 4, "K": 2, "N": 12}, algorithm="Eluder", scale=0.05, episodes=128, walks=4
)
CLASS_HUBS = replace(TABLES, family="TableHubs", arguments={"contexts": 5, "m": 2, "K": 2, "R": 3}, scale=1.0)
LEVEL_AUTO = replace(instances._LEVEL_AUTO, episodes=64)
BALL = replace(TABLES, name="ball", family="LinBandit", arguments={"d": 2, "K": 3}, episodes=64)


def estimates(agent, rows, stage, level, k):
    """Widths and values from the first k data."""
    data = agent.datasets.dataset(stage, level)
    phi, ridge = data.features[:k], agent.datasets.ridge
    inverse = np.linalg.inv(ridge * np.eye(phi.shape[1]) + phi.T @ phi)
    return np.sqrt(((rows @ inverse) * rows).sum(axis=1)), rows @ inverse @ phi.T @ data.targets[:k]


# --- Algorithm 1 -------------------------------------------------------------------------------------------


class ReadablePAC(PAC):
    """Plays `pi`, as it stands in pac.py."""

    def begin_episode(self, training_state):
        def act(observation, stage):
            action, covered = self.pi(observation, stage, training_state.episodes)
            if not covered:
                self.datasets.keep(self.datasets.rows(observation, stage), observation, action, 1)
            return action, not covered

        return act

    def decide(self, observation, stage, episode=None):
        return self.pi(observation, stage, episode)


def covers_at(factor, base=PAC):
    class CoversAt(base):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            self.datasets.thresholds = [factor * threshold for threshold in self.datasets.thresholds]

    return CoversAt


class FreezesAtAnotherPrefix(ReadablePAC):
    def _frozen_values(self, observation, stage):
        known = super()._frozen_values(observation, stage)
        if known.freezing_index is None:
            return known
        k = self.other(self.datasets.rows(observation, stage)[1], stage, known.freezing_index)
        widths, values = self.datasets.estimate(observation, stage, k)
        return known._replace(freezing_index=k, prefix=k, widths=widths, values=values)


class FreezesAtHalf(FreezesAtAnotherPrefix):
    def other(self, rows, stage, k):
        return k // 2


class FreezesAtOneAction(FreezesAtAnotherPrefix):
    """At the first prefix that covers any action."""

    def other(self, rows, stage, k):
        return next(
            i for i in range(k + 1) if estimates(self, rows, stage, 1, i)[0].min() <= self.settings.epsilon * (1 + 1e-9)
        )


class UsesLaterData(FreezesAtAnotherPrefix):
    """One datum more than the first prefix that covers, and says nothing of it."""

    def _frozen_values(self, observation, stage):
        known = super()._frozen_values(observation, stage)
        return known if known.freezing_index is None else known._replace(freezing_index=max(known.prefix - 1, 0))

    def other(self, rows, stage, k):
        return min(k + 1, self.datasets.size(stage))


class ExploresCovered(ReadablePAC):
    """Takes a covered action of an uncovered state, where there is one."""

    def pi(self, observation, stage, episode=None):
        known = self._frozen_values(observation, stage)
        if known.freezing_index is not None or known.uncovered.all():
            return super().pi(observation, stage, episode)
        return Decision(int((~known.uncovered).argmax()), False)


class StoresTheFirst(ReadablePAC):
    """The first exploring step of an episode instead of the last."""

    def begin_episode(self, training_state):
        explored = []

        def act(observation, stage):
            action, covered = self.pi(observation, stage, training_state.episodes)
            first = not covered and not explored
            if first:
                explored.append(stage)
                self.datasets.keep(self.datasets.rows(observation, stage), observation, action, 1)
            return action, first

        return act


class StoresOneReward(PAC):
    """The reward of the step instead of the return from it on."""

    def end_episode(self, training_state, explored):
        super().end_episode(training_state, explored and (*explored[:2], min(explored[2], 1.0)))


class TakesTheLastOfTies(ReadablePAC):
    def pi(self, observation, stage, episode=None):
        decision = super().pi(observation, stage, episode)
        if not decision.covered:
            return decision
        values = self._frozen_values(observation, stage).values
        return Decision(int(np.flatnonzero(values >= values.max() - 1e-9)[-1]), True)


class StoresNewestFirst(PAC):
    """Numbers trajectories downwards, by which hindsight orders them."""

    def _finish_pending(self):
        if self._ending is not None:
            state, ended = self._ending
            self._ending = state, ended._replace(episode=-state.episodes)
        super()._finish_pending()

    def _settle(self, stage, arrived, number):
        return super()._settle(stage, arrived, -number - 1)


class DoesNotLookAgain(PAC):
    """Stores every trajectory that comes back to a step once more, covered by now or not."""

    def _settle(self, stage, arrived, number):
        settled = super()._settle(stage, arrived, number)
        for each in arrived:
            observation, action = each.observations[stage], int(each.actions[stage])
            self.datasets.keep(self.datasets.rows(observation, stage), observation, action, 1)
            self.datasets.append(self.datasets.kept, stage, action, float(each.returns[stage]), number)
        return settled


class GoesBackPastUncovered(PAC):
    """Trajectories do not wait until the state that they have come back to is covered."""

    def _settle(self, stage, arrived, number):
        settled = super()._settle(stage, arrived, number)
        if stage == 0:
            return settled
        waiting = [each for each in arrived if any(each is other for other in self.open[stage])]
        return [*settled, *(each._replace(actions=each.actions[:stage]) for each in waiting)]


# --- Algorithm 2 -------------------------------------------------------------------------------------------


class LooksAgain(Regret):
    """Levels at a state with values from another prefix."""

    def _next_level(self, rows, stage, below, key=None):
        look = self.datasets.look

        def changed(rows, stage, level, allowed, key=None):
            found = look(rows, stage, level, allowed, key)
            if found.covered_at is None:
                return found
            k = self.other(rows[1], stage, level, allowed, found.covered_at)
            widths, values = estimates(self, rows[1], stage, level, k)
            nothing = np.where(allowed, 0.0, np.nan)
            return found._replace(covered_at=k, widths=widths + nothing, values=values + nothing)

        self.datasets.look = changed
        try:
            return super()._next_level(rows, stage, below, key)
        finally:
            self.datasets.look = look


class LevelFreezesAtHalf(LooksAgain):
    def other(self, rows, stage, level, allowed, k):
        return k // 2


class LevelFreezesAtOneAction(LooksAgain):
    def other(self, rows, stage, level, allowed, k):
        most = 0.5**level * (1 + 1e-9)
        return next(i for i in range(k + 1) if estimates(self, rows, stage, level, i)[0][allowed].min() <= most)


class LevelExploresCovered(Regret):
    def _explore(self, level_states, *question):
        last = level_states[-1]
        covered = last.allowed & ~last.uncovered
        return int(covered.argmax()) if covered.any() else super()._explore(level_states, *question)


class LevelIsNotLowered(Regret):
    """Goes on at the level that the episode began with, and says what it plays."""

    def begin_episode(self, training_state):
        super().begin_episode(training_state)
        start, playing = min(training_state.episodes + 1, self.levels + 1), self.playing

        def play(observation, stage):
            action, level, explores = self.act(observation, stage, start, training_state.seed, training_state.episodes)
            playing.append(min([level, *playing]))
            return action, explores

        return play


class StoresAtTheFirstLevel(Regret):
    """A datum goes to the level of the first exploring step of its episode."""

    def begin_episode(self, training_state):
        play, keep, first = super().begin_episode(training_state), type(self.datasets).keep, []

        def kept(rows, observation, action, level):
            first.append(level)
            keep(self.datasets, rows, observation, action, first[0])

        self.datasets.keep = kept
        return play


class ThresholdOfTheNextLevel(LeveledAgent):
    def margins(self, stage, level, prefix):
        return super().margins(stage, level + 1, prefix)


class ThresholdWithoutLaterStages(Regret):
    def margins(self, stage, level, prefix):
        factor, bias, slack = super().margins(stage, level, prefix)
        return factor, bias, slack / self.horizon if not factor else 0.0


class IntervalsOfAllData(Regret):
    """Errors at the frozen prefix with the alpha of all data."""

    def errors(self, stage, level, prefix):
        return super().errors(stage, level, self.datasets.size(stage, level))


class TriesTwoLevels(Regret):
    def act(self, observation, stage, level, seed, episode):
        return super().act(observation, stage, min(level or episode + 1, 2), seed, episode)


class ForgetsEliminations(Regret):
    """Allows all actions at every level."""

    def _next_level(self, rows, stage, below, key=None):
        below = [each._replace(survives=self._everything) for each in below]
        return super()._next_level(rows, stage, below, key)


# --- promises ----------------------------------------------------------------------------------------------


class PromisesWithoutLaterStages(PAC):
    def explain(self, observation, stage):
        known = super().explain(observation, stage)
        return replace(known, gap=2 * float(known.value_error.max()) if known.covered else known.gap)


class PromisesWithoutTheOwnStage(PAC):
    def explain(self, observation, stage):
        known = super().explain(observation, stage)
        return replace(known, gap=known.gap - 2 * float(known.value_error.max()) if known.covered else known.gap)


class PromisesWithoutTheStagesLeft(LeveledAgent):
    def explain(self, observation, stage):
        known = super().explain(observation, stage)
        left = self.horizon - stage
        return replace(known, gap=min(left, 2 * self.level_gap(known.level)) if known.covered else known.gap)


def of(mutant, base):
    return type(mutant.__name__, (mutant, base), {})


MUTANTS = [
    ("covers at 1.5 ε", covers_at(1.5), BANDIT, {"Algorithm 1", "Equations 1-3"}),
    ("covers at 3 ε", covers_at(3), BANDIT, {"Algorithm 1", "Equations 1-3"}),
    ("covers at 0.9 ε", covers_at(0.9), BANDIT, {"Algorithm 1", "Equations 1-3"}),
    ("freezes at k/2", FreezesAtHalf, HUBS, {"Equations 1-3"}),
    ("freezes at the first prefix that covers one action", FreezesAtOneAction, HUBS, {"Equations 1-3"}),
    ("freezes one datum later and hides it", UsesLaterData, HUBS, {"Equations 1-3"}),
    ("explores covered actions", ExploresCovered, BANDIT, {"Algorithm 1"}),
    ("stores the first exploring step", StoresTheFirst, HUBS, {"Algorithm 1"}),
    ("stores one reward for a return", StoresOneReward, HUBS, {"Algorithm 1"}),
    (
        "takes the last of equal actions",
        TakesTheLastOfTies,
        replace(HUBS, family="Diamond", arguments={"n": 3}),
        {"Algorithm 1"},
    ),
    ("hindsight stores the newest first", StoresNewestFirst, HINDSIGHT, {"Algorithm 1"}),
    ("hindsight stores what is covered", DoesNotLookAgain, HINDSIGHT, {"Algorithm 1"}),
    (
        "hindsight goes back past uncovered states",
        GoesBackPastUncovered,
        HINDSIGHT,
        {"Algorithm 1", "Lemma 2"},
    ),
    ("covers at 1.5 · 2^-l", covers_at(1.5, Regret), LEVELS, {"Algorithm 2", "Equations 6-8"}),
    ("covers at 2 · 2^-l", covers_at(2, Regret), LEVELS, {"Algorithm 2", "Equations 6-8"}),
    ("covers at 3 · 2^-l", covers_at(3, Regret), LEVELS, {"Algorithm 2", "Equations 6-8"}),
    ("covers at 0.9 · 2^-l", covers_at(0.9, Regret), LEVELS, {"Algorithm 2", "Equations 6-8", "Lemma 7"}),
    ("a level freezes at k/2", LevelFreezesAtHalf, LEVELS, {"Equations 6-8"}),
    ("a level freezes where one action is covered", LevelFreezesAtOneAction, LEVELS, {"Equations 6-8"}),
    ("a level explores covered actions", LevelExploresCovered, LEVELS, {"Algorithm 2", "Lemma 7"}),
    ("the level is not lowered", LevelIsNotLowered, DROPS, {"Algorithm 2"}),
    ("a datum goes to the level of the first exploring step", StoresAtTheFirstLevel, DROPS, {"Algorithm 2"}),
    (
        "threshold Δ_{l+1}",
        of(ThresholdOfTheNextLevel, Regret),
        ELIMINATING,
        {"Equations 6-8", "Constants 5"},
    ),
    ("threshold 2^(-l-1) for F", of(ThresholdOfTheNextLevel, Eluder), CLASS_HUBS, {"Constants for F"}),
    ("intervals with the α of all data", IntervalsOfAllData, LEVELS, {"Constants 5"}),
    ("threshold without later stages", ThresholdWithoutLaterStages, ELIMINATING, {"Equations 6-8", "Constants 5"}),
    ("tests two levels only", TriesTwoLevels, LEVELS, {"Algorithm 2"}),
    ("eliminates nothing", ForgetsEliminations, LEVEL_HUBS, {"Equations 6-8"}),
]
PROMISES = [
    ("promise of PAC without later stages", PromisesWithoutLaterStages, HUBS, {"Constants 4"}),
    ("promise of PAC without its own stage", PromisesWithoutTheOwnStage, HUBS, {"Constants 4"}),
    (
        "promise of Regret without the stages left",
        of(PromisesWithoutTheStagesLeft, Regret),
        replace(LEVEL_HUBS, scale=0.01),
        {"Constants 5"},
    ),
    (
        "promise of Eluder without the stages left",
        of(PromisesWithoutTheStagesLeft, Eluder),
        CLASS_HUBS,
        {"Constants for F"},
    ),
]


@pytest.mark.parametrize("mutant, instance, claims", [row[1:] for row in MUTANTS], ids=[row[0] for row in MUTANTS])
def test_a_mutant_is_caught(mutant, instance, claims):
    assert claims <= violated(instance, mutant, claims, until=claims.issubset)


@pytest.mark.parametrize("mutant, instance, claims", [row[1:] for row in PROMISES], ids=[row[0] for row in PROMISES])
def test_a_wrong_promise_is_caught_by_recomputed_constants_only(mutant, instance, claims):
    assert sound(violated(instance, mutant)) == claims


# --- constants: the effect of these is far inside the room that bounds have ------------------------------


def without_kappa(self, *args, honest=Constants.alpha, **others):
    return honest(replace(self, misspecification=0.0), *args, **others)


def less_noise(self, *args, honest=Constants.alpha, **others):
    noise = honest(replace(self, misspecification=0.0, theta_bound=0.0), *args, **others)
    return honest(self, *args, **others) - 0.25 * noise


def half_log_det(self, n, log_det=None, *args, honest=Constants.alpha, **others):
    log_det = self.log_det_bound(n) if log_det is None else log_det
    return honest(replace(self, mode="tight"), n, log_det / 2, *args, **others)


def without_ridge(self, *args, honest=Constants.alpha, **others):
    return honest(replace(self, theta_bound=0.0), *args, **others)


def scaled(method, factor):
    return lambda self, *args, **others: factor * method(self, *args, **others)


def undivided(self, level, k, stage=0, honest=Eluder.beta):
    """beta with delta for every dataset."""
    share, self.settings = (
        self.settings,
        replace(self.settings, delta=min(0.99, self.settings.delta * 4 * self.horizon * level**2)),
    )
    try:
        return honest(self, level, k, stage)
    finally:
        self.settings = share


def narrow(self, rows, allowed, after=0):
    """The first prefix that is narrow enough, dependent or not."""
    most = self.epsilon * (1 + 1e-9)
    return next((k for k in range(after, len(self) + 1) if (self.widths(rows[allowed], k) <= most).all()), None)


def gaps_without_kappa(self, *level, honest=Constants.stage_gaps):
    return honest(self, *level) - self.misspecification


def natural_levels(self):
    return max(2, math.floor(math.log(math.sqrt(self.horizon) / self.misspecification)) + 1)


OF_BETA = {"Constants for F", "Algorithm 2 for F", "Equations 6-8 for F"}
PATCHES = [
    ("α without √n·κ", Constants, "alpha", without_kappa, KAPPA, {"Constants 4"}),
    ("α_l without √n·κ", Constants, "alpha", without_kappa, LEVEL_KAPPA, {"Constants 5"}),
    ("α without the union bound", Constants, "union", lambda self, level: 1 / self.delta, HUBS, {"Constants 4"}),
    (
        "α_l without the union bound",
        Constants,
        "union",
        lambda self, level: 1 / self.delta,
        LEVEL_HUBS,
        {"Constants 5"},
    ),
    (
        "union bound without levels",
        Constants,
        "union",
        lambda self, level: self.horizon / self.delta,
        LEVEL_HUBS,
        {"Constants 5"},
    ),
    ("noise × 0.75", Constants, "alpha", less_noise, HUBS, {"Constants 4"}),
    ("noise × 0.75 at a level", Constants, "alpha", less_noise, LEVEL_HUBS, {"Constants 5"}),
    ("log det / 2", Constants, "alpha", half_log_det, HUBS, {"Constants 4"}),
    ("log det / 2 at a level", Constants, "alpha", half_log_det, LEVEL_HUBS, {"Constants 5"}),
    ("α without the ridge", Constants, "alpha", without_ridge, HUBS, {"Constants 4"}),
    ("D / 2", Constants, "dataset_bound", scaled(Constants.dataset_bound, 0.5), HUBS, {"Constants 4"}),
    ("Δ_l without κ", Constants, "stage_gaps", gaps_without_kappa, LEVEL_KAPPA, {"Constants 5"}),
    ("L̄ with ln for log2", Constants, "levels", natural_levels, LEVEL_KAPPA, {"Constants 5"}),
    (
        "losses of the level after",
        Constants,
        "level_loss",
        lambda self, level, honest=Constants.level_loss: honest(self, level + 1),
        LEVELS,
        {"Constants 5"},
    ),
    (
        "first level one too high",
        Constants,
        "first_promising_level",
        lambda self, honest=Constants.first_promising_level: honest(self) + 1,
        LEVEL_AUTO,
        {"Algorithm 2", "Constants 5", "Equations 6-8"},
    ),
    ("D_l / 2", Constants, "dataset_bound", scaled(Constants.dataset_bound, 0.5), LEVEL_HUBS, {"Constants 5"}),
    ("β / 4", Eluder, "beta", scaled(Eluder.beta, 0.25), TABLES, OF_BETA),
    ("β with δ unsplit", Eluder, "beta", undivided, TABLES, OF_BETA),
    (
        "most_data of balls halved",
        LinearBall,
        "most_data",
        scaled(LinearBall.most_data, 0.5),
        BALL,
        {"Constants for F"},
    ),
    ("no dependence test", FinitePrefixes, "first_cover", narrow, TABLES, {"Algorithm 2 for F", "Equations 6-8 for F"}),
    (
        "covering number of a ball too small",
        LinearBall,
        "log_covering",
        scaled(LinearBall.log_covering, 0.5),
        BALL,
        {"Constants for F"},
    ),
]


@pytest.mark.parametrize(
    "kind, name, change, instance, claims", [row[1:] for row in PATCHES], ids=[row[0] for row in PATCHES]
)
def test_a_wrong_constant_is_caught_by_these_monitors_only(kind, name, change, instance, claims, monkeypatch):
    monkeypatch.setattr(kind, name, change)
    assert sound(violated(instance)) == claims


def sound(claims):
    """Without rows of scaled constants."""
    return {claim for claim in claims if "×" not in claim}


HEALTHY = distinct([*(row[2] for row in [*MUTANTS, *PROMISES]), *(row[4] for row in PATCHES), CLASS_HUBS])


@pytest.mark.parametrize("instance", HEALTHY, ids=repr)
def test_the_algorithm_passes_where_mutants_are_caught(instance):
    assert not sound(claim for claim, counts in healthy(instance).items() if counts.violations)


# --- what the mutants rest on ------------------------------------------------------------------------------


def test_the_worst_perturbation_needs_its_part_of_alpha(monkeypatch):
    """Bounds on values see it too: hash noise would average out."""
    monkeypatch.setattr(Constants, "alpha", without_kappa)
    claims = {"Lemma 4", "Lemma 5"}
    assert claims <= violated(instances._BIASED_BANDIT, None, claims, until=claims.issubset)


def test_levels_fall_inside_episodes():
    testbed = instances._LEVEL_DROPS.testbed()
    agent, falls = instances._LEVEL_DROPS.agent(testbed), []
    agent.learn(testbed.env(), 200, seed=0, callback=lambda _: falls.append(agent.played[-1] < agent.played[0]))
    assert sum(falls) > 10


def test_hindsight_stores_earlier_episodes():
    agent, env, (definitions,) = prepare(HINDSIGHT, {"Algorithm 1"})
    agent.learn(env, HINDSIGHT.episodes, seed=1, callback=watch([definitions], HINDSIGHT.episodes))
    played = [each.number for stage in range(agent.horizon) for each in definitions.stored[stage, 1]]
    stored = np.concatenate([agent.dataset(stage).episodes for stage in range(agent.horizon)])
    assert definitions.defined and np.count_nonzero(stored > played) > 10


@pytest.mark.parametrize("module", [formulas, literal])
def test_the_literal_path_shares_no_code_with_the_library(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {getattr(node, "module", None) or node.names[0].name for node in imported}
    assert imported and not any(name.split(".")[0] == "fpi" for name in names)
