"""`fpi compare table1`: the study, what is made of its runs, and the command."""

import csv
import doctest
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fpi import baselines, model_files
from fpi.baselines import harness
from fpi.cli import app
from fpi.compare import table1
from fpi.compare.cells import Cell, read
from fpi.errors import DamagedResults, InputError
from fpi.experiment import storage
from fpi.report import comparison
from fpi.run_config import RunConfig

HUBS = RunConfig(env="fpi/HubNet-v0", env_args={"B": 1, "m": 2, "K": 2}, episodes=60, algorithm="LSVI-UCB")
SEA = RunConfig(env="fpi/DeepSea-v0", env_args={"N": 4}, episodes=60, algorithm="CAPI", arguments={"rollouts": 3})


def made(row, world, *gaps, method=None, holds=frozenset({"linear", "deterministic"}), losses=(), size="full"):
    """A cell of runs with these last gaps, each after 100 and 200 steps, between which it stored a number."""
    runs = []
    for gap in gaps:
        rows = {name: np.array([1.0, 2.0]) for name in baselines.harness.COLUMNS}
        rows |= {"steps": np.array([100.0, 200.0]), "gap": np.array([0.5, gap])}
        runs.append(baselines.Run(rows, np.array(losses)))
    return Cell(world, row, method or baselines.LSVI_UCB(), holds, tuple(range(len(gaps))), tuple(runs), size)


# The description of a run


def test_a_description_may_name_a_method():
    setting = RunConfig.from_data(json.loads(json.dumps(SEA.to_data())))
    assert setting.is_method and setting.complete() == setting
    method = setting.make_method(seed=4)
    assert isinstance(method, baselines.CAPI) and (method.rollouts, method.seed) == (3, 4)
    testbed, noise = setting.make_testbed()
    assert (testbed.horizon, testbed.actions, noise) == (4, 2, "bernoulli")
    assert not RunConfig(env="CartPole-v1", episodes=5).is_method


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"algorithm": "LSVI"}, "algorithm is 'LSVI'; choose one of PAC, Regret, Eluder, ModelFPI. To compare with"),
        ({"algorithm": "nowhere:Method"}, "nowhere:Method cannot be imported"),
        ({"algorithm": "fpi.baselines:Nothing"}, "fpi.baselines:Nothing cannot be imported"),
        ({"arguments": {"lambda": 1}}, "the arguments do not fit LSVI-UCB"),
        ({"env": "CartPole-v1", "env_args": {}}, "CartPole-v1 does not have: name a testbed"),
        ({"algorithm": "Agnostic"}, "Agnostic needs a fixed start state, which this testbed does not have"),
    ],
)
def test_what_does_not_fit_is_named(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        RunConfig.from_data(HUBS.to_data() | changes).complete()


# The study


@pytest.mark.parametrize("size", ["quick", "default", "full"])
def test_the_study_has_every_pair_that_can_be_run(size):
    study = table1.table1(size)
    assert len(study.seeds) == {"quick": 2, "default": 5, "full": 10}[size]
    rows = {name.partition("--")[2] for name in study.settings}
    assert rows == set(table1.ROWS) - (set() if size == "full" else set(table1.LONG_ROWS))
    assert {name for name in study.settings if name.endswith("--agnostic")} == {"sea--agnostic"}
    assert {name for name in study.settings if name.endswith("--OFUL")} == {"bandit--OFUL"}
    for row in rows - {"agnostic", "OFUL", "UPAC-OFUL"}:
        own = [setting for name, setting in study.settings.items() if name.endswith(f"--{row}")]
        assert len(own) >= 6
        assert len({(setting.algorithm, str(setting.arguments)) for setting in own}) == 1  # one setting for all


def test_methods_of_table_1_that_are_not_run_are_named():
    named = " ".join(table1.NOT_RUN)
    for name in ("SkippyEleanor", "Mhammedi", "Eleanor", "Golowich", "DMQ", "LinQ"):
        assert name in named


# What is made of runs


def test_cells_tell_medians_and_reasons():
    cell = made("LSVI-UCB", "trap", 0.2, 0.01, 0.3, losses=[1.0, 1.0, 1.0, 0.4])
    assert cell.gap == 0.2 and cell.failed and cell.why == "needs Bellman completeness"
    assert cell.steps_to(0.25) == (200, 200, np.inf)
    assert cell.late_loss == 0.4 and cell.regret == pytest.approx(3.4)
    assert not made("CAPI", "trap", 0.05, 0.01, 0.3, method=baselines.CAPI()).failed
    assert made("CAPI", "hubs", np.nan, method=baselines.CAPI()).why == "no policy within 200 steps"
    none = made("CAPI", "hubs", np.nan, method=baselines.CAPI(), size="quick")
    assert none.too_short and none.why == "no policy within 200 steps; give --full"  # quick has as many as default


@pytest.mark.parametrize(
    ("size", "mark"),
    [
        ("quick", "too short: 200 steps are too few at this size; leave out --quick"),
        ("default", "too short: 200 steps are too few at this size; give --full"),
        ("full", "FAILS: still learning after 200 steps"),
    ],
)
def test_what_is_too_short_is_no_failure(size, mark):
    """If a theorem covers it and it still learned; whatever ended, lacks a theorem or was not too short, fails."""
    late = made("FPI", "trap", 0.2, method=baselines.FPIPAC(), size=size)
    assert late.verdict == "yes" and table1.failures([late])[1] == [("FPI", mark)]
    late.runs[0].rows["numbers"][:] = 2.0  # nothing new in the second half
    assert table1.failures([late])[1] == [("FPI", "FAILS: its accuracy is coarser than 0.1")]
    planner = made("CAPI", "trap", 0.2, method=baselines.CAPI(), size=size)
    assert table1.failures([planner])[1] == [("CAPI", "FAILS: its accuracy is coarser than 0.1")]
    lost = made("LSVI-UCB", "trap", 0.2, size=size)
    assert table1.failures([lost])[1] == [("LSVI-UCB", "FAILS: needs Bellman completeness")]


def test_tables_say_who_fails_where_and_why():
    cells = [
        made("LSVI-UCB", "hubs", 0.01, losses=[0.0]),
        made("LSVI-UCB", "gate", 0.2, losses=[0.0]),
        made("CAPI", "hubs", 0.004, 0.002, 0.003, method=baselines.CAPI()),
    ]
    heads, rows = table1.failures(cells)
    assert heads == ("method", "hubs", "gate")
    assert rows == [("LSVI-UCB", "ok", "FAILS: needs Bellman completeness"), ("CAPI", "ok", "not run")]
    heads, rows = table1.summary(cells)
    assert heads[3] == "Gate gap"
    assert rows[0][:4] == ("LSVI-UCB", "online", "scaled", "0.20")
    assert rows[1][:4] == ("CAPI", "local", "scaled", "")
    heads, rows = table1.summary(cells[:1])  # without Gate
    assert "Gate gap" not in heads and len(heads) == len(rows[0])
    lsvi, capi = table1.world_rows(cells, "hubs")
    assert lsvi == ("LSVI-UCB", "needs Bellman completeness", "200", "200", "200", "0.010", "200", "0", "0.000")
    assert capi[2:] == ("200", "200", "200", "0.003", "200", "", "")
    assert table1.scaled(cells).endswith("LSVI-UCB, CAPI.")
    table = list(csv.DictReader(io.StringIO(table1.to_csv(cells))))
    assert len(table) == 2 * (1 + 1 + 3)
    assert table[1] | {"method": "LSVI-UCB", "testbed": "hubs", "gap": "0.01", "sound": "False"} == table[1]
    assert {"method", "testbed", "access", "seed", "steps", "episodes", "restores", "seconds", "numbers", "gap"} < set(
        table[0]
    )


def test_steps_are_told_with_their_range():
    assert table1._steps(1_500, 900, np.inf) == "1.5k (900 to never)"
    assert table1._steps(np.inf, 900, np.inf) == "never (900 to never)"
    assert table1._steps(np.inf, np.inf, np.inf) == "never"


def test_curves_are_medians_at_the_marks_that_all_passed():
    steps, gaps = comparison.median_curve(made("LSVI-UCB", "hubs", 0.2, 0.4, 0.3))
    assert steps.tolist() == [100, 200] and gaps.tolist() == [0.5, 0.3]
    assert len(comparison.median_curve(made("CAPI", "hubs", np.nan))[0]) == 1


# Running it


def command(*words, code=0):
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    result = runner.invoke(app, ["compare", "table1", *map(str, words)], prog_name="fpi")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.process
def test_the_command_runs_shows_and_keeps(tmp_path, monkeypatch):
    small = {name: table1.WORLDS[name] for name in ("sea", "gate")}
    monkeypatch.setattr(table1, "WORLDS", small)
    monkeypatch.setattr(table1, "ROWS", {name: table1.ROWS[name] for name in ("FPI-PAC-0.3", "CAPI-20")})
    said = command("--quick", "--workers", 1, "--out", tmp_path)
    assert "8 runs" in said and "Who fails where" in said and "SkippyEleanor" in said
    assert "FAILS: needs deterministic transitions" in said
    cells = read(tmp_path)
    assert [(cell.world, cell.row, cell.seeds) for cell in cells] == [
        (world, row, (0, 1)) for world in small for row in table1.ROWS
    ]
    names = {path.name for path in tmp_path.iterdir()}
    assert {"rows.csv", "gaps.png", "page.html", "study.json", "runs"} <= names
    page = (tmp_path / "page.html").read_text()
    assert "Who fails where, and why" in page and "data:image/png" in page and "FPI-PAC-0.3" in page
    before = (tmp_path / "rows.csv").read_text()
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/rows.safetensors")}
    command("--quick", "--workers", 1, "--out", tmp_path)  # finished runs are kept
    assert (tmp_path / "rows.csv").read_text() == before
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/rows.safetensors")} == stamps
    played = baselines.play(baselines.FPIPAC(epsilon=0.3, seed=1), SEA_16, seed=1, steps=960, episodes=60)
    assert np.array_equal(cells[0].runs[1].rows["gap"], played.rows["gap"])
    assert np.array_equal(cells[0].runs[1].losses, played.losses)


SEA_16 = RunConfig(env="fpi/DeepSea-v0", env_args={"N": 16}, episodes=1, algorithm="OCP").make_testbed()[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--quick", "--full"), "choose one of them"),
        (("--testbed", "lake"), "--testbed lake: choose of hubs"),
        (("--method", "nowhere:Method"), "cannot be imported"),
        (("--method", "fpi.testbeds:DeepSea"), "is not a method: that is a class derived from fpi.baselines.Method"),
        (("--method", "fpi.baselines:Method"), "the arguments do not fit fpi.baselines:Method"),
        (("--address", "here:1"), "add --backend ray"),
        (("--seeds", 0), "Invalid value for '--seeds'"),
    ],
)
def test_bad_options_are_refused(words, complaint):
    assert complaint in " ".join(command(*words, code=2).split())


def test_the_help_names_all_testbeds():
    said = command("--help")
    assert all(name in said for name in table1.WORLDS)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a folder that `fpi compare` has written"):
        read(tmp_path)


def test_studies_refuse_methods_where_they_cannot_report_them(tmp_path):
    (tmp_path / "own.toml").write_text('env = "fpi/DeepSea-v0"\nepisodes = 10\nalgorithm = "OCP"\n')
    result = CliRunner().invoke(app, ["reproduce", str(tmp_path / "own.toml")], prog_name="fpi")
    assert result.exit_code == 2 and "fpi compare table1" in " ".join(result.output.split())


@pytest.mark.slow
def test_the_examples_of_the_page_and_the_package_run():
    page = Path(__file__).parents[1] / "docs" / "howto" / "write_a_method.md"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for result in (
        doctest.testfile(str(page), module_relative=False, optionflags=flags),
        doctest.testmod(baselines),
    ):
        assert result.attempted > 0 and result.failed == 0


def test_rows_without_the_bill_of_a_method_are_named(tmp_path):
    setting = RunConfig(env="fpi/DeepSea-v0", env_args={"N": 4}, episodes=1, algorithm="OCP").to_data()
    marks = {f"mark.{name}": np.zeros(2) for name in harness.COLUMNS}
    for broken, says in (
        ({"mark.steps": np.zeros(3)}, "no bill of a method"),
        ({"loss": np.zeros((1, 1))}, "no losses of a method"),
    ):
        model_files.write(tmp_path / "rows.safetensors", marks | {"loss": np.zeros(1)} | broken, {"id": tmp_path.name})
        with pytest.raises(DamagedResults, match=says):
            storage.read_rows(tmp_path, setting)
