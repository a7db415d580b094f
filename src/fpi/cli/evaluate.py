"""The command `fpi evaluate`."""

from __future__ import annotations

import fpi
from fpi.cli import console
from fpi.cli.main import Command, app
from fpi.cli.options import ActionGrid, EnvArgs, Episodes, Model, OtherEnv, StartSeed, parse_pairs


@app.command(cls=Command)
def evaluate(
    model: Model,
    environment: OtherEnv = None,
    episodes: Episodes = 100,
    seed: StartSeed = 0,
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
) -> None:
    """Evaluate the learned policy, next to random play from the same start states.

    The return of an episode is the sum of its rewards.

    Example: fpi evaluate cartpole.fpi --episodes 100
    """
    from fpi.baselines import Uniform
    from fpi.cli.model_environment import remembered_environment

    agent = fpi.load(model)
    env = remembered_environment(agent, model, environment, parse_pairs("--env-arg", env_args), action_grid)
    with console.waiting(f"playing {episodes:,} episodes"):
        played = fpi.evaluate(agent, env, episodes, seed)
        by_chance = fpi.evaluate(Uniform(actions=agent.actions, horizon=agent.horizon), env, episodes, seed).returns
    returns, steps = played.returns, played.lengths
    rows = {
        "environment": env.spec.id if env.spec else str(env),
        "trained for": f"{agent.episodes:,} episodes",
        "mean return": f"{played.mean:.2f}",
        "95% interval": "{1:.2f} to {2:.2f}".format(*played.interval) if episodes > 1 else "takes 2 episodes or more",
        "smallest, largest": f"{returns.min():.2f}, {returns.max():.2f}",
        "steps": f"{steps.mean():.1f} on average, {steps.min():,} to {steps.max():,}",
        "mean return of random play": f"{by_chance.mean():.2f}, from the same start states",
        "decisions at covered states": f"{played.covered_share:.1%}",
    }
    console.show_table(f"{model} in {episodes:,} episodes", rows)
