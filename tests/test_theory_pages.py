"""The theory pages show functions of the package, and name others: all of them must exist."""

import ast
import importlib
import re
from pathlib import Path

import pytest

THEORY = Path(__file__).parents[1] / "docs/theory"
PAGE = (THEORY / "2_algorithms.md").read_text()
HOMES = {
    "PAC": "fpi.algorithms.pac",
    "Agent": "fpi.algorithms.agent",
    "LeveledAgent": "fpi.algorithms.levels",
    "Datasets": "fpi.datasets",
    "_Play": "fpi.training",
}
SHOWN = re.findall(r"```\{literalinclude\} (\S+)\n(?::\w+:.*\n)*?:pyobject: (\S+)\n```", PAGE)
NAMED = sorted(set(re.findall(r"`((?:kernels\.\w+|training|" + "|".join(HOMES) + r")\.\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), SHOWN)
def test_every_function_that_is_shown_stands_in_its_file(file, name):
    node = ast.parse((THEORY / file).read_text())
    for part in name.split("."):
        node = next(each for each in node.body if getattr(each, "name", "") == part)
    assert isinstance(node, ast.FunctionDef)


@pytest.mark.parametrize("name", NAMED)
def test_every_function_that_is_named_exists(name):
    owner, attribute = name.rsplit(".", 1)
    if owner in HOMES:
        assert hasattr(getattr(importlib.import_module(HOMES[owner]), owner), attribute)
    else:
        assert hasattr(importlib.import_module(f"fpi.{owner}"), attribute)


def test_every_line_of_both_algorithms_has_a_function():
    first, second = PAGE.split("## Algorithm 2")
    rows = [re.findall(r"^\| ([\d–, ]+) \|.*\|(.*)\|$", part, re.MULTILINE) for part in (first, second)]
    lines = [
        {int(number) for text, _ in part for span in text.split(", ") for number in _numbers(span)} for part in rows
    ]
    assert lines[0] == set(range(1, 9)) and lines[1] == {*range(1, 14), *range(17, 21)}
    assert all("`" in where or where.strip() == "the same" for part in rows for _, where in part)
    assert len(SHOWN) == len(re.findall("literalinclude", PAGE)) >= 10


def _numbers(span):
    first, _, last = span.partition("–")
    return range(int(first), int(last or first) + 1)


def test_every_claim_of_the_paper_has_its_sentence():
    text = (THEORY / "4_lemmas.md").read_text()
    rows = re.findall(r"^\| (Lemma|Theorem) (\d+) \|", text, re.MULTILINE)
    assert [int(number) for kind, number in rows if kind == "Lemma"] == list(range(1, 29))
    assert [int(number) for kind, number in rows if kind == "Theorem"] == [1, 2, 3, 4]


def test_deviations_that_are_named_exist():
    paper = (THEORY.parent / "paper.md").read_text()
    named = set(re.findall(r"\bD(\d+)\b", (THEORY / "5_silent.md").read_text()))
    assert len(named) > 15 and [number for number in named if not re.search(rf"\*\*D{number}\b", paper)] == []
