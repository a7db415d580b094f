"""How fast a study went, beside what its environments alone can do on this computer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from fpi._interrupts import held
from fpi.errors import InputError
from fpi.experiment.engines import find_compiled_env
from fpi.experiment.storage import read_manifest
from fpi.experiment.study import Study
from fpi.run_config import RunConfig

SECONDS = 1.0
PORTION = 20  # steps between two looks at the clock; environments may be slow
COMPILED_PORTION = 100_000


def measure(study: Study, out: Path) -> dict[str, float]:
    """Steps per second and core: of the runs, a bare Gymnasium loop, and the bare compiled environment if any."""
    speeds: dict[str, float] = {}
    for setting in {each.env: each for each in study.settings.values()}.values():
        alike = [job for job in study.jobs("") if job.setting.env == setting.env]
        manifests = [read_manifest(out / "runs" / job.id) for job in alike]
        steps, seconds = (sum(each[name] for each in manifests) for name in ("steps", "seconds"))
        speeds[f"{setting.env}, {manifests[0]['engine']} engine, learning"] = steps / max(seconds, 1e-9)
        speeds[f"{setting.env}, bare Gymnasium loop"] = bare_gymnasium(setting)
        compiled_env = bare_compiled(setting)
        if compiled_env is not None:
            speeds[f"{setting.env}, bare compiled environment"] = compiled_env
    return speeds


def bare_gymnasium(setting: RunConfig) -> float:
    """Steps per second with random actions and no agent."""
    env = setting.make_env()
    count, first = setting.arguments["actions"], getattr(env.action_space, "start", 0)
    actions = first + np.random.default_rng(0).integers(count, size=PORTION)
    env.reset(seed=0)
    began, steps = time.perf_counter(), 0
    while (seconds := time.perf_counter() - began) < SECONDS:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += PORTION
    env.close()
    return steps / seconds


def bare_compiled(setting: RunConfig) -> float | None:
    """The same inside one compiled loop; None without a compiled environment."""
    try:
        compiled_env = find_compiled_env(setting)
    except InputError:
        return None
    roll, rng = numba.njit(_roll), np.random.default_rng(0)
    arguments = (
        compiled_env.reset,
        compiled_env.step,
        rng,
        *compiled_env.begin(),
        compiled_env.env_actions,
        compiled_env.time_limit or 2**62,
    )
    with held:
        roll(*arguments, 1)  # compiles
        began, steps = time.perf_counter(), 0
        while (seconds := time.perf_counter() - began) < SECONDS:
            roll(*arguments, COMPILED_PORTION)
            steps += COMPILED_PORTION
    return steps / seconds


def _roll(
    reset: Any, step: Any, rng: Any, state: Any, observation: Any, env_actions: Any, limit: int, steps: int
) -> None:
    reset(rng, state, observation)
    length = 0
    for _ in range(steps):
        terminated = step(state, env_actions[int(rng.random() * len(env_actions))], observation)[1]
        length += 1
        if terminated or length == limit:
            reset(rng, state, observation)
            length = 0
