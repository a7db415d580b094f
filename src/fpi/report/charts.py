"""Charts as plain data for plotly.js. Colours of text and grid are left to the page, which knows light from dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fpi.report import figures
from fpi.report.results import Results, Setting
from fpi.statistics import Floats

Chart: TypeAlias = dict[str, Any]


def rewards(results: Results) -> list[Chart]:
    """The learning curves."""
    title = {"text": "reward"}
    return _bands(results, "return", lambda drawn: {"title": title, "range": figures.reward_limits(drawn)}, ".1f")


def shares(results: Results, series: str, title: str) -> list[Chart]:
    """A share between 0 and 1 against episodes."""

    def axis(settings: Sequence[Setting]) -> dict[str, Any]:
        top = max(0.01, *(float(setting.curve(series)[1].high.max()) for setting in settings))
        return {"title": {"text": title}, "range": (-0.04 * top, 1.04 * top), "tickformat": ".2~%"}

    return _bands(results, series, axis, ".1%")


def growth(results: Results) -> list[Chart]:
    """Heat maps of the data stored per stage; the reader chooses the setting."""
    charts = []
    for panel, settings in results.panels.items():
        grown = [setting for setting in settings if setting.has("data")]
        if grown:
            stages = max(1, *(_reached(setting) for setting in grown))
            data = [_heat(setting, stages, first=setting is grown[0]) for setting in grown]
            y = {"title": {"text": "stage"}}
            charts.append(_chart(panel, data, y) | {"choices": [setting.label for setting in grown]})
    return charts


def _reached(setting: Setting) -> int:
    """Stages up to the last one that holds data; the others would be a dark field."""
    return int(np.flatnonzero(setting.growth.any(axis=1)).max(initial=-1)) + 1


def _heat(setting: Setting, stages: int, first: bool) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": setting.label,
        "x": _plain(setting.runs[0].probes),
        "z": _plain(setting.growth[:stages]),
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": "data"}, "thickness": 12},
        "visible": first,
        "hovertemplate": "after %{x:,} episodes<br>stage %{y}: %{z:,.1f} data<extra></extra>",
    }


def _bands(
    results: Results, series: str, axis: Callable[[Sequence[Setting]], dict[str, Any]], form: str
) -> list[Chart]:
    """One chart per panel, one curve with its band per setting."""
    colours = figures.curve_colours(results.labels)
    charts = []
    for panel, settings in results.panels.items():
        drawn = [setting for setting in settings if setting.has(series)]
        if drawn:
            data = [trace for each in drawn for trace in _curve(each, series, colours[each.label], form)]
            charts.append(_chart(panel, data, axis(drawn)))
    return charts


def _curve(setting: Setting, series: str, colour: str, form: str) -> list[dict[str, Any]]:
    """A band and the line on it; the legend switches both."""
    episodes, (mean, low, high) = setting.curve(series)
    both = {"type": "scatter", "name": setting.label, "legendgroup": setting.label, "mode": "lines"}
    shade = {
        "x": _plain(np.concatenate([episodes, episodes[::-1]])),
        "y": _plain(np.concatenate([high, low[::-1]])),
        "fill": "toself",
        "fillcolor": colour,
        "opacity": 0.2,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    line = {
        "x": _plain(episodes),
        "y": _plain(mean),
        "line": {"color": colour, "width": 2},
        "customdata": _plain(np.stack([low, high], axis=1)),
        "hovertemplate": f"%{{y:{form}}}"
        + (f" (%{{customdata[0]:{form}}} to %{{customdata[1]:{form}}})" if (low < high).any() else ""),
    }
    return [both | shade, both | line]


def _chart(panel: str, data: list[dict[str, Any]], y: dict[str, Any]) -> Chart:
    heat = data[0]["type"] == "heatmap"
    x = {"title": {"text": "episode"}, "hoverformat": ",d", "automargin": True}
    layout = {
        "xaxis": x if heat else x | {"rangemode": "tozero"},
        "yaxis": y | {"automargin": True},
        "hovermode": "closest" if heat else "x unified",
        "legend": {"orientation": "h", "y": -0.25},
        "margin": {"l": 10, "r": 10, "t": 32, "b": 10},  # above: room for plotly's buttons
        "uirevision": "kept",  # a reader's zoom stays when the colours change
    }
    return {"title": panel, "data": data, "layout": layout}


def _plain(numbers: Floats) -> list[Any]:
    """Four digits are more than a screen shows; what is undefined becomes a hole."""
    if numbers.ndim > 1:
        return [_plain(row) for row in numbers]
    return [_short(float(number)) for number in numbers]


def _short(number: float) -> float | int | None:
    if not np.isfinite(number):
        return None
    return int(number) if number == int(number) else float(f"{number:.5g}")
