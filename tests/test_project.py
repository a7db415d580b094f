"""What surrounds the code keeps up with it: the table of modules, the lock file, the workflow, the hooks."""

import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml
from test_house import TOOLS

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def commands(target):
    """What the Makefile runs for a target."""
    recipe = (ROOT / "Makefile").read_text().partition(f"\n{target}:")[2].partition("\n\n")[0]
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()[1:]]


def test_the_table_of_modules_is_complete_and_in_the_order_of_the_layers():
    (contract,) = (each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    layer_of = {name: number for number, layer in enumerate(contract["layers"]) for name in layer.split(" | ")}
    modules = {
        path.stem for path in (ROOT / "src/fpi").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert set(layer_of) == modules - {"__init__", "__pycache__", "py"}
    table = re.search(r"^\| module \|.*\n\|---.*\n((?:\|.*\n)+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    named = [name for row in table[1].splitlines() for name in re.findall(r"`(\w+)/?`", row.split(" | ")[0])]
    assert sorted(named) == sorted(layer_of)
    assert named == sorted(named, key=layer_of.__getitem__)


def name_of(requirement):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def test_the_lock_names_a_version_of_all_that_is_needed_and_no_place():
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"] | {"atari": [], "bsuite": []}  # which no test installs
    needed = [*project["dependencies"], *itertools.chain(*extras.values())]
    lines = [line for line in (ROOT / "requirements-dev.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    locked = {name_of(line) for line in lines}
    assert {name_of(each) for each in needed} - {project["name"]} <= locked


def test_the_workflow_runs_the_steps_of_continuous_integration_on_every_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    asked = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    steps = re.findall(r"^(make test|\.ci/\w+)(?: &)?$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert len(steps) == 4
    assert {" ".join(line.replace("PYTHON=python", "").split()) for line in asked} == {*steps, "make .venv/.with-dev"}
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix == {"os": ["ubuntu-latest", "macos-latest"], "python": ["3.11", "3.12", "3.13"]}
    assert PYPROJECT["project"]["requires-python"] == f">={matrix['python'][0]}"


def test_hooks_check_what_make_test_checks_besides():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    *checks, tests = commands("test")
    hooks = [hook["entry"].removeprefix(".venv/bin/") for hook in repository["hooks"]]
    assert hooks == [line.removeprefix(".venv/bin/").removesuffix(" .") for line in checks] + TOOLS
    assert shlex.split(tests) == [".venv/bin/pytest", "-m", "not long"]


@pytest.mark.process
@pytest.mark.parametrize(("asked", "most"), [([], 1), (["tests/test_statistics.py"], 4)])
def test_pytest_alone_takes_one_case_of_every_test(asked, most):
    few = "testpaths=tests/test_statistics.py tests/test_theory.py README.md"  # instead of all, whose imports take long
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-o", few, *asked]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    cases = Counter(line.split("[")[0] for line in told.splitlines() if line.startswith("tests/"))
    assert max(cases.values()) == most and "README.md::" not in told


def test_the_bug_template_asks_for_what_can_be_repeated():
    template = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text())
    required = [field["id"] for field in template["body"] if field.get("validations", {}).get("required")]
    assert required == ["code", "seen", "expected", "versions"]
