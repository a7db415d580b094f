"""The runner: the same rows whatever happens, files that survive a kill, statistics that say no more than they know."""

import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import fpi
from benchmarks.faults.folders import Here
from fpi import model_files
from fpi.algorithms import PAC
from fpi.errors import DamagedResults, InputError, SaveError
from fpi.experiment import Claim, RunConfig, Study, run_study, storage
from fpi.experiment import run as run_module
from fpi.experiment.backends import Local
from fpi.experiment.run import Checkpoint, run_slice
from fpi.experiment.scheduler import RunFailed, slice_length
from fpi.experiment.study import CLAIM_KINDS, Job, probe_episodes
from fpi.report import claims, results

TILES = {"type": "TileCoding", "tiles": 2, "tilings": 4}
CARTPOLE = RunConfig(
    env="CartPole-v1", episodes=120, features=TILES, arguments={"horizon": 40, "epsilon": 1.0, "ridge": 1e-3}
)


def study(*seeds, **settings):
    """A small study: exact freezing and none, or the settings given."""
    settings = settings or {
        freeze: replace(CARTPOLE, arguments={**CARTPOLE.arguments, "freeze": freeze}) for freeze in ("exact", "never")
    }
    named = {f"CartPole-v1--{label}": setting for label, setting in settings.items()}
    return Study(name="small", title="A small study", settings=named, seeds=seeds or (0, 1))


def rows(out):
    """The bytes of all rows, by run."""
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob("runs/*/rows.safetensors"))}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    run_study(study(), out, backend=Local(1, start="fork"))
    return out


# --- the same rows ----------------------------------------------------------------------------------------------------


def test_rows_are_those_of_a_plain_learn(undisturbed):
    settings = study().complete().settings
    for seed in (0, 1):
        agent = settings["CartPole-v1--never"].make_agent()
        history = agent.learn(gym.make("CartPole-v1"), 120, seed=seed)
        found, _ = model_files.read(undisturbed / f"runs/CartPole-v1--never--seed-00{seed}/rows.safetensors")
        for name, column in zip(
            ("return", "length", "stored_stage", "covered_steps"),
            (history.returns, history.lengths, history.stored_stage, history.covered_steps),
            strict=True,
        ):
            np.testing.assert_array_equal(found[name], column)
        assert found["probe.episode"].tolist() == probe_episodes(120)
        assert found["probe.data"].sum(axis=1)[-1] == agent.data_stored
        assert found["probe.data"].shape == (11, 40)


@pytest.mark.process
@pytest.mark.parametrize(
    ("workers", "start", "seconds"), [(3, "fork", 5.0), (2, "spawn", 0.05)], ids=["three forked", "two spawned"]
)
def test_rows_do_not_depend_on_workers_or_slices(undisturbed, tmp_path, workers, start, seconds):
    run_study(study(), tmp_path, backend=Local(workers, start=start), seconds=seconds)
    assert rows(tmp_path) == rows(undisturbed)


@pytest.mark.process
def test_slices_in_other_processes_give_the_same_rows(undisturbed):
    """Every slice restores the run from its state, as another machine would."""
    from fpi.experiment import run

    job = study().complete().jobs("gymnasium")[1]
    assert job.name == "CartPole-v1--never"
    state, slices = None, 0
    while state is None or state.episodes < job.setting.episodes:
        run._held = None
        state = run_slice(job, state, 1e-9)
        slices += 1
        if slices > 20:
            break
    run._held = None
    state = run_slice(job, state, 60)
    found, _ = model_files.read(undisturbed / "runs" / job.id / "rows.safetensors")
    assert all(np.array_equal(state.rows[name], column) for name, column in found.items())
    assert 0 < found["probe.stale"][-1] < 1  # otherwise a log that was lost would not be missed


def test_both_engines_give_the_same_rows(undisturbed, tmp_path):
    run_study(study(0), tmp_path, engine="compiled", backend=Local(1, start="fork"))
    expected = rows(undisturbed)
    assert rows(tmp_path) == {name: expected[name] for name in rows(tmp_path)} and len(rows(tmp_path)) == 2


KILLING = """
import multiprocessing, os, signal, sys
from pathlib import Path
import numpy as np
from test_experiment import run_study, study, Local

chance, kills, finished = np.random.default_rng(0), 0, 0
while kills < 10 or not finished:  # a quick computer may need several folders for ten kills
    out = Path(sys.argv[1], str(finished))
    options = {"backend": Local(2, start="fork"), "seconds": 0.02}
    command = multiprocessing.get_context("fork").Process(target=run_study, args=(study(), out), kwargs=options)
    command.start()
    command.join(chance.uniform(0.02, 0.4) if kills < 10 else None)
    if command.exitcode is None:
        os.kill(command.pid, signal.SIGKILL)
        command.join()
        kills += 1
    else:
        assert command.exitcode == 0
        finished += 1
"""


ABOVE = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
WITH_BENCHMARKS = os.environ | {"PYTHONPATH": os.pathsep.join(ABOVE)}  # which this file imports from


@pytest.mark.process
def test_ten_kills_change_nothing(undisturbed, tmp_path):
    """The process is forked ready to run, so that kills fall into the work and not into imports."""
    command = [sys.executable, "-c", KILLING, tmp_path]
    told = subprocess.run(command, cwd=Path(__file__).parent, env=WITH_BENCHMARKS, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    finished = [out for out in tmp_path.iterdir() if len(rows(out)) == 4]
    assert finished
    for out in finished:
        assert rows(out) == rows(undisturbed)
        assert not list(out.glob("runs/*/checkpoint.fpi"))


@pytest.mark.process
def test_a_kill_takes_the_workers_along(tmp_path):
    script = (
        "import multiprocessing, sys\nfrom contextlib import nullcontext\nfrom test_experiment import *\n"
        "def tell(*_):\n    print(*[each.pid for each in multiprocessing.active_children()], flush=True)\n"
        "long = study(0, exact=replace(CARTPOLE, episodes=10**7))\n"
        "place, watch = Local(1, start='fork'), lambda *_: nullcontext(tell)\n"
        "run_study(long, Path(sys.argv[1]), backend=place, seconds=0.1, progress=watch)\n"
    )
    command = [sys.executable, "-c", script, tmp_path / "out"]
    where = {"cwd": Path(__file__).parent, "env": WITH_BENCHMARKS}
    process = subprocess.Popen(command, **where, stdout=subprocess.PIPE, text=True)
    pids = next(line for line in process.stdout if line.strip()).split()
    process.kill()
    process.communicate(timeout=100)  # ends when nobody holds the other end of its output any more
    assert pids


# --- workers that die, runs that fail ---------------------------------------------------------------------------------


class Deadly(gym.Wrapper):
    """Kills the process that plays it, as often as `lives` says, at the 300th step."""

    def __init__(self, file, lives):
        super().__init__(gym.make("CartPole-v1").unwrapped)
        self.file, self.lives, self.steps = Path(file), lives, 0

    def step(self, action):
        self.steps += 1
        if self.steps == 300 and os.getpid() != int(self.file.with_name("parent").read_text()):
            killed = self.file.stat().st_size if self.file.exists() else 0
            if killed < self.lives:
                self.file.open("a").write("x")
                os.kill(os.getpid(), signal.SIGKILL)
        return self.env.step(action)


gym.register("test/Deadly-v0", Deadly, max_episode_steps=500)


def deadly(storage, lives):
    (storage / "parent").write_text(str(os.getpid()))
    env_args = {"file": str(storage / "kills"), "lives": lives}
    setting = replace(CARTPOLE, env="test/Deadly-v0", env_args=env_args)
    return replace(
        study(
            0, exact=replace(setting, features={**TILES, "low": [-4.8, -10, -0.418, -10], "high": [4.8, 10, 0.418, 10]})
        )
    )


@pytest.mark.process
def test_a_killed_worker_costs_a_retry(undisturbed, tmp_path):
    run_study(deadly(tmp_path, lives=2), tmp_path / "out", backend=Local(1, start="fork"))
    assert (tmp_path / "kills").stat().st_size == 2
    (found,) = rows(tmp_path / "out").values()
    expected = model_files.read(undisturbed / "runs/CartPole-v1--exact--seed-000/rows.safetensors")[0]
    found = model_files.read(next(tmp_path.glob("out/runs/*/rows.safetensors")))[0]
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.process
def test_a_run_that_always_kills_its_worker_is_given_up(tmp_path):
    with pytest.raises(RunFailed, match="seed-000 lost its worker 4 times in a row"):
        run_study(deadly(tmp_path, lives=100), tmp_path / "out", backend=Local(1, start="fork"))


class Noisy(gym.Wrapper):
    """CartPole whose transitions are random."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1").unwrapped)

    def step(self, action):
        self.unwrapped.force_mag = self.unwrapped.np_random.uniform(5, 15)
        return self.env.step(action)


gym.register("test/Noisy-v0", Noisy, max_episode_steps=500)
RANGES = {"low": [-4.8, -10, -0.418, -10], "high": [4.8, 10, 0.418, 10]}


def test_warnings_of_a_run_stand_in_its_manifest(tmp_path):
    noisy = replace(CARTPOLE, env="test/Noisy-v0", episodes=20, features={**TILES, **RANGES})
    run_study(study(0, only=noisy), tmp_path, backend=Local(1, start="fork"))
    (manifest,) = (json.loads(path.read_text()) for path in tmp_path.glob("runs/*/manifest.json"))
    assert "diverged" in manifest["warnings"][0]


def test_an_error_of_the_environment_arrives_as_it_is(tmp_path):
    rude = replace(CARTPOLE, arguments={**CARTPOLE.arguments, "reward_range": (0, 0.5)})
    with pytest.raises(fpi.errors.EnvironmentMismatch, match=r"reward_range=\(0.0, 0.5\)"):
        run_study(study(0, only=rude), tmp_path, backend=Local(1, start="fork"))


# --- the folder -------------------------------------------------------------------------------------------------------


def test_a_run_tells_where_it_comes_from(undisturbed):
    manifest = json.loads((undisturbed / "runs/CartPole-v1--exact--seed-001/manifest.json").read_text())
    assert (manifest["id"], manifest["seed"], manifest["engine"]) == ("CartPole-v1--exact--seed-001", 1, "gymnasium")
    assert manifest["setting"]["features"]["low"] == [-4.8, -10, -0.418, -10]
    assert manifest["versions"]["fpi"] == fpi.__version__ and manifest["versions"]["gymnasium"] == gym.__version__
    found, _ = model_files.read(undisturbed / "runs/CartPole-v1--exact--seed-001/rows.safetensors")
    assert manifest["steps"] == found["length"].sum() and manifest["seconds"] > 0
    assert manifest["started"] <= manifest["finished"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(fpi.__file__).parent, capture_output=True, text=True)
    assert manifest["revision"] is None or manifest["revision"].removesuffix("-dirty") == head.stdout.strip()


def test_the_model_of_the_first_seed_is_kept(undisturbed):
    models = sorted(path.parent.name for path in undisturbed.glob("runs/*/model.fpi"))
    assert models == ["CartPole-v1--exact--seed-000", "CartPole-v1--never--seed-000"]
    agent = fpi.load(undisturbed / "runs" / models[0] / "model.fpi")
    assert isinstance(agent, PAC) and agent.episodes == 120


def test_more_seeds_keep_the_runs_that_are_there(undisturbed, tmp_path):
    run_study(study(0), tmp_path, backend=Local(1, start="fork"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*")}
    begun = []

    def watch(jobs, kept):
        from contextlib import nullcontext

        begun.append(([job.id for job in jobs], kept))
        return nullcontext(lambda *_: None)

    run_study(study(), tmp_path, backend=Local(1, start="fork"), progress=watch)
    assert begun == [(["CartPole-v1--exact--seed-001", "CartPole-v1--never--seed-001"], 2)]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert rows(tmp_path) == rows(undisturbed)
    run_study(study(), tmp_path, progress=watch)  # nothing is left to do
    assert len(begun) == 1


def test_stopping_keeps_what_was_played(undisturbed, tmp_path):
    asked = iter([False] * 4 + [True] * 100)
    run_study(study(), tmp_path, backend=Local(1, start="fork"), seconds=1e-9, stop=lambda: next(asked))
    assert list(tmp_path.glob("runs/*/checkpoint.fpi")) and len(rows(tmp_path)) < 4
    run_study(study(), tmp_path, backend=Local(1, start="fork"))
    assert rows(tmp_path) == rows(undisturbed)


def test_another_setting_does_not_mix_with_what_is_there(tmp_path):
    run_study(study(0, exact=replace(CARTPOLE, episodes=5)), tmp_path, backend=Local(1, start="fork"))
    before = rows(tmp_path)
    with pytest.raises(InputError, match="another setting: episodes: 5 there, 6 here. Choose another folder"):
        run_study(study(0, exact=replace(CARTPOLE, episodes=6)), tmp_path)
    with pytest.raises(InputError, match="another engine: 'gymnasium' there, 'compiled' here"):
        run_study(study(0, exact=replace(CARTPOLE, episodes=5)), tmp_path, engine="compiled")
    assert rows(tmp_path) == before


@pytest.mark.process
def test_one_command_at_a_time(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", "import sys\nfrom pathlib import Path\nfrom fpi.experiment.storage import locked\n"
         "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()", tmp_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another command is at work"):
            run_study(study(0), tmp_path)
        holder.kill()
    run_study(study(0, only=replace(CARTPOLE, episodes=2)), tmp_path, backend=Local(1, start="fork"))
    assert len(rows(tmp_path)) == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="Choose another folder"):
        run_study(study(0), tmp_path / "file" / "out")


def test_damaged_files_are_named(tmp_path):
    small = study(0, only=replace(CARTPOLE, episodes=2))
    run_study(small, tmp_path, backend=Local(1, start="fork"))
    path = next(tmp_path.glob("runs/*/rows.safetensors"))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DamagedResults, match=r"rows.safetensors is damaged.*Delete the folder .*seed-000 and"):
        results.read(tmp_path)
    whole = rows_of_one(small, tmp_path / "other")
    path.unlink()
    run_study(small, tmp_path, backend=Local(1, start="fork"))  # a run without its rows is played again
    assert path.read_bytes() == whole
    for content in ("{", "[]"):
        path.with_name("manifest.json").write_text(content)
        with pytest.raises(DamagedResults, match="manifest.json is damaged"):
            run_study(small, tmp_path)


def test_long_runs_are_kept_less_often():
    def after(seconds):
        return Checkpoint({}, {"seconds": seconds})

    lengths = [slice_length(after(seconds), 2.0, 2.0) for seconds in (0, 99, 150, 1_000, 86_400)]
    assert lengths == [2.0, 2.0, 3.0, 20.0, 60.0] and slice_length(None, 2.0, 2.0) == 2.0
    assert slice_length(after(100), 2.0, 2.0, writing=30_000) == 100  # it slept


@pytest.mark.parametrize("speed", [1e-6, 1e-4, 1e-2])
def test_in_a_day_checkpoints_take_a_fiftieth_of_the_time_however_large_they_grow(speed):
    """Every second of play adds to what a checkpoint takes to write."""
    played = written = writing = 0.0
    while played < 86_400:
        played += slice_length(Checkpoint({}, {"seconds": played}), 2.0, 2.0, writing)
        writing = speed * played
        written += writing
    assert written <= 2 * played / 50


def test_a_clock_set_back_and_a_computer_that_slept_change_nothing(undisturbed, monkeypatch, tmp_path):
    ticks = itertools.count()
    clock = lambda: next(ticks) * 0.01 + 30_000 * (next(ticks) > 30)  # noqa: E731  # eight hours at once
    monkeypatch.setattr(run_module.time, "perf_counter", clock)
    years = iter(range(2030, 1970, -1))
    monkeypatch.setattr(storage, "_now", lambda: f"{next(years)}-01-01T00:00:00+00:00")
    run_study(study(), tmp_path, backend=Here())
    assert rows(tmp_path) == rows(undisturbed)
    assert len(list(results.read(tmp_path).runs)) == 4


def rows_of_one(small, out):
    run_study(small, out, backend=Local(1, start="fork"))
    return next(out.glob("runs/*/rows.safetensors")).read_bytes()


def test_a_folder_belongs_to_one_study(tmp_path):
    small = study(0, only=replace(CARTPOLE, episodes=2))
    run_study(small, tmp_path, backend=Local(1, start="fork"))
    with pytest.raises(InputError, match=f"holds the study {small.name}, and this is another"):
        run_study(replace(small, name="another"), tmp_path)


def test_a_run_of_which_nothing_was_kept_may_be_changed(tmp_path):
    wrong = study(0, only=replace(CARTPOLE, episodes=2, arguments={**CARTPOLE.arguments, "reward_range": [0.0, 0.5]}))
    with pytest.raises(fpi.errors.EnvironmentMismatch, match="CartPole-v1--only--seed-000: in episode 1"):
        run_study(wrong, tmp_path, backend=Local(1, start="fork"))
    run_study(study(0, only=replace(CARTPOLE, episodes=2)), tmp_path, backend=Local(1, start="fork"))


@pytest.mark.process
def test_a_worker_that_dies_between_two_slices_costs_a_retry(monkeypatch, tmp_path):
    killed = []
    keep = storage.RunFolder.keep

    def keep_and_kill(self, state):
        keep(self, state)
        if not killed:
            for child in multiprocessing.active_children():
                killed.append(child.pid)
                child.kill()
                child.join()
            time.sleep(0.2)  # until the pool has seen it

    monkeypatch.setattr(storage.RunFolder, "keep", keep_and_kill)
    short = study(0, only=replace(CARTPOLE, episodes=40))
    run_study(short, tmp_path / "killed", backend=Local(1, start="fork"), seconds=1e-9)
    monkeypatch.undo()
    assert killed
    found = next((tmp_path / "killed").glob("runs/*/rows.safetensors")).read_bytes()
    assert found == rows_of_one(short, tmp_path / "whole")


class Odd(Exception):
    """Two arguments: it cannot come back from another process."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Broken(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1").unwrapped)

    def step(self, action):
        raise Odd("ice", "fire")


gym.register("test/Broken-v0", Broken, max_episode_steps=500)


def test_errors_of_an_environment_name_run_and_place(tmp_path):
    setting = replace(
        CARTPOLE,
        env="test/Broken-v0",
        features={**TILES, "low": [-4.8, -10, -0.418, -10], "high": [4.8, 10, 0.418, 10]},
    )
    with pytest.raises(RunFailed, match=r"seed-000 failed in .*test_experiment.py, line \d+: Odd: ice and fire"):
        run_study(study(0, only=setting), tmp_path, backend=Local(1, start="fork"))


def test_agents_that_compiled_code_does_not_know_are_refused_before_anything_is_written(tmp_path):
    dense = replace(CARTPOLE, features={"type": "Fourier", "order": 1}, arguments={"horizon": 20})
    with pytest.raises(InputError, match="compiled episodes know fpi.PAC"):
        run_study(study(0, only=dense), tmp_path / "out", engine="compiled")
    assert not (tmp_path / "out").exists()


@pytest.mark.process
def test_a_compiled_environment_of_your_own_is_found_through_its_module(monkeypatch, tmp_path):
    """Worker processes import the module themselves."""
    (tmp_path / "my_cart.py").write_text(
        "import gymnasium as gym\n"
        "from dataclasses import replace\n"
        "from fpi import compiled\n"
        "gym.register('MyCart-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv', max_episode_steps=500)\n"
        "compiled.register(replace(compiled.get('CartPole-v1'), name='MyCart-v0'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ranges = {"low": [-4.8, -10, -0.418, -10], "high": [4.8, 10, 0.418, 10]}
    own = replace(CARTPOLE, env="my_cart:MyCart-v0", features={**TILES, **ranges}, episodes=20)
    run_study(study(0, only=own), tmp_path / "own", engine="compiled", backend=Local(1))
    expected = study(0, only=replace(own, env="CartPole-v1"))
    assert list(rows(tmp_path / "own").values()) == [rows_of_one(expected, tmp_path / "known")]


def test_claims_of_an_unknown_kind_are_refused_at_once(tmp_path):
    with pytest.raises(InputError, match="no claims of the kind 'below'; choose one of above"):
        run_study(replace(study(0, only=CARTPOLE), claims=(Claim("x", "below", {}),)), tmp_path / "out")


def test_levels_are_judged_only_where_they_can_be_told():
    def judged(returns, **changes):
        found = {"x": measured(np.repeat(np.array(returns, float)[:, None], 100, axis=1))}
        claim = Claim("", "level", {"setting": "x", "low": 190.0, "high": 210.0, "episodes": 100} | changes)
        return claims.judge(claim, found)["verdict"]

    assert judged([199, 200, 201]) == "holds"
    assert judged([299, 300, 301]) == "contradicted"
    assert judged([100, 200, 300]) == "not shown: CI too wide"
    assert judged([199, 200, 201], episodes=50) == "not shown: other length"


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings_are_filled_in_from_the_environment():
    lake = RunConfig(env="FrozenLake-v1", env_args={"is_slippery": False}, episodes=3, features={"type": "OneHot"},
                   arguments={"epsilon": 1.0, "ridge": 1.0}).complete()  # fmt: skip
    assert lake.features == {"type": "OneHot", "states": 16, "actions": 4} and lake.arguments["horizon"] == 100
    grid = RunConfig(env="Pendulum-v1", action_grid=3, episodes=3, features={"type": "Fourier", "order": 1},
                   arguments={"epsilon": 1.0, "ridge": 1.0, "reward_range": [-20, 0]}).complete()  # fmt: skip
    assert grid.action_grid == [[-2.0], [0.0], [2.0]] and grid.features["high"] == [1.0, 1.0, 8.0]
    assert RunConfig.from_data(json.loads(json.dumps(grid.to_data()))).complete() == grid


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(env="CartPole-v1", episodes=3),
        RunConfig(env="FrozenLake-v1", env_args={"is_slippery": False}, episodes=3, algorithm="Regret"),
        RunConfig(env="CartPole-v1", episodes=3, features={"type": "RBF", "centers": 2}, arguments={"horizon": 9}),
        RunConfig(env="fpi/TableBandit-v0", episodes=8, algorithm="Eluder"),
        RunConfig(env="fpi/TableBandit-v0", episodes=8, algorithm="Eluder", features={"tiles": 2, "tilings": 1},
                  function_class={"type": "LinearBall"}),
    ],
    ids=["tiles", "onehot", "rbf", "candidates", "ball"],
)  # fmt: skip
def test_a_description_makes_the_same_run_after_a_trip_through_json(config):
    """What is left out the environment decides."""
    whole = RunConfig.from_data(json.loads(json.dumps(config.complete().to_data())))
    assert whole.complete() == whole
    first, again = whole.make_agent(), whole.make_agent()
    histories = [agent.learn(whole.make_env(), whole.episodes, seed=1) for agent in (first, again)]
    assert np.array_equal(histories[0].returns, histories[1].returns)
    assert first.settings.actions == first.features.actions


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"env": "CartPole-v9"}, "setting CartPole-v1--bad: .*CartPole-v9"),
        ({"arguments": {"epsilon": 1.0, "ridge": 1e-3, "frieze": "exact"}}, "PAC has no setting frieze. .*freeze"),
        ({"arguments": {"actions": 3}}, "the environment has 2 actions, the agent 3"),
        ({"arguments": {"explore": "well"}}, "explore is 'well'; choose one of first, widest, greedy, random"),
        ({"function_class": {"type": "LinearBall"}}, "PAC learns with features"),
        ({"algorithm": "Eluder", "function_class": {"type": "Ball"}}, "choose one of candidates, LinearBall"),
        (
            {"algorithm": "Eluder", "function_class": {"type": "candidates"}, "arguments": {}},
            "has no list of candidate",
        ),
        ({"arguments": {"epsilon": -1.0, "ridge": 1.0}}, "epsilon is -1.0"),
        ({"arguments": {"epsilon": 1.0, "ridge": 1.0, "horizon": 900}}, "longer than the environment's time limit"),
        ({"features": {"type": "Tiles"}}, "feature map type 'Tiles' is unknown"),
        ({"features": {"type": "TileCoding", "tilngs": 2}}, "does not fit this version: .*tilngs"),
        ({"features": {**TILES, "actions": 3}}, "the environment has 2 actions"),
        ({"features": {**TILES, "low": [0], "high": [1]}}, "observation"),
        ({"env": "Pendulum-v1"}, "continuous|plays numbered actions|Box"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_do_not_fit_are_refused_before_anything_runs(tmp_path, changes, what):
    with pytest.raises(fpi.errors.FpiError, match=what):
        run_study(study(0, bad=replace(CARTPOLE, **changes)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_engine_that_cannot_serve_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no engine 'warp'"):
        run_study(study(0), tmp_path, engine="warp")
    longer = replace(CARTPOLE, env_args={"max_episode_steps": 600})
    with pytest.raises(InputError, match="no compiled environment"):
        run_study(study(0, longer=longer), tmp_path, engine="compiled")


# --- claims -----------------------------------------------------------------------------------------------------------


def measured(returns, stale=None):
    """A setting whose runs, one per row, have these returns and shares of stale data."""
    rows = [{"return": np.asarray(row, float)} for row in returns]
    if stale is not None:
        rows = [row | {"probe.stale": shares} for row, shares in zip(rows, stale, strict=True)]
    return results.Setting("a", {}, [results.Run(seed, {}, row) for seed, row in enumerate(rows)])


def test_the_headline_is_the_mean_of_the_last_tenth():
    one = measured([np.repeat(np.arange(11), 10), np.repeat(np.arange(11), 10) + 1])
    np.testing.assert_array_equal(one.headline, [(10 * 10 + 9) / 11, (10 * 10 + 9) / 11 + 1])
    assert measured([[3.0]]).headline.tolist() == [3.0]  # a run of one episode


def test_every_kind_of_claim_has_a_judge():
    assert tuple(claims.JUDGES) == CLAIM_KINDS


NOISE = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])


@pytest.mark.parametrize(
    ("kind", "first", "second", "verdict"),
    [
        ("above", NOISE + 9, NOISE, "holds"),
        ("above", NOISE, NOISE + 9, "contradicted"),
        ("above", NOISE, NOISE[::-1], "not shown: CI includes 0"),
        ("above", NOISE[:1] + 9, NOISE[:1], "not shown: one seed"),
        ("equal", NOISE, NOISE, "holds"),
        ("equal", NOISE, NOISE[::-1], "contradicted"),
    ],
)
def test_verdicts_on_two_settings(kind, first, second, verdict):
    claim = Claim("it is so", kind, {"first": "a", "second": "b"})
    found = claims.judge(claim, {"a": measured(first), "b": measured(second)})
    assert (found["text"], found["verdict"]) == ("it is so", verdict)


@pytest.mark.parametrize(
    ("kind", "low", "high", "verdict"),
    [
        ("level", 3, 9, "holds"),
        ("level", 4.5, 9, "contradicted"),  # the interval of 0, 1, 2, 3, 4 ends at 3.96
        ("level", 3.9, 9, "holds"),
        ("stale", 0.1, 0.4, "holds"),
        ("stale", 0.0, 0.0, "contradicted"),
    ],
)
def test_verdicts_on_one_setting(kind, low, high, verdict):
    claim = Claim(
        "it is so", kind, {"setting": "a", "low": low, "high": high} | ({"episodes": 1} if kind == "level" else {})
    )
    stale = np.linspace(0.2, 0.3, 5)[:, np.newaxis] * [0, 1]
    assert claims.judge(claim, {"a": measured(NOISE, stale)})["verdict"] == verdict
    if kind == "stale":
        assert (
            claims.judge(claim, {"a": measured(NOISE, stale)})["detail"] == "20.0% to 30.0% stale at the end, 5 seeds"
        )
        none = claims.judge(claim, {"a": measured(NOISE, 0 * stale)})
        assert none["detail"] == "0.0% stale at the end, 5 seeds"
        assert claims.judge(claim, {"a": measured(NOISE)})["verdict"] == "not shown: not measured"
    else:
        assert claims.judge(claim, {"a": measured(NOISE[:1])})["verdict"] == "not shown: one seed"


def test_the_diamond_is_realizable_and_not_complete():
    verdicts = {
        kind: claims.judge(Claim("", kind, {"testbed": name}), {})["verdict"]
        for kind, name in (("realizable", "Diamond"), ("incomplete", "Diamond"))
    }
    assert verdicts == {"realizable": "holds", "incomplete": "holds"}
    bandit = Claim("", "incomplete", {"testbed": "LinBandit", "d": 3, "K": 4})
    assert claims.judge(bandit, {})["verdict"] == "contradicted"  # one stage: nothing to back up


def test_a_summary_is_plain_data(undisturbed):
    whole = study().complete()
    claim = Claim("exact above", "above", {"first": "CartPole-v1--exact", "second": "CartPole-v1--never"})
    whole = replace(whole, claims=(claim,))
    summary = claims.summarise(whole, results.read(undisturbed))
    assert json.loads(json.dumps(summary)) == summary
    exact = summary["settings"]["CartPole-v1--exact"]
    assert all(
        each["low"] <= each["estimate"] <= each["high"] for each in (exact["last"]["mean"], exact["last"]["iqm"])
    )
    assert exact["stale"] == 0.0 and len(exact["last"]["per_seed"]) == 2


@pytest.mark.parametrize(
    ("seeds", "episodes", "judged"), [(5, 100, ["any", "five"]), (5, 99, ["any"]), (4, 100, ["any"])]
)
def test_claims_are_judged_only_with_the_seeds_and_episodes_that_can_tell(seeds, episodes, judged):
    both = {"first": "CartPole-v1--exact", "second": "CartPole-v1--never"}
    made = (Claim("any", "above", both), Claim("five", "above", both, seeds=5, episodes=100, question="whether"))
    whole = replace(study(*range(seeds)), claims=made).resized(None, episodes)
    settings = [replace(measured(np.ones((seeds, episodes))), name=name) for name in whole.settings]
    found = results.Results(Path(), whole.to_data(), {}, settings)
    assert [claim["text"] for claim in claims.summarise(whole, found)["claims"]] == judged
    settings[0].runs.pop()
    with pytest.raises(InputError, match=f"1 of {2 * seeds} runs are not finished"):
        claims.summarise(whole, found)


def test_ids_are_readable():
    assert Job("CartPole-v1--exact", CARTPOLE, 3, "compiled").id == "CartPole-v1--exact--seed-003"
