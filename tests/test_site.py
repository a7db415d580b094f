"""The site keeps up with the code: every public name, every argument, every page in its place."""

import ast
import doctest
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
REFERENCE = sorted(DOCS.glob("reference/*.md"))

# What users are given and never make: the call that gives it, which an example has.
GIVEN_BY = {
    "fpi.algorithms.agent.Summary": ".summary(",
    "fpi.algorithms.levels.Explanation": "regret.explain(",
    "fpi.algorithms.levels.LevelState": ".level_states",
    "fpi.algorithms.model_fpi.ModelExplanation": "model.explain(",
    "fpi.modelling.report.ModelReport": "model.report(",
    "fpi.algorithms.pac.Explanation": "agent.explain(",
    "fpi.baselines.Bill": ".bill",
    "fpi.baselines.Run": "baselines.play(",
    "fpi.baselines.View": "online.reset(",
    "fpi.compiled.Comparison": "compiled.compare(",
    "fpi.data.Dataset": ".dataset(",
    "fpi.determinism.CheckReport": "determinism.check(",
    "fpi.determinism.ReplayReport": "determinism.replay(",
    "fpi.evaluation.Decision": ".decide(",
    "fpi.features.OptionalMethods": "optional_methods(",
    "fpi.function_classes.EluderSequence": "eluder_dimension(",
    "fpi.history.Evaluation": "fpi.evaluate(",
    "fpi.history.History": ".learn(",
    "fpi.report.Results": "report.read(",
    "fpi.testbeds.Verification": "testbeds.verify(",
    "fpi.testing.AgentReport": "fpi.check_agent(",
    "fpi.testing.MethodReport": "fpi.check_method(",
    "fpi.training.Episode": "callback=",
}
# Protocols and base classes for authors: the page that writes one, to which the reference links.
EXEMPT = {
    "fpi.baselines.Method": "howto/write_a_method.md",
    "fpi.function_classes.Prefixes": "function_classes.md",
    "fpi.testbeds.Testbed": "howto/own_testbed.md",
    "fpi.training.Learner": "howto/add_an_algorithm.md",
}


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


def examples(text):
    return "".join(example.source for example in doctest.DocTestParser().get_examples(text))


def shown(code):
    """The ids of the modules, classes and functions that code names, such as fpi.load and testbeds.make."""
    nodes, names = list(ast.walk(ast.parse(code))), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {
                each.name.partition(".")[0]: importlib.import_module(each.name.partition(".")[0])
                for each in node.names
                if each.name.startswith("fpi") and not each.asname
            }
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("fpi"):
            names |= {each.name: getattr(importlib.import_module(node.module), each.name) for each in node.names}

    def meant(node):
        if isinstance(node, ast.Name):
            return names.get(node.id)
        return getattr(meant(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None

    return {id(meant(node)) for node in nodes} - {id(None)}


def without_example(pages):
    """Public classes and functions that no example of their page names, nor that of their own docstring."""
    silent = []
    for page in pages:
        code = examples(page)
        found = shown(code)
        for module in re.findall(r"{public} (\S+)", page):
            for name, thing in things(module).items():
                full = f"{module}.{name}"
                if public_names.is_value(thing) or (inspect.isclass(thing) and issubclass(thing, BaseException)):
                    continue  # errors are raised by what is shown
                if full in EXEMPT:
                    there = f"../{EXEMPT[full]}" in page
                elif full in GIVEN_BY:
                    there = GIVEN_BY[full] in code and f"`{name}`" in page
                else:
                    there = id(thing) in found or name in examples(public_names.docstring(thing))
                silent += [] if there else [full]
    return silent


def test_every_public_name_is_in_an_example_of_the_reference():
    pages = [page.read_text() for page in REFERENCE]
    assert without_example(pages) == []
    # and it would be noticed: on its page, and not by a name that only sounds alike
    assert "fpi.features.RBF" in without_example([page.replace("fpi.RBF(", "RBFs(") for page in pages])
    assert "fpi.compiled.learn" in without_example([page.replace("compiled.learn(", "agent.learn(") for page in pages])
    assert "fpi.data.Dataset" in without_example([page.replace(".dataset(", ".data(") for page in pages])
    known = {f"{module}.{name}" for module in public_names.modules() for name in public_names.names_of(module)}
    assert {*GIVEN_BY, *EXEMPT} <= known
    assert all(name.rpartition(".")[2] in (DOCS / page).read_text() for name, page in EXEMPT.items())


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
