"""Folders of results, damaged or with links in them: one named error, or the same rows; nothing outside changes."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from benchmarks.faults.files import change, mutate
from benchmarks.faults.outcome import Outcome, trouble_of
from fpi import report
from fpi.experiment import RunConfig, Study, run_study
from fpi.experiment import run as run_module
from fpi.experiment.backends import Backend, WorkerDied
from fpi.experiment.run import Checkpoint, run_slice
from fpi.experiment.study import Job

SETTING = RunConfig(
    env="CartPole-v1",
    episodes=24,
    features={"type": "TileCoding", "tiles": 2, "tilings": 2},
    arguments={"horizon": 6, "epsilon": 1.0, "ridge": 0.1},
)
STUDY = Study(name="small", title="A small study", settings={"CartPole-v1--only": SETTING}, seeds=(0, 1))
VICTIM = "precious"


class Here(Backend):
    """Plays slices in this process."""

    seconds = 60.0
    slots = 1

    def __init__(self) -> None:
        self._waiting: list[tuple[Job, Checkpoint | None, float]] = []

    def submit(self, job: Job, checkpoint: Checkpoint | None, seconds: float) -> None:
        self._waiting.append((job, checkpoint, seconds))

    def next(self) -> tuple[Job, Checkpoint | WorkerDied]:
        job, checkpoint, seconds = self._waiting.pop()
        return job, run_slice(job, checkpoint, seconds)

    def __enter__(self) -> Self:
        run_module._held = None  # a new command knows nothing but the files
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()


def run(damaged: int, links: int, seed: int = 0) -> Iterator[Outcome]:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, half = Path(folder, "whole"), Path(folder, "half")
        run_study(STUDY, whole, backend=Here())
        asked = iter([False] * 3 + [True] * 100)
        run_study(STUDY, half, backend=Here(), seconds=1e-9, stop=lambda: next(asked))
        assert list(half.glob("runs/*/checkpoint.fpi")), "a run must have been left in its middle"
        expected = rows(whole)
        outcome = Outcome("Damaged folders of results")
        for number in range(damaged):
            place = Path(folder, "damaged")
            shutil.copytree(half if number % 3 == 0 else whole, place)
            what = damage(place, chance)
            outcome.note(_trouble(place, expected, what))
            shutil.rmtree(place)
        yield outcome
        outcome = Outcome("Symbolic links in folders of results")
        for number in range(links):
            place = Path(folder, "linked")
            if number % 3:
                shutil.copytree((whole, half)[number % 2], place)
            else:
                place.mkdir()
            outcome.note(_linked(place, Path(folder, VICTIM), number))
            shutil.rmtree(place)
        yield outcome


def rows(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(folder.glob("runs/*/rows.safetensors"))}


def damage(place: Path, chance: random.Random) -> str:
    """Do something to one of the files; returns what."""
    path = chance.choice(sorted(each for each in place.rglob("*") if each.is_file()))
    name = path.relative_to(place)
    kind = chance.randrange(9)
    if kind == 0:
        path.unlink()
        return f"{name} deleted"
    if kind == 1:
        path.unlink()
        path.mkdir()
        return f"a folder as {name}"
    if kind == 2:
        other = chance.choice(sorted(each for each in place.rglob("*") if each.is_file()))
        path.write_bytes(other.read_bytes())
        return f"{other.relative_to(place)} as {name}"
    if kind == 3:
        path.write_bytes(chance.choice([b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50 + b"1"]))
        return f"{name} replaced"
    if kind < 7 and path.suffix == ".json":
        content = json.loads(path.read_text())
        change(content, chance)
        path.write_text(json.dumps(content))
        return f"{name} changed"
    path.write_bytes(mutate(path.read_bytes(), chance))
    return f"{name} mutated"


def content(place: Path) -> dict[str, bytes | None]:
    return {str(each): each.read_bytes() if each.is_file() else None for each in sorted(place.rglob("*"))}


def _trouble(place: Path, expected: dict[str, bytes], what: str) -> str | None:
    """Read the folder, and go on in it: each gives an error of fpi that changes nothing, or the same rows."""
    before = content(place)
    trouble = trouble_of(lambda: report.read(place))
    if trouble is None and content(place) != before:
        trouble = "reading changed something"
    if trouble is None:
        trouble = _gone_on(place, before, expected)
    return None if trouble is None else f"{what}: {trouble}"


def _gone_on(place: Path, before: dict[str, bytes | None], expected: dict[str, bytes]) -> str | None:
    failed = []

    def go_on() -> None:
        failed.append(True)
        run_study(STUDY, place, backend=Here())
        failed.clear()

    trouble = trouble_of(go_on)
    if trouble is not None:
        return trouble
    if failed:
        return None if content(place) == before else "it was refused, and yet something has changed"
    return None if rows(place) == expected else "other rows"


LINKED = (
    ".lock",
    "study.json",
    "summary.json",
    "runs",
    "runs/CartPole-v1--only--seed-000",
    "runs/CartPole-v1--only--seed-000/manifest.json",
    "runs/CartPole-v1--only--seed-000/rows.safetensors",
    "runs/CartPole-v1--only--seed-001/checkpoint.fpi",
    "runs/CartPole-v1--only--seed-001/model.fpi",
    "figure.png",
    "page.html",
)


def _linked(place: Path, victim: Path, number: int) -> str | None:
    """Plant a link to a file or folder outside; whatever is done, that stays as it is."""
    name = LINKED[number % len(LINKED)]
    into_folder = name == "runs" or name.endswith("seed-000")
    shutil.rmtree(victim, ignore_errors=True)
    victim.mkdir()
    (victim / "file").write_text("dear to somebody")
    link = place / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    os.symlink(victim if into_folder else victim / "file", link)
    trouble = trouble_of(lambda: run_study(STUDY, place, backend=Here()))
    if content(victim) != {str(victim / "file"): b"dear to somebody"}:
        trouble = "what the link leads to has changed"
    return None if trouble is None else f"{name} is a link: {trouble}"
