"""The settings of the agents. Each is one field: constructor, checks, saved file, command line and docs follow it.

`Annotated[type, Setting(...)]` says what a field means and which values fit. To add a setting, add a field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fpi._validation import check_real, check_whole
from fpi.errors import InputError
from fpi.setting_fields import PlannerObject, Rule, Setting, SettingField, settings_of

SMALLEST_RIDGE = 1e-12  # below, even 32 digits do not keep Sigma invertible
MOST_CELLS = 1_000_000
UNLIMITED = 2**62  # window of exact freezing: every prefix is kept


def _whole(least: int) -> Callable[[str, Any], Any]:
    return lambda name, number: check_whole(name, number, least)


def _real(wanted: str, fits: Callable[[float], bool]) -> Callable[[str, Any], Any]:
    return lambda name, number: check_real(name, number, wanted, fits)


def _check_flag(name: str, flag: Any) -> None:
    if not isinstance(flag, bool):
        raise InputError(f"{name} is {flag!r}; pass True or False.")


def _word_or_whole(words: tuple[str, ...], wanted: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, str):
            check_whole(name, value, least=1)
        elif value not in words:
            raise InputError(f"{name} is {value!r}; pass {wanted}.")

    return check


def _check_range(name: str, ends: Any) -> None:
    if not (isinstance(ends, tuple | list) and len(ends) == 2):
        raise InputError(f"{name} is {ends!r}; pass the smallest and the largest reward, (low, high).")
    for end in ends:
        check_real(f"an end of {name}", end, "a finite number", lambda x: True)


def _check_bounds(name: str, bound: Any) -> None:
    for each in bound if isinstance(bound, tuple | list) else (bound,):
        check_real(name, each, "a finite number above 0, one for each stage, or None", lambda x: x > 0)


_EXPLORING = Setting(
    "Which uncovered action to try: random (by a seeded hash), first (lowest number), widest (least known), greedy "
    "(best estimate) or, with levels, optimistic (largest estimate plus its error).",
    metavar="RULE",
)
Explore = Annotated[Literal["first", "widest", "greedy", "random"] | Rule, _EXPLORING]
LevelExplore = Annotated[Literal["first", "widest", "greedy", "random", "optimistic"] | Rule, _EXPLORING]


Elimination = Annotated[
    Literal["paper", "stage", "interval"],
    Setting(
        "How far an estimate may lie below the best before its action is eliminated. paper: 2H Delta_l. stage: "
        "2 Delta_l per stage left, all the proof needs. interval: the errors of both estimates, and 2 Delta_l per "
        "later stage.",
        metavar="RULE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings every agent has."""

    actions: Annotated[int, Setting("Number of actions.", _whole(1))]
    horizon: Annotated[int, Setting("H, the stages (steps) of an episode.", _whole(1), "STEPS")]
    reward_range: Annotated[
        tuple[float, float] | None,
        Setting("Smallest and largest reward of one step.", _check_range, "LOW HIGH", none="what is seen"),
    ] = None

    def __post_init__(self) -> None:
        for known in settings_of(type(self)):
            known.check(getattr(self, known.name))
        check_cells("horizon x actions", self.horizon * self.actions, "Use a shorter horizon.")
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", tuple(float(end) for end in self.reward_range))


@dataclass(frozen=True, kw_only=True)
class TheorySettings(Settings):
    """The settings of the paper's algorithms."""

    explore: LevelExplore
    delta: Annotated[
        float,
        Setting(
            "Guarantees hold with probability 1 - delta.", _real("a probability between 0 and 1", lambda x: 0 < x < 1)
        ),
    ] = 0.05
    misspecification: Annotated[
        float,
        Setting(
            "kappa: how far Q^pi may be from linear, divided by the span of rewards.",
            _real("0, or a finite number of at least 1e-100", lambda x: x == 0 or x >= 1e-100),
        ),
    ] = 0.0
    theta_bound: Annotated[
        float | tuple[float, ...] | None,
        Setting(
            "Bound on |theta^pi|, divided by the span of rewards: a number, or one for each stage.",
            _check_bounds,
            none="√features × H",
        ),
    ] = None
    constants: Annotated[
        Literal["tight", "paper"],
        Setting("tight is as tight as the proofs allow, paper as the paper has them."),
    ] = "tight"
    reward_range: Annotated[
        tuple[float, float],
        Setting(
            "Smallest and largest reward of one step. Their span, from the smaller of low and 0 to the larger of high "
            "and 0, is the unit of misspecification, theta_bound and function classes.",
            _check_range,
            "LOW HIGH",
        ),
    ] = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.theta_bound, tuple | list):
            object.__setattr__(self, "theta_bound", tuple(float(bound) for bound in self.theta_bound))
            if len(self.theta_bound) != self.horizon:
                raise InputError(
                    f"theta_bound has {len(self.theta_bound)} numbers, but there are {self.horizon} stages."
                )


def check_cells(product: str, cells: int, advice: str) -> None:
    if cells > MOST_CELLS:
        raise InputError(f"{product} is {cells:,}, above the limit of {MOST_CELLS:,} datasets. {advice}")


@dataclass(frozen=True, kw_only=True)
class PACSettings(TheorySettings):
    """Everything that shapes a PAC agent beside its features."""

    epsilon: Annotated[
        float,
        Setting(
            "A state is covered, and its decision frozen, when the widths of all its actions are at most this. Smaller "
            "takes more data.",
            _real("a number from 1e-100 to 1e100", lambda x: 1e-100 <= x <= 1e100),
            "WIDTH",
        ),
    ] = 1.0
    ridge: Annotated[
        float,
        Setting(
            "lambda, the regularisation of the regressions: 1/H in the theory, 0.001 in the paper's experiments.",
            _real(f"a finite number of at least {SMALLEST_RIDGE:g}", lambda x: x >= SMALLEST_RIDGE),
            "LAMBDA",
        ),
    ] = 1e-3
    explore: Explore = "random"
    freeze: Annotated[
        str | int,
        Setting(
            "exact: decisions at covered states never change. never: they use all data. A number N: only the newest N "
            "prefixes are available, as in the paper's experiments (20).",
            _word_or_whole(("exact", "never"), '"exact", "never", or how many prefixes to keep'),
            "MODE",
        ),
    ] = "exact"

    hindsight: Annotated[
        bool,
        Setting(
            "Store what earlier episodes tell, too, once all their later actions are frozen ones. For deterministic "
            "rewards and exact freezing only.",
            _check_flag,
        ),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hindsight and self.freeze != "exact":
            raise InputError(f"hindsight takes exact freezing, not freeze={self.freeze!r}: other decisions may change.")

    @property
    def window(self) -> int:
        """How many of the newest prefixes may be used; "never" is a window of 1."""
        if isinstance(self.freeze, str):
            return UNLIMITED if self.freeze == "exact" else 1
        return int(self.freeze)


@dataclass(frozen=True, kw_only=True)
class LevelSettings(TheorySettings):
    """What agents with accuracy levels have in common."""

    explore: LevelExplore = "greedy"
    scale: Annotated[
        float,
        Setting(
            "Multiplies the constants of the theory (alpha, beta). 1 is safe and slow; smaller trusts the data sooner "
            "than any theorem allows.",
            _real("a number above 0; 1 is the theory", lambda x: x > 0),
            "FACTOR",
        ),
    ] = 1.0
    elimination: Elimination = "paper"


@dataclass(frozen=True, kw_only=True)
class RegretSettings(LevelSettings):
    """Everything that shapes a Regret agent beside its features."""

    ridge: Annotated[
        float | None,
        Setting(
            "lambda, the regularisation of the regressions.",
            _real(f"None for 1/H, or a finite number of at least {SMALLEST_RIDGE:g}", lambda x: x >= SMALLEST_RIDGE),
            "LAMBDA",
            none="1/H",
        ),
    ] = None
    first_level: Annotated[
        str | int,
        Setting(
            "The level to begin with, 1 in the paper. auto: the first whose policy is promised to lose less than H; "
            "those before cost episodes and promise nothing.",
            _word_or_whole(("auto",), 'the number of a level, or "auto"'),
            "LEVEL",
        ),
    ] = 1
    max_level: Annotated[
        int | None,
        Setting("The last level to test and store.", _whole(1), none="as many as misspecification allows, at most 40"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EluderSettings(LevelSettings):
    """Everything that shapes an Eluder agent beside its class of functions."""

    episodes: Annotated[int, Setting("T, which the constants depend on: the agent cannot learn for longer.", _whole(1))]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.misspecification:
            raise InputError(
                f"misspecification is {self.misspecification!r}; function classes must hold every Q^pi exactly, so "
                "leave it at 0. Misspecified linear features: fpi.Regret."
            )
        if self.theta_bound is not None:
            raise InputError("theta_bound belongs to linear features; a function class brings its own bounds.")


def _check_scales(name: str, scales: Any) -> None:
    for each in scales if isinstance(scales, tuple | list) else (None,):
        check_real(name, each, "None, or a list of finite numbers above 0, one for each entry", lambda x: x > 0)


def _check_rows(name: str, rows: Any) -> None:
    if not (isinstance(rows, tuple | list) and all(isinstance(row, tuple | list) for row in rows)):
        raise InputError(f"{name} is {rows!r}; pass None, or a list of lists of numbers.")
    for row in rows:
        for each in row:
            check_real(f"a number of {name}", each, "a finite number", lambda x: True)


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Everything that shapes a ModelFPI agent beside the kind of its observations."""

    window: Annotated[
        int,
        Setting("Decisions that a plan looks ahead; with Discrete observations, all stages.", _whole(1), "DECISIONS"),
    ] = 40
    interval: Annotated[
        int | None, Setting("Steps that a decision lasts.", _whole(1), "STEPS", none="from the first episodes")
    ] = None
    scales: Annotated[
        tuple[float, ...] | None,
        Setting("What counts as one unit of each observation entry.", _check_scales, none="from what was visited"),
    ] = None
    angles: Annotated[
        tuple[tuple[int, ...], ...] | None,
        Setting("Pairs of entries that are the cosine and the sine of an angle.", _check_rows, none="found"),
    ] = None
    pessimism: Annotated[
        float | None,
        Setting(
            "What the unknown is taken to pay at every step: 0 for the largest reward (R-MAX), 1 for the smallest.",
            _real("a number from 0 to 1", lambda x: 0 <= x <= 1),
            "SHARE",
            none="0.5, with Discrete observations 0",
        ),
    ] = None
    spacing: Annotated[
        float,
        Setting(
            "Visited states this far apart, in units of the scales, stand for the others in plans.",
            _real("a finite number above 0", lambda x: x > 0),
        ),
    ] = 0.25
    planner: Annotated[
        Literal["frozen", "stationary", "cem", "shooting"] | PlannerObject,
        Setting(
            "Planning in the model. frozen: FPI, stage by stage. stationary: one discounted Q for all. cem: the "
            "cross-entropy method on action sequences. shooting: the best of random ones.",
            metavar="NAME",
        ),
    ] = "frozen"
    grid: Annotated[
        tuple[tuple[float, ...], ...] | None,
        Setting("The actions of a continuous action space, one per row.", _check_rows, none="the actions are Discrete"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scales is not None:
            object.__setattr__(self, "scales", tuple(map(float, self.scales)))
        for name, kind in (("angles", int), ("grid", float)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(tuple(map(kind, row)) for row in getattr(self, name)))
        if self.grid is not None and len(self.grid) != self.actions:
            raise InputError(f"grid has {len(self.grid)} rows, but there are {self.actions} actions.")


ALGORITHMS: dict[str, type[Settings]] = {
    "PAC": PACSettings,
    "Regret": RegretSettings,
    "Eluder": EluderSettings,
    "ModelFPI": ModelSettings,
}


def option_name(algorithm: str) -> str:
    """What `fpi train --algorithm` calls it."""
    return algorithm.lower().removesuffix("fpi")


def by_name() -> dict[str, dict[str, SettingField]]:
    """Every setting, as each algorithm that has it knows it."""
    found: dict[str, dict[str, SettingField]] = {}
    for algorithm, kind in ALGORITHMS.items():
        for known in settings_of(kind):
            found.setdefault(known.name, {})[algorithm] = known
    return found
