"""The paper's experiments as data, and studies of your own from a file."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fpi import _files
from fpi.domain_studies import domains
from fpi.errors import FpiError, InputError
from fpi.experiment.study import SEPARATOR, Claim, Study, check_runs
from fpi.rate_studies import MANY, cost, theorem1, theorem2
from fpi.run_config import RunConfig, check_fields

SIZES = ("quick", "default", "full")
EPISODES = 55_000  # of the paper's figure
FEW = 5  # seeds: these tell exact freezing from none; MANY from the last 20 too, and a mean return
FREEZING: dict[str, str | int] = {"exact": "exact", "last-20": 20, "never": "never"}

# One return is enough for a new direction: rewards are not noisy here.
_PAC = {"epsilon": 1.0, "ridge": 1e-3, "explore": "random"}

CARTPOLE = RunConfig(
    env="CartPole-v1",
    episodes=EPISODES,
    features={
        "type": "TileCoding",
        "tiles": 4,
        "tilings": 4,
        "low": [-4.8, -10, -0.418, -10],
        "high": [4.8, 10, 0.418, 10],
    },
    arguments={**_PAC, "horizon": 500},
)
PENDULUM = RunConfig(
    env="InvertedPendulum-v4",
    episodes=EPISODES,
    action_grid=4,  # -3, -1, 1, 3
    features={
        "type": "TileCoding",
        "tiles": 4,
        "tilings": 4,
        "low": [-1, -math.pi / 2, -10, -10],
        "high": [1, math.pi / 2, 10, 10],
    },
    arguments={**_PAC, "horizon": 60},
)


def _varied(base: RunConfig, features: Mapping[str, Any] | None = None, **arguments: Any) -> RunConfig:
    return replace(base, features={**base.features, **(features or {})}, arguments={**base.arguments, **arguments})


def _modes(panel: str, base: RunConfig, modes: Mapping[str, str | int]) -> dict[str, RunConfig]:
    return {f"{panel}{SEPARATOR}{label}": _varied(base, freeze=freeze) for label, freeze in modes.items()}


def _freezing_claims(panel: str, rivals: Mapping[str, tuple[str, int]]) -> list[Claim]:
    """Exact freezing earns more than its rivals, each with its words and the seeds that can tell, and none is stale."""
    shown, exact = panel.replace(SEPARATOR, ", "), f"{panel}{SEPARATOR}exact"
    claims = []
    for label, (words, seeds) in rivals.items():
        more, both = f"exact freezing earns more than {words}", {"first": exact, "second": f"{panel}{SEPARATOR}{label}"}
        claims.append(Claim(f"{shown}: {more}", "above", both, seeds, EPISODES, f"whether {more}"))
    stale = {"setting": exact, "low": 0.0, "high": 0.0}
    return [*claims, Claim(f"{shown}: no stored return is stale with exact freezing", "stale", stale)]


def _levels(panel: str, levels: Mapping[str, tuple[float, float]]) -> list[Claim]:
    """What the returns of full-size runs are known to be."""
    return [
        Claim(
            f"{panel}, {label}: mean return {low:g} to {high:g}",
            "level",
            {"setting": f"{panel}--{label}", "low": low, "high": high, "episodes": EPISODES},
            MANY,
            EPISODES,
            "whether the mean returns are as expected",
        )
        for label, (low, high) in levels.items()
    ]


def figure1(size: str) -> Study:
    """The diamond: every Q^π is linear, and yet a Bellman backup of a linear function is not."""
    claims = []
    for n in {"quick": (2,), "default": (2, 5), "full": (2, 5, 20)}[size]:
        claims += [
            Claim(
                f"Diamond with {n} ways: Q^π is linear for every policy", "realizable", {"testbed": "Diamond", "n": n}
            ),
            Claim(f"Diamond with {n} ways: not Bellman complete", "incomplete", {"testbed": "Diamond", "n": n}),
        ]
    return Study(
        name="figure1",
        title="Figure 1: linear for every policy, but not Bellman complete",
        settings={},
        seeds=(),
        about="In the diamond Q^π is linear in the features for every policy, and yet the Bellman backup of a linear "
        "function is not.",
        claims=tuple(claims),
        size=size,
    )


def figure2(size: str) -> Study:
    """CartPole and InvertedPendulum with exact freezing, the paper's last 20, and none."""
    levels = [
        *_levels("CartPole-v1", {"exact": (193, 213), "last-20": (115, 147), "never": (89, 117)}),
        *_levels("InvertedPendulum-v4", {"exact": (37.9, 39.7), "last-20": (35.6, 38.8), "never": (29.9, 35.3)}),
    ]
    return _two_panels("figure2", "Figure 2: what freezing does", {}, levels, size)


def figure2_paper(size: str) -> Study:
    """The same with 2 tilings, whose returns lie within the axes of the published figure."""
    levels = _levels("InvertedPendulum-v4", {"exact": (23.7, 27.3), "last-20": (22.4, 28.0), "never": (19.3, 26.1)})
    return _two_panels(
        "figure2-paper", "Figure 2 with 2 tilings, within the published axes", {"tilings": 2}, levels, size
    )


def _two_panels(name: str, title: str, features: dict[str, Any], levels: list[Claim], size: str) -> Study:
    seeds, episodes = {"quick": (3, 30_000), "default": (FEW, EPISODES), "full": (MANY, EPISODES)}[size]
    rivals = {"never": ("none", FEW), "last-20": ("keeping the last 20", MANY)}
    settings: dict[str, RunConfig] = {}
    claims: list[Claim] = []
    for base in (CARTPOLE, PENDULUM):
        settings |= _modes(base.env, _varied(base, features), FREEZING)
        claims += _freezing_claims(base.env, rivals)
    whole = Study(
        name=name,
        title=title,
        settings=settings,
        seeds=(0,),
        about="Two control tasks, each learned in three ways: `exact` freezes the policy for good wherever its data "
        "cover a state, `last-20` remembers the last 20 regressions only, as the paper's experiments do, and `never` "
        "does not freeze at all.",
        claims=(*claims, *levels),
        size=size,
    )
    return whole.resized(seeds, episodes)


def freezing(size: str) -> Study:
    """How tilings, ranges, exploring rule and offsets change what freezing gains."""
    narrow = {"low": [-2.4, -3, -0.21, -3], "high": [2.4, 3, 0.21, 3]}
    diagonal = (np.arange(4)[:, np.newaxis] / 4).repeat(4, axis=1)
    chance = np.random.default_rng(0).random((4, 4)).round(3)
    variants = {
        "1 tiling": _varied(CARTPOLE, {"tilings": 1}),
        "2 tilings": _varied(CARTPOLE, {"tilings": 2}),
        "4 tilings": CARTPOLE,
        "8 tilings": _varied(CARTPOLE, {"tilings": 8}),
        "narrow ranges": _varied(CARTPOLE, narrow),
        "diagonal offsets": _varied(CARTPOLE, {"offsets": diagonal.tolist()}),
        "random offsets": _varied(CARTPOLE, {"offsets": chance.tolist()}),
        "explore first": _varied(CARTPOLE, explore="first"),
        "explore widest": _varied(CARTPOLE, explore="widest"),
        "explore greedy": _varied(CARTPOLE, explore="greedy"),
    }
    modes = {label: FREEZING[label] for label in ("exact", "never")}
    sizes = {"quick": (2, 10_000), "default": (3, EPISODES), "full": (MANY, EPISODES)}
    settings: dict[str, RunConfig] = {}
    claims: list[Claim] = []
    for text, base in variants.items():
        panel = f"{base.env}{SEPARATOR}{text.replace(' ', '-')}"
        settings |= _modes(panel, base, modes)
        claims += _freezing_claims(panel, {"never": ("none", sizes["default"][0])})
        if text == "1 tiling":
            both = {"first": f"{panel}--exact", "second": f"{panel}--never"}
            claims[0] = Claim("CartPole-v1, 1-tiling: exact freezing and none are the same to the bit", "equal", both)
    whole = Study(
        name="freezing",
        title="When freezing matters",
        settings=settings,
        seeds=(0,),
        about="CartPole-v1 learned with freezing (`exact`) and without (`never`), in ten variants of tile coding and "
        "exploration.",
        claims=tuple(claims),
        size=size,
    )
    return whole.resized(*sizes[size])


NAMED: dict[str, Callable[[str], Study]] = {
    "figure1": figure1,
    "figure2": figure2,
    "figure2-paper": figure2_paper,
    "freezing": freezing,
    "theorem1": theorem1,
    "theorem2": theorem2,
    "cost": cost,
    "domains": domains,
}


def smallest_size(name: str, claim: Claim) -> str:
    """Of a study of the paper: the first of its sizes that can tell whether a claim holds."""
    return next(size for size in SIZES if claim in NAMED[name](size).judged)


# --- studies of your own ----------------------------------------------------------------------------------------------

MOST_BYTES = 2**20  # of a file
_OWN = ("title", "seeds", "settings", "claims")
_FIELDS = [each.name for each in fields(RunConfig) if each.name != "judge"]  # whose table knows the study domains only


def read(path: Path, trust: bool = False) -> Study:
    """A study from a TOML file: what all settings have in common, and a table for each with what it has of its own.

    An environment "module:Name" imports that module, which runs its code: only for files that are trusted.
    """
    takes = 'It takes a TOML file; "Reproducing the paper\'s experiments" in the documentation shows one.'
    try:
        content = tomllib.loads(_files.read_bytes(_files.resolved(path), MOST_BYTES).decode())
        if not _files.is_flat(content):
            raise ValueError("it is nested too deep")
    except OSError as error:
        raise InputError(f"{path} is not a study: {error.strerror or error}. {takes}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a study: {error}. {takes}") from error
    try:
        study = from_data(path.stem, content)
    except FpiError as error:
        raise InputError(f"{path}: {error}") from error
    for name, setting in study.settings.items():
        module, colon, _ = setting.env.rpartition(":")
        if colon and not trust:
            raise InputError(
                f"{path}: setting {name} plays {setting.env}, and making that imports {module}, which runs whatever "
                "code stands there. If you know this file and that module, add --trust."
            )
    return study


def from_data(name: str, content: Mapping[str, Any]) -> Study:
    """The study that a TOML file describes."""
    check_fields(content, [*_OWN, *_FIELDS])
    common = {key: value for key, value in content.items() if key not in _OWN}
    differing = content.get("settings", {"only": {}})
    if not (isinstance(differing, dict) and differing and all(isinstance(each, dict) for each in differing.values())):
        raise InputError(
            'settings is not a list of tables; write a table for each, as in exact.arguments.freeze = "exact".'
        )
    names, settings = {}, {}
    for label, own in differing.items():
        try:
            check_fields(own, _FIELDS)
            setting = RunConfig.from_data(_merged(common, own))
        except FpiError as error:
            raise InputError(f"setting {label}: {error}") from error
        if SEPARATOR in label or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", label):
            raise InputError(
                f"setting {label}: a name begins with a letter or digit, and has these, dots and single dashes only, "
                "since it names folders."
            )
        names[label] = f"{setting.env.replace('/', '-').replace(':', '-')}{SEPARATOR}{label}"
        settings[names[label]] = setting
    seeds = content.get("seeds", 5)
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        check_runs(len(settings), seeds)
        seeds = range(seeds)
    if not isinstance(seeds, list | range):
        raise InputError(f"seeds is {seeds!r}; give their number, or a list of them.")
    if not isinstance(content.get("claims", {}), dict):
        raise InputError(
            'claims is not a table; write lines of the form "a sentence" = { above = ["one", "another"] }.'
        )
    claims = tuple(_claim(text, said, names) for text, said in content.get("claims", {}).items())
    for claim in claims:
        lengths = {settings[claim.arguments[which]].episodes for which in ("first", "second")}
        if claim.kind == "equal" and len(lengths) > 1:
            raise InputError(f"claim {claim.text!r} compares runs of {min(lengths):,} and {max(lengths):,} episodes.")
    title = str(content.get("title", name))
    return Study(name=name, title=title, settings=settings, seeds=tuple(seeds), claims=claims, size="own")


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, everything else is replaced."""
    both = {
        key: _merged(common[key], own[key])
        for key in own
        if isinstance(common.get(key), dict) and isinstance(own[key], dict)
    }
    return {**common, **own, **both}


def _claim(text: str, said: Any, names: Mapping[str, str]) -> Claim:
    if not (isinstance(said, dict) and len(said) == 1 and next(iter(said)) in ("above", "equal")):
        raise InputError(
            f'claim {text!r} is not of the form {{ above = ["one", "another"] }}, or equal instead of above.'
        )
    ((kind, pair),) = said.items()
    if not (isinstance(pair, list) and len(pair) == 2 and set(map(str, pair)) <= set(names)):
        raise InputError(f"claim {text!r} compares {pair!r}; give two of the settings {', '.join(names)}.")
    return Claim(text, kind, {"first": names[pair[0]], "second": names[pair[1]]})
