"""A small size of every part of `python -m benchmarks faults`, which can fail."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import fpi
from benchmarks.faults import campaign, files, folders, inputs, interrupts, kills, long_runs
from fpi import _files, model_files
from fpi.cli import training_run
from fpi.errors import DamagedResults, EnvironmentMismatch, InputError, SaveError
from fpi.experiment import run_study
from fpi.training import TrainingState


def all_held(outcomes):
    for outcome in outcomes:
        assert outcome.tried and outcome.troubles == [], outcome.what
    return True


@pytest.fixture(autouse=True)
def at_home(monkeypatch):
    """Processes find `benchmarks` from the root of the repository."""
    monkeypatch.chdir(Path(__file__).parents[1])


@pytest.mark.process
@pytest.mark.parametrize("name", ["PAC, tiles, compiled", "Regret, tiles, gymnasium"])
def test_ctrl_c_from_another_process(name):
    sent, troubles = interrupts.press(name, 8, "", lambda: 2e-3)
    assert sent >= 8 and troubles == []


@pytest.mark.process
def test_ctrl_c_twice_ends_in_order():
    assert interrupts.twice() is None


@pytest.mark.process
def test_kills():
    assert all_held(kills.run(3, 0, ["PAC, tiles, engine=compiled", "Regret, tiles, gymnasium", "ModelFPI, a table"]))


def test_full_disks():
    assert all_held([kills.full(12)])


@pytest.mark.slow
def test_files():
    assert all_held(files.run(300, 60))


@pytest.mark.slow
def test_folders_and_links():
    assert all_held(folders.run(24, 2 * len(folders.LINKED)))


@pytest.mark.slow
def test_inputs():
    assert all_held(list(inputs.run(250, 0))[:2])


def test_long_runs():
    assert all_held(long_runs.run(300, 2_000))


def test_long_runs_see_widths_that_drift(monkeypatch):
    monkeypatch.setattr(long_runs, "solve_triangular", lambda *given, **how: 1.0001 * solve_triangular(*given, **how))
    assert len(long_runs.regressions(300).troubles) == 6


@pytest.mark.process
def test_command_lines():
    assert all_held(list(inputs.run(1, 3))[2:])


def test_the_command_has_every_size_as_an_option(capsys):
    assert campaign.DEFAULTS.keys() == campaign.FULL.keys()
    assert all(campaign.FULL[name] >= size for name, size in campaign.DEFAULTS.items())
    with pytest.raises(SystemExit):
        campaign.main(["--help"])
    told = capsys.readouterr().out
    assert all(f"--{name} " in told for name in campaign.DEFAULTS)


def test_trouble_is_told(monkeypatch, capsys):
    monkeypatch.setattr(model_files, "_digest", lambda chunks: "0" * 64)  # then every digest fits
    assert campaign.main(["files", "--damaged-files", "400", "--lying-files", "0"]) == 1
    assert "did not hold" in capsys.readouterr().out


ODD_ANSWERS = [
    ({"terminated": "no"}, "terminated is 'no'; let the environment return True or False"),
    ({"terminated": np.zeros(2)}, "step of the environment gave"),
    ({"reward": 10**400}, "the reward at step 1 is 10000.*, which is not a number"),
    ({"step": (np.zeros(2), 0.5, False, {})}, "step of the environment gave .* and not .observation, reward, term"),
    ({"reset": np.zeros(2)}, "reset of the environment gave .* and not a pair"),
    ({"observation": np.zeros(0)}, "0 entries, the features are for 2"),
    ({"start": []}, "0 entries, the features are for 2"),
    ({"start": [[1.0], [1.0, 2.0]]}, "not a regular array"),
]


@pytest.mark.parametrize(("answers", "says"), ODD_ANSWERS, ids=[says for _, says in ODD_ANSWERS])
def test_environments_of_a_wrong_form_are_named_and_teach_nothing(answers, says):
    agent = fpi.PAC(inputs._tiles(), actions=2, horizon=3)
    with pytest.raises(EnvironmentMismatch, match=says):
        agent.learn(inputs.Odd(**answers), 3, seed=0)
    assert agent.training_state == TrainingState() and agent.data_stored == 0


def test_a_callback_that_is_no_function_is_named():
    for wrong, says in (
        ("print", "callback is 'print'; pass a function"),
        ([print], "For several, pass one that calls"),
    ):
        with pytest.raises(InputError, match=says):
            fpi.PAC(inputs._tiles(), actions=2, horizon=3).learn(inputs.Odd(), 3, callback=wrong)


# --- files of strangers -----------------------------------------------------------------------------------------------


@pytest.fixture
def study_folder(tmp_path):
    run_study(folders.STUDY, tmp_path / "out", backend=folders.Here())
    return tmp_path / "out"


@pytest.mark.parametrize("name", [".lock", "runs", "runs/CartPole-v1--only--seed-000/model.fpi"])
def test_links_are_refused_by_name(study_folder, tmp_path, name):
    (tmp_path / "victim").write_text("dear")
    link = study_folder / name
    if link.is_dir():
        link.rename(tmp_path / "moved")
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / ("moved" if name == "runs" else "victim"))
    with pytest.raises(DamagedResults, match=rf"{name} is damaged: it is a symbolic link.*Delete the link"):
        run_study(folders.STUDY, study_folder, backend=folders.Here())
    assert (tmp_path / "victim").read_text() == "dear"


def test_a_checkpoint_of_another_agent_is_named(tmp_path):
    asked = iter([False] * 3 + [True] * 100)
    run_study(folders.STUDY, tmp_path, backend=folders.Here(), seconds=1e-9, stop=lambda: next(asked))
    path = next(tmp_path.glob("runs/*/checkpoint.fpi"))
    tensors, meta = model_files.read(path)
    agent = path.with_name("agent.fpi")
    agent.write_bytes(tensors["agent"].tobytes())
    told = model_files.read(agent)
    told[1]["trail"]["episodes"] += 1
    model_files.write(agent, *told)
    model_files.write(path, {**tensors, "agent": _bytes(agent)}, meta)
    agent.unlink()
    with pytest.raises(DamagedResults, match="seed-000: checkpoint.fpi is damaged: its agent is another"):
        run_study(folders.STUDY, tmp_path, backend=folders.Here())


def _bytes(path):
    return np.frombuffer(path.read_bytes(), np.uint8)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[" * 100_000, "nested too deep"),
        (b'{"a": ' * 40 + b"1" + b"}" * 40, "nested too deep"),
        (b'{"name": "\\ud800"}', "surrogates"),
        (b'{"name": 1}', "it has no title"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_nobody_wrote_is_named(study_folder, content, says):
    (study_folder / "study.json").write_bytes(content)
    with pytest.raises(DamagedResults, match=f"study.json is damaged: .*{says}.*Nothing was changed. Delete that file"):
        run_study(folders.STUDY, study_folder, backend=folders.Here())


def test_a_large_file_is_refused_before_it_is_read(study_folder, monkeypatch):
    monkeypatch.setattr(_files, "MOST_JSON", 10)
    with pytest.raises(DamagedResults, match="at most 10 are read"):
        run_study(folders.STUDY, study_folder, backend=folders.Here())


def test_a_pipe_is_not_waited_for(study_folder):
    (study_folder / "study.json").unlink()
    os.mkfifo(study_folder / "study.json")
    with pytest.raises(DamagedResults, match="a folder, pipe or device"):
        run_study(folders.STUDY, study_folder, backend=folders.Here())


@pytest.mark.parametrize("path", [None, b"x", "", "a\0b", "x" * 5000, "\ud800", 3])
def test_what_is_no_path_is_named(path):
    with pytest.raises(InputError, match="the path"):
        model_files.write(path, {}, {})
    with pytest.raises(InputError, match="the path"):
        model_files.read(path)


# --- one command, one file --------------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_lock_is_seen_by_others_and_left_by_the_killed(tmp_path):
    path = tmp_path / "model.fpi"
    script = (
        "import sys\nfrom pathlib import Path\nfrom fpi.cli.training_run import locked\n"
        "with locked(Path(sys.argv[1]), None) as killed: print(killed, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(path)]
    for expected in ("False", "True"):
        holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline().strip() == expected
        with pytest.raises(InputError, match="another `fpi train` is at work on"), training_run.locked(path, None):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with training_run.locked(path, None) as killed:
        assert killed
    assert list(tmp_path.iterdir()) == []
    with training_run.locked(path, tmp_path / "log") as killed:
        assert not killed


def test_a_lock_empties_nothing(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / ".lock"
    victim.write_text("dear")
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"), _files.locked(link, "busy"):
        pass
    link.unlink()
    os.link(victim, link)
    with _files.locked(link, "busy"):
        pass
    assert victim.read_text() == "dear"


def test_a_lock_that_cannot_be_had_is_named(tmp_path):
    path = tmp_path / "model.fpi"
    _files.lock_of(path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SaveError, match=r"The lock of .*model.fpi: it is a symbolic link"), training_run.locked(path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_manifest_says_what_is_missing(study_folder):
    path = study_folder / "runs/CartPole-v1--only--seed-001/manifest.json"
    content = json.loads(path.read_text())
    del content["steps"]
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedResults, match="it has no steps.*only this run is played anew"):
        run_study(folders.STUDY, study_folder, backend=folders.Here())
