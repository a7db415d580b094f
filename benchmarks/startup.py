"""What comes before anything happens, in processor time: a machine may be busy with other things."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.table import Table

FIRST_EPISODE = """
import time
began = time.process_time()
import gymnasium as gym, fpi
env = gym.make("CartPole-v1")
agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=4, tilings=4), actions=2, horizon=500, epsilon=1.0, ridge=1e-3)
agent.learn(env, episodes=1, seed=0)
print(time.process_time() - began)
"""
IMPORT = "import time; began = time.process_time(); import fpi; print(time.process_time() - began)"


def run() -> Iterator[Table | str]:
    table = Table("what", "seconds of a processor", "target")
    for what, code, target in (("`import fpi`", IMPORT, "< 0.5"), ("first episode, warm cache", FIRST_EPISODE, "< 1")):
        with TemporaryDirectory() as cache:
            _seconds(code, cache)  # fills the caches of compiled code and of Python
            table.add_row(f"{what}, best of 3", f"{min(_seconds(code, cache) for _ in range(3)):.2f}", target)
    first, second = _figure2()
    table.add_row("compiling all that `make run` needs", f"{first - second:.1f}", "< 30")
    yield table
    yield "The last: Figure 2, one episode of one seed in one process, with an empty cache less with a full one."


def _seconds(code: str, cache: str) -> float:
    """What the code prints. Python keeps its own bytecode in `cache`, even where the environment forbids that."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _figure2() -> tuple[float, float]:
    """Processor seconds of the smallest `fpi reproduce figure2`, with an empty cache and again."""
    with TemporaryDirectory() as cache:
        return _reproduce(Path(cache), "empty"), _reproduce(Path(cache), "full")


def _reproduce(cache: Path, out: str) -> float:
    asked = ["figure2", "--engine", "compiled", "--seeds", "1", "--episodes", "1", "--workers", "1"]
    command = [sys.executable, "-c", "from fpi.cli import main; main()", "reproduce", *asked]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache / "numba")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--out", str(cache / out)], env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
