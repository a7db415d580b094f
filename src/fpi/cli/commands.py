"""The commands `fpi train`, `evaluate`, `check` and `render`: their options and their help."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

import fpi
from fpi.errors import EnvironmentMismatch, FpiError, InputError, SaveError

if TYPE_CHECKING:
    from fpi.training import Callback

STOPPED = 130  # what shells report after Ctrl-C


class Commands(TyperGroup):
    """Every error that is raised on purpose becomes one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except FpiError as error:
            _complain("Error", error)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo("Stopped.", err=True)
            raise typer.Exit(STOPPED) from error


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _complain("Warning", re.sub(r"\x1b\[\d*m|WARN: ", "", str(message)))  # Gymnasium's own decoration


def _complain(kind: str, message: BaseException | str) -> None:
    from fpi.cli.console import in_options

    typer.echo(f"{kind}: {in_options(' '.join(str(message).split()))}", err=True)


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def main() -> None:
    """The command `fpi`."""
    app(prog_name="fpi")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fpi {fpi.__version__}")
        raise typer.Exit


def _option(
    text: str, metavar: str, *, panel: str | None = None, default: str | bool = True, flag: str | None = None
) -> Any:
    names = () if flag is None else (flag,)
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=default)


def _flag(name: str, text: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(name, help=text, metavar=" ", rich_help_panel=panel, show_default=False, **more)


ENVIRONMENT, LEARNING, FEATURES, FILES = "Environment", "Learning", "Features", "Files"

EnvName = Annotated[
    str, typer.Argument(metavar="ENV", help="Name of a Gymnasium environment, for example CartPole-v1.")
]
OtherEnv = Annotated[
    str | None,
    typer.Argument(metavar="ENV", help="Environment to play in; the one the model was trained on if left out."),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that fpi train wrote.")]
EnvArgs = Annotated[
    list[str] | None,
    _option(
        "Setting of the environment itself, as gymnasium.make takes it; may be repeated. "
        "Example: --env-arg is_slippery=false",
        "KEY=VALUE",
        panel=ENVIRONMENT,
        default=False,
        flag="--env-arg",
    ),
]
ActionGrid = Annotated[
    int | None,
    _option(
        "For continuous actions: N equally spaced values per dimension, both ends included.",
        "N",
        panel=ENVIRONMENT,
        default=False,
    ),
]
StartSeed = Annotated[int, _option("Chooses the start states: the same for every model.", "N")]


@app.callback()
def start(
    version: Annotated[bool, _flag("--version", "Print the version.", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Frozen Policy Iteration: learn to act, see how well it went, and watch it.

    A first look:

    fpi check CartPole-v1
    fpi train CartPole-v1 --episodes 55000 --out cartpole.fpi
    fpi evaluate cartpole.fpi
    fpi render cartpole.fpi --out cartpole.gif

    More about a command: fpi train --help
    """


@app.command()
def train(
    ctx: typer.Context,
    environment: EnvName,
    episodes: Annotated[int, _option("Episodes to play; with --resume, how many more.", "N", panel=LEARNING)] = 2000,
    seed: Annotated[int, _option("Fixes all chance: the same seed gives the same run.", "N", panel=LEARNING)] = 0,
    engine: Annotated[
        str,
        _option(
            "compiled: whole episodes in compiled code, many times faster, for CartPole-v1 and InvertedPendulum-v4. "
            "gymnasium: any environment. auto: compiled where ENV and all options allow it. Models are the same.",
            "NAME",
            panel=LEARNING,
        ),
    ] = "auto",
    algorithm: Annotated[
        str,
        _option(
            "pac: one accuracy, --epsilon. regret: finer and finer accuracies by itself, little loss on the way. "
            "eluder: the same for a --class of functions; it must know all --episodes from the start.",
            "NAME",
            panel=LEARNING,
        ),
    ] = "pac",
    epsilon: Annotated[
        float,
        _option(
            "pac: a state is known, and its decision frozen, when the widths of all its actions are at most this. "
            "Above 0; smaller takes more data.",
            "WIDTH",
            panel=LEARNING,
        ),
    ] = 1.0,  # config.EPSILON, which would import much for `fpi --help`
    ridge: Annotated[
        float | None,
        _option(
            "pac, regret: regularisation of the regressions, above 0.",
            "LAMBDA",
            panel=LEARNING,
            default="0.001 for pac, 1/steps for regret",
        ),
    ] = None,
    scale: Annotated[
        float,
        _option(
            "regret, eluder: multiplies the theory's constants. 1 is safe and slow; smaller trusts the data sooner "
            "than any theorem allows.",
            "FACTOR",
            panel=LEARNING,
        ),
    ] = 1.0,
    elimination: Annotated[
        str,
        _option(
            "regret, eluder: when an action is given up. paper, stage (less slack at late steps) or interval (least).",
            "RULE",
            panel=LEARNING,
        ),
    ] = "paper",
    explore: Annotated[
        str | None,
        _option(
            "Which unknown action to try first: random, first (lowest number), widest (least known) or greedy (best "
            "estimate).",
            "RULE",
            panel=LEARNING,
            default="random for pac, else greedy",
        ),
    ] = None,
    freeze: Annotated[
        str,
        _option(
            "pac: exact, a frozen decision stays for ever. never: it follows all data. A number N: it lags at most "
            "N data behind them, as in the paper's experiments.",
            "HOW",
            panel=LEARNING,
        ),
    ] = "exact",
    features: Annotated[
        str | None,
        _option(
            "How observations are described: tiles, fourier, or onehot (numbered states only).",
            "KIND",
            panel=FEATURES,
            default="onehot for numbered states, else tiles",
        ),
    ] = None,
    tiles: Annotated[int, _option("tiles: intervals per observation entry.", "N", panel=FEATURES)] = 4,
    tilings: Annotated[int, _option("tiles: shifted grids laid over each other.", "N", panel=FEATURES)] = 4,
    order: Annotated[int, _option("fourier: highest frequency per entry.", "N", panel=FEATURES)] = 3,
    function_class: Annotated[
        str | None,
        _option(
            "eluder: what is known of the sums of rewards to come. candidates: a list of functions that the "
            "environment brings along, as fpi/TableBandit-v0 and fpi/TableHubs-v0 do. linear-ball: linear in the "
            "features.",
            "KIND",
            panel=FEATURES,
            default="candidates if there are some",
            flag="--class",
        ),
    ] = None,
    radius: Annotated[
        float | None,
        _option(
            "linear-ball: bound on the norm of the weights.", "B", panel=FEATURES, default="√features times the steps"
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        _option("Steps of an episode.", "STEPS", panel=ENVIRONMENT, default="the environment's time limit"),
    ] = None,
    reward_range: Annotated[
        tuple[float, float],
        _option("Smallest and largest reward of one step.", "LOW HIGH", panel=ENVIRONMENT, default="0 1"),
    ] = (0.0, 1.0),
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
    out: Annotated[Path, _option("Where to write the model.", "FILE", panel=FILES)] = Path("model.fpi"),
    resume: Annotated[
        bool, _flag("--resume", "Go on from the model in --out, as if it had never stopped.", FILES)
    ] = False,
    force: Annotated[bool, _flag("--force", "Start anew even if --out or --log is there already.", FILES)] = False,
    checkpoint_every: Annotated[
        int | None,
        _option("Save every N episodes, in case of a crash.", "N", panel=FILES, default="only at the end"),
    ] = None,
    log: Annotated[
        Path | None, _option("Write a line of JSON per episode to FILE.", "FILE", panel=FILES, default=False)
    ] = None,
    tensorboard: Annotated[
        Path | None, _option("Write logs for TensorBoard to DIR.", "DIR", panel=FILES, default=False)
    ] = None,
    quiet: Annotated[bool, _flag("--quiet", "Print nothing but errors and warnings.", FILES)] = False,
) -> None:
    """Learn to act in ENV and write what was learned to a model file.

    Ctrl-C stops after the current episode and keeps what was learned.

    Example: fpi train CartPole-v1 --episodes 55000 --out cartpole.fpi
    """
    _at_least_1("--episodes", episodes)
    _at_least_1("--checkpoint-every", checkpoint_every)
    if resume and force:
        raise InputError("--resume goes on from --out and --force starts anew: choose one of them.")
    _check_writable(out)
    for name, path in () if resume or force else (("--out", out), ("--log", log)):
        if path is not None and path.exists():
            raise InputError(
                f"{name} {path} is there already. Go on from it with --resume, write over it with --force, or choose "
                "another name."
            )
    from fpi.cli import config, console, training

    recipe = config.Recipe.typed(ctx.params)
    typed = [name for name in ctx.params if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    env, agent = recipe.resume(out, typed) if resume else recipe.make(typed, episodes)
    before = agent.episodes
    tell: Callable[[str], None] = (lambda _: None) if quiet else console.say
    logs = [name for name, place in (("--log", log), ("--tensorboard", tensorboard)) if place is not None]
    compiled_env = training.choose_engine(engine, agent, env, logs)
    so_far = f" after {before:,} episodes" if before else ""
    size = f"{agent.actions} actions, {agent.horizon} steps, {config.size_of(agent.features)}"
    tell(f"Learning on {environment}{so_far}, engine {'gymnasium' if compiled_env is None else 'compiled'}: {size}.")
    if not resume and (advice := config.covering_advice(agent)):
        tell(advice)

    tally, checkpoints = training.Tally(), training.Checkpoints(out, checkpoint_every)
    callbacks: list[Callback] = [tally]
    first_seed = None if resume else seed
    began = time.perf_counter()
    with ExitStack() as closing:
        if log is not None:
            callbacks.append(closing.enter_context(fpi.JsonlLog(log)))
        if tensorboard is not None:
            callbacks.append(closing.enter_context(fpi.TensorBoardLog(tensorboard)))
        callbacks.append(checkpoints)
        progress = not quiet and sys.stdout.isatty()
        try:
            with training.interruptible() as stopping, training.compiling_announced(tell):
                if compiled_env is None:
                    agent.learn(env, episodes, first_seed, progress, training.after_episode(callbacks, stopping))
                else:
                    training.learn_compiled(
                        agent, compiled_env, episodes, first_seed, progress, tally, checkpoints, stopping
                    )
        except EnvironmentMismatch as error:
            raise EnvironmentMismatch(f"{error} `fpi check {environment}` tells what fits.") from error
        except KeyboardInterrupt:
            pass  # the second one; what follows tells how far it came
        finally:
            if agent.episodes > before:
                agent.save(out)

    done = agent.episodes - before
    left = getattr(agent.settings, "episodes", None)  # of those it was made for
    more = [] if left is None else ["--episodes", str(left - agent.episodes)]
    go_on = shlex.join(["fpi", "train", environment, "--out", str(out), "--resume", *more])
    if tally.returns and not quiet:
        console.show_table(f"{done:,} episodes", tally.rows(agent.data_stored, time.perf_counter() - began))
    if done < episodes:
        kept = (
            f"What was learned is in {out}. To go on: {go_on}" if done else "Nothing was learned, so nothing is saved."
        )
        typer.echo(f"Stopped by Ctrl-C after {done:,} of {episodes:,} episodes. {kept}", err=True)
        raise typer.Exit(STOPPED)
    model = shlex.quote(str(out))
    next_steps = [f"fpi evaluate {model}", f"fpi render {model}", *([] if left == agent.episodes else [go_on])]
    tell("\n  ".join([f"The model is in {out}. What next:", *next_steps]))


@app.command()
def evaluate(
    model: Model,
    environment: OtherEnv = None,
    episodes: Annotated[int, _option("Episodes to play.", "N")] = 100,
    seed: StartSeed = 0,
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
) -> None:
    """Play the learned policy, without learning, and tell how well it does.

    The return of an episode is the sum of its rewards. Random play from the
    same start states stands beside it.

    Example: fpi evaluate cartpole.fpi --episodes 100
    """
    _at_least_1("--episodes", episodes)
    from fpi.baselines import Uniform
    from fpi.cli import config, console

    agent = fpi.load(model)
    env = config.remembered_environment(agent, model, environment, config.parse_env_args(env_args), action_grid)
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
        "at covered states": f"{played.covered_share:.1%} of decisions",
    }
    console.show_table(f"{model} in {episodes:,} episodes", rows)


@app.command()
def check(
    environment: EnvName,
    horizon: Annotated[
        int | None, _option("Steps of an episode to look at.", "STEPS", default="the environment's time limit")
    ] = None,
    episodes: Annotated[int, _option("Episodes of random actions to play and replay.", "N")] = 5,
    seed: Annotated[int, _option("Chooses start states and random actions.", "N")] = 0,
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
    from fpi.cli import config, console
    from fpi.envs import make_environment

    env = make_environment(environment, config.parse_env_args(env_args), action_grid)
    features, none_because = config.try_default_features(env)
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
        usual = fpi.PAC(features, actions=features.actions, horizon=steps, epsilon=config.EPSILON, ridge=config.RIDGE)
        console.say(config.covering_advice(usual, "With the defaults of fpi train, covering everything"))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def render(
    model: Model,
    environment: OtherEnv = None,
    out: Annotated[Path, _option("Where to write the GIF; an older one is replaced.", "FILE")] = Path("policy.gif"),
    episodes: Annotated[int, _option("Episodes to show, one after the other.", "N")] = 1,
    seed: StartSeed = 0,
    fps: Annotated[
        float | None, _option("Steps shown per second.", "N", default="the environment's own speed, at most 50")
    ] = None,
    action_grid: ActionGrid = None,
    env_args: EnvArgs = None,
) -> None:
    """Write a GIF that shows the learned policy at work.

    Example: fpi render cartpole.fpi --out cartpole.gif
    """
    _at_least_1("--episodes", episodes)
    if fps is not None and not 1 <= fps <= 100:
        raise InputError(f"--fps {fps:g} is not a number from 1 to 100, and GIF files know no other speeds.")
    if out.suffix.lower() != ".gif":
        raise InputError(f"--out {out} does not end in .gif, and render writes GIF files only.")
    _check_writable(out)
    from fpi.cli import config, console, gif
    from fpi.envs import extras_named

    gif.choose_offscreen()
    agent = fpi.load(model)
    choice = (agent, model, environment, config.parse_env_args(env_args), action_grid)
    gif.check_drawable(config.remembered_environment(*choice))
    env = config.remembered_environment(*choice, render_mode="rgb_array")
    with console.waiting("playing and drawing"), extras_named(environment or str(model)):
        count = gif.write_gif(out, gif.frames(agent, env, episodes, seed), fps or gif.usual_fps(env))
    console.say(f"{count:,} pictures of {episodes:,} episodes are in {out}. Any web browser shows them.")


def _at_least_1(name: str, number: int | None) -> None:
    if number is not None and number < 1:
        raise InputError(f"{name} {number} is too small: give a whole number of at least 1.")


def _check_writable(path: Path) -> None:
    """Hours of learning later would be too late."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SaveError(f"--out {path} cannot be written: there is no folder {folder}. Create it first.")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise SaveError(f"--out {path} cannot be written: choose the name of a file, in a folder you may write to.")
