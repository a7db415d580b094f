"""What `fpi reproduce` leaves for people to look at: figure, GIFs and page, from the files of its folder alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fpi
from fpi.cli import console, gif
from fpi.envs import make_environment
from fpi.errors import MissingExtra
from fpi.experiment.study import run_id
from fpi.report import figures, read, write_page
from fpi.report.results import Results, Setting
from fpi.run_config import TESTBED

MOST_PICTURES = 250
MOST_FPS = 25
MOST_PIXELS = 320  # wide


def write_report(folder: Path) -> list[str]:
    """Write figure.png, figure.pdf, a GIF per environment and page.html; returns lines that say so."""
    told = []
    with console.waiting("drawing"):
        found = read(folder)
        if found.panels:
            curves = found.plot()
            for name in ("figure.png", "figure.pdf"):
                figures.save(curves, folder / name)
            told.append(f"The figure is in {folder / 'figure.png'} and figure.pdf.")
            told += _draw_policies(found, folder)
        try:
            told.append(f"The page is {write_page(found)}: open it in any browser.")
        except MissingExtra as error:
            told.append(str(error))
    return told


def _draw_policies(found: Results, folder: Path) -> list[str]:
    """A GIF of the first setting of every environment whose model was kept; returns what could not be drawn."""
    gif.choose_offscreen()
    first: dict[str, tuple[Setting, Path]] = {}
    for setting in found.settings:
        model = folder / "runs" / run_id(setting.name, min(found.study["seeds"])) / "model.fpi"
        if setting.runs and model.exists() and setting.config["features"].get("type") != TESTBED:  # nothing to see
            first.setdefault(setting.config["env"], (setting, model))
    missed = []
    for environment, (setting, model) in first.items():
        try:
            _draw_policy(setting, model, folder / f"policy-{setting.name}.gif")
        except Exception as error:  # screens and drivers fail in ways of their own, and the page does without a GIF
            missed.append(f"No GIF of {environment}: {' '.join(str(error).split()) or type(error).__name__}")
    return missed


def _draw_policy(setting: Setting, model: Path, path: Path) -> None:
    config = setting.config
    env = make_environment(
        config["env"], config.get("env_args", {}), config.get("action_grid"), render_mode="rgb_array"
    )
    agent = fpi.load(model)
    shown = gif.frames(agent, env, episodes=1, seed=0)
    fps = gif.usual_fps(env)
    every = math.ceil(fps / MOST_FPS)
    gif.write_gif(path, _smaller(islice(shown, 0, every * MOST_PICTURES, every)), fps / every)
    env.close()


def _smaller(shown: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """Pictures at a whole fraction of their size, by averaging blocks of pixels."""
    for picture in shown:
        part = math.ceil(picture.shape[1] / MOST_PIXELS)
        height, width = (size // part for size in picture.shape[:2])
        blocks = picture[: height * part, : width * part].reshape(height, part, width, part, 3)
        yield blocks.mean(axis=(1, 3)).astype(np.uint8)
