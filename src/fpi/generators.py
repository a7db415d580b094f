"""The state of an environment's random generator: read, checked, and put back."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np

from fpi.envs import Env
from fpi.errors import InputError

GeneratorState: TypeAlias = dict[str, Any]


def get_generator(env: Env) -> GeneratorState | None:
    """The state of the environment's generator; None unless it is a PCG64, the kind that Gymnasium makes."""
    generator = getattr(env.unwrapped, "np_random", None)
    if not isinstance(generator, np.random.Generator) or type(generator.bit_generator) is not np.random.PCG64:
        return None
    return cast(GeneratorState, generator.bit_generator.state)


def set_generator(env: Env, state: GeneratorState | None) -> None:
    """Give the environment a new generator in this state; does nothing for None."""
    if state is not None:
        env.unwrapped.np_random = np.random.Generator(check_generator(state))


def check_generator(state: GeneratorState | None) -> np.random.PCG64:
    """A bit generator in this state, or any for None; raises InputError where it is no state."""
    bits = np.random.PCG64(0)
    if state is None:
        return bits
    kind = state.get("bit_generator") if isinstance(state, dict) else None
    if isinstance(kind, str) and kind != "PCG64":
        raise InputError(
            f"this generator state is of the kind {kind!r}, and fpi knows PCG64 only, which Gymnasium's environments "
            "have. The environment's generator is unchanged. Give the environment a PCG64 before learning."
        )
    if not _is_pcg64(state):  # numpy would take numbers out of range
        raise InputError(
            "this is not the state of a numpy PCG64: an entry is missing, not a whole number, or out of range. The "
            "environment's generator is unchanged. Use a state that get_generator returned."
        )
    bits.state = cast(Any, state)
    return bits


def _is_pcg64(state: Any) -> bool:
    limits = {"state": 2**128, "inc": 2**128, "has_uint32": 2, "uinteger": 2**32}
    try:
        numbers = {**state, **state["state"]}
    except (KeyError, TypeError):
        return False
    return (
        state.keys() == {"bit_generator", "state", "has_uint32", "uinteger"}
        and numbers.pop("bit_generator") == "PCG64"
        and numbers.keys() == limits.keys()
        and all(type(number) is int and 0 <= number < limits[name] for name, number in numbers.items())
    )
