"""Is everything as it was? An earlier version and the working tree, bit by bit.

    python -m benchmarks compare-versions REV [ROW ...]

runs the rows of tests/support/scenarios.py, or those whose names match (`'Regret*'`), with the commit REV and with the
working tree at once, and compares data, targets, histories, answers and saved files. It ends with 1 if a bit differs.
The earlier version stays in build/versions, so that its compiled code is there the next time.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
Rows = dict[str, dict[str, NDArray[Any]]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare-versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("revision", metavar="REV", help="the earlier version, as git names it")
    parser.add_argument("rows", metavar="ROW", nargs="*", help="rows to run; all unless some are named")
    asked = parser.parse_args(arguments)
    console = Console(width=140)
    earlier = checkout(asked.revision)
    with console.status(f"running the rows with {asked.revision} and with the working tree"):
        before, now = _run([earlier / "src", ROOT / "src"], asked.rows or ["*"])
    if not now:
        parser.error(f"no row matches {' or '.join(asked.rows)}; tests/support/scenarios.py has their names.")
    table = Table("row", "bits", "first difference: earlier, now", "fields that differ")
    differing = 0
    for name in now:
        found = differences(before[name], now[name])
        differing += bool(found)
        table.add_row(name, "differ" if found else "equal", next(iter(found.values()), ""), ", ".join(found))
    console.print(table)
    console.print(f"{len(now) - differing} of {len(now)} rows are equal to {asked.revision} bit by bit.")
    return int(differing > 0)


def differences(before: dict[str, NDArray[Any]], now: dict[str, NDArray[Any]]) -> dict[str, str]:
    """The fields of a row that differ, each with the first place where it does. A row that failed is never equal."""
    if "error" in before or "error" in now:
        return {"error": f"{before.get('error', 'none')}, {now.get('error', 'none')}"}
    names = [*before, *(name for name in now if name not in before)]
    said = {name: _difference(before.get(name), now.get(name)) for name in names}
    return {name: text for name, text in said.items() if text}


def _difference(before: NDArray[Any] | None, now: NDArray[Any] | None) -> str:
    if before is None or now is None:
        return "there is none, there is one" if before is None else "there is one, there is none"
    if before.dtype.kind == now.dtype.kind == "U":  # whose width is that of the longest text
        return "" if np.array_equal(before, now) else f"{before}, {now}"
    if (before.dtype, before.shape) != (now.dtype, now.shape):
        return f"{before.dtype} {before.shape}, {now.dtype} {now.shape}"
    if before.tobytes() == now.tobytes():
        return ""
    one, other = (np.ascontiguousarray(each).reshape(-1) for each in (before, now))
    bits = [each.view(np.uint8).reshape(each.size, each.itemsize) for each in (one, other)]
    places = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
    at = tuple(int(i) for i in np.unravel_index(places[0], before.shape))
    return f"{len(places)} of {before.size}, at {at}: {one[places[0]].item()!r}, {other[places[0]].item()!r}"


def _run(sources: list[Path], patterns: list[str]) -> list[Rows]:
    """The rows of every version, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for number, source in enumerate(sources):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (source, TESTS)))}
            call = [sys.executable, "-m", "support.scenarios", str(source), f"{folder}/{number}.npz", *patterns]
            processes.append(subprocess.Popen(call, env=environment, cwd=folder))
        for process, source in zip(processes, sources, strict=True):
            if process.wait():
                raise SystemExit(f"The rows could not be run with {source}; what is above says why.")
        return [_read(Path(folder, f"{number}.npz")) for number in range(len(sources))]


def _read(path: Path) -> Rows:
    rows: Rows = {}
    with np.load(path) as fields:
        for key in fields:
            row, _, name = key.partition("/")
            rows.setdefault(row, {})[name] = fields[key]
    return rows


def commit_of(revision: str) -> str:
    """The commit that git means, empty if there is none."""
    call = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]
    try:
        return subprocess.run(call, capture_output=True, text=True).stdout.strip()
    except OSError:  # there is no git
        return ""


def checkout(revision: str) -> Path:
    """The sources of a commit, in a folder that stays."""
    commit = commit_of(revision)
    if not commit:
        raise SystemExit(f"git knows no commit {revision!r}. Name one that `git log` shows.")
    folder = ROOT / "build" / "versions" / commit
    if not folder.exists():
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "src"], capture_output=True, check=True)
        unfinished = folder.with_name(f"{commit}-{os.getpid()}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(unfinished, filter="data")
        try:
            unfinished.rename(folder)
        except OSError:  # another command was first
            shutil.rmtree(unfinished)
    return folder
