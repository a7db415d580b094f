"""What of a row holds on any processor: whole numbers exactly, others to 1e-9."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from support import scenarios
from support.scenarios import FEATURES, IDS, POINTS, Fields

HERE = Path(__file__).parents[1]
ROWS = HERE / "recorded.json"
MODELS = HERE / "models"
TOLERANCE = 1e-9
MORE_EPISODES = 40  # of a model that was loaded

KINDS = {  # of models: how they were made, and where they learn
    "pac": (scenarios.pac(explore="greedy"), scenarios.tiles, POINTS),
    "pac-last-3": (scenarios.pac(freeze=3), scenarios.function, IDS),
    "regret": (scenarios.regret(), *FEATURES["one-hot"]),
    "eluder": (scenarios.eluder(), scenarios.tables, IDS),
}


def portable(fields: Fields) -> dict[str, Any]:
    """What is recorded of a row, as JSON holds it. Files, and what follows from the rest, would only take room."""
    left_out = ("file.", "lengths", "data.features", "data.actions", "data.sizes")
    return {name: _plain(field) for name, field in fields.items() if not name.startswith(left_out)}


def _plain(field: Any) -> Any:
    """Numbers as short as they can be written."""
    if field.ndim:
        return [_plain(each) for each in field]
    number = float(f"{float(field):.12g}")
    return int(number) if number.is_integer() else number


def disagreement(found: dict[str, Any], recorded: dict[str, Any]) -> str:
    """The first field that is not as recorded, and how; empty if there is none."""
    if found.keys() != recorded.keys():
        return f"fields {sorted(found.keys() ^ recorded.keys())} are in one only"
    for name in found:
        now, before = np.array(found[name]), np.array(recorded[name])
        if now.shape != before.shape:
            return f"{name} has the shape {now.shape}, recorded {before.shape}"
        limit = TOLERANCE * (1 + np.abs(before)) if "f" in (before.dtype.kind, now.dtype.kind) else 0
        with np.errstate(invalid="ignore"):
            same = (now == before) | (np.isnan(now) & np.isnan(before)) | (np.abs(now - before) <= limit)
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"{name} at {at} is {now[at]}, recorded {before[at]}"
    return ""


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    """A line for every entry, so that git shows which of them changed."""
    lines = [f"{json.dumps(name)}: {json.dumps(content[name], separators=(',', ':'))}" for name in content]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def going_on(path: Path) -> dict[str, Any]:
    """What a saved agent says and does when it learns on."""
    _, features, make_env = KINDS[path.stem]
    return portable(scenarios.watched(scenarios.load(path, features()), make_env(), MORE_EPISODES, seed=None))
