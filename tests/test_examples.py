"""The scripts of examples/ run, and end as their texts say; every one of them stands in the gallery.

unknown_features.py has its test beside those of Eluder.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fpi import compiled

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def script(tmp_path):
    """Import a copy of an example: numba keeps what it compiles beside the source, under the name of the module."""

    def script(name):
        spec = importlib.util.spec_from_file_location(name, shutil.copy(ROOT / f"examples/{name}.py", tmp_path))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return script


@pytest.mark.slow  # it plans for some seconds
def test_a_car_comes_up_the_hill_after_two_episodes(script):
    assert script("control").main(episodes=2).mean > -200  # random play never arrives


@pytest.mark.slow
def test_only_features_that_fit_leave_nothing_over(script):
    misfits = script("own_features").main()
    assert misfits["one per place"] < 1e-9 < 0.3 < misfits["polynomial"]


@pytest.mark.slow  # it compiles
def test_the_compiled_drone_is_the_one_of_gymnasium(script):
    comparison, history = script("own_environment").main(episodes=500)
    assert (comparison.difference, comparison.returns) == (0.0, 0)
    assert history.returns[-50:].mean() > history.returns[:50].mean()
    assert "Drone-v0" in compiled.known()


def test_regret_loses_less_than_random_play(script):
    lost = script("regret").main(episodes=400)
    assert lost["Regret, a tenth of them"] < lost["Regret, constants of the theory"] < lost["random play"]


@pytest.mark.process
def test_a_study_of_ones_own_is_played_and_judged(tmp_path):
    command = [sys.executable, ROOT / "examples/study.py", "60", tmp_path / "runs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "exact freezing earns more" in done.stdout
    assert len(json.loads((tmp_path / "runs/study.json").read_text())["seeds"]) == 2


def test_every_example_is_in_the_gallery():
    gallery = (ROOT / "docs/gallery.md").read_text()
    assert EXAMPLES and [path.name for path in EXAMPLES if f"python examples/{path.name}" not in gallery] == []
