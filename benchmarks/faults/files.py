"""Damaged model files, and files that lie: a ModelFileError, or a model that can be used."""

import copy
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fpi
from benchmarks.faults import victim
from benchmarks.faults.inputs import ODD
from benchmarks.faults.outcome import Outcome
from fpi import model_files
from fpi.errors import ModelFileError

LEARNED = 12  # episodes: a small file is mutated more thoroughly


SEEN = {"PAC, tiles, gymnasium": np.zeros(4), "ModelFPI, a table": 0}
"""Whose files are damaged, and an observation to ask about."""


def run(damaged: int, lies: int, seed: int = 0) -> Iterator[Outcome]:
    chance = random.Random(seed)
    for name, observation in SEEN.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "agent.fpi")
            make, learn = victim.LEARNERS[name]
            agent = make()
            learn(agent, LEARNED, 0)
            agent.save(path)
            whole = path.read_bytes()
            outcome = Outcome(f"Damaged model files, {name}")
            for _ in range(damaged // len(SEEN)):
                path.write_bytes(mutate(whole, chance))
                outcome.note(_trouble(path, whole, observation))
            yield outcome
            path.write_bytes(whole)
            tensors, meta = model_files.read(path)
            outcome = Outcome(f"Model files that lie, {name}")
            for _ in range(lies // len(SEEN)):
                _lie(path, tensors, meta, chance)
                outcome.note(_trouble(path, None, observation))
            yield outcome


def mutate(whole: bytes, chance: random.Random) -> bytes:
    """One to three changes: bits, bytes, a stretch cut out, repeated or exchanged, an end cut off."""
    content = bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        size = len(content)
        place, length = chance.randrange(size + 1), chance.choice((1, 1, 2, 8, chance.randrange(1, 200)))
        kind = chance.randrange(6)
        if kind == 0 and place < size:
            content[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            content[place : place + length] = chance.randbytes(length)
        elif kind == 2:
            del content[place : place + length]
        elif kind == 3:
            content[place:place] = content[place : place + length]
        elif kind == 4:
            content[place:place] = chance.randbytes(length)
        else:
            del content[place:]
    return bytes(content)


def _trouble(path: Path, whole: bytes | None, observation: Any) -> str | None:
    """What went wrong when an altered file was read; if the whole one is given, no other may be taken for good."""
    try:
        agent = fpi.load(path)
        agent.predict(observation, 0)
    except ModelFileError as error:
        return None if str(path) in str(error) else f"the file is not named: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None if whole in (None, path.read_bytes()) else "it was taken for whole"


def _lie(path: Path, tensors: dict[str, Any], meta: dict[str, Any], chance: random.Random) -> None:
    """A whole file with a true digest and one thing in it changed."""
    told, changed = copy.deepcopy(meta), dict(tensors)
    if chance.random() < 0.3:
        name = chance.choice(sorted(changed))
        changed[name] = chance.choice(
            [
                changed[name][:-1],
                np.zeros(0),
                changed[name].astype(np.float32),
                np.full_like(changed[name], chance.choice([-1, 0, 1, 2**31 - 1])),
                changed[name][None],
                np.zeros((2, 3)),
            ]
        )
        if chance.random() < 0.2:
            del changed[name]
    else:
        change(told, chance)
    model_files.write(path, changed, told)


def change(content: Any, chance: random.Random) -> None:
    """Exchange one thing somewhere inside of JSON for something odd, or take it out."""
    while True:
        keys = list(content) if isinstance(content, dict) else range(len(content))
        if not keys:
            return
        key = chance.choice(keys)
        inner = content[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
            content = inner
            continue
        if chance.random() < 0.15:
            del content[key]
        else:
            content[key] = chance.choice(JSON)
        return


JSON = [each for each in ODD.values() if isinstance(each, str | int | float | list | dict | None) and each != 10**400]
JSON += [10**12, 10**7, 1e300, "\ud800", {"type": "os.system"}]
