"""Two sentences of the paper that need other methods, or other worlds, to be shown.

`features`: "adding features never hurts" linear Q^pi, and it can break Bellman completeness. The same runs with and
without features of weight 0, for FPI-PAC and for LSVI-UCB, whose theorem needs completeness.

`slip`: what random transitions break. Lemma 2 says that a stored return stays a sample of Q^pi of the current policy.
With slips the states after a stored pair are no longer those it was stored with: the share of stored pairs whose value
has changed since (Lemma 2 violated), by how much, how far returns were from values when they were stored, and what the
policy loses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np

from fpi import baselines
from fpi.algorithms import PAC
from fpi.compare.cells import Cell, csv_text
from fpi.errors import NondeterminismWarning
from fpi.experiment.study import SEPARATOR, Study
from fpi.run_config import RunConfig
from fpi.testbeds import Policy, Slip, State
from fpi.training import Episode

TRAP = {"M": 4, "Lc": 2, "phase": 2_000, "p": 0.5}
CORRIDOR = {"B": 2, "m": 3, "K": 4, "seed": 1}
WORLDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "trap, bare": ("fpi/Trap-v0", TRAP | {"bare": True}, 4_000),
    "trap, with features": ("fpi/Trap-v0", TRAP, 4_000),
    "corridor, bare": ("fpi/HubCorridor-v0", CORRIDOR, 3_000),
    "corridor, 4 more": ("fpi/HubCorridor-v0", CORRIDOR | {"junk": 4}, 3_000),
    "sea, bare": ("fpi/DeepSea-v0", {"N": 16}, 2_500),
    "sea, 4 more": ("fpi/DeepSea-v0", {"N": 16, "junk": 4}, 2_500),
}
METHODS: dict[str, dict[str, Any]] = {"FPI-PAC": {"epsilon": 0.3}, "LSVI-UCB": {"ridge": 0.1, "bonus": 1.0}}
SLIPS = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6)
SLIP_EPISODES = 3_000
CHANGED = 1e-9  # a value that differs by more has changed


def features_study(seeds: int, share: float = 1.0) -> Study:
    """The runs with and without features that nobody needs; `share` shortens them."""
    settings = {}
    for world, (env, arguments, episodes) in WORLDS.items():
        args = {name: round(value * share) if name == "phase" else value for name, value in arguments.items()}
        for method, constants in METHODS.items():
            settings[f"{world}{SEPARATOR}{method}"] = RunConfig(
                env=env, env_args=args, episodes=round(episodes * share), algorithm=method, arguments=constants
            )
    return Study(
        name="features",
        title="Features of weight 0 added",
        settings=settings,
        seeds=tuple(range(seeds)),
        about='"Adding features never hurts": the same runs with and without features of weight 0.',
    )


@dataclass(frozen=True)
class SlipRow:
    """FPI-PAC where actions miss with some probability."""

    slip: float
    seed: int
    stored: int
    violated: float
    """Share of stored pairs whose Q^pi is no longer that of the policy they were stored under: Lemma 2 says 0."""
    change: float
    """By how much, the mean over stored pairs."""
    bias: float
    """Mean of return minus Q^pi over stored pairs, when they were stored: 0 in expectation without slips."""
    gap: float
    """What the policy loses in the end."""
    warned: bool
    """Whether learning said that transitions are random."""


def slip(probability: float, seed: int, episodes: int = SLIP_EPISODES, epsilon: float = 0.15) -> SlipRow:
    """One run on Slip(B=3, m=4, K=6), with exact values."""
    testbed = Slip(B=3, m=4, K=6, slip=probability)
    agent = PAC(
        testbed.features, actions=testbed.actions, horizon=testbed.horizon, epsilon=epsilon, ridge=1 / testbed.horizon
    )
    stored: list[tuple[State, int, float]] = []
    biases: list[float] = []

    def value(state: State, action: int, policy: Policy) -> float:
        return float(testbed.backup(state, testbed.values(policy))[action])

    def keep(episode: Episode) -> None:
        """Of the policy that it was stored under; only covered states come after it, whose decision stands."""
        stage = episode.stored_stage
        if stage >= 0:
            state, action = testbed.state(episode.observations[stage]), int(episode.actions[stage])
            now = value(state, action, testbed.policy(agent.greedy))
            stored.append((state, action, now))
            biases.append(float(episode.rewards[stage:].sum()) - now)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent.learn(testbed.env(), episodes, seed=seed, callback=keep)
    final = testbed.policy(agent.greedy)
    changes = np.array([abs(value(state, action, final) - then) for state, action, then in stored])
    return SlipRow(
        slip=probability,
        seed=seed,
        stored=len(stored),
        violated=float((changes > CHANGED).mean()),
        change=float(changes.mean()),
        bias=float(np.mean(biases)),
        gap=float(testbed.gaps(testbed.held_out(baselines.harness.HELD_OUT), final).mean()),
        warned=any(issubclass(each.category, NondeterminismWarning) for each in caught),
    )


# --- tables -----------------------------------------------------------------------------------------------------------

FEATURES_HEADS = ("testbed", "complete", *(f"{name}: {what}" for name in METHODS for what in ("gap", "late loss")))
SLIP_HEADS = ("slip", "violations of Lemma 2", "mean change", "bias of stored returns", "gap", "learn warns")


def features_table(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """A row per testbed; medians over seeds."""
    table: list[tuple[str, ...]] = []
    for world in dict.fromkeys(cell.world for cell in cells):
        own = {cell.row: cell for cell in cells if cell.world == world}
        numbers = (f"{number:.3f}" for method in METHODS for number in (own[method].gap, own[method].late_loss))
        complete = any("complete" in cell.holds for cell in own.values())
        table.append((world, "yes" if complete else "no", *numbers))
    return table


def slip_table(rows: Sequence[SlipRow]) -> list[tuple[str, ...]]:
    """A row per slip probability; means over seeds."""
    table: list[tuple[str, ...]] = []
    for probability in dict.fromkeys(row.slip for row in rows):
        own = [row for row in rows if row.slip == probability]
        means = {name: np.mean([getattr(row, name) for row in own]) for name in ("violated", "change", "bias", "gap")}
        warned = sum(row.warned for row in own)
        numbers = (f"{means['change']:.3f}", f"{means['bias']:+.3f}", f"{means['gap']:.3f}")
        table.append((f"{probability:g}", f"{means['violated']:.0%}", *numbers, f"{warned} of {len(own)}"))
    return table


def to_csv(rows: Sequence[SlipRow]) -> str:
    return csv_text([each.name for each in fields(SlipRow)], map(astuple, rows))
