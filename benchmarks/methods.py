"""What the methods of `fpi compare table1` cost: seconds of a processor per 1,000 steps, on one testbed."""

from collections.abc import Iterator

from rich.table import Table

from fpi import baselines
from fpi.compare.table1 import ROWS, WORLDS
from fpi.run_config import RunConfig

STEPS = 4_000


def run() -> Iterator[Table | str]:
    table = Table("method", "testbed", "steps", "seconds per 1,000 steps", "numbers stored", title="methods")
    for name, (algorithm, arguments) in ROWS.items():
        world = "bandit" if "OFUL" in name else "sea" if name == "agnostic" else "hubs"
        setting = RunConfig(
            env=WORLDS[world].env,
            env_args=WORLDS[world].env_args,
            episodes=1,
            algorithm=algorithm,
            arguments=arguments,
        )
        testbed, _ = setting.make_testbed()
        baselines.play(setting.make_method(0), testbed, seed=0, steps=200)  # compiles
        rows = baselines.play(setting.make_method(0), testbed, seed=0, steps=STEPS).rows
        steps, seconds, numbers = (rows[column][-1] for column in ("steps", "seconds", "numbers"))
        table.add_row(name, world, f"{steps:,.0f}", f"{1_000 * seconds / steps:.3f}", f"{numbers:,.0f}")
    yield table
