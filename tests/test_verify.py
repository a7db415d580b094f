"""The monitors of `fpi verify`: silent on the algorithm, and each caught by an agent that is broken on purpose."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from support import mutants
from support.verifying import distinct, healthy, violated
from typer.testing import CliRunner

from benchmarks import pac_pictures, pac_studies
from fpi import PAC, testbeds
from fpi.cli import app
from fpi.verify import exact, instances, report
from fpi.verify.counts import ENOUGH, CheckCounts, allowed_runs, judge
from fpi.verify.instances import Instance
from fpi.verify.run import Run, run_all

PAC_CLAIMS = [name for name, claim in report.CLAIMS.items() if claim.algorithm == "PAC"]
BANDIT = Instance("bandit", "LinBandit", {"d": 3, "K": 5}, epsilon=0.1, episodes=512, walks=20)
COARSE_BANDIT = replace(BANDIT, epsilon=0.15, episodes=128)
ARMS = Instance("arms", "DeepSea", {"N": 1}, epsilon=0.12, ridge=0.02, episodes=2_048, walks=1)
COARSE_ARMS = replace(ARMS, epsilon=0.5, ridge=0.1, episodes=128)
CORRIDOR = Instance("corridor", "HubCorridor", {"B": 1, "m": 2, "K": 3, "junk": 3}, epsilon=0.3, episodes=256, walks=5)


# --- agents that are broken on purpose ---------------------------------------------------------------------


class ExploresTooLong(PAC):
    """Its idea of covered is a tenth of epsilon."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.datasets.thresholds[0] /= 10


class DoesNotFreeze(PAC):
    """Greedy for all data, also at covered states."""

    window = 1

    def begin_episode(self, training_state):
        return self.datasets.begin_episode(
            self.window, self.settings.explore, training_state.seed, training_state.episodes
        )


class FreezesLate(DoesNotFreeze):
    """Uses a later prefix than the first that covers."""

    window = 10


class StoresTooMuch(mutants.StoresTooMuch, PAC):
    pass


class AppendsInsideTheEpisode(PAC):
    """Keeps the datum of an episode until the next one is under way, whose policy then moves between two steps."""

    held = None

    def end_episode(self, training_state, explored):
        self.held = (self.datasets.kept, *explored, training_state.episodes - 1) if explored else None
        super().end_episode(training_state, None)

    def learn(self, env, episodes, seed, callback):
        step = env.step

        def appending(action):
            if self.held:
                self.datasets.append(*self.held)
                self.held = None
            return step(action)

        env.step = appending
        return super().learn(env, episodes, seed, callback=callback)


class ShiftsTargets(mutants.ShiftsTargets, PAC):
    by = 0.3


class ClaimsTheWidthsOfAllData(PAC):
    """Says of every prefix that it is as sure as all data make it."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        estimate = self.datasets.estimate

        def boast(observation, stage, k):
            return estimate(observation, stage, self.datasets.size(stage))[0], estimate(observation, stage, k)[1]

        self.datasets.estimate = boast


class ForgetsTheRidge(PAC):
    """Leaves the bias of a ridge out of its bounds."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings | {"theta_bound": 1e-9})


class ReportsOtherValues(PAC):
    """Acts well, but reports values of which it is not sure."""

    def explain(self, observation, stage):
        known = super().explain(observation, stage)
        return replace(known, values=known.values + 1)


class PlaysTheWorst(PAC):
    """Takes the worst action of a covered state."""

    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)

        def worst(observation, stage):
            action, explores = decide(observation, stage)
            known = self.datasets.look(self.datasets.rows(observation, stage), stage)
            return (action, True) if explores else (int(known.values.argmin()), False)

        return worst


class PlaysTheWorstMostly(PlaysTheWorst):
    """Takes the worst action of a covered state in three of four episodes."""

    def begin_episode(self, training_state):
        return (
            super().begin_episode(training_state)
            if training_state.episodes % 4
            else PAC.begin_episode(self, training_state)
        )


class TooSure(PAC):
    """Its alpha is a tenth of what the theory says."""

    def alpha(self, stage, prefix=None, honest=PAC.alpha):
        return honest(self, stage, prefix) / 10


MUTANTS = [
    (ExploresTooLong, COARSE_ARMS, "Lemma 1"),
    (DoesNotFreeze, CORRIDOR, "Lemma 2"),
    (FreezesLate, CORRIDOR, "Lemma 2"),
    (StoresTooMuch, CORRIDOR, "Lemma 2"),
    (AppendsInsideTheEpisode, CORRIDOR, "Lemma 2"),
    (ShiftsTargets, COARSE_BANDIT, "Lemma 3"),
    (ClaimsTheWidthsOfAllData, BANDIT, "Lemma 4"),
    (ForgetsTheRidge, replace(BANDIT, ridge=3.0), "Lemma 4"),
    (ReportsOtherValues, BANDIT, "Lemma 5"),
    (PlaysTheWorst, BANDIT, "Lemma 6"),
    (PlaysTheWorstMostly, ARMS, "Theorem 1"),
]


@pytest.mark.parametrize("mutant, instance, claim", MUTANTS)
def test_every_mutant_is_caught_by_its_monitor_alone(mutant, instance, claim):
    """The first monitor to see it is this one and no other."""
    assert mutants.about_values(violated(instance, mutant, until=lambda found: claim in found)) == {claim}


def test_too_small_constants_are_caught_where_they_are_used():
    claims = {"Lemma 4", "Lemma 5", "Lemma 6"}
    assert mutants.about_values(violated(BANDIT, TooSure, until=claims.issubset)) == claims


def test_every_lemma_and_theorem_has_a_mutant():
    assert {row[2] for row in MUTANTS} == mutants.about_values(PAC_CLAIMS)


@pytest.mark.parametrize("instance", distinct(row[1] for row in MUTANTS), ids=repr)
def test_the_algorithm_passes_where_mutants_are_caught(instance):
    assert not [claim for claim, counts in healthy(instance).items() if counts.violations]


@pytest.mark.slow
def test_the_algorithm_could_have_been_caught():
    for claim in mutants.about_values(PAC_CLAIMS):
        found = [healthy(instance)[claim] for _, instance, caught in MUTANTS if caught == claim]
        assert any(counts.counting > 0 and (counts.share > 0 or claim == "Lemma 2") for counts in found), claim


# --- counting ----------------------------------------------------------------------------------------------


def test_only_checks_with_a_bound_below_the_trivial_one_count():
    counts = CheckCounts("claim")
    counts.add([1.0, 3.0, 0.5], [2.0, 2.0, 5.0], 4.0)
    assert (counts.checks, counts.counting, counts.violations, counts.share) == (3, 2, 1, 1.5)
    counts.add(np.zeros(0), 1.0, 2.0)
    counts.add(9.0, 8.0, 4.0)  # a violated bound is one even where it is trivial
    assert (counts.checks, counts.counting, counts.violations, counts.share) == (4, 2, 2, 1.5)


def test_rounding_is_no_violation():
    counts = CheckCounts("claim")
    counts.add([1 + 1e-12, 1e-12], [1.0, 0.0], 4.0)
    assert counts.violations == 0
    counts.add(0.5, 1 - 1e-12, 1.0)  # nor a bound that could fail
    assert counts.counting == 2


def found(claim="Lemma 3", violations=0, units=10):
    return CheckCounts(claim, 10, 10, violations, 0.5, units)


def test_units_are_counted_once():
    counts = CheckCounts("claim")
    for _ in range(2):
        counts.add([[0.0, 0.0], [0.0, 0.0]], [[1.0], [3.0]], 2.0, ["biting", "trivial"])
        counts.add(np.zeros(5), 1.0, 2.0, ["one for all"])
    assert (counts.checks, counts.counting, counts.units) == (18, 14, 2)


def test_delta_allows_runs_of_every_instance_apart():
    """A claim that fails in every run of one instance is violated, however many others there are."""
    good, bad = found(), found(violations=7)
    runs = [("a", bad), *[("a", good)] * 20, *[("b", good)] * 21, ("b", found("Lemma 4", 1))]
    verdict = judge("Lemma 3", 0.01, runs, instances=2)
    assert (verdict.instances, verdict.runs, verdict.checks, verdict.violations) == (2, 42, 420, 7)
    assert (verdict.violating_runs, verdict.allowed_runs, verdict.units, verdict.broken) == (1, 2, 420, False)
    assert not judge("Lemma 3", 0.01, [("a", bad), ("a", bad), *runs], instances=40).broken
    every = judge("Lemma 3", 0.01, [*[("a", bad)] * 3, *[(f"{i}", good) for i in range(500)]], instances=40)
    assert every.broken_on == ("a",)
    assert judge("Lemma 3", None, runs).broken
    assert not judge("Lemma 3", None, runs, scaled=True).broken


def binomial_tail(runs, rate, more_than):
    return sum(math.comb(runs, n) * rate**n * (1 - rate) ** (runs - n) for n in range(more_than + 1, runs + 1))


def test_a_failure_rate_of_30_percent_is_found_and_the_table_is_hardly_ever_wrong():
    limit = allowed_runs(instances.RUNS, instances.DELTA, len(instances.FULL))
    assert binomial_tail(instances.RUNS, 0.3, limit) > 0.9
    events = 2 * len(instances.FULL)  # Lemma 11 has one of its own
    assert events * binomial_tail(instances.RUNS, instances.DELTA, limit) < 0.01
    assert all(instance.seeds == instances.RUNS for instance in instances.FULL)


@pytest.mark.parametrize("seeds", sorted({instance.seeds for instance in instances.QUICK}))
def test_quick_runs_are_enough_for_what_fails_always(seeds):
    assert allowed_runs(seeds, instances.DELTA, len(instances.QUICK)) < seeds


def test_a_row_that_says_nothing_is_a_finding():
    few, enough = (judge("Lemma 1", None, [("a", found("Lemma 1", units=n))]) for n in (ENOUGH - 1, ENOUGH))
    assert "vacuous" in " ".join(report.cells(few))
    assert "vacuous" not in " ".join(report.cells(enough))
    assert "Lemma 1 says nothing: too few units" in report.conclusion([few])
    assert report.conclusion([enough]) == "10 checks could have failed. No violation beyond what δ allows."
    assert not judge("Lemma 1", None, [("a", found("Lemma 1", units=1))], scaled=True).vacuous  # which is no claim
    assert report.finding(few, quick=True) and not report.finding(enough, quick=True)


def test_a_quick_table_may_lack_what_takes_long_and_no_more():
    excused = [name for name, claim in report.CLAIMS.items() if claim.too_long]
    assert len(excused) <= 2
    nothing = judge(excused[0], 0.01, [("a", found(excused[0], units=0))])
    assert report.finding(nothing, quick=False) and not report.finding(nothing, quick=True)


def test_violations_are_named():
    broken = judge("Lemma 2", None, [("sea", found("Lemma 2", 3))])
    assert "VIOLATED beyond what δ allows: Lemma 2 (sea)" in report.conclusion([broken])
    assert "3 in 1 of 1 runs" in report.cells(broken)


# --- running -----------------------------------------------------------------------------------------------

TINY = replace(BANDIT, episodes=64, walks=3, scale=0.5, seeds=2)


@pytest.mark.process
def test_results_do_not_depend_on_the_number_of_processes():
    tasks = report.tasks([TINY, replace(COARSE_ARMS, episodes=40)], seeds=2)
    alone, together = (list(run_all(tasks, workers=workers)) for workers in (1, 2))
    assert alone == together
    assert [(each.instance, each.seed) for each in alone] == [("bandit", 0), ("bandit", 1), ("arms", 0), ("arms", 1)]
    assert alone[0].counts != alone[1].counts


def test_scaled_claims_have_rows_of_their_own():
    seen = []
    verdicts = report.verify([TINY], workers=1, progress=seen.append)
    assert len(seen) == 2
    plain, extra = verdicts[: len(PAC_CLAIMS)], verdicts[len(PAC_CLAIMS) :]
    assert [verdict.claim for verdict in plain] == PAC_CLAIMS
    assert [(verdict.claim, verdict.scaled) for verdict in extra] == [
        (f"Lemma {number}, α × 0.5", True) for number in (4, 5, 6)
    ]
    assert extra[0].share == pytest.approx(2 * plain[PAC_CLAIMS.index("Lemma 4")].share, rel=0.5)
    assert all("scaled" in report.cells(verdict) for verdict in extra)


def test_both_suites_ask_for_every_family_for_misspecification_and_for_hindsight():
    for whole in (instances.QUICK, instances.FULL):
        suite = [instance for instance in whole if instance.algorithm == "PAC"]
        assert {instance.family for instance in suite} >= {"LinBandit", "HubNet", "HubCorridor", "DeepSea", "Trap"}
        assert any(instance.adversary == "means" for instance in suite)
        assert any(instance.hindsight for instance in suite)
        assert all(instance.agent(instance.testbed()).settings.delta == instances.DELTA for instance in suite)


# --- exact values ------------------------------------------------------------------------------------------


def test_values_agree_with_the_evaluator_of_the_testbed():
    testbed = testbeds.HubCorridor(B=1, m=2, K=2)
    policy = testbeds.random_policy(2, seed=5)
    value = testbed.values(policy)
    brackets = exact.Brackets(testbed, policy)
    for states in exact.pool(testbed, 5):
        for state in states:
            expected = testbed.value(state, policy)
            assert (value(state), *brackets.of(state)) == pytest.approx((expected,) * 3, abs=1e-12)
            expected = testbed.action_values(state, policy)
            assert testbed.backup(state, value) == pytest.approx(expected, abs=1e-12)
            assert brackets.of_actions(state) == pytest.approx(np.array([expected, expected]), abs=1e-12)


@pytest.mark.parametrize("testbed", [testbeds.DeepSea(3, cost=0.3), testbeds.HubCorridor(B=1, m=2, K=2)], ids=str)
def test_the_worst_and_the_best_policy_get_what_the_worst_and_best_actions_get(testbed):
    values = exact.all_policies(testbed)
    for start in testbed.held_out(3):
        returns = []
        for actions in itertools.product(range(testbed.actions), repeat=testbed.horizon):
            returns.append(testbed.value(start, lambda state, actions=actions: actions[state[0]]))
        assert values.of(start) == pytest.approx((min(returns), max(returns)), abs=1e-12)


def test_the_played_policy_is_what_the_next_episode_plays():
    """Two agents in step; one of them is asked in advance."""
    testbed = CORRIDOR.testbed()
    agent, compiled_env = CORRIDOR.agent(testbed), CORRIDOR.agent(testbed)
    env, twin_env = testbed.env(), testbed.env()
    agent.learn(env, 1, seed=3)
    compiled_env.learn(twin_env, 1, seed=3)
    explored = 0
    for _ in range(100):
        policy = exact.played_policy(testbed, agent)
        episodes = []
        compiled_env.learn(twin_env, 1, callback=episodes.append)
        start = testbed.state(episodes[0].observations[0])
        assert [action for _, action in testbed.path(start, policy)] == episodes[0].actions.tolist()
        explored += episodes[0].stored_stage >= 0
        agent.learn(env, 1)
    assert explored > 0


def test_a_pool_has_states_of_every_stage_without_repetition():
    testbed = testbeds.HubCorridor(B=1, m=2, K=2)
    states = exact.pool(testbed, 4)
    assert [len(stage) for stage in states[:3]] == [4, 4, 4]
    assert 1 <= len(states[3]) <= 2
    assert all(state[0] == stage for stage, found in enumerate(states) for state in found)
    assert all(len(set(found)) == len(found) for found in states)


# --- studies and pictures ----------------------------------------------------------------------------------


def test_ranks_count_independent_directions():
    assert pac_studies.ranks(testbeds.DeepSea(5)) == [2, 2, 2, 2, 2]
    assert pac_studies.ranks(testbeds.LinBandit(d=6, K=4)) == [6]
    assert [len(states) for states in pac_studies.layers(testbeds.DeepSea(3))] == [1, 2, 3]


def test_a_sea_is_solved_with_one_datum_per_direction():
    sea = replace(pac_studies.SEAS[0], arguments={"N": 6}, episodes=40)
    found = pac_studies.solve_sea(sea, 0)
    assert found.solved == found.last_datum == found.data == sum(pac_studies.ranks(sea.testbed())) == 12
    assert found.uniform is not None and found.uniform > 1
    row = pac_studies.sea_row(sea, [found])
    assert row.endswith("| 1 | 1 of 1 | 12 (12–12) | 12 | 12 | 2^6 = 6.4e+01 episodes | 1 of 1 |")


def test_a_sea_that_was_given_too_few_episodes_is_not_solved():
    sea = replace(pac_studies.SEAS[0], arguments={"N": 6}, episodes=10)
    assert pac_studies.solve_sea(sea, 0).solved is None
    assert "| 0 of 1 |  | 10 |" in pac_studies.sea_row(sea, [pac_studies.solve_sea(sea, 0)])


def test_data_grow_like_rank_over_epsilon_squared():
    found = pac_studies.grow(replace(pac_studies.GROWTHS[0], epsilon=0.3), 0)
    assert found.episodes == int(1.5 * 6 / 0.3**2)
    assert 0.8 < found.ratios[0] < 1.3
    assert found.gap < found.random_gap / 2
    assert pac_studies.growth_row([found]).startswith("| LinBandit | 0.3 | 100 |")


def test_curves_hold_what_was_lost_and_stored():
    instance = replace(COARSE_ARMS, episodes=50)
    found = pac_pictures.trace(instance, 0)
    assert found.gaps.shape == (50,) and found.sizes.shape == (50, 1)
    assert set(found.gaps) == {0.0, 0.9}
    assert found.sizes[-1] == instance_data(instance)
    assert (found.gaps[found.sizes[:, 0].argmax() + 1 :] == 0).all()  # nothing is lost once nothing is stored


def instance_data(instance):
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    agent.learn(testbed.env(), instance.episodes, seed=0)
    return agent.data_stored


def test_a_map_tells_when_cells_froze():
    found = pac_pictures.map_freezing(replace(pac_pictures.FREEZING[0], arguments={"N": 4}, episodes=50), 0).episodes
    assert found.shape == (4, 4)
    assert np.isnan(found[np.triu_indices(4, 1)]).all()  # cells that cannot be reached
    assert (found[np.tril_indices(4, -1)] == 0).all()  # cells without a choice
    assert (np.diff(np.diag(found)) < 0).all()  # the way to the treasure freezes from its end


@pytest.mark.slow
def test_pictures_are_drawn(tmp_path):
    runs = [pac_pictures.trace(replace(COARSE_ARMS, episodes=150), seed) for seed in range(2)]
    pac_pictures.draw_learning(runs, tmp_path / "learning.png")
    pac_pictures.draw_growth(runs, tmp_path / "growth.png")
    maps = [
        pac_pictures.map_freezing(replace(each, arguments={"N": 3}, episodes=2), 0) for each in pac_pictures.FREEZING
    ]
    pac_pictures.draw_freezing(maps, tmp_path / "freezing.png")
    for name in ("learning", "growth", "freezing"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_theorem_1_allows_h_in_bad_episodes_and_the_gap_in_others():
    run = pac_pictures.trace(replace(COARSE_ARMS, episodes=4), 0)
    run = replace(run, episodes_bound=2.0, gap_bound=0.25)
    assert pac_pictures.allowed_regret(run).tolist() == [1.0, 2.0, 2.25, 2.5]


# --- the command -------------------------------------------------------------------------------------------


def command(*arguments):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)], env={"COLUMNS": "80"})


def test_the_command_prints_a_row_per_claim(monkeypatch):
    monkeypatch.setattr(instances, "QUICK", (TINY,))
    result = command("--quick", "--seeds", 1)
    assert result.exit_code == 1, result.output  # so short a run says nothing of most claims
    for claim in PAC_CLAIMS:
        assert f"\n{claim} " in result.output.replace("\n ", "\n")
    assert "α × 0.5" in result.output
    assert "No violation beyond what δ allows" in result.output
    assert max(map(len, result.output.split("Lemma 1:")[0].splitlines())) <= 80


def test_millions_fit_into_80_columns(monkeypatch):
    counts = [CheckCounts("Lemma 4", 123_456, 98_765, 0, 0.0321, 1_234), CheckCounts("Lemma 4, α × 0.5", 123_456)]
    monkeypatch.setattr(instances, "QUICK", (TINY,))
    monkeypatch.setattr(report, "run_all", lambda tasks, workers: [Run("bandit", 0, counts)] * 40)
    rows = [line for line in command("--quick", "--claims", 4).output.splitlines() if line.startswith(" Lemma 4 ")]
    assert [row.split() for row in rows] == [["Lemma", "4", "1", "3,950,600", "49,360", "0", "3", "runs", "×", "31.15"]]


def test_violations_make_the_command_fail(monkeypatch):
    monkeypatch.setattr(instances, "FULL", (TINY,))
    monkeypatch.setattr(PAC, "alpha", TooSure.alpha)
    result = command("--seeds", 2, "--workers", 1)
    assert result.exit_code == 1
    assert "VIOLATED beyond what δ allows: Constants 4 (bandit), Lemma 4 (bandit)" in " ".join(result.output.split())


def test_the_command_checks_chosen_claims_only(monkeypatch):
    monkeypatch.setattr(instances, "QUICK", (replace(TINY, seeds=1),))
    result = command("--quick", "--claims", "2, 5,T")
    assert result.exit_code == 1, result.output
    rows = [line[1:17].strip() for line in result.output.split("Lemma 2:")[0].splitlines()]
    assert [row for row in rows if row.startswith(("Lemma", "Theorem"))] == [
        "Lemma 2",
        "Lemma 5",
        "Theorem 1",
        "Lemma 5, α × 0.5",
    ]


@pytest.mark.parametrize("claims", ["29", "1;2", "", "Lemma 1"])
def test_the_command_refuses_claims_that_there_are_not(claims):
    result = command("--quick", "--claims", claims)
    assert result.exit_code == 2
    assert "is not a list like 1,2,T" in result.output


@pytest.mark.parametrize("option", ["--seeds", "--workers"])
def test_the_command_refuses_numbers_below_1(option):
    result = command(option, 0)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output
