"""Compiled episodes: the compiled environments agree with their environments, and both engines give the same agents."""

import dataclasses
import math
import re
import runpy
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fpi
from fpi import compiled
from fpi.compiled import engine, inverted_pendulum, loop
from fpi.errors import EnvironmentMismatch, InputError

pytestmark = pytest.mark.filterwarnings("ignore:.*environment InvertedPendulum-v4 is out of date")
ROOT = Path(__file__).parents[1]
STEPS = 60  # of InvertedPendulum


def pendulum_env():
    pytest.importorskip("mujoco")
    return fpi.ActionGrid(gym.make("InvertedPendulum-v4", max_episode_steps=STEPS), [-3, -1, 1, 3])


class Corridor(gym.Env):
    """Six cells; one reward in the middle, another at the right end, where it stops."""

    observation_space = gym.spaces.Discrete(6)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = int(self.np_random.uniform(0.0, 3.0))
        return self.cell, {}

    def step(self, action):
        self.cell = max(self.cell + 2 * int(action) - 1, 0)
        return self.cell, {3: 0.1, 5: 0.7}.get(self.cell, 0.3 / (1 + self.cell)), self.cell == 5, False, {}


@numba.njit
def corridor_reset(rng, state, observation):
    state[0] = np.floor(rng.uniform(0.0, 3.0))
    observation[0] = state[0]


@numba.njit
def corridor_step(state, move, observation):
    state[0] = observation[0] = max(state[0] + 2.0 * move[0] - 1.0, 0.0)
    reward = 0.3 / (1.0 + state[0])
    if state[0] == 3.0:
        reward = 0.1
    if state[0] == 5.0:
        reward = 0.7
    return reward, state[0] == 5.0


CORRIDOR = compiled.CompiledEnv(
    "Corridor", corridor_reset, corridor_step, 1, Corridor.observation_space, env_actions=[0, 1]
)


def cartpole_agent(**settings):
    features = fpi.TileCoding([-1, -2, -0.2, -2], [1, 2, 0.2, 2], tiles=2, tilings=2, actions=2)
    return fpi.PAC(features, actions=2, horizon=100, epsilon=1.0, ridge=1e-3, **settings)


def pendulum_agent(**settings):
    features = fpi.TileCoding([-1, -0.3, -3, -3], [1, 0.3, 3, 3], tiles=2, tilings=2, actions=4)
    return fpi.PAC(features, actions=4, horizon=STEPS, epsilon=1.0, ridge=1e-3, **settings)


def corridor_agent(**settings):
    features = fpi.OneHot(6, 2)
    return fpi.PAC(features, actions=2, horizon=9, epsilon=0.4, ridge=0.1, reward_range=(-0.5, 1.0), **settings)


WORLDS = {
    "CartPole": (cartpole_agent, lambda: gym.make("CartPole-v1"), lambda: compiled.get("CartPole-v1")),
    "InvertedPendulum": (pendulum_agent, pendulum_env, lambda: compiled.get("InvertedPendulum-v4")),
    "Corridor": (corridor_agent, Corridor, lambda: CORRIDOR),
}


def assert_same(agent, other, tmp_path):
    """The same file: data, seed, counters and generator."""
    agent.save(tmp_path / "one.fpi")
    other.save(tmp_path / "other.fpi")
    assert (tmp_path / "one.fpi").read_bytes() == (tmp_path / "other.fpi").read_bytes()


# --- the compiled environments ------------------------------------------------------------------------


def balance(gains, noise, env_actions, seed=0):
    """A noisy linear controller, which keeps the pole up for long and drives the cart far out."""
    rng = np.random.default_rng(seed)

    def policy(observation, stage):
        wanted = gains @ np.asarray(observation, np.float64) + noise * rng.normal()
        return int(np.argmin(np.abs(np.asarray(env_actions) - wanted)))

    return policy


def test_cartpole_is_gymnasium_s_to_the_bit():
    env, compiled_env = gym.make("CartPole-v1"), compiled.get("CartPole-v1")
    for seed in range(4):
        found = compiled.compare(compiled_env, env, episodes=500, seed=seed)
        assert (found.difference, found.returns) == (0.0, 0) and found.steps > 9_000
    upright = balance(np.array([0.1, 0.2, 1, 0.5]), 0.1, [-1, 1])
    found = compiled.compare(compiled_env, env, episodes=20, policy=upright)
    assert found.difference == 0.0 and found.steps == 20 * 500
    assert compiled_env.environment == fpi.training._name(env)


def test_cartpole_s_hidden_state_is_gymnasium_s_too():
    """Observations show single precision only, which hides a last digit for long."""
    env, compiled_env = gym.make("CartPole-v1"), compiled.get("CartPole-v1")
    rng, actions = np.random.default_rng(0), np.random.default_rng(1)
    state, observation = compiled_env.begin()
    for _ in range(100):
        env.reset(seed=0)
        compiled_env.reset(rng, state, observation)
        env.unwrapped.state = state.copy()
        terminated = False
        while not terminated:
            action = actions.integers(2)
            _, _, terminated, _, _ = env.step(action)
            assert compiled_env.step(state, compiled_env.env_actions[action], observation) == (1.0, terminated)
            assert state.tobytes() == env.unwrapped.state.tobytes()


def test_inverted_pendulum_accelerates_as_mujoco_s():
    mujoco = pytest.importorskip("mujoco")
    env = gym.make("InvertedPendulum-v4").unwrapped
    rng = np.random.default_rng(0)
    for x in np.concatenate([rng.uniform(-1, 1, 100), rng.uniform(1, 1.001, 100), -rng.uniform(1, 1.1, 100)]):
        theta, x_dot, theta_dot = rng.uniform(-0.2, 0.2), rng.normal(), rng.normal(0, 2)
        force = rng.choice([-3, -1, 1, 3])
        mujoco.mj_resetData(env.model, env.data)
        env.data.qpos[:] = x, theta
        env.data.qvel[:] = x_dot, theta_dot
        env.data.ctrl[:] = force
        mujoco.mj_forward(env.model, env.data)
        ours = inverted_pendulum.accelerations(x, theta, x_dot, theta_dot, 100.0 * force)
        np.testing.assert_allclose(ours, env.data.qacc, rtol=1e-12, atol=1e-12)


def test_inverted_pendulum_has_mujoco_s_returns():
    env = pendulum_env()
    compiled_env = dataclasses.replace(compiled.get("InvertedPendulum-v4"), time_limit=STEPS)
    farthest = 0.0

    def watched(policy):
        def act(observation, stage):
            nonlocal farthest
            farthest = max(farthest, abs(observation[0]))
            return policy(observation, stage)

        return act

    for seed in range(3):
        found = compiled.compare(compiled_env, env, episodes=700, seed=seed)
        assert found.difference < 1e-13 and found.returns == 0
    for drift in (-1.0, 0.0, 1.0):
        policy = balance(np.array([drift, 20, drift, 3]), 0.3, compiled_env.env_actions[:, 0])
        found = compiled.compare(compiled_env, env, episodes=40, policy=watched(policy))
        assert found.difference < 1e-9 and found.returns == 0
    assert farthest > 1.005  # beyond the end of the rail, which pushes back
    assert compiled.get("InvertedPendulum-v4").environment == fpi.training._name(gym.make("InvertedPendulum-v4"))


def test_compare_sees_a_small_mistake():
    @numba.njit
    def careless(state, move, observation):
        reward, terminated = corridor_step(state, move, observation)
        return reward + (1e-9 if state[0] == 2.0 else 0.0), terminated

    compiled_env = dataclasses.replace(CORRIDOR, step=careless, time_limit=9)
    env = gym.wrappers.TimeLimit(Corridor(), 9)
    found = compiled.compare(compiled_env, env, episodes=50)
    assert found.difference == 0.0 and found.returns > 25
    assert compiled.compare(dataclasses.replace(CORRIDOR, time_limit=9), env, episodes=50).returns == 0


# --- both engines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("freeze", ["exact", 3, "never"])
def test_both_engines_give_the_same_bits(world, freeze, tmp_path):
    make, env, compiled_env = WORLDS[world]
    expected, agent = make(freeze=freeze), make(freeze=freeze)
    theirs = expected.learn(env(), 300, seed=7)
    ours = compiled.learn(agent, compiled_env(), 300, seed=7)
    for name in ("returns", "lengths", "stored_stage", "covered_steps"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert 0 < ours.covered_steps.sum() < ours.lengths.sum()
    assert_same(agent, expected, tmp_path)


@pytest.mark.parametrize("explore", ["first", "widest", "greedy"])
def test_both_engines_explore_alike(explore, tmp_path):
    make, env, compiled_env = WORLDS["CartPole"]
    expected, agent = make(explore=explore), make(explore=explore)
    expected.learn(env(), 100, seed=1)
    compiled.learn(agent, compiled_env(), 100, seed=1)
    assert_same(agent, expected, tmp_path)


@pytest.mark.parametrize("freeze", ["exact", "never"])
def test_engines_take_turns_over_checkpoints(freeze, tmp_path):
    make, env, compiled_env = WORLDS["CartPole"]
    expected, agent = make(freeze=freeze), make(freeze=freeze)
    expected.learn(env(), 200, seed=2)
    compiled.learn(agent, compiled_env(), 70, seed=2)
    agent.learn(env(), 50)
    agent.save(tmp_path / "half.fpi")
    agent = fpi.load(tmp_path / "half.fpi")
    compiled.learn(agent, compiled_env(), 80)
    assert_same(agent, expected, tmp_path)


def test_a_seed_alone_is_kept_and_a_new_one_starts_afresh(tmp_path):
    make, env, compiled_env = WORLDS["Corridor"]
    expected, agent = make(), make()
    expected.learn(env(), 0, seed=5)
    compiled.learn(agent, compiled_env(), 0, seed=5)
    assert_same(agent, expected, tmp_path)
    for seed in (None, 6):
        expected.learn(env(), 10, seed=seed)
        compiled.learn(agent, compiled_env(), 10, seed=seed)
        assert_same(agent, expected, tmp_path)
    other = make()
    compiled.learn(other, compiled_env(), 3)
    assert other.training_state.seed is not None


@given(st.lists(st.floats(-1e6, 1e6) | st.floats(-1e-8, 1e-8), max_size=40))
def test_sums_are_rounded_as_fsum_does(terms):
    assert loop.exact_sum(np.array(terms)) == math.fsum(terms)


def test_one_loop_serves_all_environments_and_stays_on_disk():
    compiled.learn(corridor_agent(), CORRIDOR, 5, seed=0)
    compiled.learn(cartpole_agent(), compiled.get("CartPole-v1"), 5, seed=0)
    assert len(loop.run.signatures) == 1
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_compiled as t; from fpi import compiled\n"
        "compiled.learn(t.corridor_agent(), t.CORRIDOR, 5, seed=0)\n"
        "print(sum(t._loop.run.stats.cache_hits.values()), sum(t._loop.run.stats.cache_misses.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]


# --- when something goes wrong ----------------------------------------------------------------------------------------


@numba.njit
def unlucky_reset(rng, state, observation):
    corridor_reset(rng, state, observation)
    state[1] = rng.uniform(0.0, 1.0)


@numba.njit
def unlucky_step(state, move, observation):
    """In some episodes something is wrong at cell 2; what it is depends on the moves."""
    reward, terminated = corridor_step(state, move % 2, observation)
    if state[1] > 0.95 and state[0] == 2.0:
        if move[0] >= 4.0:
            raise ValueError("derailed")
        if move[0] >= 2.0:
            observation[0] = np.nan
        else:
            reward = 2.0
    return reward, terminated


@pytest.mark.parametrize("env_actions, message", [([0, 1], "not in reward_range"), ([2, 3], "nan"), ([4, 5], "derailed")])
def test_a_bad_episode_leaves_the_agent_before_it(env_actions, message, tmp_path):
    broken = dataclasses.replace(CORRIDOR, reset=unlucky_reset, step=unlucky_step, state=2, env_actions=env_actions)
    agent = corridor_agent()
    with pytest.raises(ValueError, match=message) as caught:
        compiled.learn(agent, broken, 500, seed=0)
    assert 0 < agent.episodes < 500
    if message != "derailed":
        assert isinstance(caught.value, EnvironmentMismatch)
        assert f"of episode {agent.episodes + 1}:" in str(caught.value)
    expected = corridor_agent()
    compiled.learn(expected, broken, agent.episodes, seed=0)
    assert_same(agent, expected, tmp_path)


@pytest.mark.parametrize("moment", ["append", "grow", "tick"])
def test_an_interrupt_loses_nothing(moment, monkeypatch, tmp_path):
    make, _, compiled_env = WORLDS["CartPole"]
    expected, agent = make(), make()
    compiled.learn(expected, compiled_env(), 300, seed=4)
    monkeypatch.setattr(engine, "STEPS", 500)
    calls = 0

    def interrupted(act):
        def wrapped(*arguments):
            nonlocal calls
            calls += 1
            if calls == 2:
                raise KeyboardInterrupt
            return act(*arguments)

        return wrapped

    with monkeypatch.context() as patch:
        if moment == "append":
            patch.setattr(engine._Run, "_book", interrupted(engine._Run._book))
        elif moment == "grow":
            patch.setattr(engine._Run, "_make_room", interrupted(engine._Run._make_room))
        else:
            patch.setattr(engine._Run, "go_on", interrupted(engine._Run.go_on))
        with pytest.raises(KeyboardInterrupt):
            compiled.learn(agent, compiled_env(), 300, seed=4)
    assert 0 < agent.episodes < 300
    compiled.learn(agent, compiled_env(), 300 - agent.episodes)
    assert_same(agent, expected, tmp_path)


def test_what_does_not_fit_is_refused():
    cartpole = compiled.get("CartPole-v1")
    fourier = fpi.Fourier([-1] * 4, [1] * 4, order=1, actions=2)
    with pytest.raises(InputError, match="TileCoding or OneHot"):
        compiled.learn(fpi.PAC(fourier, actions=2, horizon=9, epsilon=1.0, ridge=1.0), cartpole, 1)
    with pytest.raises(EnvironmentMismatch, match="4 actions, the agent 2"):
        compiled.learn(cartpole_agent(), compiled.get("InvertedPendulum-v4"), 1)
    with pytest.raises(EnvironmentMismatch, match="read 1 numbers"):
        compiled.learn(corridor_agent(), cartpole, 1)
    with pytest.raises(EnvironmentMismatch, match="time limit of 50"):
        compiled.learn(cartpole_agent(), dataclasses.replace(cartpole, time_limit=50), 1)
    agent = cartpole_agent()
    compiled.learn(agent, cartpole, 1, seed=0)
    with pytest.raises(EnvironmentMismatch, match="learned on CartPole-v1"):
        compiled.learn(agent, dataclasses.replace(cartpole, name="CartPole-v0"), 1)
    with pytest.raises(InputError, match="seed"):
        compiled.learn(cartpole_agent(), cartpole, 1, seed=-1)
    with pytest.raises(InputError, match="no compiled environment; there are CartPole-v1"):
        compiled.get("Pong-v0")
    with pytest.raises(InputError, match="numba.njit"):
        dataclasses.replace(cartpole, step=lambda state, move, observation: (1.0, True))
    with pytest.raises(InputError, match="at least one move"):
        dataclasses.replace(cartpole, env_actions=[])
    with pytest.raises(EnvironmentMismatch, match="its compiled version 2"):
        compiled.compare(cartpole, gym.make("MountainCar-v0"), 1)


# --- stale data -------------------------------------------------------------------------------------------------------


def stale_by_hand(freeze):
    """The share of stale data by keeping all suffixes and asking `predict`."""
    agent = cartpole_agent(freeze=freeze)
    kept = []

    def keep(episode):
        if episode.stored_stage >= 0:
            first = episode.stored_stage + 1
            kept.append(list(enumerate(zip(episode.observations, episode.actions, strict=True)))[first:])

    agent.learn(gym.make("CartPole-v1"), 300, seed=7, callback=keep)
    stale = [any(agent.predict(seen, stage) != action for stage, (seen, action) in suffix) for suffix in kept]
    return sum(stale) / len(stale)


@pytest.mark.parametrize("freeze", ["exact", 3, "never"])
def test_stale_data_are_counted_alike(freeze, tmp_path):
    make, env, compiled_env = WORLDS["CartPole"]
    share = stale_by_hand(freeze)
    assert share == 0.0 if freeze == "exact" else share > 0.02
    theirs = make(freeze=freeze)
    log = compiled.StaleLog(theirs)
    assert log.share() == 0.0
    theirs.learn(env(), 300, seed=7, callback=log)
    assert log.share() == share and len(log) == theirs.data_stored
    ours = make(freeze=freeze)
    first = compiled.StaleLog(ours)
    compiled.learn(ours, compiled_env(), 200, seed=7, log=first)
    first.share()
    ours.save(tmp_path / "half.fpi")
    ours = fpi.load(tmp_path / "half.fpi")  # has forgotten all visited states
    second = compiled.StaleLog(ours)
    second.restore(first.to_tensors())
    assert second.share() == first.share()
    compiled.learn(ours, compiled_env(), 100, log=second)
    assert second.share() == share
    for name, tensor in second.to_tensors().items():
        np.testing.assert_array_equal(tensor, log.to_tensors()[name])
    assert_same(ours, theirs, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": None},
        {"steps": np.array([10**6], np.int32)},
        {"ends": np.array([3, 1])},
        {"pairs": np.full((1, 4), 7, np.int64)},
        {"pairs": np.full((1, 4), 70_000, np.int32)},
    ],
)
def test_a_log_that_does_not_fit_is_refused(change):
    agent = cartpole_agent(freeze="never")
    log = compiled.StaleLog(agent)
    compiled.learn(agent, compiled.get("CartPole-v1"), 50, seed=0, log=log)
    share = log.share()
    with pytest.raises(InputError):
        log.restore(log.to_tensors() | change)
    assert log.share() == share


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_runs(tmp_path, capsys):
    """As a file, since numba keeps compiled functions beside their source."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/compiled.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "page.py").write_text("\n".join(blocks).replace("2_000", "20"))
    runpy.run_path(str(tmp_path / "page.py"))
    assert "Comparison(episodes=20, steps=4000, difference=0.0, returns=0)" in capsys.readouterr().out
