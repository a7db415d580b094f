"""Run all benchmarks, or those named: `python -m benchmarks accuracy learning`.

`python -m benchmarks compare-versions REV` compares an earlier commit with the working tree bit by bit instead.
"""

import argparse
import sys
from collections.abc import Callable

from rich.console import Console

from benchmarks import accuracy, bandit, compare_versions, decisions, eluder, engines, evaluation, learning, startup
from fpi.testbeds.__main__ import time_table


def testbeds(console: Console) -> None:
    for line in time_table():
        console.print(line)


BENCHMARKS: dict[str, Callable[[Console], None]] = {
    "startup": startup.run,
    "learning": learning.run,
    "engines": engines.run,
    "decisions": decisions.run,
    "accuracy": accuracy.run,
    "bandit": bandit.run,
    "eluder": eluder.run,
    "testbeds": testbeds,
    "evaluation": evaluation.run,
}


def main() -> None:
    if sys.argv[1:2] == ["compare-versions"]:
        sys.exit(compare_versions.main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), help=f"any of {', '.join(BENCHMARKS)}")
    names = parser.parse_args().names
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    console = Console(width=120)
    for name in names:
        console.rule(f"[bold]{name}")
        BENCHMARKS[name](console)


if __name__ == "__main__":
    main()
