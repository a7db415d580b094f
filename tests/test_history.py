"""What episodes earned, as people use it: frames, pictures, and short descriptions."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from matplotlib import pyplot

import fpi
from fpi.errors import InputError, MissingExtra
from fpi.history import Evaluation, History

RETURNS = np.arange(100.0)
LENGTHS = np.full(100, 4)
STORED = np.where(RETURNS < 40, 2, -1)


@pytest.fixture
def history():
    return History(RETURNS, LENGTHS, STORED, np.full(100, 3))


@pytest.fixture
def evaluation():
    return Evaluation(np.random.default_rng(0).exponential(10.0, 2_000), np.full(2_000, 5), np.full(2_000, 1))


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    pyplot.close("all")


def test_a_frame_of_learning_has_a_row_per_episode(history):
    frame = history.to_frame()
    assert frame.columns.tolist() == ["return", "length", "stored_stage", "covered_steps"]
    assert frame["return"].tolist() == RETURNS.tolist() and frame["stored_stage"].tolist() == STORED.tolist()
    assert frame["length"].tolist() == [4] * 100 and frame["covered_steps"].tolist() == [3] * 100


def test_frames_have_no_empty_columns(evaluation):
    assert evaluation.to_frame().columns.tolist() == ["return", "length", "covered_steps"]
    assert Evaluation(RETURNS, LENGTHS).to_frame().columns.tolist() == ["return", "length"]
    assert History(RETURNS, LENGTHS, STORED).to_frame().columns.tolist() == ["return", "length", "stored_stage"]
    assert not hasattr(evaluation, "stored_stage")


def test_without_pandas_one_line_says_what_to_install(history, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingExtra, match=r'to_frame needs pandas.*: pip install "frozen-policy-iteration\[pandas\]"\.'
    ):
        history.to_frame()


def test_the_curve_of_learning_is_a_running_mean(history):
    (line,) = history.plot(window=10).lines
    assert line.get_xdata().tolist() == list(range(10, 101))
    assert line.get_ydata() == pytest.approx([RETURNS[end - 10 : end].mean() for end in range(10, 101)])
    axes = history.plot()
    assert axes.get_ylabel() == "return, mean of 2 episodes" and axes.get_xlabel() == "episode"
    assert history.plot(ax=axes) is axes and len(axes.lines) == 2
    assert History(*np.zeros((3, 0))).plot().lines[0].get_ydata().tolist() == []
    for wrong in (0, 101):
        with pytest.raises(InputError, match=f"window is {wrong}; pass a number from 1 to the 100 episodes"):
            history.plot(window=wrong)


def test_the_picture_of_an_evaluation_shows_all_episodes_and_their_mean(evaluation):
    axes = evaluation.plot()
    assert sum(bar.get_height() for bar in axes.patches) == 2_000
    assert axes.lines[0].get_xdata() == [evaluation.mean, evaluation.mean]
    assert evaluation.plot(ax=axes) is axes


@pytest.mark.slow
def test_the_interval_of_an_evaluation_is_that_of_the_mean(evaluation):
    returns = evaluation.returns
    half = 1.96 * returns.std() / np.sqrt(len(returns))
    mean, low, high = evaluation.interval
    assert mean == evaluation.mean == returns.mean()
    assert low == pytest.approx(mean - half, abs=0.1 * half) and high == pytest.approx(mean + half, abs=0.1 * half)
    with pytest.raises(InputError, match="1 episodes have no interval"):
        _ = Evaluation(RETURNS[:1], LENGTHS[:1]).interval


def test_short_descriptions_say_what_is_known(history):
    assert (
        repr(history) == "<History: 100 episodes, mean return 49.5, 94.5 in the last 10%, 75.0% of decisions covered>"
    )
    assert repr(History(*np.zeros((3, 0)))) == "<History: 0 episodes>"
    played = Evaluation(np.full(5, 3.0), LENGTHS[:5])
    assert repr(played) == "<Evaluation: 5 episodes, mean return 3.0 (3.0 to 3.0)>"
    assert repr(Evaluation(RETURNS[7:8], LENGTHS[:1], LENGTHS[:1])) == (
        "<Evaluation: 1 episodes, return 7.0, 100.0% of decisions covered>"
    )


def test_features_and_agents_are_described_in_a_line():
    tiles = fpi.TileCoding([0, 0], [1, 2], tiles=3, tilings=2, actions=2)
    assert repr(tiles) == "<TileCoding: 2 dimensions, tiles=3, tilings=2, 2 actions, 64 features>"
    uneven = fpi.TileCoding([0, 0], [1, 2], tiles=[3, 4], tilings=1, actions=2)
    assert repr(uneven) == "<TileCoding: 2 dimensions, tiles=[3, 4], tilings=1, 2 actions, 24 features>"
    assert repr(fpi.Fourier([0], [1], order=3, actions=2)) == "<Fourier: 1 dimensions, order=3, 2 actions, 8 features>"
    assert repr(fpi.RBF(np.eye(2), 0.5, 3)) == "<RBF: 2 dimensions, width=0.5, 3 actions, 6 features>"

    def halves(observation):
        return np.eye(2) / 2

    agent = fpi.PAC(halves, actions=2, horizon=3, epsilon=0.5, ridge=0.1, freeze=20)
    assert repr(agent) == ("<PAC(actions=2, horizon=3, epsilon=0.5, ridge=0.1, freeze=20): 0 episodes, 0 data>")
    unknown = "<Function: halves, 2 actions, not called yet, so an unknown number of features>"
    assert repr(agent.features) == unknown
    agent.predict(0, 0)
    assert repr(agent.features) == "<Function: halves, 2 actions, 2 features>"


def test_a_batch_is_answered_as_one_by_one():
    env = gym.make("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=4, tilings=2)
    agent = fpi.PAC(features, actions=2, horizon=20, epsilon=1.0, ridge=1e-3)
    agent.learn(env, 300, seed=0)
    batch = np.array([env.reset(seed=seed)[0] * 10 for seed in range(60)])
    for explore in (True, False):
        answers = agent.predict_batch(batch, 12, explore=explore)
        assert answers.dtype == np.int64 and set(answers) == {0, 1}
        assert answers.tolist() == [agent.predict(each, 12, explore=explore) for each in batch]
        assert agent.predict_batch(list(batch), 12, explore=explore).tolist() == answers.tolist()
    assert agent.predict_batch(batch[:0], 3).shape == (0,)
    with pytest.raises(InputError, match="observation"):
        agent.predict_batch(batch[0], 3)  # one observation is no batch of four
    lake = fpi.PAC(fpi.OneHot(3, 2), actions=2, horizon=2, epsilon=1.0, ridge=1e-3)
    assert lake.predict_batch([0, 2], 1).tolist() == [lake.predict(0, 1), lake.predict(2, 1)]
    with pytest.raises(InputError, match="2 is one observation: pass several, or use predict"):
        lake.predict_batch(2, 1)
