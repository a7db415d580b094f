"""The command `fpi check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import fpi
from fpi.cli.main import app
from fpi.cli.options import ActionGrid, EnvArgs, EnvName, option, parse_pairs
from fpi.errors import EnvironmentMismatch, InputError

if TYPE_CHECKING:
    from fpi.envs import Env
    from fpi.features import FeatureMap


@app.command()
def check(
    environment: EnvName,
    horizon: Annotated[
        int | None, option("Steps of an episode at most.", "STEPS", None, "the environment's time limit", min=1)
    ] = None,
    episodes: Annotated[int, option("Episodes of random actions to play and replay.", "N", min=1)] = 5,
    seed: Annotated[int, option("Random seed of start states and actions.", "N")] = 0,
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
) -> None:
    """Say whether FPI can learn in ENV, by playing and replaying random actions.

    FPI needs deterministic transitions: the same actions from the same start
    lead to the same states. Rewards and start states may be random.
    The exit code is 0 if ENV is fit, 1 if it is not.

    Example: fpi check CartPole-v1
    """
    from fpi import determinism
    from fpi.cli import console, episode_estimate
    from fpi.envs import make_environment

    env = make_environment(environment, parse_pairs("--env-arg", env_args), action_grid)
    features, none_because = _default_features(env)
    with console.waiting(f"playing {episodes} episodes twice"):
        report = determinism.check(env, features=features, horizon=horizon, episodes=episodes, seed=seed)
    low, high = report.rewards
    shortest, longest = min(report.lengths), max(report.lengths)
    norm = report.feature_norm
    rows = {
        "actions": report.action_space,
        "deterministic": {True: "yes", False: "no", None: "could not be judged"}[report.deterministic],
        "rewards seen": f"{low:.6g} to {high:.6g}{', random' if report.stochastic_rewards else ''}",
        "start states": "random" if report.random_starts else "always the same",
        "time limit": "none" if report.time_limit is None else f"{report.time_limit:,} steps",
        "episodes": f"{len(report.lengths)} of {shortest:,} to {longest:,} steps, {report.early_ends} ended early",
        "feature norm": none_because if norm is None else f"at most {norm:.4g} ({type(features).__name__})",
    }
    console.show_table(report.environment, rows)
    console.say(console.in_options(report.verdict))
    steps = horizon or report.time_limit
    if report.ok and features is not None and steps is not None:
        usual = fpi.PAC(features, actions=features.actions, horizon=steps)
        console.say(episode_estimate.covering_estimate(usual, "With the defaults of fpi train, covering everything"))
    if not report.ok:
        raise typer.Exit(1)


def _default_features(env: Env) -> tuple[FeatureMap | None, str]:
    """The features that `fpi train` takes by itself, or why there are none."""
    from fpi import features

    try:
        return features.for_env({}, env), ""
    except EnvironmentMismatch:
        return None, "unknown before the changes below"
    except InputError as error:
        return None, f"no tiles: {error}"
