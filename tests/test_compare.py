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
from fpi.baselines import OFUL
from fpi.callbacks import GapLog
from fpi.cli import app
from fpi.cli import compare as compare_command
from fpi.compare import bandit as compare
from fpi.compare.bandit import BANDIT, CORRIDOR, Line, Row
from fpi.testbeds import LinBandit
from fpi.verify.run import run_all

FEW = (
    Row("Uniform"),
    Row("OFUL"),
    Row("Regret", "greedy", "paper"),
    Row("OFUL", scale=0.3),
    Row("SupLinUCB", "widest", scale=0.3),
    *(Row("Regret", "greedy", "interval", scale) for scale in compare.SCALES),
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


def test_a_run_is_learning_in_the_world_of_its_seed():
    run = compare.play(BANDIT, Row("OFUL", scale=0.3), 60, seed=2)
    world = LinBandit(d=6, K=10, seed=2)
    log = GapLog(world)
    oful = OFUL(world.features, actions=10, scale=0.3, theta_bound=world.theta_bound)
    oful.learn(world.env(), 60, seed=2, callback=log)
    assert np.array_equal(run.gaps, [log.gaps])


@pytest.mark.process
def test_processes_do_not_change_the_numbers():
    tasks = [
        (BANDIT, row, 30, seed) for row in (Row("OFUL"), Row("Regret", "random", "interval", 0.1)) for seed in (0, 1)
    ]
    alone, together = (list(run_all(tasks, compare.play, workers)) for workers in (1, 2))
    for one, other in zip(alone, together, strict=True):
        assert (one.row, one.seeds) == (other.row, other.seeds)
        assert np.array_equal(one.gaps, other.gaps)


def test_the_sweep_has_every_rule_at_every_scale():
    assert len(set(compare.ROWS)) == len(compare.ROWS) == 1 + 9 * 5 + 4 * 2
    usual = [row for row in compare.ROWS if row.method == "Regret" and row not in LATER]
    regrets = {(row.explore, row.elimination, row.scale) for row in usual}
    explore, elimination = ("widest", "random", "greedy"), ("paper", "interval")
    assert regrets == {(x, y, z) for x in explore for y in elimination for z in (1.0, *compare.SCALES)}
    assert [row.name for row in compare.ROWS if row.sound][:2] == ["Uniform", "OFUL"]


def test_levels_may_begin_later():
    assert {(row.explore, row.first_level) for row in LATER} == {
        ("greedy", "auto"), ("optimistic", 1), ("optimistic", "auto"), ("optimistic", 7),
    }  # fmt: skip
    assert {row.scale for row in LATER} == {1.0, 0.1} and set(LATER) <= set(compare.ROWS)
    first = [row.learner(BANDIT.testbed(0), 10).first_level for row in LATER if row.sound]
    assert first == [4, 1, 4, 7]
    assert Row("Regret", "greedy", "paper", 0.1, 7).name == "Regret, greedy, paper, from level 7, × 0.1"
    assert compare.cells(line(LATER[0], [[1.0] * 10] * 2))[3] == "auto"
    text = compare.to_csv([line(LATER[3], [[1.0]])])
    assert next(csv.DictReader(io.StringIO(text)))["first_level"] == "7"


def test_what_is_played_for_longer_is_sound_and_scaled_and_each_once():
    best = Row("Regret", "optimistic", "paper", 0.1, 7)
    rows = compare.long_rows(best)
    assert rows[0] == Row("OFUL") and best in rows and len(set(rows)) == len(rows)
    assert {row.sound for row in rows} == {True, False} and set(compare.later_levels(1.0)) <= set(rows)


def test_rows_make_what_they_say():
    agent = Row("Regret", "random", "interval", 0.1).learner(CORRIDOR.testbed(3), 10)
    assert isinstance(agent, fpi.Regret)
    assert (agent.settings.explore, agent.settings.elimination, agent.settings.scale) == ("random", "interval", 0.1)
    assert agent.settings.theta_bound == CORRIDOR.testbed(3).theta_bound
    assert Row("SupLinUCB", "widest", scale=0.3).learner(BANDIT.testbed(0), 77).rounds == 77


def test_at_one_stage_two_elimination_rules_are_the_same():
    runs = [compare.play(BANDIT, Row("Regret", "greedy", rule, 0.03), 300, seed=0) for rule in ("paper", "stage")]
    assert np.array_equal(runs[0].gaps, runs[1].gaps)
    other = compare.play(BANDIT, Row("Regret", "greedy", "interval", 0.03), 300, seed=0)
    assert not np.array_equal(runs[0].gaps, other.gaps)


# What is made of them


def test_lines_gather_runs():
    rows = Row("OFUL"), Row("Uniform")
    runs = [compare.Line(BANDIT, row, [seed], np.array([[seed, 1.0]])) for row in rows for seed in (0, 3)]
    first, second = compare.lines(runs)
    assert (first.row, second.row, first.seeds) == (*rows, [0, 3])
    assert first.regrets.tolist() == [[0, 1], [3, 4]]
    assert first.total.estimate == 2.5
    assert [n(0.5) for n in first.mistakes] == [1, 2]


def test_the_loss_at_the_end_is_that_of_the_last_tenth():
    assert line(Row("OFUL"), [[1.0] * 18 + [0.25, 0.5], [1.0] * 18 + [0.0, 0.25]]).at_the_end == 0.25


def test_the_best_line_lost_least():
    lines = [line(Row("Regret", "greedy", "paper", scale), [[lost]]) for scale, lost in ((0.3, 2.0), (0.1, 1.0))]
    lines.append(line(Row("OFUL"), [[0.5]]))
    assert compare.best(lines, "Regret").row.scale == 0.1


def test_the_slope_is_that_of_the_last_decades():
    late = np.full(1_000, 0.1)  # a straight line after a first episode that costs nothing to speak of
    estimate, low, high = line(Row("OFUL"), [late, 3 * late]).slope(1)
    assert (estimate, low, high) == pytest.approx((1, 1, 1))
    early = np.concatenate([np.full(100, 1.0), np.zeros(900)])
    assert line(Row("OFUL"), [early, early]).slope(1).estimate == pytest.approx(0, abs=1e-9)
    assert line(Row("OFUL"), [early, early]).slope(2).estimate > 0.3


def test_files_hold_every_run():
    lines = [line(Row("OFUL"), np.full((2, 40), 0.5)), line(Row("Regret", "greedy", "paper", 0.1), [[0.25] * 40])]
    table = list(csv.DictReader(io.StringIO(compare.to_csv(lines))))
    assert [(row["method"], row["seed"], float(row["regret"])) for row in table] == [
        ("OFUL", "0", 20.0),
        ("OFUL", "1", 20.0),
        ("Regret", "0", 10.0),
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


def test_the_command_shows_sound_and_scaled_rows_apart_and_keeps_them(asked):
    said, folder = asked
    sound, scaled = said.split("Scaled, covered by no theorem")
    assert "40 episodes on LinBandit(d=6, K=10), 2 seeds" in " ".join(sound.split())
    assert "Uniform" in sound and " 0.03 " not in sound
    assert "Uniform" not in scaled and " 0.03 " in scaled
    names = ("regret.csv", "regret.json", "regret.png", "guarantees.png", "slope.csv", "slope.json", "slope.png")
    assert {path.name for path in folder.iterdir()} == set(names)
    rows = json.loads((folder / "regret.json").read_text())
    assert len(rows) == len(FEW)
    uniform = compare.play(BANDIT, Row("Uniform"), 40, seed=1).gaps[0]
    assert rows[0]["regret"][1] == pytest.approx(uniform.sum())


def test_slopes_are_measured_on_other_seeds_with_what_was_best(asked):
    said, folder = asked
    rows = json.loads((folder / "regret.json").read_text())
    candidates = [row for row in rows if row["method"] == "Regret" and not row["sound"]]
    best = min(candidates, key=lambda row: sum(row["regret"]))
    assert f"fixed from here on: Regret, greedy, interval, × {best['scale']:g}." in " ".join(said.split())
    long = json.loads((folder / "slope.json").read_text())
    assert {(tuple(row["seeds"]), row["episodes"]) for row in long} == {((2, 3), 400)}
    made = [(row["method"], row["explore"], row["elimination"], row["scale"], row["first_level"]) for row in long]
    chosen = Row("Regret", "greedy", "interval", best["scale"])
    assert [Row(*each) for each in made] == [*compare.long_rows(chosen), chosen]
    assert {row["problem"] for row in long[:-1]} == {BANDIT.name} and long[-1]["problem"] == CORRIDOR.name


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--seeds", 0), "Invalid value for '--seeds'"),
        (("--episodes", 9), "Invalid value for '--episodes'"),
        (("--workers", 0), "Invalid value for '--workers'"),
        (("--out", "taken"), "--out taken is not a folder to write to"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    assert complaint in " ".join(command("bandit", *words, code=2).split())
    assert (tmp_path / "taken").read_text() == "mine"
    assert not (tmp_path / "compare-bandit").exists()


def test_the_example_of_the_page_runs():
    result = doctest.testfile(str(Path(__file__).parents[1] / "docs" / "bandit.md"), module_relative=False)
    assert result.attempted > 0 and result.failed == 0


def test_help_says_what_the_rows_are():
    said = " ".join(command("bandit", "--help").split())
    assert "which no theorem covers" in said and "Example: fpi compare bandit --quick" in said
    assert "bandit" in command("--help")
