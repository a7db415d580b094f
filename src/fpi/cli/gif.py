"""A GIF of the learned policy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpi import _files
from fpi.algorithms import Agent
from fpi.envs import Env
from fpi.errors import EnvironmentMismatch
from fpi.evaluation import evaluation_episodes

FASTEST = 50  # pictures a second; players slow faster ones down
USUAL = 30  # where the environment does not say
SKY = (244, 246, 248)  # behind models that have none
MUJOCO_SKYBOX = 2  # mujoco.mjtTexture.mjTEXTURE_SKYBOX


def choose_offscreen() -> None:
    """Let MuJoCo and SDL draw without a screen, if there is none. They read this when they are imported."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def check_drawable(env: Env) -> None:
    """Raise EnvironmentMismatch when the environment cannot draw into a file."""
    modes = env.metadata.get("render_modes") or []
    if "rgb_array" not in modes:
        raise EnvironmentMismatch(
            f"this environment cannot be drawn: it has no render mode rgb_array, only {', '.join(modes) or 'none'}. "
            "`fpi evaluate` reports its returns."
        )


def frames(agent: Agent, env: Env, episodes: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """Pictures of the episodes that `fpi.evaluate` plays under the same seed."""
    in_the_dark = light_up(env)
    for episode in evaluation_episodes(agent, env, episodes, seed):
        yield _picture(env, in_the_dark)
        for _ in episode:
            yield _picture(env, in_the_dark)


def _picture(env: Env, in_the_dark: bool) -> NDArray[np.uint8]:
    picture = np.array(env.render(), np.uint8)
    if in_the_dark:
        picture[(picture == 0).all(axis=-1)] = SKY
    return picture


def light_up(env: Env) -> bool:
    """Give a MuJoCo model that has no sky more light, and say so: it is drawn dark, on nothing but black."""
    model = getattr(env.unwrapped, "model", None)
    if model is None or not hasattr(model, "tex_type") or MUJOCO_SKYBOX in model.tex_type:
        return False
    model.vis.headlight.ambient[:] = 0.4
    model.vis.headlight.diffuse[:] = 0.8
    return True


def usual_fps(env: Env) -> float:
    """Steps a second at which the environment is meant to be watched, as far as a GIF can show it."""
    return float(min(env.metadata.get("render_fps") or USUAL, FASTEST))


def write_gif(path: Path, pictures: Iterator[NDArray[np.uint8]], fps: float) -> int:
    """Write a GIF, whole or not at all; returns the number of its pictures, of which equal ones in a row are one."""
    import imageio.v3 as imageio

    with _files.replacing(path) as temporary:
        writer: Any = imageio.imopen(temporary, "w", plugin="pillow", extension=".gif")
        with writer as gif:
            for picture in pictures:
                gif.write(picture, bits=8, duration=1000 / fps, loop=0)  # 256 colours at once: a third of the memory
        return imageio.improps(temporary, plugin="pillow", extension=".gif").n_images or 1
