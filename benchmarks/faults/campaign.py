"""All of it, with a table of what was tried and what held: `python -m benchmarks faults`."""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

from rich.console import Console

from benchmarks.faults import cluster, files, folders, inputs, interrupts, kills, long_runs
from benchmarks.faults.outcome import SHOWN, Outcome

Sizes = dict[str, int]
DEFAULTS: Sizes = {
    "interrupts": 350,
    "first-calls": 14,
    "kills": 60,
    "full-disks": 50,
    "damaged-files": 20_000,
    "lying-files": 500,
    "damaged-folders": 300,
    "links": 33,
    "inputs": 5_000,
    "commands": 20,
    "data": 100_000,
    "episodes": 200_000,
    "clusters": 1,
}
FULL: Sizes = {
    "interrupts": 2_100,
    "first-calls": 70,
    "kills": 210,
    "full-disks": 500,
    "damaged-files": 1_000_000,
    "lying-files": 20_000,
    "damaged-folders": 10_000,
    "links": 330,
    "inputs": 5_000,
    "commands": 200,
    "data": 1_000_000,
    "episodes": 10_000_000,
    "clusters": 5,
}
PARTS: dict[str, Callable[[Sizes], Iterator[Outcome]]] = {
    "interrupts": lambda sizes: interrupts.run(sizes["interrupts"], sizes["first-calls"]),
    "kills": lambda sizes: kills.run(sizes["kills"], sizes["full-disks"]),
    "files": lambda sizes: files.run(sizes["damaged-files"], sizes["lying-files"]),
    "folders": lambda sizes: folders.run(sizes["damaged-folders"], sizes["links"]),
    "inputs": lambda sizes: inputs.run(sizes["inputs"], sizes["commands"]),
    "ray": lambda sizes: cluster.run(sizes["clusters"]),
    "long": lambda sizes: long_runs.run(sizes["data"], sizes["episodes"]),
}


def run(parts: list[str], sizes: Sizes, console: Console) -> int:
    """Try everything and tell; returns how much did not hold."""
    failed = 0
    console.print(f"{'what was tried':<48}{'times':>11}{'held':>11}{'seconds':>9}")
    for part in parts:
        began = time.perf_counter()
        for outcome in PARTS[part](sizes):
            now = time.perf_counter()
            console.print(f"{outcome.what:<48}{outcome.tried:>11,}{outcome.held:>11,}{now - began:>9.1f}")
            for trouble in outcome.troubles[:SHOWN]:
                console.print(f"    {trouble}", markup=False, soft_wrap=True)
            failed += len(outcome.troubles)
            began = now
    return failed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"any of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--full", action="store_true", help="the sizes of docs/faults.md, which take hours")
    for name, size in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{size:,}, or {FULL[name]:,} with --full")
    options = parser.parse_args(arguments)
    usual = FULL if options.full else DEFAULTS
    given = {name: getattr(options, name.replace("-", "_")) for name in usual}
    sizes = {name: usual[name] if given[name] is None else given[name] for name in usual}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed = run(options.parts or list(PARTS), sizes, Console(width=120))
    print("Everything held." if not failed else f"{failed:,} did not hold.")
    return 1 if failed else 0
