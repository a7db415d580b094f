"""The command line as people meet it: what they type, what they read, and what is on disk afterwards."""

import inspect
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import imageio.v3 as imageio
import numba
import numpy as np
import pytest
import typer
from environments import BoxActions, RandomFromStep2, Walk
from literal import pick
from typer.testing import CliRunner

import fpi
from fpi import _files
from fpi.algorithms import Agent
from fpi.baselines import Uniform
from fpi.cli import app, gif, model_environment, train_options, training_run
from fpi.envs import make_environment
from fpi.experiment.run import run_slice
from fpi.experiment.study import Job
from fpi.run_config import RunConfig
from fpi.settings import by_name

FPI = Path(sys.executable).parent / "fpi"
SMALL = ("--tiles", "2", "--tilings", "2", "--horizon", "50")
COMMANDS = ("train", "evaluate", "check", "render")


class TurnsCostly(Walk):
    """Rewards leave [0, 1] after a few episodes."""

    resets = 0

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(-9, 9, (2,), np.float64)

    def start(self):
        self.resets += 1
        return super().start()

    def reward(self):
        return 0.5 if self.resets < 12 else 2.0


class Picture(Walk):
    """Shows far more numbers than any built-in features take."""

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (210, 160), np.uint8)

    def observe(self):
        return np.zeros((210, 160), np.uint8)


for number, kind in enumerate((Walk, BoxActions, RandomFromStep2, TurnsCostly)):
    gym.register(f"fpi-tests/{kind.__name__}-v0", kind, max_episode_steps=None if number == 0 else 10)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Commands run in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fpi_(*words, code=0):
    """Run a command here; returns what it printed."""
    runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # a command shows them, also where tests take them for errors
        result = runner.invoke(app, [str(word) for word in words], prog_name="fpi")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def run(*words, **environment):
    """Run a command in a process of its own."""
    command = [str(word) for word in (FPI, *words)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)


def train(*words, model="model.fpi", episodes=10, code=0):
    return fpi_("train", "CartPole-v1", *SMALL, "--episodes", episodes, "--out", model, *words, code=code)


def logged(path):
    return [json.loads(line)["episode"] for line in Path(path).read_text().splitlines()]


def squeezed(text):
    return " ".join(text.split())


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_option_within_80_columns(command):
    text = fpi_(command, "--help")
    assert "<bool>" not in text and "{" not in text.partition("Usage")[2].splitlines()[0]
    assert max(map(len, text.splitlines())) <= 80
    assert f"Example: fpi {command} " in text
    prose = squeezed(text.replace("│", ""))
    for parameter in typer.main.get_command(app).commands[command].params:
        if parameter.name != "help":
            shown = parameter.opts[0] if parameter.opts[0].startswith("--") else parameter.metavar
            assert re.search(rf"│ \*?\s*{re.escape(shown)}\b", text), shown
            assert squeezed(parameter.help) in prose


def test_help_of_fpi_names_the_commands_and_what_to_type_first():
    text = fpi_("--help")
    assert max(map(len, text.splitlines())) <= 80
    assert "fpi train CartPole-v1 --episodes 55000 --out cartpole.fpi" in text
    for command in COMMANDS:
        assert re.search(rf"│ {command} +[A-Z]", text)
    assert (
        CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(app, [], prog_name="fpi").output.strip()
        == text.strip()
    )


def test_version():
    assert fpi_("--version") == f"fpi {fpi.__version__}\n"


@pytest.mark.process
def test_help_imports_nothing_heavy():
    script = """
import sys
from fpi.cli import main
try:
    main()
except SystemExit:
    print(sorted({"gymnasium", "imageio", "matplotlib", "numba", "numpy", "scipy"} & set(sys.modules)))
"""
    asked = subprocess.run([sys.executable, "-c", script, "train", "--help"], capture_output=True, text=True)
    assert asked.stdout.splitlines()[-1] == "[]", asked


# From training to a picture


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--algorithm regret --scale 0.1 --tiles 2", "144 features (TileCoding)"),
        ("--algorithm eluder --scale 0.1", "50 candidate functions"),
        ("--algorithm eluder --class linear-ball --tiles 2 --tilings 1 --radius 3", "16 features (TileCoding)"),
    ],
)
def test_algorithms_with_levels_are_trained_resumed_and_evaluated(folder, options, says):
    """The testbed knows its own horizon. One run is two with a stop in between."""
    words = ["train", "fpi/TableBandit-v0", *options.split(), "--explore", "widest"]
    whole = fpi_(*words, "--episodes", 40, "--out", "whole.fpi")
    assert says in whole and ("--resume" in whole) == ("regret" in options)
    agent = fpi.load("whole.fpi")
    assert agent.settings.explore == "widest" and agent.episodes == 40
    if "regret" in options:
        fpi_(*words, "--episodes", 30, "--out", "parts.fpi")
        assert "after 30 episodes" in fpi_(*words, "--episodes", 10, "--out", "parts.fpi", "--resume")
        assert Path("parts.fpi").read_bytes() == Path("whole.fpi").read_bytes()
    else:
        complaint = fpi_(*words, "--episodes", 1, "--out", "whole.fpi", "--resume", code=2)
        assert "this agent was made for 40" in complaint
    assert "fpi/TableBandit-v0" in fpi_("evaluate", "whole.fpi", "--episodes", 5)


def test_models_are_trained_resumed_and_evaluated(folder):
    words = ["train", "Pendulum-v1", "--env-arg", "max_episode_steps=12", "--algorithm", "model", "--window", 3]
    assert "observations of 3 entries" in fpi_(*words, "--episodes", 3, "--out", "whole.fpi")
    fpi_(*words, "--episodes", 2, "--out", "parts.fpi")
    fpi_(*words, "--episodes", 1, "--out", "parts.fpi", "--resume")
    assert Path("parts.fpi").read_bytes() == Path("whole.fpi").read_bytes()
    assert "Pendulum-v1" in fpi_("evaluate", "whole.fpi", "--episodes", 2)
    refused = squeezed(fpi_(*words, "--tiles", 3, "--out", "other.fpi", code=2))
    assert "--tiles does not apply to --algorithm model" in refused


@pytest.mark.process
def test_train_evaluate_render_resume_in_separate_processes(folder):
    options = ("CartPole-v1", *SMALL, "--explore", "widest", "--episodes", "10", "--seed", "4")
    first = run("train", *options, "--out", "parts.fpi", "--log", "parts.jsonl")
    assert first.returncode == 0, first
    assert "mean return, first 10%" in first.stdout
    assert "fpi evaluate parts.fpi" in first.stdout
    assert "episodes/s" not in first.stdout  # no bar where there is no terminal
    evaluated = run("evaluate", "parts.fpi", "--episodes", "5")
    assert "CartPole-v1" in evaluated.stdout
    assert "10 episodes" in evaluated.stdout
    drawn = run("render", "parts.fpi", "--out", "parts.gif", DISPLAY="", WAYLAND_DISPLAY="")
    assert drawn.returncode == 0, drawn
    assert len(imageio.imread("parts.gif")) > 2
    resumed = run("train", *options, "--out", "parts.fpi", "--log", "parts.jsonl", "--resume")
    assert "after 10 episodes" in resumed.stdout
    fpi_("train", *options[:-4], "--episodes", 20, "--seed", 4, "--out", "whole.fpi")
    assert Path("parts.fpi").read_bytes() == Path("whole.fpi").read_bytes()
    assert logged("parts.jsonl") == list(range(20))
    assert all(each.stderr == "" for each in (first, evaluated, drawn, resumed))


def test_train_is_what_the_library_does():
    train("--epsilon", "0.5", "--ridge", "0.01", "--freeze", "3", "--explore", "greedy", "--seed", "2", episodes=40)
    env = gym.make("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=2, tilings=2)
    agent = fpi.PAC(features, actions=2, horizon=50, epsilon=0.5, ridge=0.01, freeze=3, explore="greedy")
    history = agent.learn(env, episodes=40, seed=2)
    trained = fpi.load("model.fpi")
    assert trained.settings == agent.settings
    assert trained.training_state == agent.training_state
    for stage in range(50):
        assert np.array_equal(trained.dataset(stage).features, agent.dataset(stage).features)
        assert np.array_equal(trained.dataset(stage).targets, agent.dataset(stage).targets)
    text = train(
        "--epsilon",
        "0.5",
        "--ridge",
        "0.01",
        "--freeze",
        "3",
        "--explore",
        "greedy",
        "--seed",
        "2",
        "--force",
        episodes=40,
    )
    assert f"mean return, first 10% {history.returns[:4].mean():.2f} " in squeezed(text)
    assert f"mean return, last 10% {history.returns[-4:].mean():.2f} " in squeezed(text)
    assert f"data stored {agent.data_stored} " in squeezed(text)


def test_the_table_tells_the_share_of_frozen_decisions():
    shares = []
    text = train("--log", "m.jsonl", episodes=60)
    for line in map(json.loads, Path("m.jsonl").read_text().splitlines()):
        shares += [line["covered_share"]] * line["length"]
    assert f"decisions at covered states {np.mean(shares):.1%} " in squeezed(text)
    assert np.mean(shares) > 0


def test_a_module_of_the_current_folder_is_found_once_it_is_typed(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    made = "gymnasium.register('Room-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=20)"
    Path("own_room.py").write_text(f"import gymnasium\n{made}\n")
    fpi_("check", "CartPole-v1")
    assert "" not in sys.path
    assert "Room-v0" in fpi_("check", "own_room:Room-v0")


def test_features_are_chosen_by_the_observations():
    fpi_("train", "FrozenLake-v1", "--env-arg", "is_slippery=False", "--episodes", 3, "--out", "lake.fpi")
    assert fpi.load("lake.fpi").notes["train"]["env_args"] == {"is_slippery": False}
    assert repr(fpi.load("lake.fpi").features) == "<OneHot: states=16, 4 actions, 64 features>"
    train(model="cart.fpi")
    assert isinstance(fpi.load("cart.fpi").features, fpi.TileCoding)
    fpi_("train", "CartPole-v1", "--features", "fourier", "--order", 1, "--episodes", 3, "--out", "waves.fpi")
    assert fpi.load("waves.fpi").features.dim == 2 * 2**4
    assert fpi.load("waves.fpi").horizon == 500  # the environment's time limit


def test_a_model_remembers_its_environment():
    options = ("--env-arg", "g=5", "--action-grid", "3", "--reward-range", "-20", "0", "--horizon", "10")
    fpi_("train", "Pendulum-v1", *options, "--episodes", "5", "--out", "p.fpi")
    env = fpi.ActionGrid(gym.make("Pendulum-v1", g=5), 3)
    agent = fpi.load("p.fpi")
    expected = fpi.evaluate(agent, env, episodes=7, seed=3).returns
    text = squeezed(fpi_("evaluate", "p.fpi", "--episodes", 7, "--seed", 3))
    assert f"mean return {expected.mean():.2f} " in text
    assert f"smallest, largest {expected.min():.2f}, {expected.max():.2f} " in text
    other = fpi.evaluate(agent, fpi.ActionGrid(gym.make("Pendulum-v1", g=2), 3), episodes=7, seed=3).returns
    assert f"mean return {other.mean():.2f} " in squeezed(
        fpi_("evaluate", "p.fpi", "--episodes", 7, "--seed", 3, "--env-arg", "g=2")
    )
    assert abs(other.mean() - expected.mean()) > 0.01
    fpi_(
        "train", "Pendulum-v1", "--episodes", "5", "--out", "p.fpi", "--resume"
    )  # grid and arguments come from the model
    assert fpi.load("p.fpi").episodes == 10


def test_a_model_of_a_study_remembers_its_environment():
    actions = [[-1.0], [0.5], [1.0]]
    tiles = {"low": [-1, 0], "high": [1, 1], "tiles": 2, "tilings": 1}
    config = RunConfig(env="fpi-tests/BoxActions-v0", episodes=4, features=tiles, action_grid=actions).complete()
    checkpoint = run_slice(Job("walk", config, 0, "gymnasium"), None, 1e9)
    Path("model.fpi").write_bytes(checkpoint.model)
    assert "trained for 4 episodes" in squeezed(fpi_("evaluate", "model.fpi", "--episodes", 3))
    made = model_environment.remembered_environment(fpi.load("model.fpi"), Path("model.fpi"), None, {}, None)
    assert made.grid.tolist() == actions


def test_a_model_from_python_is_evaluated_too():
    env = fpi.ActionGrid(gym.make("Pendulum-v1"), 3)
    features = fpi.TileCoding.for_env(env, tiles=2, tilings=1)
    agent = fpi.PAC(features, actions=3, horizon=5, epsilon=1, ridge=0.5, reward_range=(-17, 0))
    agent.learn(env, episodes=3, seed=0)
    agent.save("python.fpi")
    assert "Give --action-grid 5." in fpi_("evaluate", "python.fpi", code=2)
    assert "Pendulum-v1" in fpi_("evaluate", "python.fpi", "--action-grid", 3, "--episodes", 2)
    fpi_("train", "Pendulum-v1", "--action-grid", 3, "--out", "python.fpi", "--resume", "--episodes", 2)
    assert fpi.load("python.fpi").episodes == 5
    assert "made with --tiles 2, not 4" in fpi_(
        "train", "Pendulum-v1", "--action-grid", 3, "--out", "python.fpi", "--resume", "--tiles", 4, code=2
    )


def test_quiet_says_nothing():
    assert train("--quiet") == ""
    assert fpi.load("model.fpi").episodes == 10


@pytest.mark.process
def test_a_terminal_shows_a_bar_unless_asked_not_to(folder):
    def on_a_terminal(*words):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([FPI, *words], stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"})
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0
        return shown.decode()

    words = ("train", "CartPole-v1", *SMALL, "--episodes", "5", "--out", "a.fpi")
    assert "episodes/s" in on_a_terminal(*words)
    assert on_a_terminal(*words, "--force", "--quiet") == ""


def test_compiling_is_announced_once_if_it_takes_long(monkeypatch):
    said = []

    def compile_something():
        numba.njit(lambda x: x + 1)(1)

    monkeypatch.setattr(training_run, "ANNOUNCE_AFTER", math.inf)
    with training_run.compiling_announced(said.append):
        compile_something()
    assert said == []
    monkeypatch.setattr(training_run, "ANNOUNCE_AFTER", -1)
    with training_run.compiling_announced(said.append):
        compile_something()
        compile_something()
    compile_something()
    (text,) = said
    assert text.startswith("Compiling for this computer")


# Engines


def engine_of(text):
    """What `fpi train` says it took."""
    return re.search(r"Learning on \S+(?: after [\d,]+ episodes)?, engine (\w+): ", text)[1]


def test_engines_give_the_same_model_and_table_and_go_on_from_each_other():
    """Both tell the same, but for the engine and the time."""
    told = {}
    for name in ("auto", "compiled", "gymnasium"):
        text = train("--engine", name, "--seed", 3, model=f"{name}.fpi", episodes=120)
        assert engine_of(text) == ("gymnasium" if name == "gymnasium" else "compiled")
        told[name] = re.search(r"mean return, first 10%.*decisions at covered states \S+", squeezed(text))[0]
    assert told["auto"] == told["compiled"] == told["gymnasium"]
    assert Path("compiled.fpi").read_bytes() == Path("gymnasium.fpi").read_bytes() == Path("auto.fpi").read_bytes()
    for name, other in (("compiled", "gymnasium"), ("gymnasium", "compiled")):
        text = train("--engine", other, "--resume", model=f"{name}.fpi", episodes=80)
        assert "after 120 episodes" in text and engine_of(text) == other
    assert Path("compiled.fpi").read_bytes() == Path("gymnasium.fpi").read_bytes()
    assert fpi.load("compiled.fpi").episodes == 200


def test_one_run_is_two_with_a_stop_in_between_whatever_the_engines():
    train("--engine", "compiled", model="parts.fpi", episodes=70)
    train("--engine", "gymnasium", "--resume", model="parts.fpi", episodes=30)
    train("--resume", model="parts.fpi", episodes=50)
    train("--engine", "gymnasium", model="whole.fpi", episodes=150)
    assert Path("parts.fpi").read_bytes() == Path("whole.fpi").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("CartPole-v1", *SMALL, "--log", "m.jsonl"),
        ("CartPole-v1", *SMALL, "--tensorboard", "board"),
        ("CartPole-v1", *SMALL, "--env-arg", "sutton_barto_reward=true", "--reward-range", "-1", "0"),
        ("CartPole-v1", "--horizon", "9", "--features", "fourier", "--order", "1"),
        ("MountainCar-v0", "--tiles", "2", "--horizon", "9", "--reward-range", "-1", "0"),
        ("InvertedPendulum-v4", "--action-grid", "4", "--tiles", "2", "--horizon", "61"),
    ],
)
def test_gymnasium_is_taken_where_compiled_code_will_not_do(words):
    assert engine_of(fpi_("train", *words, "--episodes", 3)) == "gymnasium"


def test_the_pendulum_of_the_paper_is_compiled():
    words = ("InvertedPendulum-v4", "--action-grid", 4, "--tiles", 2, "--horizon", 60, "--episodes", 40)
    assert engine_of(fpi_("train", *words, "--out", "one.fpi")) == "compiled"
    assert engine_of(fpi_("train", *words, "--out", "other.fpi", "--engine", "gymnasium")) == "gymnasium"
    assert Path("one.fpi").read_bytes() == Path("other.fpi").read_bytes()


def test_regret_is_compiled_too():
    words = ("--algorithm", "regret", "--scale", 0.1)
    assert engine_of(train(*words, model="one.fpi", episodes=60)) == "compiled"
    assert engine_of(train(*words, "--engine", "gymnasium", model="other.fpi", episodes=60)) == "gymnasium"
    assert Path("one.fpi").read_bytes() == Path("other.fpi").read_bytes()


def test_portions_end_where_they_are_told_to(monkeypatch):
    """Many small ones give the model of a single one, and Ctrl-C is looked at after each."""
    train(model="whole.fpi", episodes=130)
    monkeypatch.setattr(training_run, "STEPS_PER_SLICE", 50 * 7)  # 7 episodes of 50 steps
    portions = []
    learn = training_run.compiled.learn
    monkeypatch.setattr(training_run.compiled, "learn", lambda *words: portions.append(words[2]) or learn(*words))
    train("--checkpoint-every", 20, model="parts.fpi", episodes=130)
    assert portions == [7, 7, 6] * 6 + [7, 3]
    assert Path("parts.fpi").read_bytes() == Path("whole.fpi").read_bytes()


@pytest.mark.parametrize("engine", ["compiled", "gymnasium"])
def test_checkpoints(engine, monkeypatch):
    saved = []
    monkeypatch.setattr(Agent, "save", lambda agent, path: saved.append((agent.episodes, str(path))))
    train("--checkpoint-every", 3, "--engine", engine)
    assert saved == [(3, "model.fpi"), (6, "model.fpi"), (9, "model.fpi"), (10, "model.fpi")]


def test_logs(folder):
    train("--log", "m.jsonl", "--tensorboard", "board")
    assert logged("m.jsonl") == list(range(10))
    assert list(Path("board").glob("events.out.tfevents.*"))


def test_force_starts_anew():
    train("--log", "m.jsonl", episodes=8)
    train("--log", "m.jsonl", "--force", episodes=5)
    assert fpi.load("model.fpi").episodes == 5
    assert logged("m.jsonl") == list(range(5))


# Killed, and two at once


def test_the_checkpoint_of_a_killed_run_goes_on_with_the_same_command():
    train("--log", "m.jsonl", episodes=8)
    agent = fpi.load("model.fpi")
    agent.notes[train_options.UNFINISHED] = True  # as a checkpoint has, until the run comes to its end
    agent.save("model.fpi")
    text = train("--log", "m.jsonl", "--engine", "gymnasium", episodes=20)
    assert "model.fpi is of a run that was stopped after 8 episodes" in text
    train(model="whole.fpi", episodes=20)
    assert Path("model.fpi").read_bytes() == Path("whole.fpi").read_bytes()
    assert logged("m.jsonl") == list(range(20))
    assert "already exists" in train(episodes=30, code=2)  # it came to its end


def test_checkpoints_say_that_they_are_not_the_end(monkeypatch):
    seen = []
    save = Agent.save

    def watched(agent, path):
        seen.append((agent.episodes, agent.notes.get(train_options.UNFINISHED)))
        save(agent, path)

    monkeypatch.setattr(Agent, "save", watched)
    train("--checkpoint-every", 4, episodes=10)
    assert seen == [(4, True), (8, True), (10, None)]


def test_the_log_of_a_run_that_was_killed_before_its_first_checkpoint_is_begun_anew():
    train("--log", "m.jsonl", episodes=8)
    Path("model.fpi").unlink()
    assert "--log m.jsonl already exists" in train("--log", "m.jsonl", code=2)
    for name in ("model.fpi", "m.jsonl"):
        _files.lock_of(Path(name)).touch()  # what a killed process leaves
    train("--log", "m.jsonl", episodes=5)
    assert logged("m.jsonl") == list(range(5))
    assert not list(Path().glob(".fpi-*"))


@pytest.mark.process
def test_two_commands_do_not_write_one_file(folder):
    words = [FPI, "train", "CartPole-v1", *SMALL, "--episodes", "1000000", "--out", "m.fpi", "--log", "l.jsonl"]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((folder / "l.jsonl").exists, first)
    for model, log, named in (("m.fpi", "other.jsonl", "m.fpi"), ("other.fpi", "l.jsonl", "l.jsonl")):
        text = fpi_("train", "CartPole-v1", "--out", model, "--log", log, "--force", code=2)
        assert f"another `fpi train` is at work on {named}. Wait for it, stop it, or choose another name." in text
    first.kill()
    first.communicate()
    done = logged("l.jsonl") if Path("l.jsonl").read_text().endswith("\n") else []
    train("--log", "l.jsonl", model="m.fpi", episodes=5)  # nothing was saved yet: it begins anew, without --force
    assert logged("l.jsonl") == list(range(5)) and done == list(range(len(done)))


# Where the output goes


def in_a_shell(line, **environment):
    return subprocess.run(["sh", "-c", line], env=os.environ | environment, capture_output=True, text=True)


@pytest.mark.process
def test_full_and_closed_output_ascii_terminals_and_a_folder_that_is_gone():
    full = in_a_shell(f"{FPI} --version > /dev/full")
    assert (full.returncode, full.stderr.count("\n")) == (2, 1) and "No space left on device" in full.stderr
    assert in_a_shell(f"{FPI} --version >&- 2>&-").returncode == 0
    ascii_only = in_a_shell(f"{FPI} reproduce --help", PYTHONIOENCODING="ascii", COLUMNS="80")
    assert ascii_only.returncode == 0 and "Q^\\u03c0" in ascii_only.stdout
    gone = in_a_shell(f"mkdir gone && cd gone && rmdir ../gone && {FPI} train CartPole-v1 --out model.fpi")
    assert gone.returncode == 2 and "does not exist any more" in gone.stderr and "Traceback" not in gone.stderr


# Stopping


def wait_for(condition, process):
    deadline = time.monotonic() + 1_800  # a hang; a slow computer may take minutes to compile
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)


@pytest.mark.process
def test_ctrl_c_keeps_what_was_learned(folder):
    log = folder / "m.jsonl"
    command = [FPI, "train", "CartPole-v1", *SMALL, "--episodes", "1000000", "--out", "model.fpi", "--log", log]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: log.exists() and log.read_text().count("\n") >= 20, process)
    process.send_signal(signal.SIGINT)
    printed, complaint = process.communicate()
    agent = fpi.load("model.fpi")
    assert process.returncode == 130
    assert (
        f"Stopped by Ctrl-C after {agent.episodes:,} of 1,000,000 episodes. What was learned is in model.fpi: "
        "the same command goes on from there." in complaint
    )
    assert "mean return, last 10%" in printed
    assert logged(log) == list(range(agent.episodes))  # model and log agree
    fpi_("train", "CartPole-v1", *SMALL, "--episodes", agent.episodes + 5, "--out", "model.fpi", "--log", log)
    train(model="whole.fpi", episodes=agent.episodes + 5)
    assert Path("model.fpi").read_bytes() == Path("whole.fpi").read_bytes()
    assert logged(log) == list(range(agent.episodes + 5))


@pytest.mark.process
def test_ctrl_c_keeps_what_compiled_episodes_taught(folder):
    words = ("--episodes", "100000000", "--out", "model.fpi", "--checkpoint-every", "1000")
    command = [FPI, "train", "CartPole-v1", *SMALL, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((folder / "model.fpi").exists, process)
    process.send_signal(signal.SIGINT)
    try:
        printed, complaint = process.communicate(timeout=120)
    finally:
        process.kill()
    agent = fpi.load("model.fpi")
    assert process.returncode == 130
    assert f"Stopped by Ctrl-C after {agent.episodes:,} of 100,000,000 episodes. What was learned is in" in complaint
    assert f"{agent.episodes:,} episodes" in printed and "mean return, last 10%" in printed
    train("--resume", model="model.fpi", episodes=5)
    train(model="whole.fpi", episodes=agent.episodes + 5)
    assert Path("model.fpi").read_bytes() == Path("whole.fpi").read_bytes()


def test_a_second_ctrl_c_keeps_the_portions_that_are_whole(monkeypatch):
    monkeypatch.setattr(training_run, "STEPS_PER_SLICE", 50 * 7)
    learn, calls = training_run.compiled.learn, []

    def interrupted(*words):
        calls.append(words)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(*words)

    monkeypatch.setattr(training_run.compiled, "learn", interrupted)
    text = train(episodes=100, code=130)
    assert "Stopped by Ctrl-C after 14 of 100 episodes. What was learned is in model.fpi: the same command" in text
    assert "mean return, last 10%" in text and fpi.load("model.fpi").episodes == 14


STICKY = """
import pathlib, time
import gymnasium as gym
from environments import Walk

class Sticky(Walk):
    resets = 0

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(-9, 9, (2,), "float64")

    def start(self):
        self.resets += 1
        return super().start()

    def terminated(self):
        if self.resets == 12:
            pathlib.Path("stuck").touch()
            time.sleep(600)
        return self.steps == 5

gym.register("Sticky-v0", Sticky, max_episode_steps=5)
"""


@pytest.mark.process
def test_a_second_ctrl_c_stops_an_episode_that_does_not_end(folder):
    (folder / "sticky.py").write_text(STICKY)
    path = os.pathsep.join([str(folder), str(Path(__file__).parent)])
    command = [FPI, "train", "sticky:Sticky-v0", "--tiles", "2", "--log", "m.jsonl"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    wait_for((folder / "stuck").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert process.stderr.readline() == "Stopping after this episode; Ctrl-C again stops at once.\n"
    process.send_signal(signal.SIGINT)
    complaint = process.communicate()[1]
    assert process.returncode == 130
    episodes = fpi.load("model.fpi").episodes
    assert episodes > 1
    assert f"after {episodes} of 2,000 episodes" in complaint
    assert logged("m.jsonl") == list(range(episodes))
    # The model cannot make anybody run the module it names; its owner can.
    assert "type this name after the model file" in fpi_("evaluate", "model.fpi", code=2)


def test_ctrl_c_before_the_first_episode_ends_leaves_nothing(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_options, "make_environment", interrupted)
    assert train(code=130) == "Stopped.\n"
    monkeypatch.undo()
    monkeypatch.setattr(Agent, "learn", interrupted)
    monkeypatch.setattr(training_run.compiled, "learn", interrupted)
    for engine in ("compiled", "gymnasium"):
        text = fpi_("train", "CartPole-v1", "--out", "model.fpi", "--engine", engine, code=130)
        assert "after 0 of 2,000 episodes. Nothing was learned, so nothing is saved." in text
        assert not Path("model.fpi").exists()


def test_an_error_in_the_middle_keeps_what_was_learned():
    text = fpi_("train", "fpi-tests/TurnsCostly-v0", "--tiles", 2, "--log", "m.jsonl", code=2)
    episodes = fpi.load("model.fpi").episodes
    assert episodes > 1
    assert logged("m.jsonl") == list(range(episodes))
    assert f"in episode {episodes + 1}: the reward" in text
    assert "`fpi check fpi-tests/TurnsCostly-v0` reports what fits" in text


# Evaluating


def test_evaluate_prints_what_the_library_finds():
    train(episodes=100)
    found = fpi.evaluate(fpi.load("model.fpi"), gym.make("CartPole-v1"), episodes=30, seed=5)
    text = squeezed(fpi_("evaluate", "model.fpi", "--episodes", 30, "--seed", 5))
    assert f"mean return {found.returns.mean():.2f} " in text
    steps = found.lengths
    assert f"steps {steps.mean():.1f} on average, {steps.min()} to {steps.max()}" in text
    assert f"95% interval {found.interval.low:.2f} to {found.interval.high:.2f}" in text
    assert "takes 2 episodes or more" in fpi_("evaluate", "model.fpi", "--episodes", 1)


def test_evaluate_shows_random_play_beside_it():
    """The same start states, as many episodes, and other actions in each."""
    train(episodes=5)
    env, returns = gym.make("CartPole-v1"), []
    for episode, start in enumerate(np.random.SeedSequence(5).generate_state(40)):
        env.reset(seed=int(start))
        returns.append(0)
        for stage in range(50):  # the horizon
            _, reward, terminated, _, _ = env.step(pick(0, episode, stage, 2))
            returns[-1] += reward
            if terminated:
                break
    text = squeezed(fpi_("evaluate", "model.fpi", "--episodes", 40, "--seed", 5))
    assert f"mean return of random play {np.mean(returns):.2f}, from the same start states" in text
    assert 18 < np.mean(returns) < 26 and len(set(returns)) > 10


# Checking


def test_check_passes_what_fits():
    text = fpi_("check", "CartPole-v1")
    assert "Fit for FPI." in text
    for row in ("deterministic yes", "rewards seen 1 to 1", "start states random", "time limit 500 steps"):
        assert row in squeezed(text)
    assert "feature norm at most 1 (TileCoding)" in squeezed(text)


# How long it takes to cover everything, and settings under which nothing is learned


def test_train_and_check_tell_how_many_episodes_cover_everything():
    advice = (
        "overing everything takes at most about 5,000,000 episodes (500 steps × 5,000 features × 2 "
        "data each); play improves "
        "long before. What shortens it: fewer --tiles or --tilings, a shorter --horizon."
    )
    assert f"With the defaults of fpi train, c{advice}\n" in fpi_("check", "CartPole-v1")
    assert f"\nC{advice}\n" in fpi_("train", "CartPole-v1", "--episodes", 3)
    short = fpi_("check", "CartPole-v1", "--horizon", 50)
    assert "at most about 500,000 episodes (50 steps × 5,000 features × 2 data each)" in short
    assert "Covering" not in train("--quiet", model="quiet.fpi")
    assert "Covering" not in train("--force", "--ridge", 1)  # nothing to cover
    assert "Covering" in train("--force") and "Covering" not in train("--resume")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("CartPole-v1", *SMALL, "--epsilon", 0.5),
            "at most about 81,000 episodes (50 steps × 324 features × 5 "
            "data each); play improves long before. What shortens "
            "it: fewer --tiles or --tilings, a shorter --horizon, a larger --epsilon.",
        ),
        (
            ("CartPole-v1", "--tilings", 1, "--horizon", 50),
            "at most about 25,600 episodes (50 steps × 512 features × 1 data each); ",
        ),
        (
            ("CartPole-v1", "--features", "fourier", "--order", 1, "--horizon", 9),
            "at most about 864 episodes (9 steps × 32 features × 3 "
            "data each); play improves long before. What shortens it: a "
            "lower --order, a shorter --horizon.",
        ),
        (
            ("FrozenLake-v1", "--env-arg", "is_slippery=false", "--epsilon", 0.1),
            "at most about 640,000 episodes (100 steps × 64 features × 100 "
            "data each); play improves long before. What shortens "
            "it: a shorter --horizon, a larger --epsilon.",
        ),
        (
            ("CartPole-v1", *SMALL, "--algorithm", "regret"),
            "Covering everything at level 1 takes at most about 81,000 episodes (50 steps × 324 features × 5 "
            "data each), each "
            "further level four times as many; play improves long before. What shortens it: fewer --tiles or "
            "--tilings, a shorter --horizon.",
        ),
    ],
)
def test_what_covering_takes_depends_on_features_and_epsilon(words, says):
    assert says in fpi_("train", *words, "--episodes", 2)


def test_nothing_is_said_of_covering_a_class():
    assert "overing" not in fpi_("train", "fpi/TableBandit-v0", "--algorithm", "eluder", "--episodes", 2)
    assert "overing" not in fpi_("check", "Pendulum-v1")  # no features before there is a grid


@pytest.mark.parametrize("engine", ["compiled", "gymnasium"])
def test_a_ridge_under_which_nothing_is_learned_is_told(engine):
    text = train("--ridge", 1, "--engine", engine)
    (warning,) = [line for line in text.splitlines() if line.startswith("Warning: ")]
    assert "a ridge of 1 and an accuracy (epsilon) of 1" in warning
    assert "data stored 0 " in squeezed(text)


def test_check_refuses_random_transitions():
    text = fpi_("check", "fpi-tests/RandomFromStep2-v0", code=1)
    assert "deterministic no" in squeezed(text)
    assert "Not fit for FPI because its transitions are random" in text
    assert "at step 2" in text
    assert "Switch it off: --env-arg is_slippery=false." in fpi_("check", "FrozenLake-v1", code=1)
    dry = fpi_("check", "FrozenLake-v1", "--env-arg", "is_slippery=false", code=0)
    assert "Fit for FPI. Random play met no reward but 0: exploring has to find the others" in dry
    assert "no reward but 0" not in fpi_("check", "CartPole-v1")


def test_check_tells_which_options_to_type():
    text = fpi_("check", "Pendulum-v1")
    assert "Fit for FPI with changes" in text
    assert "Give --action-grid 5." in text
    assert "pass --reward-range -17 0" in text
    assert "feature norm unknown before the changes below" in squeezed(text)
    assert "--action-grid" not in fpi_("check", "Pendulum-v1", "--action-grid", 5)
    short = squeezed(fpi_("check", "Pendulum-v1", "--horizon", 20, "--episodes", 2))
    assert "2 of 20 to 20 steps" in short


def test_train_accepts_the_features_that_check_offers_where_tiles_do_not_fit():
    cheetah = ("HalfCheetah-v5", "--action-grid", 2, "--horizon", 5)
    verdict = squeezed(fpi_("check", *cheetah, "--episodes", 1)).partition("with changes: ")[2]
    assert "choose features: with the usual tiles, that makes 3,051,757,812,500 features, more than" in verdict
    offers = re.findall(r"(--[^(]*) \(([\d,]+) features\)", verdict.partition("can be made: ")[2])
    assert [size for _, size in offers] == ["8,388,608", "3,328"]
    for options, size in offers:
        words = options.replace(", or ", "").split()
        text = fpi_("train", *cheetah, "--reward-range", -9, 9, "--episodes", 2, *words, "--force")
        assert f"{size} features" in text
    assert f"With {offers[0][0]}, covering everything takes" in verdict


def test_check_says_where_no_features_can_be_made():
    gym.register("fpi-tests/Picture-v0", Picture, max_episode_steps=3)
    text = fpi_("check", "fpi-tests/Picture-v0", "--episodes", 1)
    assert "Fit for FPI with changes: bring features of your own" in text
    assert "feature norm unknown" in squeezed(text) and "covering everything" not in text


# Drawing


@pytest.fixture
def cart():
    train(model="cart.fpi", episodes=30)
    return fpi.load("cart.fpi")


@pytest.mark.slow
def test_the_gif_shows_the_policy(cart):
    text = fpi_("render", "cart.fpi", "--out", "cart.gif", "--seed", 5, "--episodes", 2)
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    count, shown, policy = 0, [], cart.policy()
    for start in np.random.SeedSequence(5).generate_state(2):  # the start states of fpi.evaluate
        policy.reset()
        observation, ended = env.reset(seed=int(start))[0], False
        while True:
            count += 1
            if not shown or not np.array_equal(shown[-1], env.render()):  # a GIF shows equal pictures as one
                shown.append(env.render())
            if ended:
                break
            observation, _, ended, _, _ = env.step(policy(observation))
    assert f"{len(shown)} pictures of 2 episodes in cart.gif" in text and len(shown) < count
    assert np.array_equal(imageio.imread("cart.gif"), shown)
    assert milliseconds("cart.gif") == 20 * count  # the 50 steps a second of CartPole
    fpi_("render", "cart.fpi", "--out", "cart.gif", "--seed", 5, "--episodes", 2, "--fps", 10)
    assert milliseconds("cart.gif") == 100 * count


def milliseconds(path):
    return sum(imageio.immeta(path, index=i)["duration"] for i in range(len(imageio.imread(path))))


@pytest.mark.parametrize(("textures", "dark"), [([], True), ([0, 1], True), ([0, 2], False)])
def test_models_without_a_sky_are_not_drawn_on_black(textures, dark):
    headlight = SimpleNamespace(ambient=np.full(3, 0.1), diffuse=np.full(3, 0.4))

    class Robot(Walk):
        def __init__(self):
            super().__init__()
            self.model = SimpleNamespace(tex_type=np.array(textures), vis=SimpleNamespace(headlight=headlight))

        def render(self):
            return np.array([[[0, 0, 0], [0, 9, 0]]], np.uint8)

    player = Uniform(actions=3, horizon=2)
    pictures = list(gif.frames(player, Robot(), 1, 0))
    assert len(pictures) == 3
    for picture in pictures:
        assert picture.tolist() == [[[244, 246, 248] if dark else [0, 0, 0], [0, 9, 0]]]
    assert (headlight.diffuse.max() > 0.5) == dark


def test_a_gif_is_replaced_whole_or_not_at_all(cart, monkeypatch, folder):
    Path("cart.gif").write_bytes(b"the old one")
    whole = gif.frames

    def broken(*arguments):
        yield next(whole(*arguments))
        raise fpi.errors.EnvironmentMismatch("the lamp broke.")

    monkeypatch.setattr(gif, "frames", broken)
    assert "the lamp broke" in fpi_("render", "cart.fpi", "--out", "cart.gif", code=2)
    assert Path("cart.gif").read_bytes() == b"the old one"
    assert sorted(each.name for each in folder.iterdir()) == ["cart.fpi", "cart.gif"]


@pytest.fixture
def no_screen(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_screen_mujoco_is_told_before_it_is_imported(cart, no_screen, monkeypatch):
    told = []
    make = model_environment.make_environment
    monkeypatch.setattr(
        model_environment, "make_environment", lambda *a, **k: told.append(dict(os.environ)) or make(*a, **k)
    )
    assert "of 1 episode in policy.gif" in fpi_("render", "cart.fpi")
    assert {each["MUJOCO_GL"] for each in told} == {"egl"}
    assert Path("policy.gif").exists()


def test_with_a_screen_nothing_is_chosen(no_screen, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    gif.choose_offscreen()
    assert "MUJOCO_GL" not in os.environ


def test_a_chosen_way_to_draw_is_kept(no_screen, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    gif.choose_offscreen()
    assert (os.environ["MUJOCO_GL"], os.environ["SDL_VIDEODRIVER"]) == ("osmesa", "x11")


# Errors


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A few model files, good and bad."""
    folder = tmp_path_factory.mktemp("models")
    env = gym.make("CartPole-v1")
    agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=2, tilings=1), actions=2, horizon=20, epsilon=1.0, ridge=0.5)
    agent.save(folder / "nowhere.fpi")
    agent.learn(env, episodes=2, seed=0)
    agent.notes["train"] = {"environment": 5}
    agent.save(folder / "odd.fpi")
    agent.notes["train"] = {"environment": "this:Apple-v0"}
    agent.save(folder / "module.fpi")
    agent.notes.clear()
    agent.save(folder / "good.fpi")
    data = (folder / "good.fpi").read_bytes()
    (folder / "cut.fpi").write_bytes(data[: len(data) // 2])
    (folder / "flipped.fpi").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (folder / "text.fpi").write_text("This is not a model.")
    (folder / "log.jsonl").write_text('{"episode": 0, "seconds": 0.1}\n')
    walk = gym.make("fpi-tests/BoxActions-v0")
    grid = fpi.ActionGrid(walk, 3)
    walker = fpi.PAC(
        fpi.TileCoding([-1, -1], [1, 1], tiles=2, tilings=1, actions=3), actions=3, horizon=5, epsilon=1, ridge=0.5
    )
    walker.learn(grid, episodes=1, seed=0)
    walker.save(folder / "walk.fpi")
    return folder


ERRORS = {
    "unknown environment": ("train cartpole-v1", "no environment cartpole-v1. Did you mean CartPole-v1"),
    "unknown version": ("check CartPole-v9", "Did you mean CartPole-v1"),
    "nothing like it": ("check Qwertz-v0", "no environment Qwertz-v0. Gymnasium's own are listed at"),
    "unknown module": ("train nonexistent:X-v0", "No module named 'nonexistent'"),
    "another missing package": (
        "train phys2d/CartPole-v1",
        "phys2d/CartPole-v1 could not be made: No module named 'jax'",
    ),
    "continuous actions": ("train Pendulum-v1", "FPI needs a Discrete action space. Give --action-grid 5."),
    "grid of numbered actions": ("train CartPole-v1 --action-grid 3", "needs no grid"),
    "grid of one value": ("train Pendulum-v1 --action-grid 1", "at least 2 values"),
    "no time limit": ("train fpi-tests/Walk-v0", "has no time limit", "give --horizon"),
    "horizon": ("train CartPole-v1 --horizon 600", "Use --horizon 500 or less", "--env-arg max_episode_steps=600"),
    "no horizon": ("train CartPole-v1 --horizon 0", "horizon is 0; pass a whole number"),
    "rewards": (
        "train Acrobot-v1 --tiles 2",
        "not in --reward-range 0.0 1.0. Pass a wider one",
        "`fpi check Acrobot-v1`",
    ),
    "no such setting": (
        "train CartPole-v1 --set delt=0.1",
        "--set delt: there is no setting of this name. Did you mean",
    ),
    "no such feature": ("train CartPole-v1 --set features.tile=3", "Did you mean features.tiles?"),
    "text for a boolean": ("train FrozenLake-v1 --env-arg is_slippery=off", "Write is_slippery=true or is_slippery="),
    "setting of others": ("train CartPole-v1 --set max_level=3", "--set max_level does not apply to --algorithm pac"),
    "rarer setting": ("train CartPole-v1 --set delta=2", "delta is 2; pass a probability between 0 and 1"),
    "no pair": ("train CartPole-v1 --set delta", "--set delta is not of the form KEY=VALUE"),
    "reward range": ("train CartPole-v1 --reward-range 1 0", "--reward-range 1.0 0.0 is not a range", "smaller first"),
    "epsilon": ("train CartPole-v1 --epsilon -1", "epsilon is -1.0; pass a number from 1e-100 to 1e100"),
    "ridge": ("train CartPole-v1 --ridge nan", "ridge is nan; pass a finite number of at least 1e-12"),
    "freeze": ("train CartPole-v1 --freeze often", 'freeze is \'often\'; pass "exact", "never", or how many'),
    "option of another algorithm": (
        "train CartPole-v1 --algorithm regret --epsilon 0.1",
        "--epsilon does not apply to --algorithm regret",
    ),
    "option of algorithms with levels": ("train CartPole-v1 --scale 0.1", "--scale does not apply to --algorithm pac"),
    "class of others": ("train CartPole-v1 --class linear-ball", "--class does not apply to --algorithm pac"),
    "no candidates": (
        "train CartPole-v1 --algorithm eluder --class candidates",
        "CartPole-v1 has no list of candidate functions",
        "--class linear-ball",
    ),
    "features of candidates": (
        "train fpi/TableBandit-v0 --algorithm eluder --features tiles",
        "candidate functions are of states and actions themselves: leave features out",
    ),
    "too many candidates": (
        "train fpi/TableHubs-v0 --env-arg R=2000 --algorithm eluder",
        "18,000 candidate functions are more than a model file can hold",
    ),
    "too many features": ("train CartPole-v1 --algorithm eluder", "features are more than the 256"),
    "onehot": (
        "train CartPole-v1 --features onehot",
        "need numbered states",
        "Box([-4.8 -inf -0.41887903 -inf]",
        "Use tiles",
    ),
    "tiles of numbers": ("train FrozenLake-v1 --features tiles", "State numbers need no tiles"),
    "idle option": (
        "train CartPole-v1 --features fourier --tilings 2",
        "--tilings does not apply to --features fourier",
    ),
    "too many tiles": ("train CartPole-v1 --tiles 1000", "more than 10,000,000", "Use fewer tiles"),
    "compiled log": (
        "train CartPole-v1 --engine compiled --log m.jsonl",
        "--log writes after every episode",
        "Leave it out, or use --engine gymnasium.",
    ),
    "compiled board": ("train CartPole-v1 --engine compiled --tensorboard board", "--tensorboard writes after every"),
    "compiled waves": ("train CartPole-v1 --engine compiled --features fourier --order 1", "this is PAC with Fourier"),
    "compiled settings": (
        "train CartPole-v1 --engine compiled --env-arg sutton_barto_reward=true",
        "made with {'sutton_barto_reward': True}",
        "or use --engine gymnasium",
    ),
    "no compiled one": (
        "train Acrobot-v1 --engine compiled --tiles 2",
        "'Acrobot-v1' has no compiled environment; there are CartPole-v1, InvertedPendulum-v4",
    ),
    "compiled for long": (
        "train InvertedPendulum-v4 --engine compiled --action-grid 4 --tiles 2",
        "Gymnasium's for 60 steps only",
        "Use --horizon 60 or less, or --engine gymnasium.",
    ),
    "env-arg": ("train CartPole-v1 --env-arg gravity", "--env-arg gravity is not of the form KEY=VALUE"),
    "unknown env-arg": ("train CartPole-v1 --env-arg gravy=1", "--env-arg gravy=1 could not be made", "'gravy'"),
    "existing model": ("train CartPole-v1 --out good.fpi", "--out good.fpi already exists", "--resume", "--force"),
    "existing log": ("train CartPole-v1 --out new.fpi --log log.jsonl", "--log log.jsonl already exists"),
    "resume and force": ("train CartPole-v1 --out good.fpi --resume --force", "choose one of them"),
    "nothing to resume": ("train CartPole-v1 --out none.fpi --resume", "Could not read none.fpi: No such file"),
    "resume otherwise": ("train CartPole-v1 --out good.fpi --resume --epsilon 2", "made with --epsilon 1.0, not 2.0"),
    "resume elsewhere": ("train CartPole-v0 --out good.fpi --resume", "this agent learned on CartPole-v1"),
    "no folder": ("train CartPole-v1 --out none/model.fpi", "there is no folder", "Create it first"),
    "a folder": ("train CartPole-v1 --out .", "choose the name of a file"),
    "foreign log": ("train CartPole-v1 --out n.fpi --force --log text.fpi", "no log of episodes"),
    "log without folder": ("train CartPole-v1 --out n.fpi --log none/m.jsonl", "Could not write the log none/m.jsonl"),
    "no model": ("evaluate none.fpi", "Could not read none.fpi: No such file"),
    "cut model": ("evaluate cut.fpi", "cut.fpi is", "cut short"),
    "flipped model": ("render flipped.fpi", "flipped.fpi is damaged or cut short"),
    "no model at all": ("evaluate text.fpi", "text.fpi is not a model file"),
    "odd notes": ("evaluate odd.fpi", "odd.fpi has unexpected notes"),
    "module in a model": ("evaluate module.fpi", "this:Apple-v0", "type this name after the model file"),
    "model from nowhere": ("evaluate nowhere.fpi", "does not know its environment. Type its name after the model file"),
    "wrong environment": ("evaluate good.fpi Acrobot-v1", "the environment has 3 actions, the agent 2"),
    "other observations": ("evaluate good.fpi FrozenLake-v1", "actions"),
    "no gif": ("render good.fpi --out good.mp4", "--out good.mp4 does not end in .gif"),
    "no folder for a gif": ("render good.fpi --out none/good.gif", "there is no folder"),
    "cannot be drawn": ("render walk.fpi fpi-tests/BoxActions-v0 --action-grid 3", "cannot be drawn", "rgb_array"),
}


SAID_BEFORE = ("Learning on ", "Covering everything ", "Warning: ")


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_line_and_change_nothing(case, models, monkeypatch):
    monkeypatch.chdir(models)
    before = {path.name: path.read_bytes() for path in models.iterdir()}
    command, *parts = ERRORS[case]
    text = fpi_(*command.split(), code=2)
    (complaint,) = [line for line in text.splitlines() if not line.startswith(SAID_BEFORE)]
    assert complaint.startswith("Error: ")
    for part in parts:
        assert part in complaint
    assert {path.name: path.read_bytes() for path in models.iterdir()} == before
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("words", "part"), [(("train",), "Missing argument 'ENV'"), (("tarin",), "No such command 'tarin'")]
)
def test_typing_errors(words, part):
    assert part in fpi_(*words, code=2)


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *(("train CartPole-v1", name, value) for name, value in (("--epsilon", "small"), ("--seed", "-1"))),
        *(("train CartPole-v1", name, "0") for name in ("--episodes", "--checkpoint-every")),
        *(("train CartPole-v1", name, "odd") for name in ("--explore", "--elimination", "--algorithm", "--features")),
        *(("train CartPole-v1", name, "odd") for name in ("--class", "--engine")),
        ("evaluate good.fpi", "--episodes", "0"),
        ("check CartPole-v1", "--episodes", "0"),
        ("render good.fpi", "--fps", "0"),
    ],
)
def test_values_that_an_option_does_not_take(command, option, value):
    assert f"Invalid value for '{option}'" in fpi_(*command.split(), option, value, code=2)


def test_every_setting_has_an_option_or_is_set_by_name():
    """What a field of `fpi.settings` says is what the help says and what the agent gets."""
    options = {each.name: each for each in typer.main.get_command(app).commands["train"].params}
    for name, known in by_name().items():
        assert (name in options) == all(each.setting.metavar for each in known.values()) or name == "episodes"
    assert "[default: (0.001 for pac, 1/H for regret)]" in squeezed(fpi_("train", "--help").replace("│", ""))
    train("--set", "delta=0.2", "--set", "constants=paper", "--set", "features.wrap=true")
    agent = fpi.load("model.fpi")
    assert (agent.settings.delta, agent.settings.constants) == (0.2, "paper")
    assert agent.features.to_config()["wrap"] == [True] * 4
    assert "made with --set delta 0.2, not 0.3" in train("--resume", "--set", "delta=0.3", code=2)


def test_defaults_are_those_of_the_library():
    train()
    env = gym.make("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=2, tilings=2)
    assert fpi.load("model.fpi").settings == fpi.PAC(features, actions=2, horizon=50).settings
    text = fpi_("train", "--help")
    for name in ("tiles", "tilings"):
        default = inspect.signature(fpi.TileCoding.for_env).parameters[name].default
        assert re.search(rf"--{name} .*\n.*default: \({default}\)", text)
    assert f"default: ({inspect.signature(fpi.Fourier.for_env).parameters['order'].default})" in text


def test_a_folder_that_is_read_only(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "in a folder you may write to" in train(code=2)


@pytest.mark.process
@pytest.mark.parametrize(
    ("missing", "words", "part"),
    [
        (
            "mujoco",
            ("train", "InvertedPendulum-v5", "--action-grid", "3"),
            'pip install "frozen-policy-iteration[mujoco]"',
        ),
        ("ale_py", ("check", "ALE/Pong-v5"), 'pip install "frozen-policy-iteration[atari]"'),
        (
            "tensorboard",
            ("train", "CartPole-v1", "--tensorboard", "board", "--out", "m.fpi"),
            'pip install "frozen-policy-iteration[tensorboard]"',
        ),
    ],
)
def test_a_missing_extra_is_named(missing, words, part):
    script = f"import sys; sys.modules[{missing!r}] = None; from fpi.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert part in result.stderr
    assert result.stderr.count("\n") == 1


def test_warnings_are_one_line():
    text = fpi_("train", "fpi-tests/Walk-v0", "--horizon", 4, "--episodes", 2)
    (warning,) = [line for line in text.splitlines() if line.startswith("Warning: ")]
    assert "ranges measured in 1000 random steps" in warning
    text = fpi_("train", "fpi-tests/RandomFromStep2-v0", "--horizon", 4, "--episodes", 4, "--out", "random.fpi")
    assert "diverged at step 2" in text
    assert "Warning: The environment CartPole-v0 is out of date" in fpi_("check", "CartPole-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_environment("InvertedPendulum-v4", {}, 3)  # the paper's, on purpose


def test_notes_are_saved_with_the_agent():
    env = gym.make("CartPole-v1")
    agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=2, tilings=1), actions=2, horizon=20, epsilon=1, ridge=1)
    assert agent.notes == {}
    agent.notes["place"] = {"shelf": [1, 2.5, None, "left"]}
    agent.save("noted.fpi")
    assert fpi.load("noted.fpi").notes == agent.notes
