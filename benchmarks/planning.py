"""What a plan and a decision of `fpi.ModelFPI` cost, with a full cover."""

import time
from collections.abc import Iterator

import gymnasium as gym
import numpy as np
from rich.table import Table

import fpi
from fpi.modelling.model import fit_model
from fpi.modelling.planners import FrozenStages, Plan

TASKS = {"CartPole-v1": 8, "Pendulum-v1": 3}  # and episodes until the cover is full


def run() -> Iterator[Table | str]:
    table = Table("task", "actions", "points", "inducing data", "fit, s", "plan, s", "decision, ms", title="ModelFPI")
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
        for point in plan.points[:100]:
            plan.choose(point, np.empty(0, np.int64), 0, 0, 0)
        decided = time.process_time()
        sizes = f"{agent.actions}", f"{len(plan.points)}", f"{model.dynamics.points.shape[1]}"
        spent = f"{fitted - began:.2f}", f"{planned - fitted:.2f}", f"{(decided - planned) * 10:.2f}"
        table.add_row(name, *sizes, *spent)
    yield table
