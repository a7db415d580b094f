"""Some episodes of learning are played twice: what is said if they went otherwise the second time."""

from __future__ import annotations

import warnings

from fpi.determinism import ReplayReport, noise_advice
from fpi.envs import Env
from fpi.errors import EnvironmentMismatch, NondeterminismWarning


def is_watched(number: int) -> bool:
    """Whether the episode of this number, from 0, is replayed: the 1st, 2nd, 4th, 8th ... is."""
    return number & (number + 1) == 0


def other_rewards(number: int) -> EnvironmentMismatch:
    """What is wrong where an episode was replayed, paid other rewards, and the learner needs deterministic ones."""
    return EnvironmentMismatch(
        f"episode {number + 1}, played again from the same start with the same actions, paid other rewards. "
        "hindsight uses a return more than once, which deterministic rewards only allow: make the agent without "
        "it. The agent is as it was before this episode."
    )


def judge(report: ReplayReport | None, env: Env, number: int, warned: set[str], deterministic_rewards: bool) -> None:
    """Warn, each time of another kind, if the same actions led elsewhere.

    Other rewards are an error where a learner needs deterministic ones.
    """
    if deterministic_rewards and report is not None and report.stochastic_rewards:
        raise other_rewards(number)
    texts = {}
    if report is None or not report.start_reproducible:
        texts["start"] = (
            f"the start of episode {number + 1} is not reproducible: it does not come back with the environment's "
            "generator. FPI takes random starts, but going on later may not give the same bits."
        )
        if report is None:
            texts["start"] += " Whether its transitions are deterministic is open, since it could not be played again."
    if report is not None and not report.agrees:
        texts["transitions"] = (
            f"transitions are random: episode {number + 1}, played again from the same start with the same actions, "
            f"diverged at step {report.step}: {report.reason}. FPI needs deterministic ones; without them stored "
            f"returns go stale and no bound holds. `fpi check` shows more.{noise_advice(env)}"
        )
    for kind, text in texts.items():
        if kind not in warned:
            warnings.warn(text, NondeterminismWarning, stacklevel=4)
            warned.add(kind)
