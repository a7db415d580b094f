"""Observations of Dict and Tuple spaces: feature functions read them as they are, files keep them flattened."""

import json
import warnings

import gymnasium as gym
import numpy as np
import pytest
from environments import DictObservation, RandomFromStep2

import fpi
from fpi import determinism, observations
from fpi.errors import EnvironmentMismatch, ModelFileError, NondeterminismWarning

NESTED = {"b": (np.float32(0.5), {"c": np.int64(7)}), "a": np.arange(6, dtype=np.uint8).reshape(2, 3)}


def test_an_observation_is_its_leaves_and_its_form():
    stored = json.loads(json.dumps(observations.form(NESTED), sort_keys=True))  # as files have it
    again = observations.rebuilt(stored, iter(observations.leaves(NESTED)))
    assert list(again) == ["b", "a"]
    assert again["a"].dtype == np.uint8 and np.array_equal(again["a"], NESTED["a"])
    assert type(again["b"]) is tuple and again["b"][0] == np.float32(0.5) and again["b"][1] == {"c": 7}
    copy = observations.copied(NESTED)
    copy["a"][0] = 9
    assert NESTED["a"][0, 1] == 1


def features(observation):
    assert isinstance(observation, dict)  # as the environment gives it
    x, t = np.tanh(observation["position"][0]), observation["time"][0]
    return np.array([[x, t, 1, a * x, a] for a in range(3)]) / 4


def agent(function=features, **settings):
    return fpi.PAC(function, **({"actions": 3, "horizon": 5, "epsilon": 0.7, "ridge": 0.1} | settings))


class RandomDict(RandomFromStep2):
    def __init__(self):
        super().__init__()
        self.observation_space = DictObservation().observation_space

    observe = DictObservation.observe


@pytest.mark.parametrize("make", [agent, lambda: fpi.Regret(features, actions=3, horizon=5, max_level=2)])
def test_a_feature_function_reads_dictionaries(make, tmp_path):
    learner, seen = make(), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.learn(DictObservation(), 20, seed=0, callback=seen.append)
    assert set(seen[0].observations[0]) == {"position", "time"} and learner.data_stored > 3
    starts = [each.observations[0]["position"][0] for each in seen]
    assert len(set(starts)) > 3  # copies, each its own
    assert len(fpi.evaluate(learner, DictObservation(), 3, seed=0).returns) == 3
    learner.save(tmp_path / "agent.fpi")
    again = fpi.load(tmp_path / "agent.fpi", features=features)
    env = DictObservation()
    assert again.learn(env, 5).returns.tolist() == learner.learn(env, 5).returns.tolist()
    with pytest.raises(ModelFileError, match="not the one"):
        fpi.load(tmp_path / "agent.fpi", features=lambda observation: features(observation) / 2)


def test_random_transitions_are_seen_in_dictionaries():
    with pytest.warns(NondeterminismWarning, match="transitions are random"):
        agent().learn(RandomDict(), 4, seed=0)


def test_check_takes_the_function_too():
    function = fpi.features.Function(features, 3)
    report = determinism.check(DictObservation(), features=function, horizon=5)
    assert report.verdict == "Fit for FPI." and 0 < report.feature_norm <= 1
    assert "Wrap the environment" in determinism.check(DictObservation(), horizon=5).verdict


def test_what_reads_arrays_still_refuses_dictionaries():
    tiles = fpi.TileCoding([-1, 0], [1, 1], tiles=2, tilings=2, actions=3)
    for learner in (agent(tiles), agent(hindsight=True)):
        with pytest.raises(EnvironmentMismatch, match="FlattenObservation"):
            learner.learn(DictObservation(), 2, seed=0)


def test_blackjack_has_tuples(tmp_path):
    def table(observation):
        assert isinstance(observation, tuple)
        rows = np.zeros((2, 2 * 33))
        rows[[0, 1], [observation[0], 33 + observation[0]]] = 1.0
        return rows

    env = gym.make("Blackjack-v1")
    player = fpi.PAC(table, actions=2, horizon=3, reward_range=(-1, 1), ridge=0.5)
    with pytest.warns(NondeterminismWarning):  # cards are drawn
        player.learn(env, 30, seed=0)
    player.save(tmp_path / "player.fpi")
    assert fpi.load(tmp_path / "player.fpi", features=table).predict((14, 10, 0), 0) == player.predict((14, 10, 0), 0)
