"""`fpi compare claims`: added features, and slips."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fpi import testbeds
from fpi.cli import app
from fpi.compare import claims
from fpi.compare.cells import read
from fpi.experiment import run_study
from fpi.experiment.backends import Local


def test_adding_features_breaks_completeness_and_not_linearity():
    bare, whole = (testbeds.make("Trap", **claims.WORLDS[name][1]) for name in ("trap, bare", "trap, with features"))
    for testbed, complete in ((bare, True), (whole, False)):
        seen = testbed.verify(policies=3, pool=50)
        assert seen.problems == () and seen.residual < 1e-12
        assert testbed.complete == complete == (seen.bellman_residual < 1e-9)
    for state in ((0, 0), (0, 4), (1, 2)):
        assert bare.optimal_action_values(state).tolist() == whole.optimal_action_values(state).tolist()


@pytest.mark.slow
def test_on_trap_the_addition_breaks_lsvi_ucb_and_not_fpi(tmp_path):
    plan = claims.features_study(seeds=1, share=0.2)
    plan = replace(plan, settings={name: each for name, each in plan.settings.items() if name.startswith("trap")})
    run_study(plan, tmp_path, backend=Local(1))
    losses = {(cell.world, cell.row): cell.late_loss for cell in read(tmp_path)}
    assert losses["trap, with features", "LSVI-UCB"] == pytest.approx(0.4)
    assert losses["trap, bare", "LSVI-UCB"] < 0.05
    assert max(losses["trap, bare", "FPI-PAC"], losses["trap, with features", "FPI-PAC"]) < 0.05
    table = claims.features_table(read(tmp_path))
    assert [(row[0], row[1]) for row in table] == [("trap, bare", "yes"), ("trap, with features", "no")]
    assert table[1][-1] == "0.400"


@pytest.mark.slow
def test_lemma_2_holds_without_slips_and_not_with_them():
    still, slipping = (claims.slip(chance, seed=0, episodes=250, epsilon=0.4) for chance in (0.0, 0.6))
    assert (still.violated, still.change, still.warned) == (0.0, 0.0, False)
    assert slipping.violated > 0.01 and slipping.change > 0 and slipping.warned
    assert still.stored > 100


def test_tables_and_files():
    slips = [claims.SlipRow(0.1, seed, 10, 0.5, 0.02, -0.01, 0.1, bool(seed)) for seed in (0, 1)]
    assert claims.slip_table(slips) == [("0.1", "50%", "0.020", "-0.010", "0.100", "1 of 2")]
    assert len(list(csv.DictReader(io.StringIO(claims.to_csv(slips))))) == 2


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "WORLDS", {"sea, bare": ("fpi/DeepSea-v0", {"N": 4}, 100)})
    monkeypatch.setattr(claims, "SLIPS", (0.0, 0.5))
    monkeypatch.setattr(claims, "SLIP_EPISODES", 200)
    words = ["compare", "claims", "--quick", "--seeds", "1", "--workers", "1", "--out", str(tmp_path)]
    result = CliRunner(env={"COLUMNS": "150"}).invoke(app, words, prog_name="fpi")
    assert result.exit_code == 0, result.output
    assert "violations of Lemma 2" in " ".join(result.output.split())
    files = {path.name for path in tmp_path.iterdir()}
    assert {"features.png", "slip.png", "features.csv", "slip.csv"} <= files
    assert np.loadtxt(tmp_path / "slip.csv", delimiter=",", skiprows=1, usecols=(0, 3)).tolist()[0] == [0.0, 0.0]
