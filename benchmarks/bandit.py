"""FPI-Regret on a linear contextual bandit beside OFUL: the same world, the same number of episodes, one core."""

import time

from rich.console import Console
from rich.table import Table

from fpi.compare.bandit import BANDIT, Row

EPISODES = 100_000
ROWS = (
    Row("Uniform"),
    Row("OFUL"),
    Row("SupLinUCB", "optimistic"),
    Row("FPI-Regret", "greedy", "paper"),
    Row("FPI-Regret", "greedy", "interval", 0.1),
)


def run(console: Console) -> None:
    table = Table(
        f"{BANDIT.name}, {EPISODES:,} episodes", "seconds", "µs an episode", "/ OFUL", "target", title="bandit"
    )
    seconds = {row: _learn(row) for row in ROWS}
    for row, taken in seconds.items():
        ratio = f"{taken / seconds[Row('OFUL')]:.1f}"
        target = "less than 30 s" if row.method == "FPI-Regret" else ""
        table.add_row(row.name, f"{taken:.1f}", f"{taken / EPISODES * 1e6:.0f}", ratio, target)
    console.print(table)
    console.print("Uniform plays at random: its time is that of the loop and the environment.")


def _learn(row: Row) -> float:
    testbed = BANDIT.testbed(0)
    row.learner(BANDIT, EPISODES).learn(testbed.env(), 300, seed=0)  # compiles
    learner = row.learner(BANDIT, EPISODES)
    began = time.perf_counter()
    learner.learn(testbed.env(), EPISODES, seed=0)
    return time.perf_counter() - began
