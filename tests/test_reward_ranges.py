"""Rewards of any range: divided by their span, not shifted, and told in their own units."""

import functools
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from layered import LayeredMDP
from support.scenarios import corridor_env

import fpi
from fpi import compiled
from fpi.errors import EnvironmentMismatch, InputError
from fpi.function_classes import Aggregation, FiniteClass, GeneralizedLinear, LinearBall

RANGES = [(-1, 0), (0.5, 1), (2, 3), (-1, 1)]  # of spans 1, 1, 3 and 2
STATES, ACTIONS, STAGES = 2, 2, 2
CORRIDOR = corridor_env()  # compiled; its rewards are fixed, from 0.05 to 0.7
HERE = Path(__file__).parent / "recorded"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def world(reward_range):
    """Two stages with early ends. At the last, actions are alike: Q^pi is the same for all policies."""
    env = LayeredMDP(2, horizon=STAGES, states=STATES, actions=ACTIONS, early_end=0.3, reward_range=reward_range)
    env.mean[1] = env.mean[1][:, :1]
    assert env.ends[0].any() and not env.ends[0].all()
    return env


def values(env):
    """Q of every stage, state and action, as rewards come."""
    means = env.low + (env.high - env.low) * env.mean
    return np.stack([means[0] + np.where(env.ends[0], 0.0, means[1][env.successor[0], 0]), means[1]])


def span(reward_range):
    return max(reward_range[1], 0) - min(reward_range[0], 0)


def one_hot(observation, stage):
    """No intercept, and of either stage."""
    return np.eye(STAGES * STATES * ACTIONS)[ACTIONS * (STATES * stage + observation) + np.arange(ACTIONS)]


def ends(reward_range):
    low, high = min(reward_range[0], 0), max(reward_range[1], 0)
    return {"min_value": STAGES * low / (high - low), "max_value": STAGES * high / (high - low)}


def tables(reward_range):
    rng, truth, known = np.random.default_rng(0), values(world(reward_range)) / span(reward_range), ends(reward_range)
    wrong = rng.uniform(known["min_value"], known["max_value"], (5, *truth.shape))
    return FiniteClass(np.stack([truth, *wrong]), **known)


def cells(reward_range):
    of = lambda observation, stage: one_hot(observation, stage).argmax(axis=1)  # noqa: E731
    return Aggregation(of, cells=STAGES * STATES * ACTIONS, actions=ACTIONS, **ends(reward_range))


def ball(kind, radius, reward_range):
    return kind(one_hot, radius=radius, actions=ACTIONS, **ends(reward_range))


CLASSES = {  # and a scale that takes few episodes
    "tables": (tables, 1.0),
    "cells": (cells, 0.01),
    "linear ball": (functools.partial(ball, LinearBall, 4.0), 0.005),
    "logistic": (functools.partial(ball, GeneralizedLinear, 3.0), 1e-4),
}
KINDS = ["PAC", "Regret", *CLASSES]
EPISODES = 300


@functools.cache
def learned(kind, reward_range):
    """An agent after some episodes, and the raw rewards from each stored step on."""
    env, returns = world(reward_range), []
    common = {"actions": ACTIONS, "horizon": STAGES, "reward_range": reward_range}
    if kind == "PAC":
        agent = fpi.PAC(one_hot, epsilon=0.2, ridge=0.5, theta_bound=5.0, **common)
    elif kind == "Regret":
        agent = fpi.Regret(one_hot, scale=1.0, theta_bound=5.0, **common)
    else:
        make, scale = CLASSES[kind]
        agent = fpi.Eluder(make(reward_range), scale=scale, episodes=EPISODES, **common)

    def note(episode):
        if episode.stored_stage >= 0:
            returns.append(float(episode.rewards[episode.stored_stage :].sum()))

    agent.learn(env, EPISODES, seed=0, callback=note)
    return agent, returns


def data(agent):
    levels = [()] if isinstance(agent, fpi.PAC) else [(level,) for level in range(1, agent.levels + 1)]
    return [agent.dataset(stage, *level) for stage in range(STAGES) for level in levels]


def everywhere():
    return [(state, stage) for stage in range(STAGES) for state in range(STATES)]


@pytest.mark.parametrize("reward_range", RANGES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_returns_as_they_came(kind, reward_range):
    agent, returns = learned(kind, reward_range)
    targets = np.concatenate([each.targets for each in data(agent)])
    order = np.concatenate([each.episodes for each in data(agent)]).argsort()
    assert len(returns) > 20
    assert targets[order] == pytest.approx(returns, rel=1e-12)


@pytest.mark.parametrize("reward_range", RANGES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_promised_of_values_and_losses_holds(kind, reward_range):
    agent, _ = learned(kind, reward_range)
    truth, checked = values(world(reward_range)), 0
    for state, stage in everywhere():
        why, exact = agent.explain(state, stage), truth[stage, state]
        if kind == "PAC":
            assert (abs(why.values - exact) <= why.value_error).all()
        else:
            for at in why.level_states[: why.level]:
                wrong = abs(at.values - exact)[at.allowed]
                assert (wrong <= span(reward_range) * agent.level_gap(at.level)).all()
            assert kind == "Regret" or abs(why.values - exact)[why.level_states[-1].allowed].max() < span(reward_range)
        assert exact.max() - exact[why.action] <= why.gap or not why.covered
        assert why.vacuous == (why.gap >= span(reward_range) * (STAGES - stage))
        checked += why.covered
    assert checked


@pytest.mark.parametrize("reward_range", RANGES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_decided_by_the_unit(kind, reward_range):
    """The same rewards counted in eighths: the same actions, and values eight times as large."""
    agent, _ = learned(kind, reward_range)
    in_eighths, _ = learned(kind, (8 * reward_range[0], 8 * reward_range[1]))
    for one, other in zip(data(agent), data(in_eighths), strict=True):
        assert one.features.tolist() == other.features.tolist()
        assert (8 * one.targets).tolist() == other.targets.tolist()
    for state, stage in everywhere():
        one, other = agent.explain(state, stage), in_eighths.explain(state, stage)
        assert one.widths.tolist() == other.widths.tolist() or np.isnan(one.widths).any()
        np.testing.assert_array_equal(8 * one.values, other.values)
        assert (8 * one.gap, one.action, one.vacuous) == (other.gap, other.action, other.vacuous)


@pytest.mark.parametrize("reward_range", [(-0.5, 1), (-1, 3)], ids=str)  # of spans 1.5 and 4
@pytest.mark.parametrize("kind", ["PAC", "Regret"])
def test_compiled_episodes_divide_by_the_span_too(kind, reward_range):
    """What is stored at the first stage is the return of its episode, in spans where it is decided on."""
    common = {"actions": 2, "horizon": 2, "ridge": 0.1, "reward_range": reward_range}
    if kind == "PAC":
        agent = fpi.PAC(fpi.OneHot(6, 2), epsilon=0.6, **common)
    else:
        agent = fpi.Regret(fpi.OneHot(6, 2), max_level=2, **common)
    history = compiled.learn(agent, CORRIDOR, 300, seed=1)
    stored = agent.datasets.dataset(0)
    assert len(stored) > 5 and len(set(stored.targets)) > 1
    assert stored.targets * span(reward_range) == pytest.approx(history.returns[stored.episodes], rel=1e-12)
    assert agent.dataset(*(0,) if kind == "PAC" else (0, 1)).targets == pytest.approx(history.returns[stored.episodes])


class Line(gym.Env):
    """One state; actions have the single features 1 and 0.2, and lose 0.8 times as much. There is no intercept."""

    observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2)
    features = np.array([[1.0], [0.2]])
    q = -0.8 * features[:, 0]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, -float(self.np_random.random() < -self.q[action]), True, False, {}


@pytest.mark.parametrize("kind", ["PAC", "Regret"])
def test_negative_rewards_keep_their_linear_values(kind):
    """Raised by 1, Q would be 1 - 0.8 phi, to which the best line through 0 turns the actions round."""
    common = {"actions": 2, "horizon": 1, "theta_bound": 0.8, "reward_range": (-1, 0)}
    if kind == "PAC":
        agent = fpi.PAC(lambda observation: Line.features, epsilon=0.03, ridge=0.1, explore="widest", **common)
    else:
        agent = fpi.Regret(lambda observation: Line.features, ridge=0.1, explore="widest", **common)
    agent.learn(Line(), 8_000, seed=0)
    why = agent.explain(0, 0)
    assert not why.vacuous and why.gap < 0.5
    assert Line.q.max() - Line.q[why.action] <= why.gap
    assert agent.predict(0, 0) == 1


def test_rewards_within_a_part_of_their_span_are_less_noisy():
    def deviation(reward_range, **settings):
        agent = fpi.Regret(fpi.OneHot(2, 2), actions=2, horizon=4, reward_range=reward_range, **settings)
        return agent.theory.deviation(0)

    assert deviation((0, 1)) == deviation((-3, 0)) == deviation((-1, 2)) == 1.0
    assert deviation((0.5, 1)) == 0.5
    assert deviation((2, 3)) == pytest.approx(1 / 3)
    assert deviation((0.5, 1), constants="paper") == 2.0


def test_rewards_must_keep_to_a_range_that_leaves_out_zero():
    env = world((0, 1))
    agent = fpi.PAC(one_hot, actions=ACTIONS, horizon=STAGES, reward_range=(0.5, 1))
    with pytest.raises(EnvironmentMismatch, match=r"is 0.0, not in reward_range=\(0.5, 1.0\)"):
        agent.learn(env, 20, seed=0)


@pytest.mark.parametrize("reward_range", RANGES, ids=str)
def test_a_class_must_reach_all_sums_of_rewards(reward_range):
    known = ends(reward_range)
    for wrong in ({"min_value": known["min_value"] + 0.1}, {"max_value": known["max_value"] - 0.1}):
        too_small = Aggregation(lambda seen, stage: [0, 1], cells=2, actions=2, **known | wrong)
        with pytest.raises(InputError, match=r"may add up to anything from .*Make the class with min_value="):
            fpi.Eluder(too_small, actions=2, horizon=STAGES, episodes=9, reward_range=reward_range)


def test_an_agent_with_shifted_targets_predicts_and_learns_no_more(tmp_path):
    """It was saved by fpi 0.1 with rewards from -3 to 5, when they were raised to 0 to 8."""
    agent, env = fpi.load(HERE / "shifted.fpi"), LayeredMDP(1, horizon=3, states=6, actions=3, observe="point")
    for _ in range(2):
        answers = [[agent.predict(env.observation(stage, state), stage) for state in range(6)] for stage in range(3)]
        assert answers == json.loads((HERE / "shifted.json").read_text())
        for refused, *arguments in ((agent.learn, env, 1), (agent.explain, env.observation(0, 0), 0)):
            with pytest.raises(InputError, match=r"^[^.]*rest on shifted targets[^.]*\.$"):
                refused(*arguments)
        agent.save(tmp_path / "again.fpi")
        agent = fpi.load(tmp_path / "again.fpi")


def test_an_agent_saved_with_negative_rewards_learns_on(tmp_path):
    agent, _ = learned("PAC", (-1, 1))
    agent.save(tmp_path / "agent.fpi")
    again = fpi.load(tmp_path / "agent.fpi", features=one_hot)
    again.learn(world((-1, 1)), 5)
    assert again.episodes == EPISODES + 5 and again.settings == agent.settings
