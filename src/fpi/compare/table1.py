"""Table 1 of the paper, measured: every method that can be run, on one harness.

A study whose settings are called `testbed--method`, and what is made of its runs: rows, the table, who fails where and
why. One setting of each method serves all testbeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fpi.baselines import Generative, Inapplicable, Local, facts
from fpi.baselines.harness import COLUMNS
from fpi.compare.cells import Cell, csv_text
from fpi.experiment.study import SEPARATOR, Study
from fpi.run_config import RunConfig

GAPS = (0.3, 0.1, 0.03)
PLANNING = 400_000  # steps that planners may take


@dataclass(frozen=True)
class World:
    """A testbed of the table."""

    env: str
    env_args: Mapping[str, Any]
    episodes: int
    """Of online methods."""
    why: str


WORLDS = {
    "hubs": World("fpi/HubNet-v0", {"B": 3, "m": 4, "K": 6}, 2_000, "benign: a deterministic linear MDP"),
    "corridor": World(
        "fpi/HubCorridor-v0", {"B": 2, "m": 3, "K": 4, "junk": 2, "seed": 1}, 4_000, "not Bellman complete"
    ),
    "sea": World("fpi/DeepSea-v0", {"N": 16}, 600, "one long way to find"),
    "trap": World(
        "fpi/Trap-v0", {"M": 4, "Lc": 2, "phase": 2_000, "p": 0.5}, 4_000, "optimism spreads with the wrong sign"
    ),
    "gate": World("fpi/Gate-v0", {}, 500, "random transitions that fool stored returns"),
    "slip": World("fpi/Slip-v0", {"B": 3, "m": 4, "K": 6, "slip": 0.3}, 2_000, "random transitions, a linear MDP"),
    "bandit": World("fpi/LinBandit-v0", {"d": 6, "K": 10}, 2_000, "one stage"),
}

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "FPI-PAC-0.3": ("FPI-PAC", {"epsilon": 0.3}),
    "FPI-PAC-0.15": ("FPI-PAC", {"epsilon": 0.15}),
    "FPI-PAC-0.3-last-20": ("FPI-PAC", {"epsilon": 0.3, "freeze": 20}),
    "FPI-PAC-0.3-never": ("FPI-PAC", {"epsilon": 0.3, "freeze": "never"}),
    "FPI-PAC-0.3-suffix": ("FPI-PAC", {"epsilon": 0.3, "suffix": True}),
    "FPI-Regret-0.03": ("FPI-Regret", {"scale": 0.03}),
    "LSVI-UCB": ("LSVI-UCB", {"ridge": 0.1, "bonus": 1.0}),
    "RLSVI": ("RLSVI", {"ridge": 0.01, "sigma": 0.3}),
    "Wu-2024": ("NullSpace", {}),
    "fitted-Q": ("FittedQ", {}),
    "MC-LSPI-online": ("MC-LSPI-online", {}),
    "OCP": ("OCP", {}),
    "agnostic": ("Agnostic", {"repeats": 10}),
    "OFUL": ("OFUL", {"theta_bound": 1.0}),
    "UPAC-OFUL": ("UPAC-OFUL", {}),
    "OracleSkip": ("OracleSkip", {"ridge": 0.1, "bonus": 1.0}),
    "CAPI-20": ("CAPI", {"rollouts": 20}),
    "CAPI-100": ("CAPI", {"rollouts": 100}),
    "CAPI-literal-20": ("CAPI-literal", {"rollouts": 20}),
    "confident-LSPI-20": ("Confident-LSPI", {"rollouts": 20, "reuse": True}),
    "confident-LSPI-literal-20": ("Confident-LSPI", {"rollouts": 20}),
    "Politex": ("Politex", {"iterations": 40, "rollouts": 5, "alpha": 2.0}),
    "G-optimal-25": ("BackwardSweep", {"rollouts": 25, "design": "g"}),
    "G-optimal-100": ("BackwardSweep", {"rollouts": 100, "design": "g"}),
    "spanner-100": ("BackwardSweep", {"rollouts": 100, "design": "spanner"}),
}
LONG_ROWS = ("CAPI-literal-20", "confident-LSPI-literal-20", "Politex")
"""With up to millions of steps each, in the full size only."""

NOT_RUN = {
    "SkippyEleanor (Weisz 2023)": "not computable; OracleSkip stands in for its idea, and cheats",
    "Mhammedi 2025": "needs an oracle for cost-sensitive classification; too little of it is public here to follow it",
    "Eleanor (Zanette 2020)": "not computable: a global optimistic program",
    "Golowich and Moitra 2024": "samples and time exponential in the number of actions",
    "DMQ (Du 2019)": "needs a gap and low variance of every roll-in; uniform roll-ins make that 2^N in the sea",
    "LinQ-LSVI-UCB (Li 2021)": "needs a gap and restores along the path; its constants are not known to us",
}


def table1(size: str, methods: Sequence[str] = ()) -> Study:
    """The study; `methods` of your own (module:Class) are rows like any other."""
    seeds, share = {"quick": (2, 0.1), "default": (5, 1.0), "full": (10, 2.0)}[size]
    left_out = () if size == "full" else LONG_ROWS
    rows = {name: row for name, row in ROWS.items() if name not in left_out}
    rows |= {name.rpartition(":")[2]: (name, {}) for name in methods}
    settings = {}
    for world_name, world in WORLDS.items():
        for row_name, (algorithm, arguments) in rows.items():
            env_args = dict(world.env_args)
            if "phase" in env_args:
                env_args["phase"] = round(env_args["phase"] * share)
            setting = RunConfig(
                env=world.env,
                env_args=env_args,
                episodes=round(world.episodes * share),
                algorithm=algorithm,
                arguments=arguments,
            )
            testbed, noise = setting.make_testbed()
            method = setting.make_method(0)
            if (testbed.horizon == 1) != ("one stage" in method.needs) and algorithm not in ("FPI-Regret", "LSVI-UCB"):
                continue  # bandits are for those made for them, and for two others
            try:
                method.check(facts(testbed, noise))
            except Inapplicable:
                continue
            if method.access in (Local, Generative):
                most = PLANNING * (5 if size == "full" else 1)
                setting = replace(setting, episodes=most // testbed.horizon)
            settings[f"{world_name}{SEPARATOR}{row_name}"] = setting
    return Study(
        name="table1",
        title="Table 1, measured",
        settings=settings,
        seeds=tuple(range(seeds)),
        about="Methods of the paper's Table 1 and of the related work on one harness: what each may do, what it paid, "
        "how much its policy loses on start states it has not seen, by exact values.",
        size=size,
    )


# --- tables and files -------------------------------------------------------------------------------------------------

WORLD_HEADS = ("method", "theorem", *(f"to {gap:g}" for gap in GAPS), "gap", "steps", "regret", "late loss")


def summary(cells: Sequence[Cell]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads, and a row per method: what it may do, what it loses on Gate, what it costs at most on any testbed."""
    gate_head = ("Gate gap",) if any(cell.world == "gate" for cell in cells) else ()
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(cell.row for cell in cells):
        own = [cell for cell in cells if cell.row == name]
        gate = next((f"{cell.gap:.2f}" for cell in own if cell.world == "gate"), "")
        most = {column: max(cell.last(column) for cell in own) for column in ("seconds", "restores", "numbers")}
        rows.append(
            (
                name,
                own[0].access,
                {"theory": "sound", "none": "no theorem"}.get(own[0].method.constants, "scaled"),
                *(gate for _ in gate_head),
                f"{most['seconds']:.1f}",
                f"{most['restores']:,.0f}",
                f"{most['numbers']:,.0f}",
            )
        )
    return ("method", "access", "constants", *gate_head, "seconds", "restores", "numbers stored"), rows


def world_rows(cells: Sequence[Cell], world: str) -> list[tuple[str, ...]]:
    """A row per method on one testbed."""
    rows = []
    for cell in cells:
        if cell.world == world:
            online = (f"{cell.regret:,.0f}", f"{cell.late_loss:.3f}") if cell.online else ("", "")
            reached = (_steps(*cell.steps_to(gap)) for gap in GAPS)
            gap = "none" if math.isnan(cell.gap) else f"{cell.gap:.3f}"
            rows.append((cell.row, cell.verdict, *reached, gap, f"{cell.last('steps'):,.0f}", *online))
    return rows


def _steps(median: float, low: float, high: float) -> str:
    if math.isinf(low):
        return "never"
    if low == median == high:
        return _short(median)
    return f"{_short(median)} ({_short(low)} to {_short(high)})"


def _short(steps: float) -> str:
    if math.isinf(steps):
        return "never"
    return f"{steps:,.0f}" if steps < 1_000 else f"{steps / 1_000:.3g}k"


def failures(cells: Sequence[Cell]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Who fails where, and why: heads, and a row per method."""
    worlds = list(dict.fromkeys(cell.world for cell in cells))
    found = {(cell.row, cell.world): cell for cell in cells}
    names = dict.fromkeys(cell.row for cell in cells)
    return ("method", *worlds), [(name, *(_mark(found.get((name, world))) for world in worlds)) for name in names]


def _mark(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    if not cell.failed:
        return "ok"
    return f"{'too short' if cell.too_short else 'FAILS'}: {cell.why}"


def scaled(cells: Sequence[Cell]) -> str:
    """Which rows use constants below those of their theorems."""
    names = list(dict.fromkeys(cell.row for cell in cells if cell.method.constants == "scaled"))
    return f"Constants below those of the theorems, chosen once for all testbeds: {', '.join(names)}."


def to_csv(cells: Sequence[Cell]) -> str:
    """A row per run and mark."""
    rows = (
        (cell.row, cell.world, cell.access, seed, *(f"{number:.10g}" for number in marks), cell.verdict == "yes")
        for cell in cells
        for seed, run in zip(cell.seeds, cell.runs, strict=True)
        for marks in zip(*(run.rows[name] for name in COLUMNS), strict=True)
    )
    return csv_text(("method", "testbed", "access", "seed", *COLUMNS, "sound"), rows)
