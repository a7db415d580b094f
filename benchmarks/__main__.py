"""Run all benchmarks, or what is named: `python -m benchmarks accuracy learning`.

Tables of the documentation have names too. `python -m benchmarks --write` puts them, all or those named, into docs/;
`pictures` draws those of docs/verify.md.

`python -m benchmarks compare-versions REV` compares an earlier commit with the working tree bit by bit instead, and
`python -m benchmarks faults` tries on purpose what must not break fpi (docs/faults.md). `python -m benchmarks control`,
`deep-sea` and `peers` (Stable-Baselines3) count the episodes until tasks are solved (docs/model.md).
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks import (
    accuracy,
    bandit,
    compare_versions,
    control,
    decisions,
    deep_sea,
    eluder,
    engines,
    evaluation,
    function_classes,
    learning,
    methods,
    pac_pictures,
    pac_studies,
    peers,
    planning,
    rates,
    settings,
    startup,
    tables,
    testbeds,
)
from benchmarks.faults import campaign

BENCHMARKS: dict[str, Callable[[Console], None]] = {
    "startup": startup.run,
    "learning": learning.run,
    "engines": engines.run,
    "decisions": decisions.run,
    "accuracy": accuracy.run,
    "bandit": bandit.run,
    "methods": methods.run,
    "eluder": eluder.run,
    "testbeds": lambda console: _print(testbeds.time_table()),
    "evaluation": evaluation.run,
    "planning": planning.run,
}
TABLES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {  # name: page and lines
    "testbeds-exact": ("testbeds.md", testbeds.verification_table),
    "function-classes": ("function_classes.md", function_classes.table),
    "deep-sea": ("verify.md", pac_studies.sea_table),
    "settings": ("settings.md", settings.table),
    "sqrt-begins": ("rates.md", rates.table),
    "data-and-loss": ("verify.md", pac_studies.growth_table),
}
PICTURES = "pictures"
STUDIES = {
    "control": control.main,
    "deep-sea": deep_sea.main,
    "peers": peers.main,
}  # with options of their own


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line, flush=True)


def main() -> None:
    if sys.argv[1:2] == ["compare-versions"]:
        sys.exit(compare_versions.main(sys.argv[2:]))
    if sys.argv[1:2] == ["faults"]:
        sys.exit(campaign.main(sys.argv[2:]))
    if sys.argv[1:2] and sys.argv[1] in STUDIES:
        STUDIES[sys.argv[1]](sys.argv[2:])
        return
    known = [*BENCHMARKS, *TABLES, PICTURES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(known)}")
    parser.add_argument("--write", action="store_true", help="put tables and pictures into docs/")
    options = parser.parse_args()
    names = options.names or ([*TABLES, PICTURES] if options.write else list(BENCHMARKS))
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
    console = Console(width=120)
    for name in names:
        console.rule(f"[bold]{name}")
        if name in BENCHMARKS:
            BENCHMARKS[name](console)
        elif name == PICTURES:
            folder = tables.DOCS / "images" / "verify" if options.write else Path(PICTURES)
            pac_pictures.draw(folder)
            print(f"learning.png, growth.png and freezing.png are in {folder}.")
        else:
            page, lines = TABLES[name]
            tables.write(page, name, lines()) if options.write else _print(lines())


if __name__ == "__main__":
    main()
