"""Options that several commands share, and those that follow from the settings of the agents (`fpi.settings`)."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fpi.errors import InputError, SaveError
from fpi.setting_fields import SettingField
from fpi.settings import ALGORITHMS, by_name, option_name

ENVIRONMENT, LEARNING, SETTINGS, FEATURES, FILES = "Environment", "Learning", "Settings", "Features", "Files"
RUNNING = "Running"


def option(
    text: str, metavar: str, panel: str | None = None, default: str | bool = True, *names: str, **more: Any
) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=default, **more)


def flag(name: str, text: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(name, help=text, metavar=" ", rich_help_panel=panel, show_default=False, **more)


def import_from_here() -> None:
    """Modules may lie in the current folder, too. Installed ones come first."""
    if "" not in sys.path:
        sys.path.append("")


def look_here(typed: Any) -> Any:
    """A module that was typed, as in module:Name, may lie in the current folder."""
    if ":" in "".join(typed or ()):
        import_from_here()
    return typed


EnvName = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="Name of a Gymnasium environment, for example CartPole-v1; one of your own as module:Name-v0.",
        callback=look_here,
    ),
]
OtherEnv = Annotated[
    str | None,
    typer.Argument(
        metavar="ENV",
        help="Environment to play in; the one the model was trained on if left out.",
        callback=look_here,
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that fpi train wrote.")]
EnvArgs = Annotated[
    list[str] | None,
    option(
        "Keyword argument of gymnasium.make; may be repeated. Example: --env-arg is_slippery=false",
        "KEY=VALUE",
        ENVIRONMENT,
        False,
        "--env-arg",
    ),
]
ActionGrid = Annotated[
    int | None,
    option(
        "For continuous actions: N equally spaced values per dimension, both ends included.", "N", ENVIRONMENT, False
    ),
]
Episodes = Annotated[int, option("Episodes to play.", "N", min=1)]
StartSeed = Annotated[int, option("Random seed; the same start states for every model.", "N")]
BackendName = Annotated[
    Literal["local", "ray"],
    option("local: processes of this computer. ray: tasks of a Ray cluster.", "NAME", RUNNING),
]
Address = Annotated[
    str | None,
    option("ray: where the cluster is, as ray.init takes it.", "HOST:PORT", RUNNING, "a small one of its own"),
]
Workers = Annotated[int | None, option("Processes. Results do not depend on it.", "N", None, "all cores", min=1)]


def chosen_size(quick: bool, full: bool) -> str:
    """Of a study, by two flags."""
    if quick and full:
        raise InputError("--quick and --full: choose one of them.")
    return "quick" if quick else "full" if full else "default"


def parse_pairs(name: str, pairs: Collection[str] | None) -> dict[str, Any]:
    """KEY=VALUE pairs: the value is JSON or one of Python's three words where it can be, else text."""
    parsed = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.replace(".", "").isidentifier():
            raise InputError(f"{name} {pair} is not of the form KEY=VALUE, as in {name} gravity=9.8.")
        parsed[key] = parse_value(value)
        if value.lower() in ("on", "off", "yes", "no"):
            raise InputError(f"{name} {pair} would be a text. Write {key}=true or {key}=false.")
    return parsed


PYTHON_WORDS = {"True": True, "False": False, "None": None}


def parse_value(text: str) -> Any:
    if text in PYTHON_WORDS:
        return PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_writable(path: Path) -> None:
    """Hours of learning later would be too late."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SaveError(f"--out {path} cannot be written: there is no folder {folder}. Create it first.")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise SaveError(f"--out {path} cannot be written: choose the name of a file, in a folder you may write to.")


# --- options of the settings ------------------------------------------------------------------------------------------


def add_setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every setting that has a metavar; `settings` are those that were typed."""
    mixed = {name for name, known in by_name().items() if _is_mixed(next(iter(known.values())))}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(known))
        for name, known in by_name().items()
        if next(iter(known.values())).setting.metavar
    ]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        typed = {each.name: given.pop(each.name) for each in options}
        chosen = {name: value for name, value in typed.items() if value is not None}
        command(settings=chosen | {name: parse_value(chosen[name]) for name in mixed & set(chosen)}, **given)

    own = inspect.signature(command, eval_str=True).parameters.values()
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own if each.name != "settings"]
    place = next(i for i, each in enumerate(keywords) if each.name == "more_settings")
    call.__signature__ = inspect.Signature([*keywords[:place], *options, *keywords[place:]])  # type: ignore[attr-defined]
    return call


def _annotation(known: dict[str, SettingField]) -> Any:
    first = next(iter(known.values()))
    meaning = first.setting.meaning
    if len(known) < len(ALGORITHMS):
        meaning = f"{', '.join(map(option_name, known))}: {meaning[0].lower()}{meaning[1:]}"
    choices = tuple(dict.fromkeys(choice for each in known.values() for choice in each.choices))
    kind = Literal[choices] if choices else str if _is_mixed(first) else first.type
    return Annotated[
        kind | None,
        option(meaning, first.setting.metavar, SETTINGS, _default(known)),
    ]


def _is_mixed(known: SettingField) -> bool:
    """A word or a number, which typer cannot tell apart."""
    return bool(known.type == str | int)


def _default(known: dict[str, SettingField]) -> str:
    """In words; said once if all algorithms have the same."""
    texts: dict[str, list[str]] = {}
    for algorithm, each in known.items():
        value = each.setting.none if each.default is None else each.default
        text = " ".join(f"{end:g}" for end in value) if isinstance(value, tuple) else str(value)
        texts.setdefault("as the environment says" if value is MISSING else text, []).append(algorithm)
    if len(texts) == 1:
        return next(iter(texts))
    return ", ".join(f"{text} for {' and '.join(map(option_name, each))}" for text, each in texts.items())
