"""A process that learns, for another one to press Ctrl-C on or to kill: `python -m benchmarks.faults.victim ...`.

It must be run so: a process of its own has no threads but those of its libraries, and may die.
"""

import hashlib
import mmap
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import fpi
from fpi import compiled
from fpi.function_classes import FiniteClass

EPISODES = 60
HORIZON = 12
ARMED, SENT, CAUGHT, LOST = range(4)  # places in the control file
SIZE = 32  # bytes


class Control:
    """Four numbers in a file that both processes see."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), SIZE)).cast("q")

    def __getitem__(self, place: int) -> int:
        return int(self._numbers[place])

    def __setitem__(self, place: int, number: int) -> None:
        self._numbers[place] = number


# --- who learns -------------------------------------------------------------------------------------------------------


def _tiles() -> fpi.TileCoding:
    return fpi.TileCoding([-4.8, -10, -0.418, -10], [4.8, 10, 0.418, 10], tiles=3, tilings=2, actions=2)


def _waves(observation: Any) -> Any:
    return np.kron(np.eye(2), np.append(np.cos(observation), 1.0) / 3)


def _pac() -> Any:
    return fpi.PAC(_tiles(), actions=2, horizon=HORIZON, epsilon=1.0, ridge=0.1)


def _hindsight() -> Any:
    return fpi.PAC(_tiles(), actions=2, horizon=HORIZON, epsilon=1.0, ridge=0.1, hindsight=True)


def _dense() -> Any:
    return fpi.PAC(_waves, actions=2, horizon=HORIZON, epsilon=1.0, ridge=0.1)


def _regret() -> Any:
    return fpi.Regret(_tiles(), actions=2, horizon=HORIZON, scale=0.01, ridge=1.0, max_level=3)


def _eluder() -> Any:
    slopes = np.random.default_rng(0).uniform(-1, 1, (8, 2))
    functions = [lambda observation, stage, s=s: 2 + s * float(np.clip(observation[0], -1, 1)) for s in slopes]
    known = FiniteClass(functions, max_value=float(HORIZON), actions=2)
    return fpi.Eluder(known, actions=2, horizon=HORIZON, scale=1e-4, episodes=EPISODES)


def _lake() -> Any:
    return gym.make("FrozenLake-v1", is_slippery=False)


def _table_model() -> Any:
    return fpi.ModelFPI.for_env(_lake(), horizon=HORIZON)


def _in_the_lake(agent: Any, episodes: int, seed: int | None) -> None:
    agent.learn(_lake(), episodes, seed)


def _swing() -> Any:
    return gym.make("Pendulum-v1", max_episode_steps=HORIZON)


def _smooth_model() -> Any:
    return fpi.ModelFPI.for_env(_swing(), window=3)


def _on_the_swing(agent: Any, episodes: int, seed: int | None) -> None:
    agent.learn(_swing(), episodes, seed)


def _in_gymnasium(agent: Any, episodes: int, seed: int | None) -> None:
    agent.learn(gym.make("CartPole-v1"), episodes, seed)


def _in_compiled_code(agent: Any, episodes: int, seed: int | None) -> None:
    compiled.learn(agent, compiled.get("CartPole-v1"), episodes, seed)


def _by_name(agent: Any, episodes: int, seed: int | None) -> None:
    agent.learn(gym.make("CartPole-v1"), episodes, seed, engine="compiled")


Learn = Callable[[Any, int, int | None], None]
LEARNERS: dict[str, tuple[Callable[[], Any], Learn]] = {
    "PAC, tiles, gymnasium": (_pac, _in_gymnasium),
    "PAC, a function, gymnasium": (_dense, _in_gymnasium),
    "Regret, tiles, gymnasium": (_regret, _in_gymnasium),
    "Eluder, candidates, gymnasium": (_eluder, _in_gymnasium),
    "PAC, tiles, compiled": (_pac, _in_compiled_code),
    "Regret, tiles, compiled": (_regret, _in_compiled_code),
    "PAC, tiles, engine=compiled": (_pac, _by_name),
    "PAC with hindsight, gymnasium": (_hindsight, _in_gymnasium),
    "PAC with hindsight, compiled": (_hindsight, _in_compiled_code),
    "ModelFPI, a table": (_table_model, _in_the_lake),
    "ModelFPI, smooth": (_smooth_model, _on_the_swing),
}
LENGTH = {
    "PAC, tiles, compiled": 6_000,
    "Regret, tiles, compiled": 3_000,
    "PAC with hindsight, compiled": 300,
    "ModelFPI, smooth": 12,
}
"""Episodes, where they are quick or slow."""


def episodes_of(name: str) -> int:
    return LENGTH.get(name, EPISODES)


def saved(agent: Any) -> bytes:
    """What the agent writes into a file."""
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder, "agent.fpi"))
        return Path(folder, "agent.fpi").read_bytes()


def digest(agent: Any) -> str:
    return hashlib.sha256(saved(agent)).hexdigest()


def undisturbed(name: str) -> str:
    make, learn = LEARNERS[name]
    agent = make()
    learn(agent, episodes_of(name), 0)
    return digest(agent)


# --- interrupted ------------------------------------------------------------------------------------------------------


def interrupted(name: str, presses: int, control: Control, expected: str) -> None:
    """Learn over and over until so many Ctrl-C came; whatever happens, the end must be that of nobody disturbed."""
    while control[SENT] < presses:
        agent, error = LEARNERS[name][0](), None
        control[ARMED] = 1
        while control[ARMED]:
            try:
                if error is not None:
                    _check_seed(agent, error)
                    error = None
                    control[CAUGHT] += 1
                _learn(name, agent)
                control[ARMED] = 0
                time.sleep(0.005)  # for one that is on its way
            except KeyboardInterrupt as pressed:
                error = pressed
        control[CAUGHT] += error is not None
        control[LOST] += control[SENT] - control[CAUGHT]
        control[CAUGHT] = control[SENT]
        if digest(agent) != expected:
            sys.exit(f"the end is another after {control[SENT]} presses")
        _load(agent)


def _learn(name: str, agent: Any) -> None:
    """Go on as people do, with a seed at the beginning only."""
    seed = 0 if agent.training_state.seed is None else None
    LEARNERS[name][1](agent, episodes_of(name) - agent.episodes, seed)


def _check_seed(agent: Any, error: KeyboardInterrupt) -> None:
    """A seed that was given is kept, unless Ctrl-C came before `learn` had done anything at all."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).stem}.{frame.name}" for frame in frames]
    begun = {"training.learn", "_interrupts.safe_point", "_interrupts.__exit__"} & set(places)
    if begun and agent.training_state.seed is None:
        sys.exit(f"the seed is lost, interrupted in {' > '.join(places)}")


def _load(agent: Any) -> None:
    """The saved file can be read again."""
    if agent.datasets.config is not None:
        with tempfile.TemporaryDirectory() as folder:
            agent.save(Path(folder, "agent.fpi"))
            fpi.load(Path(folder, "agent.fpi"))


def main() -> None:
    name, presses, control, expected = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored if a script was put into the background
    try:
        interrupted(name, int(presses), Control(Path(control)), expected or undisturbed(name))
    except Exception:
        traceback.print_exc(file=sys.stdout)
        sys.exit(1)


if __name__ == "__main__":
    main()
