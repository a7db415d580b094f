"""The command `fpi check`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fpi
from fpi.cli import console
from fpi.cli.main import Command, app
from fpi.cli.options import ActionGrid, EnvArgs, EnvName, option, parse_pairs
from fpi.errors import EnvironmentMismatch, InputError

if TYPE_CHECKING:
    from fpi.envs import Env
    from fpi.features import FeatureMap


MOST_DENSE = 1_000  # features of an action that are not mostly 0: the time of a decision grows with their square
SMALLER: tuple[dict[str, dict[str, Any]], ...] = (
    {
        f"--tiles {tiles} --tilings {tilings}": {"type": "TileCoding", "tiles": tiles, "tilings": tilings}
        for tiles, tilings in ((3, 4), (4, 1), (3, 1), (2, 1))
    },
    {
        f"--features fourier --order {order} --set features.coupled={coupled}": {
            "type": "Fourier",
            "order": order,
            "coupled": coupled,
        }
        for order, coupled in ((3, 2), (3, 1), (1, 1))
    },
)


@app.command(cls=Command)
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
    from fpi.cli import episode_estimate
    from fpi.envs import make_environment

    env = make_environment(environment, parse_pairs("--env-arg", env_args), action_grid)
    usual, none_because = _default_features(env)
    offers = _offered_features(env, horizon) if none_because else {}
    features = next(iter(offers.values()), usual)
    with console.waiting(f"playing {episodes} episodes twice"):
        report = determinism.check(env, features=features, horizon=horizon, episodes=episodes, seed=seed)
    if none_because:
        report = replace(report, changes=(*report.changes, _features_to_choose(none_because, offers)))
    low, high = report.rewards
    shortest, longest = min(report.lengths), max(report.lengths)
    starts = "random" if report.random_starts else "always the same"
    norm = report.feature_norm
    rows = {
        "actions": report.action_space,
        "deterministic": {True: "yes", False: "no", None: "could not be judged"}[report.deterministic],
        "rewards seen": f"{low:.6g} to {high:.6g}{', random' if report.stochastic_rewards else ''}",
        "start states": f"{starts}{'' if report.reproducible_starts else ', not reproducible'}",
        "time limit": "none" if report.time_limit is None else f"{report.time_limit:,} steps",
        "episodes": f"{len(report.lengths)} of {shortest:,} to {longest:,} steps, {report.early_ends} ended early",
        "feature norm": "unknown before the changes below"
        if norm is None
        else f"at most {norm:.4g} ({type(features).__name__})",
    }
    console.show_table(report.environment, rows)
    console.say(console.in_options(report.verdict))
    steps = horizon or report.time_limit
    if report.ok and features is not None and steps is not None:
        agent = fpi.PAC(features, actions=features.actions, horizon=steps)
        chosen = f"With {next(iter(offers))}" if offers else "With the defaults of fpi train"
        console.say(episode_estimate.covering_estimate(agent, f"{chosen}, covering everything"))
    if not report.ok:
        raise typer.Exit(1)


def _default_features(env: Env) -> tuple[FeatureMap | None, str]:
    """The features that `fpi train` takes by itself; where there are too many of them, what it says to that."""
    from fpi import features

    try:
        return features.for_env({}, env), ""
    except EnvironmentMismatch:  # the report says it
        return None, ""
    except InputError as error:
        return None, str(error)


def _offered_features(env: Env, horizon: int | None) -> dict[str, FeatureMap]:
    """Smaller features that can be made: at most one of each kind, by what to type for them, the finest first."""
    from fpi import features
    from fpi.envs import time_limit
    from fpi.features.base import Dense

    offers: dict[str, FeatureMap] = {}
    for kind in SMALLER:
        for options, described in kind.items():
            try:
                made = features.for_env(described, env)
                fpi.PAC(made, actions=made.actions, horizon=horizon or time_limit(env) or 1)
            except InputError:
                continue
            if not (isinstance(made, Dense) and made.dim > MOST_DENSE * made.actions):
                offers[options] = made
                break
    return offers


def _features_to_choose(none_because: str, offers: dict[str, FeatureMap]) -> str:
    """What to do where the features that `fpi train` takes by itself are too many."""
    if not offers:
        return (
            "bring features of your own, a function in Python, or give fewer actions or observation entries: with the "
            f"usual tiles, {none_because.partition(':')[0]}, and no smaller built-in features can be made either."
        )
    named = ", or ".join(f"{options} ({made.dim:,} features)" for options, made in offers.items())
    return f"choose features: with the usual tiles, {none_because.partition(':')[0]}. These can be made: {named}."
