"""The site keeps up with the code: every public name, every argument, every page in its place."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

import fpi

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_extensions"))
public_names = importlib.import_module("public_names")


def things(module):
    return {name: getattr(importlib.import_module(module), name) for name in public_names.names_of(module)}


@pytest.mark.parametrize("module", public_names.modules())
def test_every_public_name_is_explained_with_all_its_arguments(module):
    silent = []
    for name, thing in things(module).items():
        if public_names.is_value(thing):
            silent += [name] if name not in public_names.words() else []
            continue
        parts = {name: thing}
        if inspect.isclass(thing):
            parts |= {f"{name}.{each}": method for each, method in public_names.methods(thing).items()}
        for part, each in parts.items():
            plain = each.__func__ if isinstance(each, classmethod | staticmethod) else each
            around = public_names.docstring(thing)
            known = public_names.arguments(plain, around) if callable(plain) else []
            silent += [part] if not public_names.docstring(each) else []
            silent += [f"{part}({argument.name})" for argument in known if argument.text is None]
    assert silent == []


def test_what_is_missing_would_be_noticed():
    def lost(observation, wanted):
        """Explains `observation` only."""

    assert [each.name for each in public_names.arguments(lost) if each.text is None] == ["wanted"]


def test_every_public_module_has_a_place_in_the_reference():
    shown = {name for page in DOCS.glob("reference/*.md") for name in re.findall(r"{public} (\S+)", page.read_text())}
    assert shown == set(public_names.modules())
    named = {public_names.address(module, name) for module in shown for name in public_names.names_of(module)}
    assert {f"fpi.{name}" for name in fpi.__all__} - {"fpi.__version__"} <= named


def test_every_page_stands_in_a_table_of_contents():
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.glob("**/*.md")}
    listed = {"index"}
    for page in DOCS.glob("**/*.md"):
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL):
            for entry in re.findall(r"^(?!:)(\S+)$", tree, re.MULTILINE):
                found = {each.relative_to(DOCS).with_suffix("").as_posix() for each in page.parent.glob(f"{entry}.md")}
                assert found, f"{entry} of {page.name} leads nowhere"
                listed |= found
    assert pages == listed
