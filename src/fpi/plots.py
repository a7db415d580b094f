"""Pictures of what `fpi verify` measured. They read result rows and know nothing of agents or environments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fpi.verify.curves import Curves, FreezeMap

BLUE, RED, GREY = "#1f6fb4", "#c0392b", "#777777"
WINDOW = 100  # episodes that a smoothed curve averages over


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
    _finish(figure, f"{first.name}, {len(runs)} seeds", path)


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
    shades = _colours(stages)
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
    _finish(figure, first.name, path)


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
    _finish(figure, "DeepSea: when cells froze (× never)", path)


def _panels(number: int) -> tuple[Any, Sequence[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * number + (1.2 if number == 1 else 0), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, number, squeeze=False)[0]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _colours(number: int) -> Sequence[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0, 0.9, number)]


def _finish(figure: Any, title: str, path: Path) -> None:
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
