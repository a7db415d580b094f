"""The monitors of `fpi verify` for function classes: silent on the algorithm, each caught by a broken agent."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support import mutants
from support.verifying import distinct, healthy, violated
from typer.testing import CliRunner

from fpi import Eluder
from fpi.algorithms.levels import LeveledAgent
from fpi.cli import app
from fpi.function_classes import FiniteClass
from fpi.testbeds import random_policy
from fpi.verify import instances, report
from fpi.verify.instances import Instance

ELUDER_CLAIMS = [name for name, claim in report.CLAIMS.items() if claim.algorithm == "Eluder"]
ClassInstance = partial(Instance, algorithm="Eluder")
TWO = replace(instances._TWO, episodes=1_024)
TABLES = ClassInstance("tables", "TableBandit", {"contexts": 30, "K": 4, "N": 20}, episodes=512, walks=30)
HUBS = ClassInstance("hubs", "TableHubs", {"contexts": 20, "m": 2, "K": 2, "R": 5}, episodes=64, walks=30)
CLOSE = ClassInstance(  # a candidate near every table
    "close", "TableBandit", {"contexts": 1, "K": 2, "N": 200}, explore="random", episodes=256, walks=1
)
SCALED = replace(instances._SCALED, scale=0.1, episodes=512, walks=30)  # estimates move while states are frozen


def claimed(found):
    """Lemmas and theorems; rows of a scaled beta are none."""
    return mutants.about_values(found & {*report.CLAIMS})


# --- agents that are broken on purpose ---------------------------------------------------------------------


class ExploresTooLong(mutants.NeverCovers, Eluder):
    pass


class RemembersNothing(Eluder):
    """Looks again at every state, so that a mutant cannot hide behind what was known before."""

    def ladder(self, *arguments, **keywords):
        self._frozen.clear()
        return super().ladder(*arguments, **keywords)


class FollowsTheData(mutants.FollowsTheData, RemembersNothing):
    shrinks_from = 10


class DoesNotFreeze(mutants.DoesNotFreeze, RemembersNothing):
    def estimates_on_all_data(self, rows, stage, level):
        data = self.datasets.prefixes(stage, level)
        return data.estimates(rows, len(data))


class StoresTooMuch(mutants.StoresTooMuch, Eluder):
    pass


class ShiftsTargets(mutants.ShiftsTargets, Eluder):
    by = 0.4


class CoversTooEarly(Eluder):
    """Its idea of covered is twice what it says, and a little more."""

    times = 2.2

    def __init__(self, function_class, **settings):
        make = function_class.prefixes
        function_class.prefixes = lambda epsilon, beta: make(self.times * epsilon, beta)
        super().__init__(function_class, **settings)


class CoversWhatItNeverSaw(CoversTooEarly):
    times = 4


class PlaysTheWorstOfTheAllowed(mutants.PlaysTheWorstOfTheAllowed, Eluder):
    pass


class SaysItEliminates(Eluder):
    """Claims that the best action by its estimates is gone."""

    def level_states(self, observation, stage):
        return tuple(_without_the_best(each) for each in super().level_states(observation, stage))


def _without_the_best(level_state):
    if level_state.survives is None:
        return level_state
    survives = level_state.survives.copy()
    survives[level_state.action] = False
    return level_state._replace(survives=survives)


class PlaysTheWorst(mutants.PlaysTheWorst, Eluder):
    every = 4


class ForgetsToStore(mutants.ForgetsToStore, Eluder):
    pass


MUTANTS = [
    (ExploresTooLong, replace(TWO, episodes=256), {"Lemma 24", "Lemma 22 for F", "Lemma 28"}),
    (FollowsTheData, SCALED, {"Lemma 9 for F"}),
    (DoesNotFreeze, replace(SCALED, scale=0.05), {"Lemma 9 for F"}),
    (StoresTooMuch, HUBS, {"Lemma 10 for F"}),
    (ShiftsTargets, CLOSE, {"Lemma 25"}),
    (CoversTooEarly, TABLES, {"Lemma 26"}),
    (CoversWhatItNeverSaw, instances._STAGES, {"Lemma 26", "Lemma 27"}),
    (PlaysTheWorstOfTheAllowed, TABLES, {"Lemma 20a for F"}),
    (SaysItEliminates, TABLES, {"Lemma 20b for F"}),
    (PlaysTheWorst, TWO, {"Lemma 21 for F"}),
    (ForgetsToStore, TWO, {"Lemma 22 for F", "Lemma 28"}),
]


@pytest.mark.parametrize("mutant, instance, claims", MUTANTS)
def test_every_mutant_is_caught_by_its_monitor_alone(mutant, instance, claims):
    """The first monitors to see it are these and no others."""
    found = violated(instance, mutant, until=lambda found: claims <= found)
    assert claimed(found) == claims


def test_losing_much_for_long_breaks_the_theorems():
    instance, claims = replace(TWO, episodes=2_048, scale=0.1), ("Lemma 21 for F", "Theorem 3 for F", "Theorem 4")
    assert not violated(instance, None, claims)
    assert violated(instance, PlaysTheWorst, claims) == {f"{claim}, β × 0.1" for claim in claims}


def test_every_lemma_has_a_mutant():
    assert set.union(*(row[2] for row in MUTANTS)) == {claim for claim in ELUDER_CLAIMS if claim.startswith("Lemma")}


@pytest.mark.parametrize("instance", distinct(row[1] for row in MUTANTS), ids=repr)
def test_the_algorithm_passes_where_mutants_are_caught(instance):
    assert not claimed({claim for claim, counts in healthy(instance).items() if counts.violations})


# --- the table ---------------------------------------------------------------------------------------------


def command(*arguments):
    return CliRunner().invoke(app, ["verify", *arguments], env={"COLUMNS": "80"})


@pytest.fixture
def only(monkeypatch):
    """Runs these instances and no others."""
    return lambda *chosen: monkeypatch.setattr(instances, "QUICK", chosen)


TINY = replace(TABLES, episodes=64, walks=2, seeds=1)


def test_the_command_checks_function_classes_too(only):
    only(TINY, replace(TINY, name="scaled", scale=0.1))
    result = command("--quick", "--workers", "1")
    assert result.exit_code == 1, result.output  # so short a run says nothing of most claims
    for claim in ELUDER_CLAIMS:
        assert f" {claim} " in result.output
    assert "Theorem 4, β × 0.1" in result.output
    assert max(map(len, result.output.split("Constants for F: ")[0].splitlines())) <= 80


@pytest.mark.parametrize(
    ("asked", "claims"), [("20", ["Lemma 20a for F", "Lemma 20b for F"]), ("t4,25", ["Lemma 25", "Theorem 4"])]
)
def test_claims_are_chosen_by_their_numbers(only, asked, claims):
    only(TINY)
    result = command("--quick", "--claims", asked, "--workers", "1")
    assert "VIOLATED" not in result.output, result.output
    table = result.output.split(f"{claims[0]}: ")[0]
    assert re.findall(r"(?:Lemma|Theorem) \w+(?: for F)?", table) == claims


def test_violations_make_the_command_fail(only, monkeypatch):
    only(replace(TWO, seeds=1))
    monkeypatch.setattr(
        Eluder,
        "end_episode",
        lambda self, training_state, explored: LeveledAgent.end_episode(self, training_state, None),
    )
    result = command("--quick", "--claims", "22", "--workers", "1")
    assert result.exit_code == 1
    assert "VIOLATED beyond what δ allows: Lemma 22 for F" in result.output


FINITE = [each for each in instances.FULL if each.algorithm == "Eluder" and each.family.startswith("Table")]


@pytest.mark.parametrize("instance", FINITE, ids=lambda instance: instance.name)
def test_every_policy_of_an_instance_is_in_its_class(instance):
    """Lemma 25 would say nothing of classes that are too small."""
    testbed = instance.testbed()
    functions = instance.agent(testbed).function_class
    assert isinstance(functions, FiniteClass)
    for seed in range(5):
        policy = random_policy(testbed.actions, seed)
        states = [(0, context) for context in range(instance.arguments["contexts"])]
        values = np.array([testbed.action_values(state, policy) for state in states])
        rows = np.array([functions.rows(testbed.observation(state), 0) for state in states])
        assert np.isclose(rows, values[..., None]).all(axis=(0, 1)).any()
