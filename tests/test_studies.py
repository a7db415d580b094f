"""The paper's studies, studies of your own, and the command `fpi reproduce`."""

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fpi import studies
from fpi.cli import app, console, study_report
from fpi.cli.study_run import live_table
from fpi.errors import InputError
from fpi.experiment import RunConfig
from fpi.experiment.run import Checkpoint
from fpi.report.claims import JUDGES

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/study.toml"


def fpi(*words):
    """The command, without GIFs (test_page draws them)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_report, "_draw_policies", lambda *_: [])
        patch.setenv("COLUMNS", "200")
        return CliRunner().invoke(app, ["reproduce", *map(str, words)])


# --- the paper's studies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", studies.SIZES)
@pytest.mark.parametrize("name", studies.NAMED)
def test_claims_are_about_settings_that_exist(name, size):
    study = studies.NAMED[name](size)
    assert (study.name, study.size) == (name, size) and bool(study.claims) == (name != "domains")
    for claim in study.claims:
        assert claim.kind in JUDGES
        about = {value for key, value in claim.arguments.items() if key in ("first", "second", "setting")}
        assert about <= set(study.settings)
    assert json.loads(json.dumps(study.to_data()))["seeds"] == list(study.seeds)


@pytest.mark.parametrize("name", ["figure2", "figure2-paper", "freezing"])
def test_settings_fit_their_environments(name):
    study = studies.NAMED[name]("default").complete()
    assert {setting.features["actions"] for setting in study.settings.values()} <= {2, 4}


def test_figure_2_is_the_setting_that_shows_the_effect():
    study = studies.figure2("full").complete()
    assert len(study.seeds) == 20 and len(study.settings) == 6
    cart = study.settings["CartPole-v1--exact"]
    assert cart.make_agent().features.dim == 5_000 and cart.episodes == 55_000
    known = {"epsilon": 1.0, "ridge": 1e-3, "explore": "random", "freeze": "exact", "horizon": 500, "actions": 2}
    assert cart.arguments == known
    pole = study.settings["InvertedPendulum-v4--last-20"]
    assert pole.arguments["freeze"] == 20 and pole.arguments["horizon"] == 60
    assert pole.action_grid == [[-3.0], [-1.0], [1.0], [3.0]]
    paper = studies.figure2_paper("default").settings["InvertedPendulum-v4--never"]
    assert paper.features["tilings"] == 2 and replace(paper, features=pole.features) == replace(
        studies.figure2("default").settings["InvertedPendulum-v4--never"], features=pole.features
    )


def kinds_judged(study):
    return {(claim.kind, claim.arguments.get("second", "").rpartition("--")[2]) for claim in study.judged}


def test_every_size_of_figure_2_judges_what_it_can_tell():
    stale, against_none, all_of_it = {("stale", "")}, {("above", "never")}, {("above", "last-20"), ("level", "")}
    quick, default, full = map(studies.figure2, studies.SIZES)
    assert kinds_judged(quick) == stale
    assert kinds_judged(default) == stale | against_none
    assert kinds_judged(full) == stale | against_none | all_of_it
    assert (len(default.seeds), default.episodes) == (5, 55_000)
    assert kinds_judged(default.resized(20, None)) == kinds_judged(full)  # the seeds decide, not the name of the size
    assert kinds_judged(full.resized(None, 54_999)) == stale


@pytest.mark.parametrize("name", studies.NAMED)
def test_the_full_size_judges_every_claim(name):
    full = studies.NAMED[name]("full")
    assert full.judged == full.claims
    assert all(claim.question.startswith("whether ") for claim in full.claims if claim.seeds)
    assert {studies.smallest_size(name, claim) for claim in full.judged} <= set(studies.SIZES)


# --- the command ------------------------------------------------------------------------------------------------------


def test_figure_1(tmp_path):
    told = fpi("figure1", "--quick", "--out", tmp_path)
    assert told.exit_code == 0, told.output
    assert told.stdout.count("holds") == 2 and "not Bellman complete" in " ".join(told.stdout.split())
    assert json.loads((tmp_path / "summary.json").read_text())["claims"][0]["verdict"] == "holds"


@pytest.fixture(scope="module")
def figure_2(tmp_path_factory):
    out = tmp_path_factory.mktemp("figure2")
    words = ["--quick", "--engine", "compiled", "--episodes", "30", "--seeds", "2", "--workers", "2", "--out", out]
    return out, fpi("figure2", *words)


@pytest.mark.slow
def test_figure_2_small(figure_2):
    out, told = figure_2
    assert told.exit_code == 0, told.output
    text = " ".join(told.stdout.split())
    assert "12 runs, 6 settings × 2 seeds, with the compiled engine" in text
    assert "Claim by claim" in text and "Steps per second and core" in text
    claims = text.partition("Claim by claim")[2]
    assert claims.count("holds") == claims.count("no stored return is stale") == 2  # the others take more seeds
    assert "above 0" not in claims and "below 0" not in claims
    open_still = "2 seeds of 30 episodes cannot tell whether exact freezing earns more than none"
    assert open_still in claims and open_still in json.loads((out / "summary.json").read_text())["left_open"]
    assert "better" not in text
    speeds = json.loads((out / "summary.json").read_text())["speed"]
    assert list(speeds) == ["CartPole-v1, compiled engine", "InvertedPendulum-v4, compiled engine"]
    assert all(name in text and f"{speed:,.0f}" in text and speed > 0 for name, speed in speeds.items())
    assert all(
        (out / name).exists() for name in ("study.json", "summary.json", "figure.png", "figure.pdf", "page.html")
    )
    study = json.loads((out / "study.json").read_text())
    assert study["command"].startswith("fpi reproduce figure2 --quick") and "--engine compiled" in study["command"]
    assert len(list(out.glob("runs/*/rows.safetensors"))) == 12
    assert not told.stderr  # no live table without a terminal


MORE = "whether exact freezing earns more than"
FIVE, TWENTY = "fpi reproduce figure2 --engine compiled", "fpi reproduce figure2 --full --engine compiled"
OPEN = {
    "--quick": f"3 seeds of 30,000 episodes cannot tell {MORE} none: `{FIVE}` can; nor {MORE} keeping the last 20 or "
    f"whether the mean returns are as expected: `{TWENTY}` can.",
    "": f"5 seeds of 55,000 episodes cannot tell {MORE} keeping the last 20 or whether the mean returns are as "
    f"expected: `{TWENTY}` can.",
    "--seeds 1": f"1 seed of 55,000 episodes cannot tell {MORE} none: `{FIVE}` can; nor {MORE}",
}


@pytest.mark.parametrize("size", OPEN)
def test_what_a_size_cannot_tell_is_said_before_anything_runs(size, monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise InputError("nothing is run here")

    monkeypatch.setattr("fpi.experiment.run_study", refuse)
    told = fpi("figure2", *size.split(), "--engine", "compiled", "--out", tmp_path)
    title, about, left_open, runs = told.stdout.splitlines()
    assert title == "Figure 2: what freezing does" and all(f"`{label}`" in about for label in studies.FREEZING)
    assert left_open.startswith(OPEN[size])
    seeds = "1 seed" if size == "--seeds 1" else r"\d seeds"
    assert re.fullmatch(rf"\d+ runs, 6 settings × {seeds}, with the compiled engine, into {tmp_path}\.", runs)
    assert "nothing is run here" in told.stderr


def test_the_full_size_leaves_nothing_open(monkeypatch, tmp_path):
    monkeypatch.setattr("fpi.experiment.run_study", lambda *_, **__: sys.exit(3))
    assert "cannot tell" not in fpi("figure2", "--full", "--out", tmp_path).stdout


@pytest.mark.slow
def test_the_same_command_again_has_nothing_to_do(figure_2):
    out, first = figure_2
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*")}
    again = fpi("figure2", "--quick", "--engine", "compiled", "--episodes", 30, "--seeds", 2, "--out", out)
    assert again.exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*")} == before
    claims = [text[text.index("Claim by claim") :] for text in (first.stdout, again.stdout)]
    assert claims[0] == claims[1]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("figure3", "there is no study figure3; choose figure1"),
        ("figure2 --quick --full", "choose one of them"),
        ("figure2 --address localhost:1", "add --backend ray"),
        ("freezing --engine compiled --out /dev/null/x", "Choose another folder"),
        (f"{EXAMPLE} --quick", "leave --quick and --full out"),
        ("nothing.toml", "Reproducing the paper's experiments"),
    ],
)
def test_what_cannot_be_done_is_one_line(words, what):
    told = fpi(*words.split())
    assert told.exit_code == 2 and what in told.stderr and told.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["--seeds 0", "--episodes 0", "--workers 0", "--engine warp", "--backend moon"])
def test_values_that_an_option_does_not_take(words):
    told = fpi("figure2", *words.split())
    assert told.exit_code == 2 and f"Invalid value for '{words.split()[0]}'" in told.stderr


def test_help_teaches():
    text = " ".join(fpi("--help").output.split())
    assert all(name in text for name in studies.NAMED) and "fpi reproduce figure2 --engine compiled" in text


def test_the_live_table_shows_the_runs_under_way(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    study = studies.figure2("full").resized(20, 100)
    jobs = study.jobs("gymnasium")
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with live_table(jobs, 4, console) as on_progress:
        for job in jobs[:3]:
            on_progress(job, None)
        on_progress(
            jobs[0], Checkpoint({"return": np.full(40, 7.0)}, {"seconds": 2.0, "episodes": 40, "finished": False})
        )
        on_progress(
            jobs[2], Checkpoint({"return": np.full(100, 9.0)}, {"seconds": 5.0, "episodes": 100, "finished": True})
        )
        console.file.truncate(0)
        on_progress(jobs[1], None)
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", console.file.getvalue())
    line = next(line for line in text.splitlines() if jobs[0].id in line)
    assert " 40/100 " in line and "return 7.0" in line
    assert jobs[1].id in text and jobs[2].id not in text
    assert "5 of 124 runs done" in text and "140/12000" in text


# --- studies of your own ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_example_is_short_and_runs(tmp_path):
    lines = [line for line in EXAMPLE.read_text().splitlines() if line]
    assert len(lines) <= 12
    told = fpi(EXAMPLE, "--episodes", 3, "--seeds", 2, "--workers", 1, "--out", tmp_path)
    assert told.exit_code == 0, told.output
    assert len(list(tmp_path.glob("runs/Acrobot-v1--*--seed-00?/rows.safetensors"))) == 4
    assert "exact freezing earns more than none" in " ".join(told.stdout.split())


@pytest.mark.process
def test_the_page_shows_the_example_and_a_study_in_python(tmp_path):
    page = (ROOT / "docs/reproduce.md").read_text()
    assert EXAMPLE.read_text() in page
    script = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "run_study(" in block)
    assert len(script.splitlines()) <= 20
    small = script.replace("episodes=2_000", "episodes=3")
    told = subprocess.run([sys.executable, "-c", small], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert list(tmp_path.glob("runs/*/runs/*/rows.safetensors"))


OWN = {
    "env": "CartPole-v1",
    "episodes": 10,
    "features": {"type": "TileCoding", "tiles": 2, "tilings": 2},
    "arguments": {"epsilon": 1.0, "ridge": 1e-3},
}


def test_own_settings_share_what_they_have_in_common():
    settings = {"a": {"arguments": {"freeze": 5}, "features": {"tilings": 3}}, "b": {"env": "Acrobot-v1"}}
    study = studies.from_data("mine", {**OWN, "settings": settings, "seeds": [4, 7]})
    assert list(study.settings) == ["CartPole-v1--a", "Acrobot-v1--b"] and study.seeds == (4, 7)
    first = study.settings["CartPole-v1--a"]
    assert first.arguments == {"epsilon": 1.0, "ridge": 1e-3, "freeze": 5}
    assert first.features == {"type": "TileCoding", "tiles": 2, "tilings": 3}
    alone = studies.from_data("mine", OWN)
    assert alone.settings == {"CartPole-v1--only": RunConfig(**OWN)} and len(alone.seeds) == 5


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"episods": 3},
            "episods: unknown field; expected one of title, seeds, settings, claims, env, episodes, features",
        ),
        ({"episods": 3}, "action_grid. Did you mean episodes?"),
        ({"settings": {"a": {"epsilom": 1}}}, "setting a: epsilom: unknown field; expected one of env"),
        ({"settings": {"a": {"epsilon": 1}}}, "Did you mean arguments.epsilon?"),
        (
            {"settings": {"a": {"arguments": {"epsilom": 1}}}},
            "setting a: PAC has no setting epsilom. Did you mean epsilon?",
        ),
        ({"arguments": {"gamma": 1}}, "PAC has no setting gamma. There are actions, horizon"),
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": "many"}, "episodes is 'many'"),
        ({"env": 3}, "env is 3; pass a name"),
        ({"features": "tiles"}, "features is 'tiles'; pass a table"),
        ({"algorithm": "SARSA"}, "choose one of PAC, Regret"),
        ({"seeds": 0}, "give at least one"),
        ({"seeds": [1, 1]}, "each only once"),
        ({"seeds": [-1]}, "a seed is -1"),
        ({"seeds": "all"}, "give their number, or a list"),
        ({"settings": ["a"]}, "write a table for each"),
        ({"settings": {"a--b": {}}}, "single dashes"),
        ({"settings": {"../a": {}}}, "names folders"),
        ({"settings": {"a": {"frieze": 1}}}, "setting a: frieze: unknown field"),
        ({"claims": {"it helps": {"above": ["only", "none"]}}}, "give two of the settings only"),
        ({"settings": {"_a": {}}}, "begins with a letter or digit"),
        ({"claims": "it helps"}, "claims is not a table"),
        (
            {"settings": {"a": {}, "b": {"episodes": 7}}, "claims": {"same": {"equal": ["a", "b"]}}},
            "claim 'same' compares runs of 7 and",
        ),
        ({"claims": {"it helps": {"beside": ["only", "only"]}}}, "is not of the form"),
    ],
    ids=lambda value: " ".join(map(str, value.items())) if isinstance(value, dict) else "",
)
def test_bad_fields_are_named(changes, what):
    with pytest.raises(InputError, match=re.escape(what)):
        studies.from_data("mine", {**OWN, **changes})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            'env = "CartPole-v1"\narguments.epsilom = 1',
            "setting only: PAC has no setting epsilom. Did you mean epsilon?",
        ),
        ('env = "Pendulum-v1"', "Write action_grid = 5."),
        ('env = "MountainCar-v0"\nfeatures.type = "OneHot"', "setting MountainCar-v0--only: "),
    ],
)
def test_what_does_not_fit_is_told_before_a_study_begins(tmp_path, content, says):
    (tmp_path / "mine.toml").write_text(f"episodes = 3\n{content}\n")
    told = fpi(tmp_path / "mine.toml", "--out", tmp_path / "out")
    assert told.exit_code == 2 and says in " ".join(told.stderr.split())
    assert "runs" not in told.stdout and not (tmp_path / "out").exists()


def test_advice_is_given_in_the_words_of_the_file():
    advice = "Switch it off: gymnasium.make(id, is_slippery=False). Pass reward_range=(-1, 0), horizon=9."
    assert console.in_toml(advice) == (
        "Switch it off: env_args = {is_slippery = false}. Pass arguments.reward_range = [-1, 0], arguments.horizon = 9."
    )


def test_a_file_that_runs_code_must_be_trusted(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('env = "this:Apple-v0"\nepisodes = 2\n')
    with pytest.raises(InputError, match=r"this:Apple-v0, and making that imports this, which runs .* add --trust"):
        studies.read(path)
    assert "this" not in sys.modules
    assert studies.read(path, trust=True).settings


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a = " + "[" * 5_000, "mine.toml is not a study"),
        (".".join("a" * 100) + " = 1", "nested too deep"),
        ("a = '" + "x" * 2**20 + "'", "at most 1,048,576 are read"),
        ('env = "CartPole-v1"\nepisodes = 2\nseeds = 1_000_000_000_000', "more than 100,000 runs"),
    ],
)
def test_files_that_ask_for_too_much_are_named(tmp_path, content, says):
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=says):
        studies.read(path)


def test_missing_fields_and_bad_toml_are_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('algorithm = "PAC"\n')
    with pytest.raises(InputError, match=r"mine.toml: setting only: env, episodes is missing"):
        studies.read(path)
    path.write_text("env = \n")
    with pytest.raises(InputError, match=r"mine.toml is not a study: .*line 1"):
        studies.read(path)
