"""`python -m benchmarks peers`, as far as it needs no torch: Stable-Baselines3 itself is not tested here."""

import sys

import gymnasium as gym
import numpy as np
import pytest

import fpi
from benchmarks import peers


class Pushes:
    """Plays what `fpi.evaluate` could not: a continuous force, by what was observed."""

    def predict(self, observation, deterministic):
        assert deterministic
        return np.array([-0.5 * observation[2]], np.float32), None


def test_a_peer_is_judged_by_its_own_continuous_actions():
    env, steps = gym.make("Pendulum-v1", max_episode_steps=20), 20
    player = peers.Player(env, Pushes(), lambda seen: 2 * seen)
    found = fpi.evaluate(player, player, 1, seed=1).returns[0]
    observation, _ = env.reset(seed=int(np.random.SeedSequence(1).generate_state(1)[0]))
    total = 0.0
    for _ in range(steps):
        observation, reward, *_ = env.step(-np.array([observation[2]], np.float32))
        total += reward
    assert found == pytest.approx(total)


def test_without_the_library_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(SystemExit, match="pip install stable-baselines3"):
        peers.main([str(tmp_path / "a.jsonl"), "--tasks", "CartPole-v1"])


def test_runs_that_are_there_are_not_repeated(tmp_path, monkeypatch, capsys):
    asked = []

    def play(task, method, seed, many, most):
        asked.append((task, method, seed))
        row = {"task": task, "variant": method, "seed": seed, "solved": seed == 0, "episodes": 9, "steps": 99}
        return row | {"seconds": 1.0, "means": [0.0]}

    monkeypatch.setattr(peers, "play", play)
    chosen = [str(tmp_path / "a.jsonl"), "--tasks", "Pendulum-v1", "--methods", "SAC"]
    peers.main([*chosen, "--seeds", "1"])
    peers.main([*chosen, "--seeds", "2"])
    assert asked == [("Pendulum-v1", "SAC", 0), ("Pendulum-v1", "SAC", 1)]
    assert "| Pendulum-v1 (-200) | SAC | 1 of 2 (1% to 99%) |" in capsys.readouterr().out


def test_rates_fall_where_rl_zoo_says_so():
    made = peers.arguments_of("CartPole-v1", "PPO")
    assert made["learning_rate"](0.5) == 0.0005 and made["clip_range"](1.0) == 0.2 and made["n_steps"] == 32
