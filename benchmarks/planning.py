"""What a plan and a decision of `fpi.ModelFPI` cost, with a full cover."""

import time
from collections.abc import Iterator

import gymnasium as gym
import numpy as np
from rich.table import Table

import fpi
from fpi.modelling.model import fit_model
from fpi.modelling.planners import FrozenStages, Plan

TASKS = {"CartPole-v1": 4, "MountainCar-v0": 4, "Pendulum-v1": 4, "Acrobot-v1": 4}  # and episodes learned
EPISODES = 5


def run() -> Iterator[Table | str]:
    heads = "task", "actions", "points", "inducing data", "fit, s", "plan, s (target: 2)"
    table = Table(*heads, "first decision, ms", "decision, mean, ms (target: 2)", title="ModelFPI")
    for name, episodes in TASKS.items():
        env = gym.make(name)
        agent = fpi.ModelFPI.for_env(env)
        agent.learn(env, episodes, seed=0)
        plan = agent.plan
        assert isinstance(plan, Plan)
        began = time.process_time()
        model = fit_model(agent.datasets, agent.settings)
        fitted = time.process_time()
        assert model is not None
        plan = FrozenStages().prepare(model, agent.settings.window, 0.5)
        planned = time.process_time()
        first, mean = _decide(agent, env)
        sizes = f"{agent.actions}", f"{len(plan.points)}", f"{model.dynamics.points.shape[1]}"
        spent = f"{fitted - began:.2f}", f"{planned - fitted:.2f}", f"{first:.1f}", f"{mean:.2f}"
        table.add_row(name, *sizes, *spent)
    yield table


def _decide(agent: fpi.ModelFPI, env: gym.Env) -> tuple[float, float]:
    """Milliseconds of the first decision of an episode, and of all, without the environment: means of some episodes."""
    plan, spent = agent.plan, []
    assert isinstance(plan, Plan)
    for seed in range(EPISODES):
        act, (observation, _), stage, done = agent.episode_policy(agent.episodes), env.reset(seed=seed), 0, False
        spent.append(np.zeros(agent.horizon))
        while not done:
            began = time.process_time()
            action = act(observation, stage).action
            spent[-1][stage] = time.process_time() - began
            played = action if agent.action_grid is None else np.array(agent.action_grid[action], np.float32)
            observation, _, terminated, truncated, _ = env.step(played)
            stage, done = stage + 1, terminated or truncated
        spent[-1] = spent[-1][:stage]
    decisions = sum(-(-len(each) // plan.model.coordinates.interval) for each in spent)
    return 1e3 * float(np.mean([each[0] for each in spent])), 1e3 * float(np.concatenate(spent).sum()) / decisions
