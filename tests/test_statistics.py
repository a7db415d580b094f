"""Regret, N(eps) and slopes, against counting by hand."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpi import baselines, statistics, testbeds
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
    assert n.breakpoints.tolist() == [0, 0.125, 0.25, 0.5]
    assert n.counts.tolist() == [4, 3, 2, 0]
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
    log, played = statistics.GapLog(testbed), []

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
    log = statistics.GapLog(testbed)
    learner = baselines.Uniform(actions=testbed.actions, horizon=testbed.horizon)
    learner.begin_episode = lambda training_state: lambda seen, stage: 2 * testbed.optimal_action(testbed.state(seen))
    learner.learn(testbed.env(), 100, seed=0, callback=log)
    assert log.gaps.tolist() == [0.0] * 100


def test_the_mean_comes_with_students_interval():
    mean, low, high = statistics.mean([[1.0, 10.0], [3.0, 10.0]])
    assert mean.tolist() == [2.0, 10.0]
    assert (high - mean).tolist() == pytest.approx([12.7062, 0], rel=1e-5)  # t of one degree of freedom is 12.7062
    assert (mean - low).tolist() == pytest.approx([12.7062, 0], rel=1e-5)
    assert statistics.mean([[5.0]]).high == [np.inf]


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_slope_of_a_power_law_is_its_exponent(power):
    episodes = np.geomspace(100, 10_000, 9)
    scales = np.array([1.0, 2.0, 5.0])  # runs that differ by a factor have the same exponent
    found = statistics.slope(episodes, scales[:, None] * episodes**power, np.random.default_rng(0))
    assert found == pytest.approx((power, power, power))


def test_the_interval_of_a_slope_spans_what_runs_show():
    episodes = np.geomspace(100, 10_000, 9)
    runs = np.array([episodes**p for p in (0.4, 0.5, 0.6)])
    estimate, low, high = statistics.slope(episodes, runs, np.random.default_rng(0))
    assert low == pytest.approx(0.4) and high == pytest.approx(0.6)  # a resample may hold one run only
    assert 0.5 < estimate < 0.6  # of the mean, which the largest regret leads
    assert statistics.slope(episodes, runs, np.random.default_rng(0)) == (estimate, low, high)


@pytest.mark.parametrize(
    ("episodes", "regrets"), [([10], [[1.0]]), ([10, 100], [[0.0, 1.0]]), ([10, 100], [[1.0, 2.0, 3.0]])]
)
def test_a_slope_of_nothing_is_refused(episodes, regrets):
    with pytest.raises(InputError, match="a slope takes"):
        statistics.slope(episodes, regrets, np.random.default_rng(0))
