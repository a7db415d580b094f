"""Little room to begin with, so that arrays grow in short runs too; and a last word on what could not be tested."""

import gc
import signal

import pytest

from fpi import datasets
from fpi.kernels import ridge

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in `make test &` of a script; tests send Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


APART = ("test_house", "test_model_files", "test_project", "test_site", "test_statistics")
"""These use hardly any compiled code."""
LAST = ("test_compiling", "test_ray")
"""These take what is compiled along, into a copy of fpi or to other processes."""


def pytest_collection_modifyitems(items):
    """The second of two workers begins with what is apart, while the first compiles for both."""
    apart = [item for item in items if item.path.stem in APART]
    last = [item for item in items if item.path.stem in LAST]
    others = [item for item in items if item.path.stem not in (*APART, *LAST)]
    half = len(items) // 2
    items[:] = others[: half - len(last)] + last + apart + others[half - len(last) :]


def pytest_collection_finish():
    """What was imported is looked through no more: a twentieth of the time of all tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def little_room():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "ROOM", 1)
        patch.setattr(ridge, "SPARSE_ROOM", 1)
        yield


def pytest_terminal_summary(terminalreporter):
    for reason in sorted({report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])}):
        terminalreporter.write_line(reason)
