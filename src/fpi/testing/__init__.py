"""`check_agent`: does an agent of your own behave as `fpi` agents do?

`check_agent` lets an agent learn in many short runs, looks on from the environment's side, and compares. It knows
agents only by what all of them show: `learn`, `predict`, `policy`, `save`, `episodes`, `data_stored`, `actions`,
`horizon`. `harness` lets agents learn, `checks` has what is asked of them. `check_method` does the same for a method to
compare with, see `fpi.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fpi._validation import shown
from fpi.envs import Env
from fpi.errors import CheckFailed, InputError
from fpi.testing.checks import CHECKS
from fpi.testing.harness import CheckSkipped, Harness
from fpi.testing.methods import MethodReport, check_method

__all__ = ["AgentReport", "MethodReport", "check_agent", "check_method"]


@dataclass(frozen=True)
class AgentReport:
    """The checks that an agent passed, and those that could not be made, with the reason."""

    agent: str
    passed: tuple[str, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.agent} passes {len(self.passed)} checks"]
        lines += [f"  passed   {name}" for name in self.passed]
        lines += [f"  skipped  {name}" for name in self.skipped]
        return "\n".join(lines)


def check_agent(make_agent: Any, make_env: Callable[[], Env] | Env | None = None) -> AgentReport:
    """Check that an agent behaves as `fpi` agents do; the first broken promise is a CheckFailed that explains it.

    `make_agent()` gives a fresh agent for the environments that `make_env()` gives. Without `make_env`,
    `make_agent(features, actions=..., horizon=...)` is asked for agents that fit a small built-in task. An agent and an
    environment themselves do as well: then the agent is copied, and the environment is used as it is.
    """
    if not callable(make_agent) and not hasattr(make_agent, "learn"):
        raise InputError(f"{shown(make_agent)} is no agent, and no function that makes one. Pass one of these.")
    harness = Harness(make_agent, make_env)
    passed, skipped = [], []
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        try:
            check(harness)
        except CheckSkipped as obstacle:
            skipped.append(f"{name}: {obstacle}")
            continue
        except CheckFailed as failure:
            raise CheckFailed(f"{name}: {failure}") from failure.__cause__
        except Exception as error:
            raise CheckFailed(
                f"{name}: this check ended in {error!r}, raised by the agent or its environment. It does nothing "
                "that an agent may refuse; the traceback above shows where it stopped."
            ) from error
        passed.append(name)
    return AgentReport(harness.name, tuple(passed), tuple(skipped))
