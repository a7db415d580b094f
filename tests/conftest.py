"""Little room to begin with, so that arrays grow in short runs too; and a last word on what could not be tested."""

import pytest

from fpi import datasets, regression


@pytest.fixture(autouse=True)
def little_room():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "ROOM", 256)
        patch.setattr(regression, "ROOM", 16)
        yield


def pytest_terminal_summary(terminalreporter):
    for reason in sorted({report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])}):
        terminalreporter.write_line(reason)
