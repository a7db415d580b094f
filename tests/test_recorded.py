"""All that learns does what it did when tests/record.py noted it down, and agents of every version load and go on."""

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
from support import recording, scenarios

import fpi

RECORDED = recording.read(recording.ROWS)
MODELS = sorted(recording.MODELS.glob("*/*.fpi"))

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_every_row_is_recorded():
    assert list(RECORDED) == list(scenarios.RECORDED)


def rows():
    """The quick default has one row of every kind of agent, features and engine; `make test` has all."""
    kinds = set()
    for name in scenarios.RECORDED:
        kind = tuple(name.split(", ")[:2])
        yield pytest.param(name, marks=[pytest.mark.slow] if kind in kinds else [])
        kinds.add(kind)


@pytest.mark.parametrize("name", [*rows()])
def test_a_row_is_as_it_was(name):
    found = recording.portable(scenarios.RECORDED[name]())
    assert recording.disagreement(found, RECORDED[name]) == ""


def test_every_kind_of_agent_has_a_model_of_this_version():
    version = ".".join(fpi.__version__.split(".")[:2])
    assert {path.stem for path in MODELS if path.parent.name == version} == set(recording.KINDS)
    assert all(path.stat().st_size < 30_000 for path in MODELS)


@pytest.mark.parametrize("path", MODELS, ids=[f"{path.parent.name} {path.stem}" for path in MODELS])
def test_a_model_loads_and_learns_on(path):
    found = recording.going_on(path)
    assert recording.disagreement(found, recording.read(path.with_suffix(".json"))) == ""


@pytest.mark.parametrize(
    ("field", "change", "says"),
    [
        ("actions", lambda x: [*x[:4], 1 - x[4], *x[5:]], "actions at (4,) is"),
        ("data.targets", lambda x: [x[0] + 1e-8, *x[1:]], "data.targets at (0,) is"),
        ("data.targets", lambda x: [x[0] + 1e-11, *x[1:]], ""),
        ("data.targets", lambda x: x[1:], "data.targets has the shape"),
        ("asked.freezing index", lambda x: [each + 1 for each in x], "asked.freezing index at (0,) is"),
    ],
)
def test_what_is_not_as_recorded_is_found(field, change, says):
    row = RECORDED["PAC, tiles, exact, random"]
    changed = copy.deepcopy(row)
    changed[field] = change(changed[field])
    found = recording.disagreement(changed, row)
    assert found.startswith(says) and bool(found) == bool(says)


# --- comparing versions, `python -m benchmarks compare-versions` ------------------------------------------------------

differences = runpy.run_path(str(recording.HERE.parent / "benchmarks" / "compare_versions.py"))["differences"]


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), None),
        (np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3.0)]), "1 of 2, at (1,)"),
        (np.array([[0.0]]), np.array([[-0.0]]), "1 of 1, at (0, 0)"),
        (np.array([1, 2]), np.array([1, 2, 3]), "int64 (2,), int64 (3,)"),
        (np.array([1, 2]), np.array([1, 2], np.int32), "int64 (2,), int32 (2,)"),
        (np.array("1e-3"), np.array("1e-03"), "1e-3, 1e-03"),
        (np.array("text"), np.array(0.0), "<U4 (), float64 ()"),
        (None, np.array(1.0), "there is none, there is one"),
    ],
)
def test_a_bit_that_differs_is_found(before, now, says):
    rows = [{} if field is None else {"field": field} for field in (before, now)]
    found = differences({"same": np.ones(2)} | rows[0], {"same": np.ones(2)} | rows[1])
    assert list(found) == ([] if says is None else ["field"])
    assert says is None or found["field"].startswith(says)


def test_a_row_that_fails_is_never_equal():
    failed = {"error": np.array("ValueError: no")}
    assert differences(failed, failed) == {"error": "ValueError: no, ValueError: no"}
    assert differences({"field": np.ones(1)}, failed) == {"error": "none, ValueError: no"}


def test_compared_rows_are_those_of_the_version_asked_for(tmp_path):
    with pytest.raises(RuntimeError, match="not from"):
        scenarios.main(str(tmp_path), str(tmp_path / "rows.npz"))
    source = str(Path(fpi.__file__).parents[1])
    scenarios.main(source, str(tmp_path / "rows.npz"), "PrefixRidge, dense, blocks 1*")
    with np.load(tmp_path / "rows.npz") as fields:
        assert len(fields.files) == 8
        assert fields["PrefixRidge, dense, blocks 1, ridge 1/first covers"].max() > 0
