"""Kill -9 and a full disk while agents learn and save: what stands on disk is whole, and goes on to the same bits."""

import errno
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import fpi
from benchmarks.faults import victim
from benchmarks.faults.outcome import Outcome
from fpi.errors import SaveError

CHECKPOINTS = 12  # in a run
LONGEST = 0.2  # seconds until the first kill of a run
KILLED = tuple(name for name in victim.LEARNERS if "function" not in name and "candidates" not in name)
"""Those whose files say all; the others would have to be handed their functions again."""


def run(kills: int, full_disks: int, learners: Sequence[str] = KILLED) -> Iterator[Outcome]:
    for name in learners if kills else ():
        outcome = Outcome(f"kill -9, {name}", tried=-(-kills // len(learners)))
        # A process without threads, which may fork.
        command = [sys.executable, "-m", "benchmarks.faults.kills", name, str(outcome.tried)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            outcome.troubles.append(done.stdout.strip()[-400:])
        yield outcome
    if full_disks:
        yield full(full_disks)


def killed(name: str, kills: int) -> None:
    """Kill learners that keep checkpoints, over and over, until so many were; each must come to the same end."""
    expected, chance = victim.undisturbed(name), random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agent.fpi")
        while kills > 0:
            path.unlink(missing_ok=True)
            waited = LONGEST
            while not _comes_to_its_end(name, path, chance.uniform(0, waited)):
                kills -= 1
                waited *= 1.1  # however slow the computer
            if victim.digest(fpi.load(path)) != expected:
                sys.exit("killed and continued, it came to another end")


def _comes_to_its_end(name: str, path: Path, seconds: float) -> bool:
    """Go on from the checkpoint in a process that is killed after so long."""
    child = os.fork()
    if child == 0:
        _learn_on(name, path)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _learn_on(name: str, path: Path) -> None:
    os.fsync = lambda fd: None  # a kill loses nothing that was written, and hits more places without the wait
    make, learn = victim.LEARNERS[name]
    agent = fpi.load(path) if path.exists() else make()
    while agent.episodes < victim.episodes_of(name):
        learn(agent, victim.episodes_of(name) // CHECKPOINTS, None if agent.episodes else 0)
        agent.save(path)


def full(count: int) -> Outcome:
    """Save where only so many bytes fit: the file that was there stays, and a SaveError says why."""
    outcome = Outcome("Full disk")
    agent = victim.LEARNERS["PAC, tiles, gymnasium"][0]()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agent.fpi")
        agent.save(path)
        before = path.read_bytes()
        agent.notes["changed"] = True
        for size in itertools.islice(itertools.cycle(range(len(before))), 0, None, max(1, len(before) // count)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                agent.save(path)
                trouble: str | None = f"a file of {len(before)} bytes was saved in {size}"
            except SaveError as error:
                why = error.__cause__
                trouble = None if isinstance(why, OSError) and why.errno == errno.EFBIG else str(error)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            if path.read_bytes() != before or os.listdir(folder) != ["agent.fpi"]:
                trouble = "the folder has changed"
            outcome.note(trouble)
            if outcome.tried == count:
                return outcome
    raise AssertionError("there are always sizes left")


if __name__ == "__main__":
    killed(sys.argv[1], int(sys.argv[2]))
