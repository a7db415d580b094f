"""Run all benchmarks, or what is named: `python -m benchmarks accuracy learning`.

Other tables of the documentation have names too, and `pictures` are those of docs/verify.md. `--write` puts what was
run into docs/.

`python -m benchmarks compare-versions REV` compares an earlier commit with the working tree bit by bit instead, and
`python -m benchmarks faults` tries on purpose what must not break fpi (docs/faults.md). `python -m benchmarks control`,
`deep-sea` and `peers` (Stable-Baselines3) count the episodes until tasks are solved (docs/model.md).
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
from rich.table import Table

from benchmarks import (
    accuracy,
    bandit,
    certificates,
    compare_versions,
    control,
    decisions,
    deep_sea,
    eluder,
    engines,
    evaluation,
    function_classes,
    learning,
    memory,
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
    versions,
)
from benchmarks.faults import campaign

Place = tuple[str, Callable[[], Iterator[Table | str]]]

BENCHMARKS: dict[str, Place] = {  # name: page and what is told there
    "startup": ("benchmarks.md", startup.run),
    "learning": ("benchmarks.md", learning.run),
    "versions": ("benchmarks.md", versions.run),
    "decisions": ("benchmarks.md", decisions.run),
    "engines": ("compiled.md", engines.run),
    "memory": ("benchmarks.md", memory.run),
    "bandit": ("benchmarks.md", bandit.run),
    "methods": ("benchmarks.md", methods.run),
    "eluder": ("eluder.md", eluder.run),
    "testbeds": ("testbeds.md", testbeds.time_table),
    "planning": ("benchmarks.md", planning.run),
    "evaluation": ("benchmarks.md", evaluation.run),
    "accuracy": ("numerics.md", accuracy.run),
}
TABLES: dict[str, Place] = {
    "testbeds-exact": ("testbeds.md", testbeds.verification_table),
    "function-classes": ("function_classes.md", function_classes.table),
    "deep-sea": ("verify.md", pac_studies.sea_table),
    "settings": ("settings.md", settings.table),
    "sqrt-begins": ("rates.md", rates.table),
    "certificates": ("model.md", certificates.table),
    "data-and-loss": ("verify.md", pac_studies.growth_table),
}
RUN = "benchmarks.md", "run"  # where it is said of which run the tables are
PICTURES = "pictures"
STUDIES = {
    "control": control.main,
    "deep-sea": deep_sea.main,
    "peers": peers.main,
}  # with options of their own


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
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(known)}; {', '.join(BENCHMARKS)} if none is named")
    parser.add_argument("--write", action="store_true", help="put tables and pictures into docs/")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
    start = time.perf_counter()
    for name in options.names or BENCHMARKS:
        began = time.perf_counter()
        if name == PICTURES:
            folder = tables.DOCS / "images" / "verify" if options.write else Path(PICTURES)
            pac_pictures.draw(folder)
            print(f"learning.png, growth.png and freezing.png are in {folder}.")
            continue
        page, run = (BENCHMARKS | TABLES)[name]
        lines = []
        for line in tables.markdown(run()):
            print(line, flush=True)
            lines.append(line)
        if options.write:
            tables.write(page, name, lines)
        busy = f"{os.getloadavg()[0]:.1f} processes were running on {os.cpu_count()} cores"
        print(f"\n[{name}: {time.perf_counter() - began:.0f} seconds; {busy}]\n", flush=True)
    if options.write and not options.names:
        tables.write(*RUN, _about(time.perf_counter() - start))


def _about(seconds: float) -> list[str]:
    """Of which run the tables are."""
    commit = compare_versions.commit_of("HEAD") or "none"
    made_with = f"Python {platform.python_version()} and numba {numba.__version__}"
    return [
        f"All of these are of one run, of commit {commit[:7]}, which took {seconds / 60:.0f} minutes with {made_with}",
        f"on {os.cpu_count()} cores; {os.getloadavg()[2]:.1f} processes were running on average, this one among them.",
    ]


if __name__ == "__main__":
    main()
