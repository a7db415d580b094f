"""Exploring rules of one's own: asked with what the data say, held to uncovered actions, passed again to `fpi.load`."""

import gymnasium as gym
import numpy as np
import pytest
from environments import Walk

import fpi
from fpi.errors import EnvironmentMismatch, InputError, ModelFileError


def first(state):
    return np.flatnonzero(state.uncovered)[0]


def drawn(state):
    return state.rng.choice(np.flatnonzero(state.uncovered))


def tiles():
    return fpi.TileCoding([-1, 0], [1, 1], tiles=2, tilings=2, actions=3)


def shared(observation):
    """Dense features that the actions share."""
    x = np.tanh(observation)
    return np.array([[x[0], x[1], 1, a * x[0], a] for a in range(3)]) / 4


def pac(features, explore):
    return fpi.PAC(features, actions=3, horizon=5, epsilon=0.7, ridge=0.1, explore=explore)


def regret(features, explore):
    return fpi.Regret(features, actions=3, horizon=5, max_level=3, explore=explore)


@pytest.mark.parametrize("make", [pac, regret])
@pytest.mark.parametrize("features", [tiles(), shared], ids=["tiles", "function"])
def test_a_function_that_does_what_a_named_rule_does_learns_the_same(make, features, tmp_path):
    agents = [make(features, rule) for rule in ("first", first)]
    named, own = (agent.learn(Walk(), 60, seed=3).returns.tolist() for agent in agents)
    assert named == own and agents[0].data_stored == agents[1].data_stored > 5
    stages = range(5)
    for one, other in zip(*([each.datasets.dataset(stage) for stage in stages] for each in agents), strict=True):
        assert np.array_equal(one.features, other.features) and np.array_equal(one.targets, other.targets)
    assert [fpi.evaluate(agent, Walk(), 5, seed=1).returns.tolist() for agent in agents[:1]] == [
        fpi.evaluate(agent, Walk(), 5, seed=1).returns.tolist() for agent in agents[1:]
    ]


def test_it_sees_the_state_and_its_answers_are_taken():
    asked = []

    def last(state):
        asked.append(state)
        return int(np.flatnonzero(state.uncovered)[-1])

    agent = pac(tiles(), last)
    episodes = []
    agent.learn(Walk(), 3, seed=0, callback=episodes.append)
    assert episodes[0].actions.tolist() == [2] * 5  # nothing is known yet
    assert np.array_equal(asked[0].observation, episodes[0].observations[0])
    assert [each.stage for each in asked[:5]] == list(range(5)) and asked[0].seed == 0
    assert asked[0].widths.shape == asked[0].values.shape == (3,)


def test_the_action_it_chose_is_the_one_stored():
    agent, episodes = pac(shared, lambda state: int(np.flatnonzero(state.uncovered)[-1])), []
    agent.learn(Walk(), 1, seed=0, callback=episodes.append)
    (row,) = agent.dataset(stage=4).features
    assert np.allclose(row, shared(episodes[0].observations[4])[2])


def test_values_are_in_units_of_rewards():
    seen = []

    def watching(state):
        seen.append(np.abs(state.values).max())
        return first(state)

    class Dear(Walk):
        def reward(self):
            return 500.0

    fpi.PAC(tiles(), actions=3, horizon=2, epsilon=0.5, ridge=0.01, explore=watching, reward_range=(0, 1000)).learn(
        Dear(), 20, seed=0
    )
    assert 100 < max(seen) < 2000


def test_what_is_drawn_from_its_generator_can_be_repeated():
    runs = [pac(tiles(), drawn) for _ in range(2)]
    one, other = (agent.learn(Walk(), 30, seed=5).returns.tolist() for agent in runs)
    assert one == other != pac(tiles(), drawn).learn(Walk(), 30, seed=6).returns.tolist()
    new = pac(tiles(), drawn)
    assert len({new.predict(np.array([0.1, 0.2]), 0) for _ in range(9)}) == 1


@pytest.mark.parametrize("make", [pac, regret])
def test_it_is_passed_to_load_again_and_learning_goes_on(make, tmp_path):
    whole, parts = make(tiles(), drawn), make(tiles(), drawn)
    expected = whole.learn(Walk(), 40, seed=2).returns[20:].tolist()
    env = Walk()
    parts.learn(env, 20, seed=2)
    parts.save(tmp_path / "agent.fpi")
    again = fpi.load(tmp_path / "agent.fpi", explore=drawn)
    assert again.learn(env, 20).returns.tolist() == expected
    with pytest.raises(ModelFileError, match=r"exploring rule of your own.*fpi\.load\(path, explore"):
        fpi.load(tmp_path / "agent.fpi")
    make(tiles(), "first").save(tmp_path / "named.fpi")
    with pytest.raises(ModelFileError, match="without an exploring rule of your own"):
        fpi.load(tmp_path / "named.fpi", explore=drawn)


@pytest.mark.parametrize("answer", [3, -1, None, 0.5, "first"])
def test_other_answers_are_refused(answer):
    agent = pac(tiles(), lambda state: answer)
    with pytest.raises(EnvironmentMismatch, match="exploring rule answered .*uncovered` marks, here 0, 1, 2"):
        agent.learn(Walk(), 5, seed=0)
    assert agent.episodes == 0


def test_a_covered_action_is_refused_too():
    with pytest.raises(EnvironmentMismatch, match="answered 0 at stage .* marks, here [12]"):
        pac(tiles(), lambda state: 0).learn(Walk(), 500, seed=0)


def test_compiled_episodes_do_not_ask_it():
    env = gym.make("CartPole-v1")
    agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=1, tilings=1), actions=2, horizon=5, explore=first)
    with pytest.raises(InputError, match="exploring rule of your own. Use the engine gymnasium"):
        agent.learn(env, 5, seed=0, engine="compiled")


def test_what_is_no_rule_is_refused():
    with pytest.raises(InputError, match="explore is 7; choose one of first, .*, or pass a function"):
        pac(tiles(), 7)
