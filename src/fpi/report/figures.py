"""Pictures of what `fpi verify`, `fpi compare` and `fpi reproduce` measured.

They read results and know nothing of agents or environments.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fpi._files import write_bytes
from fpi._validation import counted
from fpi.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fpi.algorithms.theory import Constants
    from fpi.compare.bandit import Line
    from fpi.report.results import Results, Setting

BLUE, RED, GREY = "#1f6fb4", "#c83c2e", "#777777"  # all curves: 3 to 1 on light and on dark
METHOD_COLOURS = {"OFUL": RED, "SupLinUCB": "#e08a00", "Uniform": GREY}
PAPER_AXES = {"CartPole-v1": (0, 300), "InvertedPendulum-v4": (10, 30)}  # rewards shown in the paper's Figure 2
PAPER_COLOURS = {"exact": RED, "none": BLUE, "never": BLUE}
OTHER_COLOURS = ("#c97a00", "#2a8f6f", "#8558ba", "#8c6239", "#4f6d8f", GREY)


def draw_regrets(panels: Mapping[str, Sequence[Line]], path: Path, guide: bool = False) -> None:
    """Regret against episodes with 95% bands over seeds; the guide is a line of slope 1/2."""
    figure, axes = _panels(len(panels), columns=2, width=7.0)
    for each, (title, lines) in zip(axes, panels.items(), strict=True):
        for line, (colour, style) in zip(lines, _line_styles(lines), strict=True):
            episodes, (mean, low, high) = line.curve()
            low = np.maximum(low, mean / 10)  # a log axis has no place for less than 0
            each.fill_between(episodes, low, high, where=np.isfinite(high), color=colour, alpha=0.2, lw=0)
            each.plot(episodes, mean, color=colour, ls=style, lw=1.5, label=line.row.name)
        each.set(xscale="log", yscale="log", xlabel="episode", ylabel="regret", title=title)
        if guide:
            each.plot(episodes, mean[-1] * np.sqrt(episodes / episodes[-1]), color=GREY, ls=":", label="slope 1/2")
        each.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    seeds = len(lines[0].seeds)
    save(figure, path, f"Regret, mean and 95% interval over {seeds} seeds" if seeds > 1 else "Regret, one seed")


def _line_styles(lines: Sequence[Line]) -> Iterator[tuple[Any, str]]:
    """Shades for the agents, one colour for each other method; the first line of each is drawn through."""
    from matplotlib import colormaps

    agents = sum(line.row.method == "FPI-Regret" for line in lines)
    shades = iter(colormaps["viridis"](np.linspace(0, 0.9, agents)))
    drawn: set[str] = set()
    for line in lines:
        method = line.row.method
        yield METHOD_COLOURS.get(method) or next(shades), "--" if method in drawn else "-"
        drawn |= {method} & set(METHOD_COLOURS)


def draw_guarantees(line: Line, theory: Constants, path: Path) -> None:
    """Regret and N(eps), beside what Theorem 2 and Uniform-PAC allow."""
    figure, (left, right) = _panels(2)
    episodes = np.geomspace(1, 1e4 * line.episodes, 200)
    epsilons = np.geomspace(1e-3, theory.horizon, 200)
    for regrets, lost_more in zip(line.regrets, line.mistakes, strict=True):
        left.plot(np.arange(1, line.episodes + 1), regrets, color=BLUE, lw=0.8, alpha=0.7)
        right.plot(epsilons, lost_more(epsilons), color=BLUE, lw=0.8, alpha=0.7)
    left.plot(episodes, theory.regret_bound(episodes), color=RED, ls="--", label="Theorem 2 allows")
    left.plot(episodes, theory.horizon * episodes, color=GREY, ls=":", label="trivial: $HT$")
    left.set(xscale="log", yscale="log", xlabel="episodes $T$", ylabel="regret", title="Regret")
    bounds = [theory.mistakes_bound(epsilon) for epsilon in epsilons]
    right.plot(epsilons, bounds, color=RED, ls="--", label="Uniform-PAC allows")
    right.axhline(line.episodes, color=GREY, ls=":", label="trivial: all episodes")
    right.set(xscale="log", yscale="log", xlabel="$\\varepsilon$", ylabel="$N(\\varepsilon)$")
    right.set_title("Episodes that lost more than $\\varepsilon$")
    for axes in (left, right):
        axes.set_ylim(bottom=0.5)
        axes.legend(frameon=False, fontsize=8)
    save(figure, path, f"{line.problem.name}: {line.row.name}, {counted(len(line.seeds), 'seed')}")


def learning_curves(results: Results) -> Figure:
    """The paper's Figure 2: reward against episodes, one panel per environment."""
    shown = results.panels
    if not shown:
        raise InputError("no run of this study is finished, so there are no curves to draw.")
    figure, panels = _panels(len(shown), columns=3 if len(shown) > 4 else 2)
    colours = curve_colours(results.labels)
    for axes, (name, settings) in zip(panels, shown.items(), strict=True):
        for setting in settings:
            colour, (episodes, (mean, low, high)) = colours[setting.label], setting.curve("return")
            axes.fill_between(episodes, low, high, color=colour, alpha=0.2, lw=0)
            axes.plot(episodes, mean, color=colour, lw=1.5, label=setting.label)
        axes.set(title=name, xlabel="Episode", ylabel="Reward", ylim=reward_limits(settings), xlim=(0, None))
        axes.grid(lw=0.4, alpha=0.6)
    legend_beside(figure, loc="outside right center")
    figure.supxlabel(caption(results), fontsize=9, color=GREY)
    figure.suptitle(results.study["title"].replace("$", r"\$"))
    return figure


def rates(results: Results) -> Figure:
    """What was measured on log-log axes: means over seeds with their line, the bound, and the paper's exponent."""
    shown = results.summary["rates"]
    figure, panels = _panels(len(shown), columns=4 if len(shown) > 6 else 3 if len(shown) > 4 else 2)
    for axes, rate in zip(panels, shown, strict=True):
        x, curve, slope = np.array(rate["x"], float), rate["curve"], rate["slope"]
        mean, low, high = (np.array(curve[name]) for name in ("estimate", "low", "high"))
        for number, (label, line) in enumerate((rate["lines"] or {}).items()):
            colour = OTHER_COLOURS[number % len(OTHER_COLOURS)]
            axes.plot(x, line, color=colour, lw=1, label=label)
        axes.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0)
        told = f"slope {slope['estimate']:.2f} ({slope['low']:.2f} to {slope['high']:.2f})"
        axes.plot(x, mean, color=BLUE, marker="o", ms=4, lw=1.5, label=told)
        guide = mean[-1] * (x / x[-1]) ** rate["exponent"]
        axes.plot(x, guide, color=GREY, ls=":", label=f"slope {rate['exponent']:g}: {rate['paper']}")
        if rate["allowed"]:
            axes.plot(x, rate["allowed"], color=RED, ls="--", label="the bound, with its constants")
        axes.set(xscale="log", yscale="log", xlabel=rate["against"], ylabel=rate["of"])
        if not rate["lines"]:
            axes.set_xticks(x, [f"{each:,.0f}" if each >= 100 else f"{each:.3g}" for each in x])
            axes.set_xticks([], minor=True)
        axes.set_title(rate["text"].partition(":")[0], fontsize=10)
        axes.grid(lw=0.4, alpha=0.6)
        axes.legend(frameon=False, fontsize=8)
    seeds = counted(len(results.study["seeds"]), "seed")
    figure.supxlabel(f"Means over {seeds}; shaded: 95% bootstrap interval over seeds.", fontsize=9, color=GREY)
    figure.suptitle(results.study["title"].replace("$", r"\$"))
    return figure


def legend_beside(figure: Figure, **how: Any) -> None:
    """One legend for all panels, each label once, where it hides no data."""
    lines = {label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), frameon=False, **how)


def curve_colours(labels: Sequence[str]) -> dict[str, str]:
    """The same colour for the same label in all panels, the paper's where it has one."""
    others = itertools.cycle(OTHER_COLOURS)
    return {label: PAPER_COLOURS.get(label) or next(others) for label in labels}


def reward_limits(settings: Sequence[Setting]) -> tuple[float, float]:
    """The paper's axis, widened where it would hide a curve; with a margin for environments the paper does not have."""
    bands = [setting.curve("return")[1] for setting in settings]
    low, high = min(band.low.min() for band in bands), max(band.high.max() for band in bands)
    margin = 0.05 * (high - low) or 1.0
    paper = PAPER_AXES.get(settings[0].config.get("env", ""))
    if paper is None:
        return low - margin, high + margin
    return min(paper[0], low - margin), max(paper[1], high + margin)


def caption(results: Results) -> str:
    """What the curves are, so that nobody has to guess the smoothing."""
    sizes = sorted({int(setting.runs[0].windows[0]) for panel in results.panels.values() for setting in panel})
    seeds = sorted({len(setting.runs) for panel in results.panels.values() for setting in panel})
    return (
        f"Each point is the mean of {_range(sizes)} episodes over {_range(seeds)} seeds; "
        "shaded: 95% bootstrap interval over seeds."
    )


def _range(numbers: Sequence[int]) -> str:
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _panels(number: int, columns: int | None = None, width: float = 5.2) -> tuple[Figure, Sequence[Any]]:
    """So many axes, all in one row or in rows of `columns`, each of them `width` inches wide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(number, columns or number)
    rows = -(-number // columns)
    figure = Figure(figsize=(max(width * columns, 6.4), 4.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels[number:]:
        axes.remove()
    for axes in panels[:number]:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels[:number]


def save(figure: Figure, path: Path, title: str = "") -> None:
    """Write the figure, whole or not at all."""
    if title:
        figure.suptitle(title)
    content = io.BytesIO()
    figure.savefig(content, dpi=120, format=path.suffix[1:])
    write_bytes(path, content.getvalue())
