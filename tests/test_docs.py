"""What the documentation shows must run, and must be finished."""

import ast
import builtins
import doctest
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import settings, tables
from benchmarks.__main__ import BENCHMARKS, RUN, TABLES

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "fpi.regression",
        "fpi.algorithms.pac",
        "fpi.algorithms.regret",
        "fpi.algorithms.eluder",
        "fpi.algorithms.model_fpi",
        "fpi.function_classes",
    ],
)
def test_examples_in_docstrings_run(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_pages_are_finished_and_their_links_lead_somewhere(page):
    text = page.read_text()
    assert not re.search(r"^[A-Z]+_[A-Z_]+$|TODO|FIXME", text, re.MULTILINE)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (page.parent / link).exists(), link


IN_ORDER = "blocks of code on this page go on from one another"
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in sorted(ROOT.glob("docs/*.md"))
    if IN_ORDER not in page.read_text()
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_code_need_no_other_block(block):
    """But for pages that say otherwise."""
    if block.startswith(">>> "):
        block = "".join(example.source for example in doctest.DocTestParser().get_examples(block))
    bound, read = set(dir(builtins)) | {"__name__"}, set()
    for node in ast.walk(ast.parse(block)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=asname):
                bound.add(asname or name.partition(".")[0])
    assert read <= bound, read - bound


def test_every_marked_table_can_be_written(monkeypatch, tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    monkeypatch.setattr(tables, "DOCS", tmp_path / "docs")
    marked = {
        (page.name, name)
        for page in (tmp_path / "docs").glob("*.md")
        for name in re.findall(r"<!-- table: (.*) -->", page.read_text())
    }
    assert marked == {(page, name) for name, (page, _) in (BENCHMARKS | TABLES).items()} | {RUN}
    for page, name in marked:
        tables.write(page, name, ["| new |", "|---|", "| 1 |"])
        before, now = (ROOT / "docs" / page).read_text(), (tmp_path / "docs" / page).read_text()
        table = now.partition(f"<!-- table: {name} -->\n")[2].partition("<!-- end -->")[0]
        assert table == "| new |\n|---|\n| 1 |\n" and before.splitlines()[-1] == now.splitlines()[-1]
    with pytest.raises(SystemExit, match="no place for this table"):
        tables.write("verify.md", "unknown", [])


def test_the_table_of_settings_is_that_of_the_code():
    assert "\n".join(settings.table()) in (ROOT / "docs/settings.md").read_text()


def test_every_name_in_paper_md_exists():
    text = (ROOT / "docs/paper.md").read_text()
    homes = (
        "fpi.training",
        "fpi.data",
        "fpi.datasets",
        "fpi.regression",
        "fpi.algorithms.pac",
        "fpi.algorithms.theory",
        "fpi.algorithms.levels",
        "fpi.algorithms.regret",
        "fpi.algorithms.eluder",
        "fpi.function_classes",
    )
    modules = [importlib.import_module(home) for home in (*homes, "fpi.algorithms.agent")]
    for name in re.findall(
        r"`((?:kernels\.\w+|training|PAC|Regret|Eluder|Agent|LeveledAgent|LevelState|Datasets|PrefixRidge|Prefixes|Constants"
        r"|Explanation|Dataset|History)\.\w+)",
        text,
    ):
        owner, attribute = name.rsplit(".", 1)
        if owner.partition(".")[0] in ("kernels", "training"):
            assert hasattr(importlib.import_module(f"fpi.{owner}"), attribute), name
        else:
            kind = next(getattr(module, owner) for module in modules if hasattr(module, owner))
            fields = {field for each in kind.__mro__ for field in getattr(each, "__annotations__", {})}
            assert hasattr(kind, attribute) or attribute in fields, name


@pytest.mark.process
def test_the_shell_lines_of_the_readme_end_in_a_policy_that_beats_chance(tmp_path):
    lines = re.findall(r"^\$ (fpi .*?)\s*(?:#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE)
    said = {}
    for line in lines:
        words = shlex.split(line)
        command = [Path(sys.executable).with_name("fpi"), *words[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said[words[1]] = done.stdout
    learned = float(re.search(r"mean return +(\S+)", said["evaluate"])[1])
    by_chance = float(re.search(r"mean return of random play +([\d.]+)", said["evaluate"])[1])
    assert learned > 5 * by_chance > 75  # so it was with 20 of 20 seeds
    assert (tmp_path / "cartpole.gif").stat().st_size > 10_000
