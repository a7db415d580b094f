"""Ctrl-C, pressed by another process at random moments of learning: the same bits at the end, and no other error."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults import victim
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.victim import ARMED, CAUGHT, LOST, SENT, Control

SOONEST, LATEST = 1e-5, 0.05  # seconds from one Ctrl-C to the next; evenly by their logarithm
LOADING = 3.0  # seconds in which compiled code is loaded at the first call


def run(presses: int, first_calls: int, seed: int = 0) -> Iterator[Outcome]:
    """All learners: `presses` shared among them, and `first_calls` processes that are pressed once as they begin."""
    chance = random.Random(seed)
    for name in victim.LEARNERS:
        outcome = Outcome(f"Ctrl-C, {name}")
        share = -(-presses // len(victim.LEARNERS))
        outcome.tried, told = press(name, share, "", lambda: SOONEST * (LATEST / SOONEST) ** chance.random())
        outcome.troubles = told
        yield outcome
    outcome = Outcome("Ctrl-C in the first call of a process")
    expected: dict[str, str] = {}
    for number in range(first_calls):
        name = list(victim.LEARNERS)[number % len(victim.LEARNERS)]
        if name not in expected:
            expected[name] = victim.undisturbed(name)
        sent, told = press(name, 1, expected[name], lambda: chance.uniform(0, LOADING))
        outcome.tried += sent
        outcome.troubles += told
    if first_calls:
        yield outcome


def press(name: str, presses: int, expected: str, wait: Callable[[], float]) -> tuple[int, list[str]]:
    """Press Ctrl-C on a process so often; how often that was, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        control = Control(Path(folder, "control"))
        command = [sys.executable, "-m", "benchmarks.faults.victim", name, str(presses), f"{folder}/control", expected]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while process.poll() is None:
            if control[ARMED] and control[SENT] == control[CAUGHT]:
                time.sleep(wait())
                if control[ARMED]:
                    control[SENT] += 1
                    process.send_signal(signal.SIGINT)
            else:
                time.sleep(2e-4)
        printed = process.communicate()[0]
        sent, lost = control[SENT], control[LOST]
    if process.returncode == 0:
        return sent, [f"{name}: nobody noticed it: {printed.strip()[-400:]}"] * lost
    how = signal.Signals(-process.returncode).name if process.returncode < 0 else printed.strip()[-400:]
    return sent, [f"{name}, after {sent} presses: {how}"]


def twice(expected_within: float = 60.0) -> str | None:
    """Ctrl-C twice while numba is at work ends the process, with a word about it."""
    script = "import os, time, fpi._interrupts as i\nwith i.held:\n    print('in', flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    deadline = time.monotonic() + expected_within
    while process.poll() is None and time.monotonic() < deadline:  # a busy computer may take two for one
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    process.kill()
    told = process.communicate()[1]
    if process.returncode == -signal.SIGINT and "Stopped by Ctrl-C twice" in told:
        return None
    return f"exit code {process.returncode}, {told!r}, in {os.getcwd()}"
