"""What a study is, as data that JSON can hold: settings, seeds, and the claims that its rows must answer for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fpi._validation import check_whole
from fpi.errors import FpiError, InputError
from fpi.run_config import RunConfig

SEPARATOR = "--"  # between the parts of a name; the last part of a setting's name is its curve, the rest its panel
MOST_RUNS = 100_000  # settings times seeds
LONGEST_NAME = 200  # of a setting, which names folders
CLAIM_KINDS = ("above", "equal", "level", "stale", "realizable", "incomplete", "rate", "regret")


@dataclass(frozen=True)
class Claim:
    """A sentence, and how the results decide whether it holds here (see `fpi.report.claims`).

    `kind` is one of `CLAIM_KINDS`, as in "above"; `arguments` are what it compares.
    """

    text: str
    kind: str
    arguments: Mapping[str, Any]
    seeds: int = 0
    episodes: int = 0
    """The least number of seeds, and of episodes in each run, that can tell. With fewer nothing is judged."""
    question: str = ""
    """What is left open then, as in "whether exact freezing earns more than none"."""

    def __post_init__(self) -> None:
        if self.kind not in CLAIM_KINDS:
            raise InputError(f"there are no claims of the kind {self.kind!r}; choose one of {', '.join(CLAIM_KINDS)}.")


@dataclass(frozen=True, kw_only=True)
class Study:
    """Settings × seeds, and what is claimed about them."""

    name: str
    title: str
    settings: Mapping[str, RunConfig]
    """By name, as in `CartPole-v1--exact`."""
    seeds: tuple[int, ...]
    about: str = ""
    """What is compared, for readers who see the study for the first time."""
    claims: tuple[Claim, ...] = ()
    size: str = "default"

    def __post_init__(self) -> None:
        check_runs(len(self.settings), len(self.seeds))
        for seed in self.seeds:
            check_whole("a seed", seed)
        if (self.settings and not self.seeds) or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds are {list(self.seeds)}; give at least one, and each only once.")
        for name in self.settings:
            if not names_a_folder(name):
                raise InputError(
                    f"setting {name[:LONGEST_NAME]!r}: a name is printable text of up to {LONGEST_NAME} bytes without "
                    "a slash, since it names folders."
                )

    def complete(self) -> Study:
        """The same with all settings filled in and checked."""
        settings = {}
        for name, setting in self.settings.items():
            try:
                settings[name] = setting.complete()
            except FpiError as error:
                raise type(error)(f"setting {name}: {error}") from error
        return replace(self, settings=settings)

    def resized(self, seeds: int | None, episodes: int | None) -> Study:
        """The same with another number of seeds or episodes; None leaves them."""
        settings = {
            name: setting if episodes is None else replace(setting, episodes=episodes)
            for name, setting in self.settings.items()
        }
        check_runs(len(settings), seeds or 0)
        return replace(self, settings=settings, seeds=self.seeds if seeds is None else tuple(range(seeds)))

    @property
    def judged(self) -> tuple[Claim, ...]:
        """The claims that so many seeds and episodes can tell."""
        seeds, episodes = len(self.seeds), self.episodes
        return tuple(claim for claim in self.claims if claim.seeds <= seeds and claim.episodes <= episodes)

    @property
    def episodes(self) -> int:
        """Of the shortest run."""
        return min((setting.episodes for setting in self.settings.values()), default=0)

    def jobs(self, engine: str) -> list[Job]:
        """All runs; the first seed of every setting comes first."""
        return [
            Job(name, setting.of_seed(seed), seed, engine)
            for seed in self.seeds
            for name, setting in self.settings.items()
        ]

    def to_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "size": self.size,
            "seeds": list(self.seeds),
            "settings": {name: setting.to_data() for name, setting in self.settings.items()},
            "claims": [asdict(claim) for claim in self.claims],
        }


def check_runs(settings: int, seeds: int) -> None:
    """Raise InputError where a study would have too many runs."""
    if max(settings, 1) * seeds > MOST_RUNS:
        raise InputError(f"{settings:,} settings with {seeds:,} seeds are more than {MOST_RUNS:,} runs: ask for fewer.")


def names_a_folder(name: str) -> bool:
    """Whether a setting may be called so: its folder lies where it should, on every file system."""
    plain = isinstance(name, str) and name.isprintable() and "/" not in name and name[:1] not in ("", ".")
    return plain and len(name.encode()) <= LONGEST_NAME


@dataclass(frozen=True)
class Job:
    """One run: a setting with a seed."""

    name: str
    """Of the setting."""
    setting: RunConfig
    seed: int
    engine: str

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        return run_id(self.name, self.seed)


def run_id(setting: str, seed: int) -> str:
    """What a run and its folder are called."""
    return f"{setting}{SEPARATOR}seed-{seed:03d}"


def probe_episodes(episodes: int) -> list[int]:
    """The ends of eleven windows of equal size; short runs have fewer."""
    return sorted(set(np.linspace(0, episodes, 12).astype(int)[1:].tolist()) - {0})
