"""Methods side by side on testbeds with exact values: `fpi compare bandit`.

H = 1 is a linear contextual bandit, the problem of OFUL and SupLinUCB. Rows at scale 1 are sound: their methods use the
constants of their analyses. Other rows multiply these constants by less than 1, which no theorem covers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fpi import statistics
from fpi.algorithms import Regret
from fpi.algorithms.theory import Constants
from fpi.callbacks import ROUNDING
from fpi.compare import cells
from fpi.experiment.study import SEPARATOR, Study
from fpi.run_config import OF_THE_RUN, RunConfig
from fpi.statistics import Interval, Mistakes
from fpi.testbeds import Testbed, make

SEEDS, EPISODES = 5, 8_000
LONG, LONG_SEEDS = 100_000, 3  # what slopes are measured on
SCALES = (0.3, 0.1, 0.03, 0.01)
POINTS = 120  # of a curve

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A testbed family; the seed of a run chooses the world as well."""

    family: str
    arguments: Mapping[str, Any]
    theta_bound: float
    """True of every world."""

    def testbed(self, seed: int) -> Testbed:
        return make(self.family, **self.arguments, seed=seed)

    @property
    def name(self) -> str:
        return f"{self.family}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"


BANDIT = Problem("LinBandit", {"d": 6, "K": 10}, 1.0)
CORRIDOR = Problem("HubCorridor", {"B": 2, "m": 3, "K": 4}, 7.1)


@dataclass(frozen=True)
class Row:
    """A method of `fpi.baselines.METHODS` and its rules."""

    method: str
    explore: str = ""
    elimination: str = ""
    scale: float = 1.0
    first_level: int | Literal["auto"] = 1

    @property
    def sound(self) -> bool:
        return self.scale == 1.0

    @property
    def as_in_the_paper(self) -> bool:
        return self.elimination == "paper" and self.first_level == 1

    @property
    def name(self) -> str:
        scale = "" if self.sound else f"× {self.scale:g}"
        first = "" if self.first_level == 1 else f"from level {self.first_level}"
        return ", ".join(filter(None, (self.method, self.explore, self.elimination, first, scale)))

    @property
    def setting_name(self) -> str:
        return self.name.replace(", ", "-").replace(" ", "-").replace("×-", "x")

    def config(self, problem: Problem, episodes: int) -> RunConfig:
        arguments: dict[str, Any] = {"explore": self.explore} if self.explore else {}
        if self.method != "Uniform":
            arguments |= {"theta_bound": problem.theta_bound, "scale": self.scale}
        if self.method == "SupLinUCB":
            arguments |= {"rounds": episodes}
        if self.method == "FPI-Regret":
            arguments |= {"elimination": self.elimination, "first_level": self.first_level}
        return RunConfig(
            env=f"fpi/{problem.family}-v0",
            env_args={**problem.arguments, "seed": OF_THE_RUN},
            episodes=episodes,
            algorithm=self.method,
            arguments=arguments,
        )

    def learner(self, problem: Problem, episodes: int, seed: int = 0) -> Any:
        """In the world of a seed."""
        testbed = problem.testbed(seed)
        return self.config(problem, episodes).make_method(seed).make(testbed.features, testbed)


def rows_at(scale: float) -> list[Row]:
    """At one stage the elimination rules "paper" and "stage" are the same, so one of them is enough."""
    return [
        Row("OFUL", scale=scale),
        *(Row("SupLinUCB", explore, scale=scale) for explore in ("widest", "optimistic")),
        *(
            Row("FPI-Regret", explore, elimination, scale)
            for explore in ("widest", "random", "greedy")
            for elimination in ("paper", "interval")
        ),
    ]


def later_levels(scale: float) -> list[Row]:
    """Levels that begin later, which "optimistic" makes the most of; level 7 does not fill within the episodes here."""
    pairs: tuple[tuple[str, int | Literal["auto"]], ...]
    pairs = (("greedy", "auto"), ("optimistic", 1), ("optimistic", "auto"), ("optimistic", 7))
    return [Row("FPI-Regret", explore, "paper", scale, first) for explore, first in pairs]


LATER = 0.1  # the scale at which they are compared too
ROWS = (
    Row("Uniform"),
    *(
        row
        for scale in (1.0, *SCALES)
        for row in rows_at(scale) + (later_levels(scale) if scale in (1.0, LATER) else [])
    ),
)


def long_rows(scaled: Row) -> list[Row]:
    """What is played for longer: sound rows, then the scaled one that is given, and levels that begin later."""
    sound = [Row("OFUL"), Row("FPI-Regret", "greedy", "paper"), *later_levels(1.0)]
    return list(dict.fromkeys([*sound, Row("OFUL", scale=LATER), scaled, *later_levels(LATER)[-2:]]))


@dataclass(frozen=True)
class Line:
    """The runs of one row on one problem, one per seed."""

    problem: Problem
    row: Row
    seeds: list[int]
    gaps: Floats
    """What each episode lost in expectation: seeds × episodes."""

    @property
    def episodes(self) -> int:
        return int(self.gaps.shape[1])

    @cached_property
    def regrets(self) -> Floats:
        """Reg(1), Reg(2), ... of every seed."""
        return statistics.regret(self.gaps)

    @property
    def mistakes(self) -> list[Mistakes]:
        """N(eps) of every seed."""
        return [statistics.mistakes(gaps) for gaps in self.gaps]

    @property
    def total(self) -> Interval:
        """Reg(T)."""
        return statistics.student_interval(self.regrets[:, -1])

    @property
    def at_the_end(self) -> float:
        """Loss per episode over the last tenth."""
        return float(statistics.last_tenth(self.gaps).mean())

    def curve(self) -> tuple[NDArray[np.int64], Interval]:
        """Episodes of the last two decades, equally spaced on a log scale, and the regret there."""
        episodes = np.unique(np.geomspace(max(1, self.episodes / 100), self.episodes, POINTS).round().astype(np.int64))
        return episodes, statistics.student_interval(self.regrets[:, episodes - 1])

    def slope(self, decades: int) -> Interval:
        """The exponent of Reg(T) over the last decades of T, from 20 points in each."""
        episodes = np.geomspace(self.episodes / 10**decades, self.episodes, 1 + 20 * decades).round().astype(np.int64)
        return statistics.slope(episodes, self.regrets[:, episodes - 1])


def study(rows: Sequence[tuple[Problem, Row]], episodes: int, seeds: Sequence[int], size: str) -> Study:
    """Every row with every seed."""
    return Study(
        name="bandit",
        title="FPI-Regret as a bandit method",
        settings={
            f"{problem.family}{SEPARATOR}{row.setting_name}": row.config(problem, episodes) for problem, row in rows
        },
        seeds=tuple(seeds),
        about="Regret of FPI-Regret, OFUL and SupLinUCB where they solve the same problem.",
        size=size,
    )


def read(folder: Path, rows: Sequence[tuple[Problem, Row]]) -> list[Line]:
    """The finished runs of these rows, in their order."""
    found = {(cell.world, cell.row): cell for cell in cells.read(folder)}
    lines = []
    for problem, row in rows:
        if (cell := found.get((problem.family, row.setting_name))) is not None:
            losses = np.stack([run.losses for run in cell.runs])
            lines.append(Line(problem, row, list(cell.seeds), np.where(losses > ROUNDING, losses, 0.0)))
    return lines


def best(found: Sequence[Line], method: str) -> Line:
    """The line of this method that lost least, with all its levels: a first one that does not fill is OFUL's way."""
    from_1 = [line for line in found if line.row.method == method and line.row.first_level == 1]
    return min(from_1, key=lambda line: float(line.total.estimate))


def theory(line: Line) -> Constants:
    """The constants of an FPI-Regret line, in the world of its first seed."""
    agent: Regret = line.row.learner(line.problem, line.episodes, line.seeds[0])
    return agent.theory


def shown(found: Sequence[Line]) -> dict[str, list[Line]]:
    """What the picture has room for: all sound lines; of the scaled ones, the best of each method and scale."""
    sound = [line for line in found if line.row.sound]
    scaled = [line for line in found if not line.row.sound]
    methods = [best(scaled, method) for method in ("OFUL", "SupLinUCB")]
    regrets = [best([line for line in scaled if line.row.scale == scale], "FPI-Regret") for scale in SCALES]
    return {"Sound: the constants of the theory": sound, "Scaled: the best of each": [*methods, *regrets]}


# --- tables and files -------------------------------------------------------------------------------------------------

HEADS = ("method", "explore", "elimination", "first level", "scale", "regret", "95% interval", "loss at the end")
SLOPE_HEADS = ("testbed", "method", "at T/10", "regret", "slope, last decade", "last two decades", "theory")


def cells_of(line: Line) -> tuple[str, ...]:
    row, (regret, low, high) = line.row, line.total
    interval = f"{low:,.0f} to {high:,.0f}" if np.isfinite(high) else "takes 2 seeds"
    scale = f"{row.scale:g}" if row.method != "Uniform" else ""
    first = str(row.first_level) if row.method == "FPI-Regret" else ""
    rules = (row.method, row.explore, row.elimination, first, scale)
    return (*rules, f"{regret:,.0f}", interval, f"{line.at_the_end:.4f}")


def slope_cells(line: Line) -> tuple[str, ...]:
    slopes = [f"{estimate:.2f} ({low:.2f} to {high:.2f})" for estimate, low, high in map(line.slope, (1, 2))]
    tenth = float(line.regrets[:, line.episodes // 10 - 1].mean())
    return line.problem.name, line.row.name, f"{tenth:,.0f}", f"{line.total.estimate:,.0f}", *slopes, "0.5"


def growth(found: Sequence[Line]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Mean regret after some numbers of episodes, and beside that of sound OFUL: heads, and a row per line."""
    last = found[0].episodes
    marks = sorted({mark for mark in (1_000, 8_000, 20_000, 50_000) if mark < last} | {last})
    oful = next(float(line.total.estimate) for line in found if line.row == Row("OFUL"))
    rows = [
        (
            line.problem.name,
            line.row.name,
            *(f"{line.regrets[:, mark - 1].mean():,.0f}" for mark in marks),
            f"{float(line.total.estimate) / oful:.3g}" if line.problem is BANDIT else "",
        )
        for line in found
    ]
    return ("testbed", "method", *(f"{mark:,}" for mark in marks), "/ OFUL"), rows


def to_csv(found: Sequence[Line]) -> str:
    """One row per run."""
    rows = (
        (line.problem.name, *astuple(line.row), seed, line.episodes, repr(float(regrets[-1])))
        for line in found
        for seed, regrets in zip(line.seeds, line.regrets, strict=True)
    )
    return cells.csv_text(("problem", *(each.name for each in fields(Row)), "seed", "episodes", "regret"), rows)


def to_json(found: Sequence[Line]) -> str:
    """Every line with its curve: the mean over seeds, and both ends of the interval (null for one seed)."""
    entries = []
    for line in found:
        episodes, band = line.curve()
        curve = {name: _finite(values) for name, values in band._asdict().items()}
        entries.append(
            {
                "problem": line.problem.name,
                **asdict(line.row),
                "sound": line.row.sound,
                "seeds": line.seeds,
                "episodes": line.episodes,
                "regret": line.regrets[:, -1].tolist(),
                "curve": {"episodes": episodes.tolist(), **curve},
            }
        )
    return json.dumps(entries, indent=1, allow_nan=False) + "\n"


def _finite(values: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
