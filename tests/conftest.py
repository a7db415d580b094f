"""Which tests are run in which order; little room to begin with, so that arrays grow in short runs too."""

import gc
import os
import signal
import sys

import pytest

from fpi.datasets import actors
from fpi.kernels import ridge

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in `make test &` of a script; tests send Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.dont_write_bytecode = False  # containers like to set it, and then every process that a test starts compiles fpi
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

APART = ("test_house", "test_model_files", "test_project", "test_site", "test_statistics")
"""These use hardly any compiled code: a worker can begin with them, while another compiles for both."""
LAST = ("test_compiling", "test_ray")
"""These take what is compiled along, into a copy of fpi or to other processes."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["alone"] = alone(node.config)


def alone(config):
    """Whether `pytest` was asked for nothing in particular."""
    if hasattr(config, "workerinput"):
        return config.workerinput["alone"]
    usual = config.option.markexpr == "not slow and not process and not long"
    return usual and not config.option.keyword and config.args_source is pytest.Config.ArgsSource.TESTPATHS


@pytest.hookimpl(trylast=True)  # when markers have been looked at
def pytest_collection_modifyitems(config, items):
    """`pytest` alone takes the first case of every test; the second of two workers begins with what is apart."""
    if alone(config):
        firsts = {item.nodeid.split("[")[0]: item for item in reversed(items) if item.path.suffix == ".py"}
        config.hook.pytest_deselected(items=list({*items} - {*firsts.values()}))
        items[:] = [*firsts.values()][::-1]
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
        patch.setattr(actors, "ROOM", 1)
        patch.setattr(ridge, "SPARSE_ROOM", 1)
        yield


def pytest_terminal_summary(terminalreporter):
    for reason in sorted({report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])}):
        terminalreporter.write_line(reason)
