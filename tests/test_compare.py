"""`fpi compare bandit`: the runs, what is made of them, and the command."""

import csv
import doctest
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fpi
from fpi import baselines
from fpi.cli import app
from fpi.cli import compare as compare_command
from fpi.compare import bandit as compare
from fpi.compare.bandit import BANDIT, CORRIDOR, Line, Row
from fpi.experiment import run_study
from fpi.experiment.backends import Local
from fpi.testbeds import LinBandit

FEW = (
    Row("Uniform"),
    Row("OFUL"),
    Row("FPI-Regret", "greedy", "paper"),
    Row("OFUL", scale=0.3),
    Row("SupLinUCB", "widest", scale=0.3),
    *(Row("FPI-Regret", "greedy", "interval", scale) for scale in compare.SCALES),
)


LATER = [row for scale in (1.0, compare.LATER) for row in compare.later_levels(scale)]


def line(row, gaps, problem=BANDIT):
    return Line(problem, row, list(range(len(gaps))), np.array(gaps))


def command(*words, code=0):
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    result = runner.invoke(app, ["compare", *map(str, words)], prog_name="fpi")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


# Runs


def played(folder, rows, episodes, seeds):
    run_study(compare.study(rows, episodes, seeds, "quick"), folder, backend=Local(1))
    return compare.read(folder, rows)


@pytest.mark.slow
def test_a_run_is_the_method_in_the_world_of_its_seed(tmp_path):
    row = Row("OFUL", scale=0.3)
    (line,) = played(tmp_path, [(BANDIT, row)], 60, (1, 2))
    for seed, gaps in zip((1, 2), line.gaps, strict=True):
        world = LinBandit(d=6, K=10, seed=seed)
        method = baselines.OFULMethod(scale=0.3, theta_bound=1.0, seed=seed)
        assert gaps == pytest.approx(baselines.play(method, world, seed=seed, steps=60).losses, abs=1e-12)


def test_bounds_of_theta_hold_in_every_world():
    for problem in (BANDIT, CORRIDOR):
        assert max(problem.testbed(seed).theta_bound for seed in range(10)) <= problem.theta_bound


def test_the_sweep_has_every_rule_at_every_scale():
    assert len(set(compare.ROWS)) == len(compare.ROWS) == 1 + 9 * 5 + 4 * 2
    usual = [row for row in compare.ROWS if row.method == "FPI-Regret" and row not in LATER]
    regrets = {(row.explore, row.elimination, row.scale) for row in usual}
    explore, elimination = ("widest", "random", "greedy"), ("paper", "interval")
    assert regrets == {(x, y, z) for x in explore for y in elimination for z in (1.0, *compare.SCALES)}
    assert [row.name for row in compare.ROWS if row.sound][:2] == ["Uniform", "OFUL"]


def test_levels_may_begin_later():
    assert {(row.explore, row.first_level) for row in LATER} == {
        ("greedy", "auto"), ("optimistic", 1), ("optimistic", "auto"), ("optimistic", 7),
    }  # fmt: skip
    assert {row.scale for row in LATER} == {1.0, 0.1} and set(LATER) <= set(compare.ROWS)
    first = [row.learner(BANDIT, 10).first_level for row in LATER if row.sound]
    assert first == [4, 1, 4, 7]
    assert Row("FPI-Regret", "greedy", "paper", 0.1, 7).name == "FPI-Regret, greedy, paper, from level 7, × 0.1"
    assert compare.cells_of(line(LATER[0], [[1.0] * 10] * 2))[3] == "auto"
    text = compare.to_csv([line(LATER[3], [[1.0]])])
    assert next(csv.DictReader(io.StringIO(text)))["first_level"] == "7"


def test_what_is_played_for_longer_is_sound_and_scaled_and_each_once():
    best = Row("FPI-Regret", "optimistic", "paper", 0.1, 7)
    rows = compare.long_rows(best)
    assert rows[0] == Row("OFUL") and best in rows and len(set(rows)) == len(rows)
    assert {row.sound for row in rows} == {True, False} and set(compare.later_levels(1.0)) <= set(rows)


def test_rows_make_what_they_say():
    agent = Row("FPI-Regret", "random", "interval", 0.1).learner(CORRIDOR, 10, seed=3)
    assert isinstance(agent, fpi.Regret)
    assert (agent.settings.explore, agent.settings.elimination, agent.settings.scale) == ("random", "interval", 0.1)
    assert agent.settings.theta_bound == CORRIDOR.theta_bound >= CORRIDOR.testbed(3).theta_bound
    assert Row("SupLinUCB", "widest", scale=0.3).learner(BANDIT, 77).rounds == 77


@pytest.mark.slow
def test_at_one_stage_two_elimination_rules_are_the_same(tmp_path):
    rows = [(BANDIT, Row("FPI-Regret", "greedy", rule, 0.03)) for rule in ("paper", "stage", "interval")]
    paper, stage, interval = played(tmp_path, rows, 300, (0,))
    assert np.array_equal(paper.gaps, stage.gaps) and not np.array_equal(paper.gaps, interval.gaps)


# What is made of them


def test_lines_tell_regret_and_mistakes():
    found = line(Row("OFUL"), [[0.0, 1.0], [3.0, 1.0]])
    assert found.regrets.tolist() == [[0, 1], [3, 4]]
    assert found.total.estimate == 2.5
    assert [n(0.5) for n in found.mistakes] == [1, 2]


def test_the_loss_at_the_end_is_that_of_the_last_tenth():
    assert line(Row("OFUL"), [[1.0] * 18 + [0.25, 0.5], [1.0] * 18 + [0.0, 0.25]]).at_the_end == 0.25


def test_the_best_line_lost_least_of_those_with_all_levels():
    lines = [line(Row("FPI-Regret", "greedy", "paper", scale), [[lost]]) for scale, lost in ((0.3, 2.0), (0.1, 1.0))]
    lines.append(line(Row("OFUL"), [[0.5]]))
    lines.append(line(Row("FPI-Regret", "optimistic", "paper", 0.03, 7), [[0.5]]))  # without its first levels
    assert compare.best(lines, "FPI-Regret").row.scale == 0.1


def test_the_slope_is_that_of_the_last_decades():
    late = np.full(1_000, 0.1)  # a straight line after a first episode that costs nothing to speak of
    estimate, low, high = line(Row("OFUL"), [late, 3 * late]).slope(1)
    assert (estimate, low, high) == pytest.approx((1, 1, 1))
    early = np.concatenate([np.full(100, 1.0), np.zeros(900)])
    assert line(Row("OFUL"), [early, early]).slope(1).estimate == pytest.approx(0, abs=1e-9)
    assert line(Row("OFUL"), [early, early]).slope(2).estimate > 0.3


def test_files_hold_every_run():
    lines = [line(Row("OFUL"), np.full((2, 40), 0.5)), line(Row("FPI-Regret", "greedy", "paper", 0.1), [[0.25] * 40])]
    table = list(csv.DictReader(io.StringIO(compare.to_csv(lines))))
    assert [(row["method"], row["seed"], float(row["regret"])) for row in table] == [
        ("OFUL", "0", 20.0),
        ("OFUL", "1", 20.0),
        ("FPI-Regret", "0", 10.0),
    ]
    oful, regret = json.loads(compare.to_json(lines))
    assert oful["regret"] == [20.0, 20.0] and oful["sound"] and not regret["sound"]
    assert oful["curve"]["episodes"][-1] == 40
    assert oful["curve"]["estimate"][-1] == oful["curve"]["high"][-1] == 20.0
    assert regret["curve"]["low"][-1] is None  # one seed has no interval


# The command


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """What the command says and keeps: a sweep of few rows, and slopes."""
    folder = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "ROWS", FEW)
        patch.setattr(compare_command, "QUICK_LONG", 400)
        options = ("--quick", "--seeds", 2, "--episodes", 40, "--workers", 1, "--slope", "--out", folder / "kept")
        return command("bandit", *options), folder / "kept"


@pytest.mark.process
def test_the_command_shows_sound_and_scaled_rows_apart_and_keeps_them(asked):
    said, folder = asked
    sound, scaled = said.split("Scaled, covered by no theorem")
    assert "40 episodes on LinBandit(d=6, K=10), 2 seeds" in " ".join(sound.split())
    assert "Uniform" in sound and " 0.03 " not in sound
    assert "Uniform" not in scaled and " 0.03 " in scaled
    names = ("regret.csv", "regret.json", "regret.png", "guarantees.png", "slope.csv", "slope.json", "slope.png")
    assert {path.name for path in folder.iterdir()} >= {*names, "study.json", "runs"}
    rows = json.loads((folder / "regret.json").read_text())
    assert len(rows) == len(FEW)
    (uniform,) = compare.read(folder, [(BANDIT, Row("Uniform"))])
    assert rows[0]["regret"] == pytest.approx(uniform.gaps.sum(axis=1)) and uniform.gaps.shape == (2, 40)


@pytest.mark.process
def test_slopes_are_measured_on_other_seeds_with_what_was_best(asked):
    said, folder = asked
    rows = json.loads((folder / "regret.json").read_text())
    candidates = [row for row in rows if row["method"] == "FPI-Regret" and not row["sound"]]
    best = min(candidates, key=lambda row: sum(row["regret"]))
    assert f"fixed from here on: FPI-Regret, greedy, interval, × {best['scale']:g}." in " ".join(said.split())
    long = json.loads((folder / "slope.json").read_text())
    assert {(tuple(row["seeds"]), row["episodes"]) for row in long} == {((2, 3), 400)}
    made = [(row["method"], row["explore"], row["elimination"], row["scale"], row["first_level"]) for row in long]
    chosen = Row("FPI-Regret", "greedy", "interval", best["scale"])
    assert [Row(*each) for each in made] == [*compare.long_rows(chosen), chosen]
    assert {row["problem"] for row in long[:-1]} == {BANDIT.name} and long[-1]["problem"] == CORRIDOR.name


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--seeds", 0), "Invalid value for '--seeds'"),
        (("--episodes", 9), "Invalid value for '--episodes'"),
        (("--workers", 0), "Invalid value for '--workers'"),
        (("--out", "taken"), "Results cannot be written to taken"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    assert complaint in " ".join(command("bandit", *words, code=2).split())
    assert (tmp_path / "taken").read_text() == "mine"
    assert not (tmp_path / "runs").exists()


def test_the_example_of_the_page_runs():
    result = doctest.testfile(str(Path(__file__).parents[1] / "docs" / "bandit.md"), module_relative=False)
    assert result.attempted > 0 and result.failed == 0


def test_help_says_what_the_rows_are():
    said = " ".join(command("bandit", "--help").split())
    assert "which no theorem covers" in said and "Example: fpi compare bandit --quick" in said
    assert "bandit" in command("--help")
