"""The command `fpi train`."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fpi.cli import console
from fpi.cli.main import STOPPED, Command, app
from fpi.cli.options import (
    FEATURES,
    FILES,
    LEARNING,
    SETTINGS,
    ActionGrid,
    EnvArgs,
    EnvName,
    add_setting_options,
    check_writable,
    flag,
    option,
    parse_pairs,
)
from fpi.errors import InputError

if TYPE_CHECKING:
    from fpi.algorithms import Agent


@app.command(cls=Command)
@add_setting_options
def train(
    environment: EnvName,
    episodes: Annotated[
        int | None,
        option("Episodes to play; with --resume, how many more.", "N", LEARNING, "2000, for model 20", min=1),
    ] = None,
    seed: Annotated[
        int | None, option("Random seed: the same seed gives the same run.", "N", LEARNING, "0", min=0)
    ] = None,
    engine: Annotated[
        Literal["auto", "compiled", "gymnasium"],
        option(
            "compiled: whole episodes in compiled code, many times faster, for CartPole-v1 and InvertedPendulum-v4. "
            "gymnasium: any environment. auto: compiled where ENV and all options allow it. Models are the same.",
            "NAME",
            LEARNING,
        ),
    ] = "auto",
    algorithm: Annotated[
        Literal["pac", "regret", "eluder", "model"] | None,
        option(
            "pac: one accuracy, --epsilon (Algorithm 1). regret: finer and finer accuracy levels, low regret "
            "(Algorithm 2). eluder: the same for a --class of functions; --episodes is fixed in advance. model: learns "
            "the dynamics and plans in them; a handful of episodes, no features, no guarantee.",
            "NAME",
            LEARNING,
            "pac",
        ),
    ] = None,
    *,
    settings: dict[str, Any],
    more_settings: Annotated[
        list[str] | None,
        option(
            "Any other setting of the algorithm, or of the features; may be repeated. Example: --set delta=0.01 "
            "--set features.wrap=true",
            "KEY=VALUE",
            SETTINGS,
            False,
            "--set",
        ),
    ] = None,
    features: Annotated[
        Literal["tiles", "fourier", "rbf", "onehot"] | None,
        option(
            "Feature map: tiles, fourier, rbf (radial basis functions), or onehot (Discrete observations only).",
            "KIND",
            FEATURES,
            "onehot for Discrete observations, else tiles",
        ),
    ] = None,
    tiles: Annotated[int | None, option("tiles: intervals per observation entry.", "N", FEATURES, "4")] = None,
    tilings: Annotated[int | None, option("tiles: shifted grids laid over each other.", "N", FEATURES, "4")] = None,
    order: Annotated[int | None, option("fourier: highest frequency per entry.", "N", FEATURES, "3")] = None,
    function_class: Annotated[
        Literal["candidates", "linear-ball"] | None,
        option(
            "eluder: the class of functions assumed to contain every Q^pi. candidates: the finite list that comes with "
            "the environment (fpi/TableBandit-v0, fpi/TableHubs-v0). linear-ball: linear in the features.",
            "KIND",
            FEATURES,
            "candidates if there are some",
            "--class",
        ),
    ] = None,
    radius: Annotated[
        float | None,
        option("linear-ball: bound on the norm of the weights.", "B", FEATURES, "√features times the steps"),
    ] = None,
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
    out: Annotated[Path, option("Where to write the model.", "FILE", FILES)] = Path("model.fpi"),
    resume: Annotated[
        bool, flag("--resume", "Continue training the model in --out, as if it had never stopped.", FILES)
    ] = False,
    force: Annotated[bool, flag("--force", "Overwrite an existing --out or --log.", FILES)] = False,
    checkpoint_every: Annotated[
        int | None, option("Save every N episodes, in case of a crash.", "N", FILES, "only at the end", min=1)
    ] = None,
    log: Annotated[Path | None, option("Write a line of JSON per episode to FILE.", "FILE", FILES, False)] = None,
    tensorboard: Annotated[Path | None, option("Write logs for TensorBoard to DIR.", "DIR", FILES, False)] = None,
    quiet: Annotated[bool, flag("--quiet", "Print nothing but errors and warnings.", FILES)] = False,
) -> None:
    """Learn to act in ENV and write what was learned to a model file.

    Ctrl-C stops after the current episode and keeps what was learned.

    Example: fpi train CartPole-v1 --episodes 55000 --out cartpole.fpi
    """
    if resume and force:
        raise InputError("--resume continues --out and --force overwrites it: choose one of them.")
    check_writable(out)
    from fpi.cli import episode_estimate, train_options, training_run

    with training_run.locked(out, log) as killed:
        asked = episodes or _usual_episodes(algorithm)
        done = 0 if resume or force else train_options.left_unfinished(out)
        if not (resume or force or 0 < done < asked):
            _refuse_to_overwrite(out, None if killed else log)
        described = {"tiles": tiles, "tilings": tilings, "order": order}
        feature_settings = {name: value for name, value in described.items() if value is not None}
        for name, value in parse_pairs("--set", more_settings).items():
            train_options.check_setting(name)
            own = name.startswith(train_options.FEATURE)
            (feature_settings if own else settings)[name.removeprefix(train_options.FEATURE)] = value
        options = train_options.TrainOptions(
            environment=environment,
            env_args=parse_pairs("--env-arg", env_args),
            action_grid=action_grid,
            algorithm=algorithm,
            settings=settings,
            features=features,
            feature_settings=feature_settings,
            function_class=function_class,
            radius=radius,
            seed=seed,
        )
        again = resume  # the same command would play as many episodes once more
        if done:
            resume, asked = True, asked - done
        env, agent = options.resume(out) if resume else options.make(asked)
        if done:
            console.say(f"{out} is of a run that was stopped after {done:,} episodes. This goes on from there.")
        if not (done or episodes):
            asked = _usual_episodes(type(agent).__name__)
        before, began = agent.episodes, time.perf_counter()
        logs = {"--log": log, "--tensorboard": tensorboard}
        compiled_env = training_run.choose_engine(
            engine, agent, env, [name for name, path in logs.items() if path is not None]
        )
        if not quiet:
            so_far = f" after {before:,} episodes" if before else ""
            size = f"{agent.actions} actions, {agent.horizon} steps, {episode_estimate.size_of(agent.features)}"
            taken = "gymnasium" if compiled_env is None else "compiled"
            console.say(f"Learning on {environment}{so_far}, engine {taken}: {size}.")
            if not before and (told := episode_estimate.covering_estimate(agent)):
                console.say(told)
        tally = training_run.learn(
            agent,
            compiled_env or env,
            asked,
            seed=None if resume else seed or 0,
            progress=not quiet and sys.stdout.isatty(),
            checkpoints=training_run.Checkpoints(out, checkpoint_every),
            log=log,
            tensorboard=tensorboard,
            say=(lambda _: None) if quiet else console.say,
        )
        if tally.returns and not quiet:
            rows = tally.rows(agent.data_stored, time.perf_counter() - began)
            console.show_table(f"{agent.episodes - before:,} episodes", rows)
            if note := agent.summary().note:
                console.say(f"{note[0].upper()}{note[1:]}.")
        _tell_what_next(agent, environment, asked, agent.episodes - before, out, again, quiet)


def _usual_episodes(algorithm: str | None) -> int:
    """As many as are played if nobody says how many."""
    return 20 if algorithm in ("model", "ModelFPI") else 2000


def _refuse_to_overwrite(out: Path, log: Path | None) -> None:
    for name, path in (("--out", out), ("--log", log)):
        if path is not None and path.exists():
            raise InputError(
                f"{name} {path} already exists. Continue it with --resume, overwrite it with --force, or choose "
                "another name."
            )


def _tell_what_next(
    agent: Agent, environment: str, episodes: int, done: int, out: Path, again: bool, quiet: bool
) -> None:
    """Where the model is and what to type next; exits after Ctrl-C."""

    left = getattr(agent.settings, "episodes", None)  # of those it was made for
    if done < episodes:
        rest = f"give --episodes {episodes - done} instead" if again else "the same command goes on from there"
        kept = f"What was learned is in {out}: {rest}." if done else "Nothing was learned, so nothing is saved."
        typer.echo(f"Stopped by Ctrl-C after {done:,} of {episodes:,} episodes. {kept}", err=True)
        raise typer.Exit(STOPPED)
    more = [] if left is None else ["--episodes", str(left - agent.episodes)]
    go_on = shlex.join(["fpi", "train", environment, "--out", str(out), "--resume", *more])
    played = [str(out), *([environment] if ":" in environment else [])]  # no file names a module to import
    next_steps = [shlex.join(["fpi", verb, *played]) for verb in ("evaluate", "render")]
    next_steps += [] if left == agent.episodes else [go_on]
    if not quiet:
        console.say("\n  ".join([f"The model is in {out}. Next steps:", *next_steps]))
