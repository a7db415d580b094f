"""How long a user waits before anything happens."""

import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

FIRST_EPISODE = """
import time
began = time.perf_counter()
import gymnasium as gym, fpi
env = gym.make("CartPole-v1")
agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=4, tilings=4), actions=2, horizon=500, epsilon=1.0, ridge=1e-3)
agent.learn(env, episodes=1, seed=0)
print(time.perf_counter() - began)
"""
IMPORT = "import time; began = time.perf_counter(); import fpi; print(time.perf_counter() - began)"


def run(console: Console) -> None:
    table = Table("what", "seconds (best of 3)", "target")
    for what, code, target in (("import fpi", IMPORT, "< 0.5"), ("first episode, warm cache", FIRST_EPISODE, "< 2")):
        _seconds(code)  # fills the compile cache
        table.add_row(what, f"{min(_seconds(code) for _ in range(3)):.2f}", target)
    console.print(table)


def _seconds(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    print(time.ctime())
    run(Console())
