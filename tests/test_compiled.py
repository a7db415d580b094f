"""Compiled episodes: the compiled environments agree with their environments, and both engines give the same agents."""

import dataclasses
import math
import re
import runpy
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import gymnasium as gym
import numba
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scenarios import Corridor, corridor_env, corridor_reset, corridor_step

import fpi
from fpi import compiled
from fpi.compiled import engine, env, loop, tasks
from fpi.errors import CoverageWarning, EnvironmentMismatch, InputError
from fpi.kernels import numerics

pytestmark = pytest.mark.filterwarnings("ignore:.*environment InvertedPendulum-v4 is out of date")
ROOT = Path(__file__).parents[1]
STEPS = 60  # of InvertedPendulum


def pendulum_env():
    pytest.importorskip("mujoco")
    return fpi.ActionGrid(gym.make("InvertedPendulum-v4", max_episode_steps=STEPS), [-3, -1, 1, 3])


CORRIDOR = corridor_env()


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


# --- agents with levels ---------------------------------------------------------------------------------


def regret_agent(features, **settings):
    return fpi.Regret(features, actions=2, horizon=3, ridge=0.1, max_level=5, reward_range=(-0.5, 1.0), **settings)


@pytest.mark.parametrize("elimination", ["paper", "stage", "interval"])
@pytest.mark.parametrize(
    ("explore", "constants", "first_level"),
    [
        ("first", "tight", 1),
        ("widest", "paper", 1),
        ("greedy", "tight", 2),
        ("random", "tight", 1),
        ("optimistic", "tight", 2),
    ],
)
def test_levels_are_climbed_to_the_same_bits(elimination, explore, constants, first_level, tmp_path):
    """Engines take turns in the third agent. Some actions are eliminated, some levels end episodes."""
    settings = {"elimination": elimination, "explore": explore, "constants": constants, "scale": 0.002}
    settings["first_level"] = first_level
    expected, agent, both = (regret_agent(fpi.OneHot(6, 2), **settings) for _ in range(3))
    theirs = expected.learn(Corridor(), 900, seed=2)
    ours = compiled.learn(agent, CORRIDOR, 900, seed=2)
    for name in ("returns", "lengths", "stored_stage", "covered_steps"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert_same(agent, expected, tmp_path)
    assert agent.played == expected.played
    both.learn(Corridor(), 300, seed=2)
    compiled.learn(both, CORRIDOR, 300)
    both.learn(Corridor(), 300)
    assert_same(both, expected, tmp_path)
    sizes = expected.datasets.sizes().sum(axis=1)
    assert np.count_nonzero(sizes) > 2
    states = [expected.level_states(cell, stage) for cell in range(5) for stage in range(3)]
    assert any(not level.survives.all() for ladder in states for level in ladder if level.survives is not None)


# --- the compiled environments ------------------------------------------------------------------------


def balance(gains, noise, env_actions, seed=0):
    """A noisy linear controller, which keeps the pole up for long and drives the cart far out."""
    rng = np.random.default_rng(seed)

    def policy(observation, stage):
        wanted = gains @ np.asarray(observation, np.float64) + noise * rng.normal()
        return int(np.argmin(np.abs(np.asarray(env_actions) - wanted)))

    return policy


@pytest.mark.slow
def test_cartpole_is_gymnasium_s_to_the_bit():
    env, compiled_env = gym.make("CartPole-v1"), compiled.get("CartPole-v1")
    for seed in range(4):
        found = compiled.compare(compiled_env, env, episodes=500, seed=seed)
        assert (found.difference, found.returns) == (0.0, 0) and found.steps > 9_000
    upright = balance(np.array([0.1, 0.2, 1, 0.5]), 0.1, [-1, 1])
    found = compiled.compare(compiled_env, env, episodes=20, policy=upright)
    assert found.difference == 0.0 and found.steps == 20 * 500
    assert compiled_env.environment == fpi.training.environment_name(env)


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
        ours = tasks.accelerations(x, theta, x_dot, theta_dot, 100.0 * force)
        np.testing.assert_allclose(ours, env.data.qacc, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
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
        assert found.difference < 1e-12 and found.returns == 0
    for drift in (-1.0, 0.0, 1.0):
        policy = balance(np.array([drift, 20, drift, 3]), 0.3, compiled_env.env_actions[:, 0])
        found = compiled.compare(compiled_env, env, episodes=40, policy=watched(policy))
        assert found.difference < 1e-9 and found.returns == 0
    assert farthest > 1.005  # beyond the end of the rail, which pushes back
    name = fpi.training.environment_name(gym.make("InvertedPendulum-v4"))
    assert compiled.get("InvertedPendulum-v4").environment == name


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


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(-1e6, 1e6) | st.floats(-1e-8, 1e-8), max_size=40))
def test_sums_are_rounded_as_fsum_does(terms):
    assert numerics.exact_sum(np.array(terms)) == math.fsum(terms)


@numba.njit
def product(a, b):
    return numerics.two_prod(a, b)


@settings(deadline=None)  # the first call compiles
@given(st.floats(1e-100, 1e100), st.floats(-1e100, -1e-100))
def test_products_in_two_parts_are_exact(a, b):
    high, low = product(a, b)
    assert high == a * b and Fraction(high) + Fraction(low) == Fraction(a) * Fraction(b)


@pytest.mark.process
def test_one_loop_serves_all_environments_and_stays_on_disk():
    compiled.learn(corridor_agent(), CORRIDOR, 5, seed=0)
    compiled.learn(cartpole_agent(), compiled.get("CartPole-v1"), 5, seed=0)
    assert len(loop.go_on_by_stages.signatures) == 1
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_compiled as t; from fpi import compiled\n"
        "compiled.learn(t.corridor_agent(), t.CORRIDOR, 5, seed=0)\n"
        "stats = t.loop.go_on_by_stages.stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]


# --- by the verb of the agent -----------------------------------------------------------------------------------------

REGISTERED = dataclasses.replace(CORRIDOR, name="fpi-tests/Corridor-v0")


@pytest.fixture
def registered():
    """A corridor with a name, and a compiled environment of that name."""
    gym.register(REGISTERED.name, Corridor, max_episode_steps=20)
    compiled.register(REGISTERED)
    yield lambda: gym.make(REGISTERED.name)
    del gym.registry[REGISTERED.name], env._KNOWN[REGISTERED.name]


def assert_same_verb(make, env, tmp_path):
    expected, agent = make(), make()
    theirs = expected.learn(env(), 300, seed=7)
    theirs_later = expected.learn(env(), 50)
    other = env()
    other.reset(seed=99)
    found = fpi.generators.get_generator(other)
    ours = agent.learn(other, 300, seed=7, engine="compiled")
    assert fpi.generators.get_generator(other) == found
    agent.save(tmp_path / "half.fpi")
    agent = fpi.load(tmp_path / "half.fpi")
    ours_later = agent.learn(other, 50, engine="compiled")
    for name in ("returns", "lengths", "stored_stage", "covered_steps"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        np.testing.assert_array_equal(getattr(ours_later, name), getattr(theirs_later, name))
    assert_same(agent, expected, tmp_path)
    agent.learn(other, 20)
    expected.learn(env(), 20, engine="compiled")
    assert_same(agent, expected, tmp_path)


@pytest.mark.parametrize("world", ["CartPole", "InvertedPendulum"])
def test_learn_takes_the_compiled_environment_by_name(world, tmp_path):
    make, env, _ = WORLDS[world]
    assert_same_verb(make, env, tmp_path)


def test_learn_takes_a_compiled_environment_of_one_s_own(registered, tmp_path):
    assert_same_verb(corridor_agent, registered, tmp_path)


def test_learn_takes_over_the_actions_of_the_grid(tmp_path):
    pytest.importorskip("mujoco")
    plain = gym.make("InvertedPendulum-v4")
    odd = fpi.ActionGrid(plain, [3.0, -0.7, 0.1, -2.0])
    expected, agent, other = pendulum_agent(), pendulum_agent(), pendulum_agent()
    expected.learn(odd, 100, seed=1)
    history = agent.learn(odd, 100, seed=1, engine="compiled")
    assert_same(agent, expected, tmp_path)
    evenly = other.learn(fpi.ActionGrid(plain, 4), 100, seed=1, engine="compiled")
    assert evenly.returns.tolist() != history.returns.tolist()


def test_learn_shows_the_same_bar(capsys):
    cartpole_agent().learn(gym.make("CartPole-v1"), 40, seed=0, progress=True, engine="compiled")
    said = " ".join(capsys.readouterr().out.split())
    assert "40/40" in said and "episodes/s" in said and "data" in said and "% covered" in said


def changed_cart(**attributes):
    env = gym.make("CartPole-v1")
    for name, value in attributes.items():
        setattr(env.unwrapped, name, value)
    return env


def shy_cart():
    """Everything is as it was, but for what a step does."""
    env = gym.make("CartPole-v1")
    step = env.unwrapped.step

    def shy_step(action):
        observation, reward, *rest = step(action)
        return observation * 1.001, reward, *rest

    env.unwrapped.step = shy_step
    return env


class Generous(gym.RewardWrapper):
    def reward(self, reward):
        return reward / 2


class Patient(gym.wrappers.TimeLimit):
    """Derived from a wrapper that does no harm, and free to do anything."""


class Stingy(CartPoleEnv):
    """Calls itself CartPole-v1 and pays otherwise."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward / 2, *rest


def stingy():
    env = Stingy()
    env.spec = gym.spec("CartPole-v1")
    return gym.wrappers.TimeLimit(env, 500)


NOT_PLAIN = {
    "rewards": (lambda: Generous(gym.make("CartPole-v1")), "pass over the wrapper Generous"),
    "observations": (
        lambda: gym.wrappers.TransformObservation(gym.make("CartPole-v1"), np.negative, None),
        "pass over the wrapper TransformObservation",
    ),
    "onlooker": (
        lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1")),
        "pass over the wrapper RecordEpisodeStatistics",
    ),
    "derived": (lambda: Patient(gym.make("CartPole-v1"), 500), "pass over the wrapper Patient"),
    "setting": (
        lambda: gym.make("CartPole-v1", sutton_barto_reward=True),
        "made with {'sutton_barto_reward': True}. Make it by gymnasium.make",
    ),
    "window": (lambda: gym.make("CartPole-v1", render_mode="human"), 'render_mode="human"'),
    "a number": (lambda: changed_cart(total_mass=1.101), "here total_mass was changed"),
    "a number that random play does not show": (lambda: changed_cart(x_threshold=1.0), "here x_threshold was changed"),
    "a step": (shy_cart, "plays otherwise than its compiled version"),
    "other rewards": (stingy, "differed by up to 0, and returns too"),
    "no name": (CartPoleEnv, "this CartPoleEnv has none"),
    "no compiled environment": (lambda: gym.make("CartPole-v0"), "'CartPole-v0' has no compiled environment"),
}


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("case", NOT_PLAIN)
def test_the_compiled_engine_takes_plain_environments_only(case, tmp_path, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    make, message = NOT_PLAIN[case]
    env, agent = make(), cartpole_agent()
    with pytest.raises(InputError, match=re.escape(message)):
        agent.learn(env, 5, seed=0, engine="compiled")
    assert agent.episodes == 0 and agent.training_state.seed is None
    agent.learn(gym.make("CartPole-v1"), 5, seed=0, engine="compiled")


def test_a_picture_of_the_environment_does_no_harm(tmp_path):
    expected, agent = cartpole_agent(), cartpole_agent()
    expected.learn(gym.make("CartPole-v1"), 20, seed=0)
    agent.learn(gym.make("CartPole-v1", render_mode="rgb_array"), 20, seed=0, engine="compiled")
    assert_same(agent, expected, tmp_path)


def test_the_time_limit_is_that_of_the_environment(tmp_path):
    short = gym.make("CartPole-v1", max_episode_steps=99)
    for engine_name in ("gymnasium", "compiled"):
        with pytest.raises(EnvironmentMismatch, match="time limit of 99 steps.*max_episode_steps=100"):
            cartpole_agent().learn(short, 5, seed=0, engine=engine_name)
    features = cartpole_agent().features
    long = [fpi.PAC(features, actions=2, horizon=600, epsilon=1.0, ridge=1e-3) for _ in range(2)]
    env = gym.make("CartPole-v1", max_episode_steps=600)
    long[0].learn(env, 50, seed=0)
    long[1].learn(env, 50, seed=0, engine="compiled")
    assert_same(*long, tmp_path)


def test_the_compiled_engine_says_what_it_cannot_do():
    env, agent = gym.make("CartPole-v1"), cartpole_agent()
    with pytest.raises(InputError, match='a callback is called after every episode.* use engine="gymnasium"'):
        agent.learn(env, 5, seed=0, callback=print, engine="compiled")
    for name in ("numba", None, ["compiled"]):
        with pytest.raises(InputError, match="choose one of gymnasium, compiled"):
            agent.learn(env, 5, seed=0, engine=name)
    with pytest.raises(InputError, match="TileCoding or OneHot features; this is Regret with Function"):
        function = lambda observation: np.eye(2)  # noqa: E731
        fpi.Regret(function, actions=2, horizon=9).learn(env, 5, seed=0, engine="compiled")
    with pytest.raises(EnvironmentMismatch, match="not a gymnasium.Env"):
        agent.learn("CartPole-v1", 5, seed=0, engine="compiled")
    with pytest.raises(InputError, match="episodes is -1"):
        agent.learn(env, -1, seed=0, engine="compiled")
    with pytest.raises(InputError, match="seed is -1"):
        agent.learn(env, 5, seed=-1, engine="compiled")
    assert agent.episodes == 0
    longer = dataclasses.replace(pendulum_agent().settings, horizon=61)
    pendulum = fpi.PAC(pendulum_agent().features, **dataclasses.asdict(longer))
    with pytest.raises(InputError, match="for 60 steps only.* Use horizon=60 or less"):
        pendulum.learn(fpi.ActionGrid(gym.make("InvertedPendulum-v4"), 4), 5, seed=0, engine="compiled")


@pytest.mark.parametrize("episodes", [1, 50])
def test_a_dead_ridge_is_told_once_before_any_episode(episodes):
    agent = fpi.PAC(cartpole_agent().features, actions=2, horizon=100, epsilon=1.0, ridge=1.0)
    env = gym.make("CartPole-v1")
    with pytest.warns(CoverageWarning, match="a ridge of 1 and an accuracy") as caught:
        agent.learn(env, episodes, seed=0, engine="compiled")
        agent.learn(env, episodes, engine="compiled")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CoverageWarning):
            other = fpi.PAC(agent.features, actions=2, horizon=100, epsilon=1.0, ridge=1.0)
            other.learn(env, episodes, seed=0, engine="compiled")
        cartpole_agent().learn(env, episodes, seed=0, engine="compiled")
    assert other.episodes == 0


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


@pytest.mark.parametrize(
    "env_actions, message", [([0, 1], "not in reward_range"), ([2, 3], "nan"), ([4, 5], "derailed")]
)
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


@pytest.mark.parametrize("moment", ["before", "after"])
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
            if calls == 2 and moment == "after":
                act(*arguments)  # and nobody learns how it ended
            if calls == 2:
                raise KeyboardInterrupt
            return act(*arguments)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(loop, "go_on_by_stages", interrupted(loop.go_on_by_stages))
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
    with pytest.raises(InputError, match="at least one action"):
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


@pytest.mark.long
def test_the_page_runs(tmp_path, capsys):
    """As a file, since numba keeps compiled functions beside their source."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/compiled.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "page.py").write_text("\n".join(blocks).replace("2_000", "20"))
    runpy.run_path(str(tmp_path / "page.py"))
    assert "Comparison(episodes=20, steps=4000, difference=0.0, returns=0)" in capsys.readouterr().out
