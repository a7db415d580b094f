"""The table of docs/settings.md, from the fields of `fpi.settings`."""

from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

from fpi.setting_fields import SettingField
from fpi.settings import ALGORITHMS, by_name


def table() -> Iterator[str]:
    """A line for every setting, with its default in each algorithm."""
    yield f"| setting | {' | '.join(ALGORITHMS)} | meaning | `fpi train` |"
    yield "|---" * (len(ALGORITHMS) + 3) + "|"
    for name, of_each in by_name().items():
        defaults = (_default(of_each[each]) if each in of_each else "" for each in ALGORITHMS)
        first = next(iter(of_each.values()))
        typed = f"`--{name.replace('_', '-')}`" if first.setting.metavar else f"`--set {name}=`"
        typed = {"actions": "from ENV", "episodes": "`--episodes`"}.get(name, typed)
        yield f"| `{name}` | {' | '.join(defaults)} | {first.setting.meaning.replace('|', '‖')} | {typed} |"


def _default(known: SettingField) -> str:
    value: Any = known.default
    if value is MISSING:
        return "needed"
    return f"None: {known.setting.none}" if value is None else f"`{value!r}`"
