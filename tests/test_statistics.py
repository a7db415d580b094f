"""Intervals against scipy and planted truths; regret, N(eps) and slopes against counting by hand."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fpi import baselines, callbacks, statistics, testbeds
from fpi.errors import InputError

GAPS = [0.0, 0.5, 0.25, 0.5, 0.0, 0.125]


def test_the_example_runs():
    result = doctest.testmod(statistics)
    assert result.attempted > 0 and result.failed == 0


def test_regret_adds_up_along_each_run():
    assert statistics.regret(GAPS).tolist() == [0, 0.5, 0.75, 1.25, 1.25, 1.375]
    assert statistics.regret([GAPS, GAPS[::-1]])[:, -1].tolist() == [1.375, 1.375]


def test_mistakes_fall_at_the_gaps():
    n = statistics.mistakes(GAPS)
    assert n(-1.0) == 6
    assert n([0, 0.1, 0.125, 0.3, 0.5, 9]).tolist() == [4, 4, 3, 2, 0, 0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_mistakes_count_the_episodes_that_lost_more(gaps, epsilons):
    n = statistics.mistakes(gaps)
    asked = [*epsilons, *gaps]  # at the breakpoints too, where it matters which side counts
    assert n(asked).tolist() == [sum(gap > epsilon for gap in gaps) for epsilon in asked]


@pytest.mark.parametrize("family", ["LinBandit", "HubCorridor"])
def test_the_log_holds_what_every_episode_lost(family):
    testbed = testbeds.make(family)
    log, played = callbacks.GapLog(testbed), []

    def both(episode):
        log(episode)
        played.append((testbed.state(episode.observations[0]), episode.actions.tolist()))

    learner = baselines.Uniform(actions=testbed.actions, horizon=testbed.horizon)
    learner.learn(testbed.env(), 50, seed=3, callback=both)
    expected = []
    for start, actions in played:
        lost, here = testbed.optimal_value(start), start
        for action in actions:
            lost -= testbed.mean(here, action)
            here = testbed.next(here, action)
        expected.append(lost)
    assert log.gaps == pytest.approx(expected, abs=1e-12)
    assert log.gaps.min() >= 0 and log.gaps.max() > 0.1


def test_optimal_play_loses_nothing_at_all():
    testbed = testbeds.HubCorridor(seed=2)
    log = callbacks.GapLog(testbed)
    learner = baselines.Uniform(actions=testbed.actions, horizon=testbed.horizon)
    learner.begin_episode = lambda training_state: (
        lambda seen, stage: (testbed.optimal_action(testbed.state(seen)), False)
    )
    learner.learn(testbed.env(), 100, seed=0, callback=log)
    assert log.gaps.tolist() == [0.0] * 100


def test_the_mean_comes_with_students_interval():
    mean, low, high = statistics.student_interval([[1.0, 10.0], [3.0, 10.0]])
    assert mean.tolist() == [2.0, 10.0]
    assert (high - mean).tolist() == pytest.approx([12.7062, 0], rel=1e-5)  # t of one degree of freedom is 12.7062
    assert (mean - low).tolist() == pytest.approx([12.7062, 0], rel=1e-5)
    assert statistics.student_interval([[5.0]]).high == [np.inf]


def test_iqm_is_the_mean_of_the_middle_half():
    assert statistics.interquartile_mean(np.array([100.0, 1, 2, 3, 4, 5, 6, -100])) == np.mean([2, 3, 4, 5])


def test_a_bootstrap_band_is_that_of_scipy_and_the_same_every_time():
    values = np.random.default_rng(3).normal(10, 2, size=40)
    band = statistics.bootstrap_interval(values)
    assert band == statistics.bootstrap_interval(values)
    scipy = stats.bootstrap((values,), np.mean, method="percentile", random_state=np.random.default_rng(1))
    assert band.estimate == values.mean()
    assert band.low == pytest.approx(scipy.confidence_interval.low, abs=0.03)
    assert band.high == pytest.approx(scipy.confidence_interval.high, abs=0.03)


def test_paired_intervals_keep_their_word_with_five_seeds():
    """The true difference of 1 lies in 95 of 100 intervals; a bootstrap of five would manage about 83."""
    chance = np.random.default_rng(0)
    pairs = [(chance.normal(1, 3, 5), chance.normal(0, 3, 5)) for _ in range(2_000)]
    inside = np.mean([gap.low <= 1 <= gap.high for gap in (statistics.Difference(a - b).interval for a, b in pairs)])
    assert 0.935 <= inside <= 0.965
    few = [statistics.bootstrap_interval(a - b) for a, b in pairs[:300]]
    assert np.mean([band.low <= 1 <= band.high for band in few]) < 0.9


def test_differences_count_the_seeds_on_the_side_of_their_mean():
    """Whether a claim holds or is contradicted, the words are true."""
    gap = statistics.Difference(np.array([4.0, 4, -2]))
    mean, low, high = gap.interval
    assert mean == 2.0 and str(gap) == f"+2.0, 95% CI {low:+.1f} to {high:+.1f}, 2 of 3 seeds above 0"
    assert str(statistics.Difference(np.array([-8.0, -7, -6]))) == "-7.0, 95% CI -9.5 to -4.5, 3 of 3 seeds below 0"
    assert str(statistics.Difference(np.array([1.0, -1, 0]))).endswith("1 of 3 seeds above 0")
    alone = statistics.Difference(np.array([4.0]))
    assert alone.interval.high == np.inf and str(alone) == "+4.0, no CI from one seed, 1 of 1 seeds above 0"
    assert str(statistics.Difference(np.zeros(3))) == "equal in all 3 seeds"


def test_seeds_that_do_not_differ_tell_nothing_about_spread():
    """No band of width 0: it would read as certainty."""
    same, alone, differing = ([0.2] * 3, [0.2], [0.1, 0.2, 0.3])
    told = [statistics.over_seeds(statistics.bootstrap_interval(each), each) for each in (same, alone, differing)]
    assert told == ["0.20 in all 3 seeds", "0.20 in one seed", "0.20 (0.10 to 0.30)"]
    assert str(statistics.Difference(np.full(3, 0.8))) == "+0.80 in all 3 seeds"


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((203.14, 189.6, 216.7), "203.1 (189.6 to 216.7)"),
        ((0.0667, 0.0, 0.125), "0.07 (0.00 to 0.12)"),
        ((0.0, 0.0, 0.0), "0.0 (0.0 to 0.0)"),
        ((-0.004, -0.005, 0.0012), "-0.0040 (-0.0050 to 0.0012)"),
    ],
)
def test_intervals_show_two_figures_at_least(numbers, shown):
    assert str(statistics.Interval(*numbers)) == shown


@pytest.mark.slow
def test_bootstrap_intervals_hold_the_mean_of_a_planted_distribution():
    """Of 400 intervals from 20 seeds about 95% hold the truth; the percentile bootstrap is a little too narrow."""
    values = np.random.default_rng(3).normal(5, 2, size=(20, 400))
    found = statistics.bootstrap_interval(values, resamples=2_000)
    assert found.estimate == pytest.approx(values.mean(axis=0))
    assert 0.88 < ((found.low < 5) & (found.high > 5)).mean() < 0.97
    assert np.array_equal(found.low, statistics.bootstrap_interval(values, resamples=2_000).low)


def test_one_seed_has_no_bootstrap_interval():
    found = statistics.bootstrap_interval([[1.0, 2.0]])
    assert found.low.tolist() == found.estimate.tolist() == found.high.tolist() == [1, 2]


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_slope_of_a_power_law_is_its_exponent(power):
    episodes = np.geomspace(100, 10_000, 9)
    scales = np.array([1.0, 2.0, 5.0])  # runs that differ by a factor have the same exponent
    found = statistics.slope(episodes, scales[:, None] * episodes**power)
    assert found == pytest.approx((power, power, power))


def test_the_interval_of_a_slope_spans_what_runs_show():
    episodes = np.geomspace(100, 10_000, 9)
    runs = np.array([episodes**p for p in (0.4, 0.5, 0.6)])
    estimate, low, high = statistics.slope(episodes, runs)
    assert low == pytest.approx(0.4) and high == pytest.approx(0.6)  # a resample may hold one run only
    assert 0.5 < estimate < 0.6  # of the mean, which the largest regret leads
    assert statistics.slope(episodes, runs) == (estimate, low, high)


@pytest.mark.parametrize(
    ("episodes", "regrets"), [([10], [[1.0]]), ([10, 100], [[0.0, 1.0]]), ([10, 100], [[1.0, 2.0, 3.0]])]
)
def test_a_slope_of_nothing_is_refused(episodes, regrets):
    with pytest.raises(InputError, match="a slope takes"):
        statistics.slope(episodes, regrets)
