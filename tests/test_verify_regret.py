"""The monitors of `fpi verify` for Section 5: silent on the algorithm, each caught by an agent that is broken."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support import mutants
from support.verifying import distinct, healthy, violated
from typer.testing import CliRunner

from fpi import Regret
from fpi.algorithms.levels import LeveledAgent
from fpi.cli import app
from fpi.verify import exact, instances, report
from fpi.verify.instances import Instance

PAC_CLAIMS = [name for name, claim in report.CLAIMS.items() if claim.algorithm == "PAC"]
REGRET_CLAIMS = [name for name, claim in report.CLAIMS.items() if claim.algorithm == "Regret"]
LevelInstance = partial(Instance, algorithm="Regret")
ARMS = LevelInstance("arms", "DeepSea", {"N": 1}, ridge=0.3, episodes=128, walks=1)
SCALED = replace(ARMS, scale=0.15, episodes=64)
SEA = LevelInstance("sea", "DeepSea", {"N": 2}, ridge=0.3, episodes=128, walks=1)
BANDIT = LevelInstance("bandit", "LinBandit", {"d": 3, "K": 5}, episodes=512, elimination="interval", walks=20)
CORRIDOR = LevelInstance(
    "corridor", "HubCorridor", {"B": 1, "m": 2, "K": 3, "p": 1, "q": 1, "junk": 1}, episodes=64, walks=3
)
HUBS = replace(instances._LEVEL_HUBS, episodes=64)
BIASED = replace(instances._LEVEL_BIASED, episodes=64)


# --- agents that are broken on purpose ---------------------------------------------------------------------


class ExploresTooLong(Regret):
    """Its idea of covered is a tenth of what it says."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.datasets.thresholds = [threshold / 10 for threshold in self.datasets.thresholds]


class FollowsTheData(mutants.FollowsTheData, Regret):
    shrinks_from = 50


class DoesNotFreeze(mutants.DoesNotFreeze, Regret):
    def estimates_on_all_data(self, rows, stage, level):
        data = self.datasets.dataset(stage, level)
        sigma = self.ridge * np.eye(data.features.shape[1]) + data.features.T @ data.features
        return rows[1] @ np.linalg.solve(sigma, data.features.T @ data.targets)


class StoresTooMuch(mutants.StoresTooMuch, Regret):
    pass


class StoresTheFirst(Regret):
    """The first exploring step of an episode instead of the last."""

    def begin_episode(self, training_state):
        play, explored = super().begin_episode(training_state), []
        vars(self.datasets).pop("keep", None)

        def act(observation, stage):
            if explored:
                self.datasets.keep = lambda *step: None
            action, explores = play(observation, stage)
            first = explores and not explored
            explored.extend([stage] * explores)
            return action, first

        return act


class StoresAnotherAction(Regret):
    """The features of another action than the one that was played."""

    def begin_episode(self, training_state):
        play, keep = super().begin_episode(training_state), type(self.datasets).keep
        self.datasets.keep = lambda rows, observation, action, level: keep(
            self.datasets, rows, observation, (action + 1) % self.actions, level
        )
        return play


class BelievesInHalfOfKappa(Regret):
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.settings = replace(self.settings, misspecification=self.settings.misspecification / 2)


class ShiftsTargets(mutants.ShiftsTargets, Regret):
    by = 0.3


class ShiftsTargetsALittle(mutants.ShiftsTargets, Regret):
    by = 0.15


class BoastsOfItsWidths(Regret):
    """Says that it is surer than it is."""

    def level_states(self, observation, stage):
        return tuple(each._replace(widths=each.widths / 8) for each in super().level_states(observation, stage))


class CoversTooEarly(Regret):
    """Its idea of covered is eight times what it says."""

    times = 8

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.datasets.thresholds = [self.times * threshold for threshold in self.datasets.thresholds]


class CoversWhatItNeverSaw(CoversTooEarly):
    times = 30


class PlaysTheWorstOfTheAllowed(mutants.PlaysTheWorstOfTheAllowed, Regret):
    pass


class EliminatesTooMuch(Regret):
    """Keeps only the best by its estimates."""

    def margins(self, stage, level, prefix):
        return 0.0, 0.0, 0.0


class PlaysTheWorst(mutants.PlaysTheWorst, Regret):
    every = 2


class ForgetsToStore(mutants.ForgetsToStore, Regret):
    pass


MUTANTS = [
    (ExploresTooLong, SEA, {"Lemma 7", "Lemma 8", "Lemma 22", "Lemma 23"}),
    (FollowsTheData, BANDIT, {"Lemma 9"}),
    (DoesNotFreeze, BANDIT, {"Lemma 9"}),
    (StoresTooMuch, CORRIDOR, {"Lemma 10", "Lemma 19"}),
    (StoresTheFirst, CORRIDOR, {"Lemma 10", "Lemma 19"}),
    (ShiftsTargetsALittle, BANDIT, {"Lemma 11"}),
    (ShiftsTargets, BANDIT, {"Lemma 11", "Lemma 12", "Lemma 13"}),
    (BelievesInHalfOfKappa, BIASED, {"Lemma 14"}),
    (StoresAnotherAction, BIASED, {"Lemma 7", "Lemma 14"}),
    (BoastsOfItsWidths, BANDIT, {"Lemma 15"}),
    (CoversTooEarly, BANDIT, {"Lemma 16", "Lemma 17", "Lemma 21"}),
    (CoversWhatItNeverSaw, HUBS, {"Lemma 16", "Lemma 17", "Lemma 18", "Lemma 19", "Lemma 20a"}),
    (PlaysTheWorstOfTheAllowed, BANDIT, {"Lemma 20a"}),
    (EliminatesTooMuch, replace(BANDIT, arguments={"d": 3, "K": 20}, episodes=32), {"Lemma 20b"}),
    (PlaysTheWorst, SCALED, {"Lemma 21"}),
    (ForgetsToStore, ARMS, {"Lemma 22", "Lemma 23"}),
]


def plain(claims):
    """Whatever the scale."""
    return {claim.split(",")[0] for claim in claims}


@pytest.mark.parametrize("mutant, instance, claims", MUTANTS)
def test_every_mutant_is_caught_by_its_monitor_alone(mutant, instance, claims):
    """The first monitors to see it are these and no others."""
    found = violated(instance, mutant, until=lambda found: claims <= plain(found))
    assert mutants.about_values(plain(found)) == claims


@pytest.mark.slow
def test_losing_much_for_long_breaks_the_theorems():
    """They follow from Lemmas 21 and 22, so no agent breaks them alone."""
    instance, claims = replace(SCALED, episodes=2_048), {"Lemma 21", "Theorem 2", "Theorem 3"}
    assert not violated(instance, None, claims)
    assert plain(violated(instance, PlaysTheWorst, claims, until=lambda found: claims <= plain(found))) == claims


def test_every_lemma_has_a_mutant():
    assert set.union(*(row[2] for row in MUTANTS)) == {claim for claim in REGRET_CLAIMS if claim.startswith("Lemma")}


@pytest.mark.parametrize("instance", distinct(row[1] for row in MUTANTS), ids=repr)
def test_the_algorithm_passes_where_mutants_are_caught(instance):
    assert not [claim for claim, counts in healthy(instance).items() if counts.violations]


# --- exact values ------------------------------------------------------------------------------------------


def learned(instance, episodes):
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    agent.learn(testbed.env(), episodes, seed=0)
    return testbed, agent, exact.LevelStates(testbed, agent)


def test_brackets_hold_every_policy_that_agrees_where_covered():
    """All completions of pi^(l) on a small sea, by enumeration."""
    sea = replace(SEA, arguments={"N": 3, "cost": 0.3}, ridge=0.1)
    testbed, _, level_states = learned(sea, 20)
    cells = [(stage, column) for stage in range(3) for column in range(stage + 1)]
    frozen = {level: {cell: level_states.action(cell, level) for cell in cells} for level in (1, 2)}
    assert {None, 0, 1} == set(frozen[1].values())
    for level in frozen:
        free = [cell for cell in cells if frozen[level][cell] is None]
        values = []
        for choice in itertools.product(range(2), repeat=len(free)):
            policy = {**frozen[level], **dict(zip(free, choice, strict=True))}
            values.append(testbed.action_values((0, 0), policy.__getitem__))
        brackets = exact.Brackets(testbed, frozen[level].__getitem__).of_actions((0, 0))
        assert brackets == pytest.approx(np.array([np.min(values, axis=0), np.max(values, axis=0)]), abs=1e-12)


def test_a_state_that_levels_do_not_cover_has_no_action():
    testbed, agent, level_states = learned(ARMS, 100)
    state = testbed.held_out(1)[0]
    last = len(level_states.of(state))
    assert level_states.action(state, last - 1) == agent.predict(testbed.observation(state), 0)
    assert level_states.action(state, last) is None and level_states.action(state, last + 1) is None


# --- the table ---------------------------------------------------------------------------------------------

TINY = replace(BANDIT, episodes=64, walks=2, seeds=1)


def test_scaled_agents_owe_what_holds_for_all_of_them():
    found = [*healthy(replace(TINY, scale=0.1))]
    apart = ("Lemma 16", "Lemma 20a", "Lemma 20b", "Lemma 21", "Theorem 2", "Theorem 3")
    assert {claim for claim in found if "," in claim} == {f"{claim}, α × 0.1" for claim in apart}
    plain = {claim for claim in found if "," not in claim}
    assert plain == set(REGRET_CLAIMS) - {*apart} | {"Lemma 16"}


def test_both_sections_stand_in_one_table_with_scaled_rows_last():
    coarse = Instance("arms", "DeepSea", {"N": 1}, epsilon=0.5, episodes=40, walks=1, seeds=1)
    verdicts = report.verify([coarse, TINY, replace(TINY, name="scaled", scale=0.1)], workers=1)
    names, plain = [verdict.claim for verdict in verdicts], [*PAC_CLAIMS, *REGRET_CLAIMS]
    assert names[: len(plain)] == plain
    assert [verdict.instances for verdict in verdicts[: len(PAC_CLAIMS) + 1]] == [1] * len(PAC_CLAIMS) + [2]
    assert names[len(plain) :] == [
        f"{claim}, α × 0.1" for claim in ("Lemma 16", "Lemma 20a", "Lemma 20b", "Lemma 21", "Theorem 2", "Theorem 3")
    ]
    assert all(verdict.scaled == (number >= len(plain)) for number, verdict in enumerate(verdicts))
    legend = report.legend(verdicts)
    assert all(f"{claim}: " in legend for claim in plain) and "Uniform-PAC" in legend


def command(*arguments):
    return CliRunner().invoke(app, ["verify", *arguments], env={"COLUMNS": "80"})


def test_the_command_checks_section_5_too(monkeypatch):
    monkeypatch.setattr(instances, "QUICK", (TINY, replace(TINY, name="scaled", scale=0.1)))
    result = command("--quick", "--workers", "1")
    assert result.exit_code == 1, result.output  # so short a run says nothing of most claims
    for claim in REGRET_CLAIMS:
        assert f" {claim} " in result.output
    assert "Theorem 3, α × 0.1" in result.output
    assert max(map(len, result.output.split("Lemma 8:")[0].splitlines())) <= 80


def test_the_command_runs_only_what_the_chosen_claims_need(monkeypatch):
    monkeypatch.setattr(instances, "QUICK", (Instance("none", "no such family"), TINY))
    result = command("--quick", "--claims", "20, T2", "--workers", "1")
    assert "VIOLATED" not in result.output, result.output
    rows = [" ".join(line.split()[:2]) for line in result.output.split("Lemma 20a:")[0].splitlines()]
    assert [row for row in rows if row.startswith(("Lemma", "Theorem"))] == ["Lemma 20a", "Lemma 20b", "Theorem 2"]


def test_violations_of_section_5_make_the_command_fail(monkeypatch):
    monkeypatch.setattr(instances, "FULL", (replace(ARMS, seeds=1),))
    monkeypatch.setattr(
        Regret,
        "end_episode",
        lambda self, training_state, explored: LeveledAgent.end_episode(self, training_state, None),
    )
    result = command("--claims", "22", "--workers", "1")
    assert result.exit_code == 1
    assert "VIOLATED beyond what δ allows: Lemma 22" in result.output
