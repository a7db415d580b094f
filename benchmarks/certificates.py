"""How often `explain(...).step_error` of ModelFPI holds, and how tight it is: true errors of steps beside it."""

from collections.abc import Iterator

import gymnasium as gym
import numpy as np
from rich.table import Table

import fpi
from fpi.modelling.certificate import Certificate
from fpi.modelling.dynamics import target_errors, targets_of
from fpi.modelling.planners import Plan

TASKS = {
    "CartPole-v1": (2, 4),
    "MountainCar-v0": (3, 5),
    "InvertedPendulum-v5": (5, 7),
    "Pendulum-v1": (3, 6),
    "Acrobot-v1": (3, 6),
}
STEPS = 150
RANDOM = 0.3  # share of actions


def table() -> Iterator[Table | str]:
    table = Table("task", "after episodes", "held", "true error, median", "certified, median", "none")
    for name, counts in TASKS.items():
        env = gym.make(name)
        agent = fpi.ModelFPI.for_env(env)
        for number, episodes in enumerate(counts):
            agent.learn(env, episodes - agent.episodes, seed=None if agent.episodes else 11)
            errors, bounds = _compare(agent, gym.make(name))
            told = ~np.isnan(bounds)
            held = f"{(errors[told] <= bounds[told]).mean():.0%}"
            figures = f"{np.median(errors[told]):.1g}", f"{np.median(bounds[told]):.1g}", f"{(~told).sum()}"
            table.add_row("" if number else name, f"{episodes}", held, *figures)
    yield table
    yield f"In scaled units, on {STEPS} steps, {RANDOM:.0%} of the actions random, one seed; none: walls, the unknown."


def _compare(agent: fpi.ModelFPI, env: gym.Env) -> tuple[np.ndarray, np.ndarray]:
    """The true errors of the model's steps, and what is certified of them; NaN where nothing is."""
    plan, draw = agent.plan, np.random.default_rng(0)
    assert isinstance(plan, Plan)
    dynamics, coordinates = plan.model.dynamics, plan.model.coordinates
    certificate = Certificate(dynamics)
    errors, bounds = np.empty(STEPS), np.full(STEPS, np.nan)
    observation, stage = env.reset(seed=77)[0], 0
    act = agent.episode_policy(agent.episodes)
    for i in range(STEPS):
        action = act(observation, stage).action
        if draw.random() < RANDOM:
            action = int(draw.integers(agent.actions))
        z = coordinates(observation)
        if plan.distance(z) < 1.0:
            bounds[i] = certificate(z, action)
        played = action if agent.action_grid is None else np.array(agent.action_grid[action], np.float32)
        observation, _, terminated, truncated, _ = env.step(played)
        seen = targets_of(z[None], np.zeros(1), coordinates(observation)[None], dynamics.plain, dynamics.circles)
        errors[i] = target_errors(dynamics, z[None], np.array([action]), seen)[0]
        stage += 1
        if terminated or truncated or stage == agent.horizon:
            observation, stage = env.reset()[0], 0
            act = agent.episode_policy(agent.episodes)
    return errors, bounds
