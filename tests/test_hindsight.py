"""Hindsight for FPI-PAC: the same run as a literal version, no stale return, and fewer episodes."""

import dataclasses
import functools
from typing import ClassVar

import gymnasium as gym
import numba
import numpy as np
import pytest
from layered import LayeredMDP
from literal import LiteralPAC
from support import worlds
from support.agents import assert_same_data
from support.scenarios import Corridor, corridor_agent, corridor_env, corridor_step
from support.worlds import SEED, dense, one_hot, table, tiles

import fpi
from fpi import compiled, model_files
from fpi.errors import EnvironmentMismatch, InputError, ModelFileError


class LiteralHindsight(LiteralPAC):
    """Algorithm 1; then, deepest stage first and oldest episode first, what earlier episodes tell, one at a time."""

    def __init__(self, *arguments, hindsight, **settings):
        super().__init__(*arguments, **settings)
        self.paths, self.left = [], []  # left: the step that a path has come back to, -1 for none

    def learn_episode(self, env):
        observation, _ = env.reset(seed=self.seed if self.episode == 0 else None)
        path, last = [], -1
        for stage in range(self.horizon):
            action, is_uncovered = self.act(observation, stage)
            last = stage if is_uncovered else last
            before = observation
            observation, reward, terminated, truncated, _ = env.step(action)
            path.append((before, action, reward))
            if terminated or truncated:
                break
        self.paths.append(path)
        self.left.append(last)
        while self.advance():
            pass
        self.episode += 1
        return [action for _, action, _ in path], last

    def advance(self):
        for number in sorted(range(len(self.paths)), key=lambda number: (-self.left[number], number)):
            stage = self.left[number]
            if stage < 0:
                return False
            observation, action, _ = self.paths[number][stage]
            rows, data = self.rows(observation, stage), self.datasets[stage]
            if self.first_cover(rows, data) is not None:
                self.left[number] = stage - 1 if self.act(observation, stage)[0] == action else -1
                return True
            if action in self.uncovered(rows, data, len(data)):
                target = sum(reward / self.unit for _, _, reward in self.paths[number][stage:])
                data.append(rows[action], action, target, self.episode)
                return True
        return False


class World(worlds.World):
    algorithm, reference = fpi.PAC, LiteralHindsight
    defaults: ClassVar = {"hindsight": True, "freeze": "exact", "explore": "random"}


WORLDS = {
    "one-hot": World(one_hot, {"epsilon": 0.9, "ridge": 0.1}, {"states": 6, "rewards": "fixed", "early_end": 0.1}, 60),
    "several data for a state": World(one_hot, {"epsilon": 0.4, "ridge": 0.5}, {"states": 4, "rewards": "fixed"}, 60),
    "dense": World(table(dense(4)), {"epsilon": 0.5, "ridge": 0.1}, {"horizon": 3, "rewards": "fixed"}, 60),
    "tiles": World(
        tiles(2, 2),
        {"epsilon": 1.0, "ridge": 1e-3},
        {"observe": "point", "states": (60, 20, 20), "horizon": 3, "actions": 2, "rewards": "fixed"},
        80,
    ),
}


@pytest.mark.parametrize("explore", ["random", "first"])
@pytest.mark.parametrize("name", WORLDS)
def test_same_run_as_the_literal_version(name, explore):
    world, rules = WORLDS[name], ("exact", explore)
    agent, episodes = world.agent(*rules), []
    history = agent.learn(world.env(), world.episodes, seed=SEED, callback=episodes.append)
    literal, _, played = world.play(*rules)
    for episode, expected in zip(episodes, played, strict=True):
        assert (episode.actions.tolist(), episode.stored_stage) == expected, episode.number
    assert_same_data(agent, literal)
    assert history.data_stored.sum() == agent.data_stored > (history.stored_stage >= 0).sum()
    assert {each.episode: each.stage for stage in agent.open.values() for each in stage} == {
        number: stage for number, stage in enumerate(literal.left) if stage >= 0
    }


def test_lemma_2_no_return_goes_stale():
    """Every datum is the return of its action followed by the policy of the end, played again from its state."""
    mdp = LayeredMDP(3, states=6, rewards="fixed", horizon=4, actions=3)
    agent = fpi.PAC(fpi.OneHot(6, 3), actions=3, horizon=4, epsilon=0.9, ridge=0.1, hindsight=True)
    agent.learn(mdp, 150, seed=0)
    checked = 0
    for stage in range(4):
        data = agent.dataset(stage)
        for features, action, target in zip(data.features, data.actions, data.targets, strict=True):
            state, total = int(np.flatnonzero(features)[0] % 6), 0.0
            for later in range(stage, 4):
                chosen = action if later == stage else agent.predict(mdp.observation(later, state), later)
                total += mdp.mean[later, state, chosen]
                state = int(mdp.successor[later, state, chosen]) if later < 3 else -1
            assert target == pytest.approx(total)
            checked += 1
    assert checked > 50


class Sea(gym.Env):
    """Deep sea of N rows: only always going right, which costs a little, finds the treasure; actions are permuted."""

    def __init__(self, size):
        self.size = size
        self.observation_space, self.action_space = gym.spaces.Discrete(size * size), gym.spaces.Discrete(2)
        self.right = np.random.default_rng(0).integers(0, 2, (size, size))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row = self.column = 0
        return 0, {}

    def step(self, action):
        right = action == self.right[self.row, self.column]
        treasure = right and self.row == self.column == self.size - 1
        self.column = min(self.column + 1, self.size - 1) if right else max(self.column - 1, 0)
        self.row += 1
        last = self.row == self.size
        reward = float(treasure) - 0.01 / self.size * right
        return (0 if last else self.row * self.size + self.column), reward, last, False, {}


def test_half_the_episodes_are_enough():
    def until_solved(**settings):
        agent = fpi.PAC(
            fpi.OneHot(100, 2), actions=2, horizon=10, epsilon=0.9, explore="first", reward_range=(-1, 1), **settings
        )
        found = agent.learn(Sea(10), 250, seed=0).returns > 0.9
        assert found[-20:].all()
        return int(np.flatnonzero(~found)[-1]) + 1

    assert until_solved(hindsight=True) <= 0.7 * until_solved()


def test_random_rewards_are_an_error():
    agent = fpi.PAC(fpi.OneHot(5, 2), actions=2, horizon=3, hindsight=True)
    with pytest.raises(EnvironmentMismatch, match="paid other rewards. hindsight uses a return more than once"):
        agent.learn(LayeredMDP(1, horizon=3, states=5, actions=2, rewards="uniform"), 20, seed=0)


make_corridor = functools.partial(corridor_agent, hindsight=True)


def cartpole_agent():
    features = fpi.TileCoding([-1, -2, -0.2, -2], [1, 2, 0.2, 2], tiles=2, tilings=2, actions=2)
    return fpi.PAC(features, actions=2, horizon=30, epsilon=1.0, ridge=1e-3, hindsight=True)


COMPILED = {
    "one-hot": (make_corridor, Corridor, corridor_env),
    "tiles": (cartpole_agent, lambda: gym.make("CartPole-v1"), lambda: compiled.get("CartPole-v1")),
}


def assert_same_files(folder, *agents):
    for number, agent in enumerate(agents):
        agent.save(folder / f"{number}.fpi")
        assert (folder / f"{number}.fpi").read_bytes() == (folder / "0.fpi").read_bytes()


@pytest.mark.parametrize("name", COMPILED)
def test_both_engines_give_the_same_bits(name, tmp_path):
    """Rows and files, open trajectories among them; and one goes on from the file of the other."""
    make, env, compiled_env = COMPILED[name]
    expected, agent = make(), make()
    for seed, episodes in ((7, 20), (None, 70)):
        theirs = expected.learn(env(), episodes, seed=seed)
        ours = compiled.learn(agent, compiled_env(), episodes, seed=seed)
        for field in dataclasses.fields(theirs):
            np.testing.assert_array_equal(getattr(ours, field.name), getattr(theirs, field.name))
        assert_same_files(tmp_path, expected, agent)
        assert any(agent.open.values()) or seed is None
        agent = fpi.load(tmp_path / "0.fpi")
    assert ours.data_stored.max() > 1


@pytest.mark.parametrize("engine", ["gymnasium", "compiled"])
def test_an_episode_that_cannot_be_stored_is_not_counted(engine, tmp_path, monkeypatch):
    """It is stored by the next `learn`, and all is as if nothing had been in the way."""

    def learn(agent, episodes):
        if engine == "compiled":
            compiled.learn(agent, corridor_env(), episodes, seed=None if agent.episodes else 7)
        else:
            agent.learn(Corridor(), episodes, seed=None if agent.episodes else 7)

    expected, agent = make_corridor(), make_corridor()
    learn(agent, 20)
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(fpi.PAC, "_settle", lambda *_: (_ for _ in ()).throw(MemoryError))
        learn(agent, 70)
    stored = agent.data_stored
    before, made = make_corridor(), agent.episodes
    learn(before, made)
    assert made < 90 and before.data_stored == stored
    learn(agent, 0)
    assert agent.episodes > made and agent.data_stored > stored
    learn(agent, 90 - agent.episodes)
    learn(expected, 90)
    assert_same_files(tmp_path, expected, agent)


def test_random_rewards_of_compiled_steps_are_an_error(tmp_path):
    """The replay of the eighth episode sees them, which is the first to reach the goal: seven have been learned."""

    @numba.njit
    def lucky(state, move, observation):
        reward, terminated = corridor_step(state, move, observation)
        return (np.random.random() if terminated else reward), terminated  # noqa: NPY002 - it is numba's

    agent, expected = make_corridor(), make_corridor()
    with pytest.raises(
        EnvironmentMismatch, match="episode 8, .* paid other rewards. hindsight uses a return more than"
    ):
        compiled.learn(agent, dataclasses.replace(corridor_env(), step=lucky), 20, seed=16)
    compiled.learn(expected, corridor_env(), 7, seed=16)
    assert_same_files(tmp_path, expected, agent)


def test_what_does_not_fit_is_said():
    features, env = fpi.OneHot(5, 2), LayeredMDP(1, horizon=3, states=5, actions=2, rewards="fixed")
    with pytest.raises(InputError, match="hindsight takes exact freezing"):
        fpi.PAC(features, actions=2, horizon=3, hindsight=True, freeze=20)
    with pytest.raises(InputError, match="pass True or False"):
        fpi.PAC(features, actions=2, horizon=3, hindsight=1)
    with pytest.raises(InputError, match="without hindsight; this is <PAC"):
        compiled.StaleLog(fpi.PAC(features, actions=2, horizon=3, hindsight=True))
    assert fpi.PAC(features, actions=2, horizon=3).learn(env, 3, seed=0).data_stored is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("length", 9, "length"),
        ("action", 2, "action"),
        ("return", np.nan, "do not fit"),
        ("episode", 99, "episode"),
        ("episode", 9, "out of order"),
    ],
)
def test_open_trajectories_that_do_not_fit_are_refused(tmp_path, name, value, says):
    agent = fpi.PAC(fpi.OneHot(5, 2), actions=2, horizon=3, epsilon=0.5, ridge=0.5, hindsight=True)
    agent.learn(LayeredMDP(1, horizon=3, states=5, actions=2, rewards="fixed"), 10, seed=0)
    agent.save(tmp_path / "a.fpi")
    tensors, meta = model_files.read(tmp_path / "a.fpi")
    tensors = {key: tensor.copy() for key, tensor in tensors.items()}
    tensors[f"open.{name}"][0] = value
    model_files.write(tmp_path / "b.fpi", tensors, meta)
    with pytest.raises(ModelFileError, match=says):
        fpi.load(tmp_path / "b.fpi")
    meta["settings"]["hindsight"] = False
    model_files.write(tmp_path / "c.fpi", tensors, meta)
    with pytest.raises(ModelFileError):
        fpi.load(tmp_path / "c.fpi")
    assert dataclasses.replace(agent.settings, hindsight=False).hindsight is False
