"""Every public name of fpi, its arguments, and where it is said what they mean.

An argument is explained by the docstring of its function, class or method, by the string below a field, by the setting
of that name, or by docs/reference/words.md, which has the words that mean the same everywhere.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.pycode import ModuleAnalyzer

import fpi
from fpi import errors, settings

WORDS = Path(__file__).parents[1] / "reference" / "words.md"
# Modules without __all__ have much that only fpi itself uses; these are the names that users meet.
CHOSEN = {
    "fpi.algorithms.agent": ("Summary",),
    "fpi.algorithms.levels": ("Explanation", "LevelState"),
    "fpi.algorithms.model_fpi": ("ModelExplanation",),
    "fpi.modelling.report": ("ModelReport",),
    "fpi.algorithms.pac": ("Explanation",),
    "fpi.algorithms.theory": ("Constants",),
    "fpi.callbacks": ("JsonlLog", "TensorBoardLog", "GapLog", "metrics"),
    "fpi.data": ("Dataset",),
    "fpi.determinism": ("check", "CheckReport", "replay", "ReplayReport"),
    "fpi.envs": ("ActionGrid", "make_environment"),
    "fpi.errors": (
        "FpiError",
        "InputError",
        "EnvironmentMismatch",
        "ModelFileError",
        "DamagedResults",
        "SaveError",
        "MissingExtra",
        "CheckFailed",
        "NondeterminismWarning",
        "CoverageWarning",
    ),
    "fpi.evaluation": ("evaluate", "Policy", "Decision"),
    "fpi.history": ("History", "Evaluation"),
    "fpi.regression": ("PrefixRidge",),
    "fpi.statistics": (
        "Interval",
        "student_interval",
        "bootstrap_interval",
        "interquartile_mean",
        "Difference",
        "last_tenth",
        "regret",
        "mistakes",
        "slope",
    ),
    "fpi.training": ("Learner", "Episode", "TrainingState"),
}


class Argument(NamedTuple):
    name: str
    type: str
    text: str | None
    """None: nothing is said about it anywhere. Empty: the docstring does."""


def names_of(module: str) -> tuple[str, ...]:
    return CHOSEN.get(module) or tuple(importlib.import_module(module).__all__)


def address(module: str, name: str) -> str:
    """The shortest name to import it by."""
    return f"fpi.{name}" if name in fpi.__all__ else f"{module}.{name}"


def is_value(thing: Any) -> bool:
    """Neither a class nor a function: a number, a table, the name of a type."""
    return not (inspect.isclass(thing) or inspect.isroutine(thing))


def docstring(thing: Any) -> str:
    """Its own, or that of the method it overrides."""
    return inspect.getdoc(thing) or ""


def arguments(function: Any, around: str = "") -> list[Argument]:
    """Of a function, method or class; `around` is text that explains arguments, too, as that of the class."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in ones do not tell
        return []
    if inspect.isclass(function) and (issubclass(function, BaseException) or getattr(function, "_is_protocol", False)):
        return []
    said = f"{docstring(function)}\n{docstring(function.__init__) if inspect.isclass(function) else ''}\n{around}"
    texts = {**words(), **(meanings(function) if inspect.isclass(function) else {})}
    return [
        Argument(each.name, type_of(each), "" if mentions(said, each.name) else texts.get(each.name))
        for each in parameters
        if each.name not in ("self", "cls") and not each.name.startswith("_")
    ]


def raised(thing: Any) -> list[str]:
    """The errors of fpi that a function, or the constructor of a class, raises by itself or by a check of arguments."""
    made = [thing.__init__, getattr(thing, "__post_init__", None)] if inspect.isclass(thing) else [thing]
    own = [each for each in made if hasattr(each, "__code__") and each.__code__.co_filename != "<string>"]
    texts = [inspect.getsource(each) for each in own if each.__module__.startswith("fpi.")]
    found = {name for text in texts for name in re.findall(r"raise (\w+)\(", text) if hasattr(errors, name)}
    return sorted(found | {"InputError" for text in texts if re.search(r"\b_?(?:check_\w+|as_path)\(", text)})


def methods(kind: type) -> dict[str, Any]:
    """Public methods and properties; those that a public base class explains are found there."""
    bases = [base for base in kind.__mro__[1:] if base in public_classes()]
    found = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "fpi" and base not in bases:
            for name, value in vars(base).items():
                plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                inherited = any(hasattr(each, name) for each in bases)
                is_method = inspect.isfunction(plain) or isinstance(plain, property | functools.cached_property)
                if not name.startswith("_") and is_method and not inherited:
                    found[name] = value
    # What a subclass of something public adds without a word are steps of its own work.
    return {name: value for name, value in found.items() if not bases or inspect.getdoc(value)}


@functools.cache
def public_classes() -> frozenset[type]:
    everything = (getattr(importlib.import_module(module), name) for module in modules() for name in names_of(module))
    return frozenset(thing for thing in everything if inspect.isclass(thing))


@functools.cache
def modules() -> tuple[str, ...]:
    """Those with __all__, and those of which names are chosen above. The commands have a page of their own."""
    folder = Path(fpi.__file__).parent
    packages = [f"fpi.{path.parent.name}" for path in sorted(folder.glob("*/__init__.py"))]
    listed = [name for name in packages if hasattr(importlib.import_module(name), "__all__")]
    return tuple(sorted({*listed, *CHOSEN} - {"fpi.cli"}))


def mentions(text: str, name: str) -> bool:
    """In a span of code, alone or as in `tiles=4`."""
    return any(name in re.findall(r"\w+", span) for span in re.findall(r"`([^`\n]+)`", text))


@functools.cache
def words() -> dict[str, str]:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.+?) \|$", WORDS.read_text(), re.MULTILINE)
    return {name: text for names, text in rows for name in re.findall(r"\w+", names)}


def meanings(kind: type) -> dict[str, str]:
    """What is said below the fields of a class, and of settings."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "fpi":
            notes = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
            found |= {name: " ".join(lines).strip() for (owner, name), lines in notes.items() if owner == base.__name__}
    shape = next((getattr(settings, f"{base.__name__}Settings", None) for base in kind.__mro__), None)
    if kind.__name__ == "ModelFPI":
        shape = settings.ModelSettings
    if shape is not None:
        for each in settings.settings_of(shape):
            unset = f" None: {each.setting.none}." if each.setting.none else ""
            found[each.name] = each.setting.meaning + unset
    return found


def type_of(parameter: inspect.Parameter) -> str:
    if parameter.annotation is inspect.Parameter.empty:
        return ""
    given = parameter.annotation
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    text = re.sub(r"Annotated\[(.*), Setting\(.*\)\]", r"\1", text)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
