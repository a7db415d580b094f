"""What classes of settings are made of: `Annotated[type, Setting(...)]`, what a field means and which values fit."""

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Protocol, Union, get_args, get_origin, runtime_checkable

from fpi.errors import InputError

Rule = Callable[[Any], int]
"""An exploring rule of one's own, see `fpi.algorithms.UncoveredState`."""


@runtime_checkable
class PlannerObject(Protocol):
    """A planner of one's own, see `fpi.modelling.planners.Planner`."""

    def prepare(self, model: Any, horizon: int, pessimism: float) -> Any: ...

    def choose(self, plan: Any, z: Any, kept: Any, seed: int, episode: int, decision: int) -> Any: ...


def is_planner(value: Any) -> bool:
    return isinstance(value, PlannerObject) and not isinstance(value, type)  # a class has the same names


OWN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Rule: ("a function", callable),
    PlannerObject: ("a planner", is_planner),
}
"""The types of settings that may be code of one's own, which files do not hold; whether a value is one."""


def is_own(value: Any) -> bool:
    """Whether a setting is one's own code."""
    return any(fits(value) for _, fits in OWN.values())


@dataclass(frozen=True)
class Setting:
    """What a setting means, and which values fit."""

    meaning: str
    check: Callable[[str, Any], Any] | None = None
    """Raises an InputError for a value that does not fit; choices (Literal) need none."""
    metavar: str = ""
    """A word for its value in the help of `fpi train`; without one it has no option of its own there, only --set."""
    none: str = ""
    """What None stands for, where it is allowed."""


class SettingField(NamedTuple):
    """A field of a class of settings."""

    name: str
    type: Any
    """Without None."""
    default: Any
    """`dataclasses.MISSING` if it must be given."""
    setting: Setting

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of a Literal."""
        return tuple(choice for kind in self._kinds if get_origin(kind) is Literal for choice in get_args(kind))

    @property
    def _kinds(self) -> tuple[Any, ...]:
        return get_args(self.type) if get_origin(self.type) in (Union, types.UnionType) else (self.type,)

    def check(self, value: Any) -> None:
        if value is None and self.setting.none:
            return
        own = next((OWN[kind] for kind in self._kinds if kind in OWN), None)
        fits = (isinstance(value, str) and value in self.choices) or (own is not None and own[1](value))
        if self.choices and not fits:
            other = f", or pass {own[0]}" if own else ""
            raise InputError(f"{self.name} is {value!r}; choose one of {', '.join(self.choices)}{other}.")
        if self.setting.check is not None:
            self.setting.check(self.name, value)


def settings_of(kind: type[Any]) -> tuple[SettingField, ...]:
    """The fields of a class of settings with what is known of them."""
    known = []
    for field in fields(kind):
        plain, setting = get_args(field.type)
        if get_origin(plain) in (Union, types.UnionType):
            plain = functools.reduce(lambda a, b: a | b, (each for each in get_args(plain) if each is not type(None)))
        known.append(SettingField(field.name, plain, field.default, setting))
    return tuple(known)
