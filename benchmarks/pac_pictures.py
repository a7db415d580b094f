"""The pictures of docs/verify.md: FPI-PAC, episode by episode, beside what the theory allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray

from benchmarks.pac_studies import layers, measured, ranks
from fpi.report.figures import BLUE, GREY, RED, _panels, save
from fpi.training import Episode
from fpi.verify.instances import Instance

WINDOW = 100  # episodes that a smoothed curve averages over
LEARNING = Instance("LinBandit, d = 3, K = 5, ε = 0.1", "LinBandit", {"d": 3, "K": 5}, episodes=12_000)
GROWING = Instance(
    "HubCorridor, H = 7, ε = 0.2", "HubCorridor", {"B": 2, "m": 3, "K": 4, "junk": 2}, epsilon=0.2, episodes=3_000
)
FREEZING = (
    Instance("cost = 0, ε = 0.5", "DeepSea", {"N": 20}, epsilon=0.5, ridge=1e-3, episodes=250),
    Instance("cost = 0.01, ε = 0.5", "DeepSea", {"N": 20, "cost": 0.01}, epsilon=0.5, ridge=1e-3, episodes=1_500),
)


@dataclass(frozen=True)
class Curves:
    """One run, episode by episode."""

    name: str
    seed: int
    gaps: NDArray[np.float64]
    """What each episode lost in expectation."""
    sizes: NDArray[np.int64]
    """|D_h| after each episode: episodes × stages."""
    ranks: list[int]
    epsilon: float
    dataset_bound: float
    """D of Lemma 1."""
    gap_bound: float
    """eps-bar of Theorem 1."""
    episodes_bound: float
    """H D of Theorem 1: episodes that may lose more than eps-bar."""


def trace(instance: Instance, seed: int) -> Curves:
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    gaps, sizes = [], []

    def keep(episode: Episode) -> None:
        gaps.append(testbed.regret(testbed.state(episode.observations[0]), episode.actions.tolist()))
        sizes.append([agent.datasets.size(stage) for stage in range(agent.horizon)])

    agent.learn(testbed.env(instance.noise), instance.episodes, seed=seed, callback=keep)
    return Curves(
        instance.name,
        seed,
        np.array(gaps),
        np.array(sizes),
        ranks(testbed),
        instance.epsilon,
        agent.dataset_bound,
        agent.theory.gap(instance.epsilon),
        agent.theory.episodes_bound(instance.epsilon),
    )


@dataclass(frozen=True)
class FreezeMap:
    """After how many episodes each cell of a DeepSea was frozen: stages × columns; infinite if it was not."""

    name: str
    episodes: NDArray[np.float64]


def map_freezing(instance: Instance, seed: int) -> FreezeMap:
    testbed = instance.testbed()
    agent = instance.agent(testbed)
    cells = [state for states in layers(testbed) for state in states]
    frozen = np.full((testbed.horizon, max(column for _, column in cells) + 1), np.nan)
    waiting = dict.fromkeys(cells)

    def look(after: int) -> None:
        for stage, column in list(waiting):
            if agent.decide(testbed.observation((stage, column)), stage).covered:
                frozen[stage, column] = after
                del waiting[stage, column]

    def learned(episode: Episode) -> None:
        if episode.stored_stage >= 0:
            look(episode.number + 1)

    look(0)
    agent.learn(testbed.env(instance.noise), instance.episodes, seed=seed, callback=learned)
    for stage, column in waiting:
        frozen[stage, column] = np.inf
    return FreezeMap(instance.name, frozen)


def draw(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draw_learning(measured(trace, LEARNING), folder / "learning.png")
    draw_growth(measured(trace, GROWING), folder / "growth.png")
    draw_freezing([map_freezing(instance, 0) for instance in FREEZING], folder / "freezing.png")


def draw_learning(runs: Sequence[Curves], path: Path) -> None:
    """Gap and regret against episodes, beside what Theorem 1 allows."""
    figure, (left, right) = _panels(2)
    first = runs[0]
    episodes = np.arange(1, len(first.gaps) + 1)
    for run in runs:
        smooth = np.convolve(run.gaps, np.ones(WINDOW) / WINDOW, mode="valid")
        left.plot(episodes[WINDOW - 1 :], smooth, color=BLUE, lw=0.8, alpha=0.7)
        right.plot(episodes, np.cumsum(run.gaps), color=BLUE, lw=1, alpha=0.7)
    left.axhline(first.gap_bound, color=RED, ls="--")
    left.axvline(first.episodes_bound, color=GREY, ls=":")
    top = 1.2 * first.gap_bound
    left.set(ylim=(0, top), xlabel="episode", ylabel=f"loss, mean of {WINDOW} episodes", title="Gap")
    left.text(episodes[-1], first.gap_bound, "$\\bar\\varepsilon$ ", color=RED, ha="right", va="bottom")
    left.text(
        first.episodes_bound, top / 2, "$HD$ episodes may\nlose more than $\\bar\\varepsilon$ ", color=GREY, ha="right"
    )
    right.plot(episodes, allowed_regret(first), color=RED, ls="--")
    right.set(xscale="log", yscale="log", xlabel="episode", ylabel="sum of losses", title="Regret")
    right.set_ylim(bottom=0.5)
    right.text(episodes[-1] / 40, allowed_regret(first)[-1] / 12, "what Theorem 1 allows ", color=RED, ha="right")
    save(figure, path, f"{first.name}, {len(runs)} seeds")


def allowed_regret(run: Curves) -> NDArray[np.float64]:
    """H in each of the H D episodes that may be bad, eps-bar in all others."""
    horizon = run.sizes.shape[1]
    episodes = np.arange(1, len(run.gaps) + 1)
    bad = np.minimum(episodes, run.episodes_bound)
    allowed: NDArray[np.float64] = horizon * bad + min(horizon, run.gap_bound) * (episodes - bad)
    return allowed


def draw_growth(runs: Sequence[Curves], path: Path) -> None:
    """Dataset sizes of all stages against their bound."""
    figure, (axes,) = _panels(1)
    first = runs[0]
    episodes = np.arange(1, len(first.sizes) + 1)
    stages = first.sizes.shape[1]
    shades = [colormaps["viridis"](x) for x in np.linspace(0, 0.9, stages)]
    sizes = np.mean([run.sizes for run in runs], axis=0)
    for stage in range(stages):
        rule = first.ranks[stage] / first.epsilon**2
        axes.plot(episodes, sizes[:, stage], color=shades[stage], label=f"stage {stage}, rank {first.ranks[stage]}")
        axes.plot([episodes[-1], 1.12 * episodes[-1]], [rule, rule], color=shades[stage], lw=3)
    axes.axhline(first.dataset_bound, color=RED, ls="--")
    axes.text(1, first.dataset_bound, "$D$, Lemma 1", color=RED, va="bottom")
    axes.text(1.14 * episodes[-1], first.ranks[0] / first.epsilon**2, "rank / $\\varepsilon^2$", va="center")
    axes.set(yscale="log", xlabel="episode", ylabel="data stored", title=f"Dataset sizes, mean of {len(runs)} seeds")
    axes.set_ylim(1, 3 * first.dataset_bound)
    axes.set_xlim(0, 1.35 * episodes[-1])
    axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(0.8, 0))
    save(figure, path, first.name)


def draw_freezing(maps: Sequence[FreezeMap], path: Path) -> None:
    """When each cell of a DeepSea froze."""
    figure, panels = _panels(len(maps))
    for axes, each in zip(panels, maps, strict=True):
        never = np.isinf(each.episodes)
        when = np.ma.masked_invalid(each.episodes)
        picture = axes.imshow(when, cmap="viridis", aspect="equal")
        for stage, column in zip(*np.nonzero(never), strict=True):
            axes.text(column, stage, "×", ha="center", va="center", color=GREY, fontsize=7)
        axes.set(title=each.name, xlabel="column", ylabel="stage")
        axes.set_xticks(range(0, when.shape[1], 5))
        axes.set_yticks(range(0, when.shape[0], 5))
        figure.colorbar(picture, ax=axes, label="frozen after this many episodes", shrink=0.8)
    save(figure, path, "DeepSea: when cells froze (× never)")
