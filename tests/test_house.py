"""The house: the wheel, the lazy import, and checks that are shown to fail on what they must refuse."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
HEAVY = {"gymnasium", "imageio", "matplotlib", "numba", "rich", "scipy", "typer"}


def run(*command, cwd, **environment):
    """Run a command outside of any make that runs these tests."""
    inherited = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=inherited | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def succeed(*command, cwd, **environment):
    result = run(*command, cwd=cwd, **environment)
    assert result.returncode == 0, result.stdout
    return result.stdout


# The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    succeed(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, REPOSITORY, cwd=folder)
    (path,) = folder.glob("frozen_policy_iteration-*-py3-none-any.whl")
    return path


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = {name for name in names if name.startswith("fpi/")}
    files = (path for kind in ("py", "html") for path in REPOSITORY.glob(f"src/fpi/**/*.{kind}"))
    sources = {path.relative_to(REPOSITORY / "src").as_posix() for path in files}
    assert package == sources | {"fpi/py.typed"}
    assert all(re.match(r"frozen_policy_iteration-[\d.]+\.dist-info/", name) for name in set(names) - package)


def test_the_wheel_works_in_a_clean_environment(wheel, tmp_path):
    clean, empty = tmp_path / "clean", tmp_path / "empty"
    venv.create(clean)
    empty.mkdir()
    python = clean / "bin" / "python"
    succeed(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=empty,
    )
    # The dependencies are lent from here; an editable fpi is not, since its .pth file is not read from there.
    site = succeed(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=empty).strip()
    Path(site, "lent.pth").write_text(sysconfig.get_path("purelib"))
    file, version = succeed(python, "-c", "import fpi; print(fpi.__file__, fpi.__version__)", cwd=empty).split()
    assert Path(file).is_relative_to(site)
    assert wheel.name.startswith(f"frozen_policy_iteration-{version}-")
    assert "train" in succeed(clean / "bin" / "fpi", "--help", cwd=empty)


def test_every_import_is_a_declared_dependency(wheel):
    imported = set()
    for path in REPOSITORY.glob("src/fpi/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    metadata = zipfile.ZipFile(wheel).read(f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/METADATA").decode()
    requirements = Parser().parsestr(metadata).get_all("Requires-Dist")
    declared = {re.match(r"[\w-]+", line)[0].lower() for line in requirements if "extra == 'dev'" not in line}
    distributions = packages_distributions()
    for name in imported - sys.stdlib_module_names - {"fpi"}:
        assert declared & {distribution.lower() for distribution in distributions[name]}, name


def test_importing_fpi_imports_nothing_heavy(tmp_path):
    script = f"import sys, fpi; fpi.__version__; print(sorted({HEAVY} & set(sys.modules)))"
    assert succeed(sys.executable, "-c", script, cwd=tmp_path) == "[]\n"


# The checkers fail when they must

USES_FPI = """
import numpy as np
from numpy.typing import NDArray

import fpi


def decide(agent: fpi.PAC, observation: NDArray[np.float64]) -> {returned}:
    return agent.predict(observation, stage=0)
"""


TOOLS = ["mypy", "lint-imports"]


@pytest.mark.parametrize("tool", TOOLS)
def test_types_and_layers_are_in_order(tool):
    succeed(BIN / tool, cwd=REPOSITORY)


def test_the_type_checker_refuses_a_misused_api(tmp_path):
    right = USES_FPI.format(returned="int")

    def mypy(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        files = [tmp_path / f"{name}.py" for name in sources]
        return run(BIN / "mypy", "--config-file", REPOSITORY / "pyproject.toml", *files, cwd=REPOSITORY)

    accepted = mypy(right=right)
    assert accepted.returncode == 0, accepted.stdout
    refused = mypy(wrong=USES_FPI.format(returned="str"), untyped=right.replace(": fpi.PAC", ""))
    assert refused.returncode == 1
    complaints = [line for line in refused.stdout.splitlines() if "error:" in line]
    assert any("wrong.py" in line and 'got "int", expected "str"' in line for line in complaints)
    assert any("untyped.py" in line and "Function is missing a type annotation" in line for line in complaints)


@pytest.mark.parametrize(
    ("module", "planted", "broken"),
    [
        ("errors.py", "import fpi.training", "fpi.errors is not allowed to import fpi.training"),
        ("regression.py", "from fpi import features", "fpi.regression is not allowed to import fpi.features"),
        (
            "model_files.py",
            "from fpi.determinism import *",
            "fpi.model_files is not allowed to import fpi.determinism",
        ),
        ("algorithms/pac.py", "import gymnasium", "fpi.algorithms is not allowed to import gymnasium"),
        ("homeless.py", "", "homeless"),
    ],
)
def test_the_layers_refuse_a_planted_import(tmp_path, module, planted, broken):
    shutil.copytree(REPOSITORY / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    linter = (BIN / "lint-imports", "--no-cache")
    succeed(*linter, cwd=tmp_path, PYTHONPATH=str(tmp_path / "src"))
    with (tmp_path / "src" / "fpi" / module).open("a") as file:
        file.write(f"\n{planted}\n")
    refused = run(*linter, cwd=tmp_path, PYTHONPATH=str(tmp_path / "src"))
    assert refused.returncode == 1
    assert broken in " ".join(refused.stdout.split())


def test_nothing_imports_pickle(tmp_path):
    module = tmp_path / "planted.py"
    ruff = (BIN / "ruff", "check", "--config", REPOSITORY / "pyproject.toml", module)
    module.write_text("import json\n\nprint(json.dumps(1))\n")
    succeed(*ruff, cwd=tmp_path)
    module.write_text("import pickle\n\nprint(pickle.dumps(1))\n")
    refused = run(*ruff, cwd=tmp_path)
    assert refused.returncode == 1
    assert "Nothing fpi reads may execute" in refused.stdout


# The commands

STAND_INS = "python fpi ruff pytest"


@pytest.fixture
def checkout(tmp_path):
    """A folder with the Makefile and a stand-in for Python and tools that only notes what is asked of it."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(
        f"""#!/bin/sh
case "$*" in
    -c*) exec {sys.executable} "$@" ;;
    "-m venv .venv") mkdir -p .venv/bin; for tool in {STAND_INS}; do cp "$0" .venv/bin/$tool; done ;;
    *) echo "$*" >> asked; [ ! -e broken ] ;;
esac
"""
    )
    stand_in.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "extras"), [("run", "mujoco,report"), ("test", "dev"), ("coverage", "dev"), ("bench", "dev")]
)
def test_every_command_installs_what_it_needs_once_and_again_if_that_broke_off(checkout, target, extras):
    make = ("make", "PYTHON=./stand-in", target)
    (checkout / "broken").touch()
    assert run(*make, cwd=checkout).returncode != 0
    (checkout / "broken").unlink()
    succeed(*make, cwd=checkout)
    succeed(*make, cwd=checkout)
    first, second, *work = (checkout / "asked").read_text().splitlines()
    assert first == second == f"-m pip install --quiet --editable .[{extras}]"
    assert work and work == 2 * work[: len(work) // 2] and not any("install" in line for line in work)


def test_running_first_leaves_the_tools_to_be_installed(checkout):
    for target in ("run", "test", "run", "bench"):
        succeed("make", "PYTHON=./stand-in", target, cwd=checkout)
    installs = [line for line in (checkout / "asked").read_text().splitlines() if "install" in line]
    assert [line.rpartition("[")[2] for line in installs] == ["mujoco,report]", "dev]"]


def test_an_old_or_absent_python_is_named(checkout):
    old = checkout / "stand-in"
    old.write_text(
        f"""#!/bin/sh
exec {sys.executable} -c 'import sys; sys.version_info = (3, 10); exec(sys.argv[1])' "$2"
"""
    )
    for python, why in (("./stand-in", "./stand-in is 3.10"), ("no-python", "there is no no-python here")):
        refused = run("make", f"PYTHON={python}", "test", cwd=checkout)
        assert refused.returncode != 0
        assert f"fpi needs Python 3.11 or newer, and {why}" in refused.stdout
        assert "make PYTHON=" in refused.stdout
    assert not (checkout / ".venv").exists()


def test_make_alone_says_what_there_is(checkout):
    said = succeed("make", cwd=checkout)
    assert all(f"make {target} " in said for target in ("run", "test", "coverage", "bench", "clean"))
    assert not (checkout / ".venv").exists()


def test_make_run_is_figure_2_at_full_length(checkout):
    asked = succeed("make", "--dry-run", "run", cwd=checkout).splitlines()[-1]
    assert asked == ".venv/bin/fpi reproduce figure2 --engine compiled"


@pytest.fixture
def integrate(checkout):
    """Run .ci/run with a Makefile whose `test` is this line, and with stand-ins for what it may call."""
    shutil.copytree(REPOSITORY / ".ci", checkout / ".ci")
    for step in ("docs", "bounds", "wheel"):
        (checkout / ".ci" / step).write_text(f"#!/bin/sh\necho {step}\n[ ! -e {step}-broken ]\n")
    tools = checkout / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "env", "id", "make", "sh"):
        (tools / name).symlink_to(shutil.which(name))

    def integrate(test, **stand_ins):
        (checkout / "Makefile").write_text(f"test:\n\t@{test}\n")
        for name, line in {"sudo": 'shift; exec "$@"', **stand_ins}.items():
            (tools / name.replace("_", "-")).write_text(f"#!/bin/sh\n{line}\n")
            (tools / name.replace("_", "-")).chmod(0o755)
        return run(checkout / ".ci" / "run", cwd=tools, PATH=str(tools), FPI_NEED_BROWSER="")

    return integrate


def test_continuous_integration_runs_make_test_and_three_more_steps(integrate, checkout):
    passed = integrate("echo tested, browser $$FPI_NEED_BROWSER", chromium="")
    assert passed.returncode == 0
    first, *steps = passed.stdout.splitlines()
    steps.remove("wheel")  # which is beside the others
    assert (first, *steps) == ("tested, browser 1", "docs", "bounds")
    assert integrate("false", chromium="").returncode != 0
    for step in ("docs", "bounds", "wheel"):
        (checkout / f"{step}-broken").touch()
        assert integrate("true", chromium="").returncode != 0
        (checkout / f"{step}-broken").unlink()


def test_continuous_integration_installs_a_browser(integrate, checkout):
    install = f'case "$*" in *install*) {shutil.which("touch")} {checkout}/tools/installed ;; esac; echo noise'
    assert integrate("echo browser $$FPI_NEED_BROWSER", apt_get=install).stdout.startswith("browser 1\n")
    assert (checkout / "tools" / "installed").exists()


def test_continuous_integration_goes_on_without_a_browser(integrate):
    passed = integrate("echo tested, browser $$FPI_NEED_BROWSER", apt_get="echo no network; exit 100")
    assert passed.returncode == 0
    assert passed.stdout.splitlines()[:2] == [
        "There is no chromium here and apt could not install it: the page will not be tested in a browser.",
        "tested, browser",
    ]


@pytest.mark.parametrize("missed", ["", "IndexError", "cdcdcdcd"])
def test_bounds_are_checked_only_where_planted_mistakes_are_noticed(checkout, missed):
    shutil.copytree(REPOSITORY / ".ci", checkout / ".ci")
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"""#!/bin/sh
case "$1 $2" in
    *dot*) {"echo IndexError; exit 1" if missed != "IndexError" else "echo 4.0"} ;;
    *empty*) echo {"cdcdcdcdcdcdcdcd" if missed != "cdcdcdcd" else "4.0"} ;;
    *) echo "$*" "$NUMBA_BOUNDSCHECK" "$NUMBA_CACHE_DIR" > asked; [ -d "$NUMBA_CACHE_DIR" ] ;;
esac
"""
    )
    python.chmod(0o755)
    result = run(checkout / ".ci" / "bounds", cwd=checkout)
    assert (result.returncode == 0) == (not missed) == (checkout / "asked").exists()
    if missed:
        assert "would not notice" in result.stdout and "4.0" in result.stdout
        return
    *tests, checked, cache = (checkout / "asked").read_text().split()
    named = {path.name for path in REPOSITORY.glob("tests/test_*.py") if f"tests/{path.name}" in tests}
    assert named == {path for path in map(os.path.basename, tests) if path.endswith(".py")} >= {"test_contract.py"}
    assert checked == "1" and not Path(cache).exists()


def test_texts_name_the_distribution_and_extras_that_exist():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    texts = [*REPOSITORY.glob("src/fpi/**/*.py"), *REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]
    named = [
        (name, extra)
        for path in texts
        for name, extra in re.findall(r"""pip install ["']?([\w-]+)\[([\w,]+)\]""", path.read_text())
    ]
    asked = {name for path in texts for name in re.findall(r"importing\(\"(\w+)\"", path.read_text())}
    assert {name for name, _ in named} == {project["name"]}
    assert {extra for _, extra in named} | asked == project["optional-dependencies"].keys() - {"all", "dev", "docs"}
