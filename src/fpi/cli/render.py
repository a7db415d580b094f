"""The command `fpi render`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import fpi
from fpi._validation import counted
from fpi.cli import console
from fpi.cli.main import Command, app
from fpi.cli.options import ActionGrid, EnvArgs, Model, OtherEnv, StartSeed, check_writable, option, parse_pairs
from fpi.errors import InputError


@app.command(cls=Command)
def render(
    model: Model,
    environment: OtherEnv = None,
    out: Annotated[Path, option("Where to write the GIF; an older one is replaced.", "FILE")] = Path("policy.gif"),
    episodes: Annotated[int, option("Episodes to show, one after the other.", "N", min=1)] = 1,
    seed: StartSeed = 0,
    fps: Annotated[
        float | None,
        option("Steps shown per second.", "N", None, "the environment's own speed, at most 50", min=1, max=100),
    ] = None,
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
) -> None:
    """Write a GIF that shows the learned policy at work.

    Example: fpi render cartpole.fpi --out cartpole.gif
    """
    if out.suffix.lower() != ".gif":
        raise InputError(f"--out {out} does not end in .gif, and render writes GIF files only.")
    check_writable(out)
    from fpi.cli import gif
    from fpi.cli.model_environment import remembered_environment
    from fpi.envs import extras_named

    gif.choose_offscreen()
    agent = fpi.load(model)
    choice = (agent, model, environment, parse_pairs("--env-arg", env_args), action_grid)
    gif.check_drawable(remembered_environment(*choice))
    env = remembered_environment(*choice, render_mode="rgb_array")
    with console.waiting("playing and drawing"), extras_named(environment or str(model)):
        count = gif.write_gif(out, gif.frames(agent, env, episodes, seed), fps or gif.usual_fps(env))
    told = f"{counted(count, 'picture')} of {counted(episodes, 'episode')}"
    console.say(f"{told} in {out}. Any web browser shows them; equal pictures in a row are one, shown for longer.")
