"""FPI-Regret on a linear contextual bandit beside OFUL: the same world, the same number of episodes, one core."""

import time
from collections.abc import Iterator

from rich.table import Table

from fpi.compare.bandit import BANDIT, Row

EPISODES = 20_000
ROWS = (
    Row("Uniform"),
    Row("OFUL"),
    Row("SupLinUCB", "optimistic"),
    Row("FPI-Regret", "greedy", "paper"),
    Row("FPI-Regret", "greedy", "interval", 0.1),
)


def run() -> Iterator[Table | str]:
    table = Table(
        f"{BANDIT.name}, {EPISODES:,} episodes", "seconds", "µs an episode", "/ OFUL", "target", title="bandit"
    )
    seconds = {row: _learn(row) for row in ROWS}
    for row, taken in seconds.items():
        ratio = f"{taken / seconds[Row('OFUL')]:.1f}"
        target = "at most 300 µs" if row.method == "FPI-Regret" else ""
        table.add_row(row.name, f"{taken:.1f}", f"{taken / EPISODES * 1e6:.0f}", ratio, target)
    yield table
    yield "Uniform plays at random: its time is that of the loop and the environment."


def _learn(row: Row) -> float:
    testbed = BANDIT.testbed(0)
    row.learner(BANDIT, EPISODES).learn(testbed.env(), 300, seed=0)  # compiles
    learner = row.learner(BANDIT, EPISODES)
    began = time.process_time()
    learner.learn(testbed.env(), EPISODES, seed=0)
    return time.process_time() - began
