"""Small odd Gymnasium environments. Each does one thing that has broken a learner somewhere.

All walk on a line: the observation is (position, steps / 10), action i moves by 0.1 (i - 1), and the reward
lies in [0, 1]. They never end by themselves unless they say so, and draw starts from `self.np_random`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Start = tuple[Any, dict[str, Any]]
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Walk(gym.Env[Any, Any]):
    """Deterministic, with random starts and without a time limit: what FPI asks for."""

    def __init__(self) -> None:
        self.action_space: spaces.Space[Any] = spaces.Discrete(3)
        self.observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.position = 0.0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.position = self.start()
        self.steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        self.position += 0.1 * (self.number(action) - 1) + self.noise()
        return self.observe(), self.reward(), self.terminated(), self.truncated(), {}

    def start(self) -> float:
        return float(self.np_random.uniform(-0.5, 0.5))

    def number(self, action: Any) -> float:
        return float(action)

    def noise(self) -> float:
        return 0.0

    def observe(self) -> Any:
        return np.array([self.position, self.steps / 10])

    def reward(self) -> float:
        return float(np.exp(-(self.position**2)))

    def terminated(self) -> bool:
        return False

    def truncated(self) -> bool:
        return False


class FixedStart(Walk):
    """Never touches a generator."""

    def start(self) -> float:
        return 0.25


class RandomFromStep2(Walk):
    """Noise from `self.np_random` at every step but the first."""

    def noise(self) -> float:
        return float(self.np_random.normal()) if self.steps >= 2 else 0.0


class OwnGenerator(Walk):
    """Noise from step 2 on, from a generator that `reset(seed=...)` does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.own = np.random.default_rng(5)

    def noise(self) -> float:
        return float(self.own.normal()) if self.steps >= 2 else 0.0


class BorrowedGenerator(Walk):
    """Noise from step 2 on, from `self.np_random` by another name."""

    def start(self) -> float:
        self.borrowed = self.np_random
        return super().start()

    def noise(self) -> float:
        return float(self.borrowed.normal()) if self.steps >= 2 else 0.0


class TinyNoise(Walk):
    """Noise of size 1e-6: two observations one step apart look equal to a tolerance of 1e-5."""

    def noise(self) -> float:
        return 1e-6 * float(self.np_random.choice([-1.0, 1.0]))


class RandomEnd(Walk):
    """Observations repeat exactly; only the end of the episode is random."""

    def terminated(self) -> bool:
        return bool(self.np_random.random() < 0.2)


class OwnStart(Walk):
    """Starts from a generator of its own: no state of `self.np_random` brings a start back."""

    def __init__(self) -> None:
        super().__init__()
        self.own = np.random.default_rng(6)

    def start(self) -> float:
        return float(self.own.uniform(-0.5, 0.5))


class RandomRewards(Walk):
    """Deterministic transitions, random rewards: allowed."""

    def reward(self) -> float:
        return float(self.np_random.random())


class NanObservation(Walk):
    """NaN in the observation from step 3 on."""

    def observe(self) -> Any:
        return np.array([self.position, np.nan if self.steps >= 3 else self.steps / 10])


class InfiniteReward(Walk):
    """An infinite reward at step 3."""

    def reward(self) -> float:
        return float("inf") if self.steps == 3 else 0.5


class WideRewards(Walk):
    """Rewards between -2.5 and 0.5."""

    def reward(self) -> float:
        return 0.5 - 3 * ((self.steps - 1) % 2)


class ReusedBuffer(Walk):
    """Writes every observation into the same array."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = np.zeros(2)

    def observe(self) -> NDArray[np.float64]:
        self.buffer[:] = self.position, self.steps / 10
        return self.buffer


class ReusedBufferNoise(ReusedBuffer):
    """Noise from step 2 on; who keeps the array instead of a copy compares it with itself."""

    def noise(self) -> float:
        return float(self.np_random.normal()) if self.steps >= 2 else 0.0


class ReadOnly(Walk):
    """Observations that cannot be written to."""

    def observe(self) -> NDArray[np.float64]:
        observation = np.array([self.position, self.steps / 10])
        observation.setflags(write=False)
        return observation


class Strided(Walk):
    """Observations that are every second entry of a longer array, in reverse, of any dtype."""

    def __init__(self, dtype: type = np.float64) -> None:
        super().__init__()
        self.dtype = dtype
        self.observation_space = spaces.Box(-100, 100, (2,), dtype)

    def observe(self) -> NDArray[Any]:
        scale = 10 if np.issubdtype(self.dtype, np.integer) else 1
        return np.array([7, scale * self.steps / 10, 7, scale * self.position]).astype(self.dtype)[::-2]


class NumberObservation(Walk):
    """A Discrete observation: a plain Python int."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(1000)

    def observe(self) -> int:
        return self.steps


class DictObservation(Walk):
    """Observations in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = spaces.Dict(position=box, time=box)

    def observe(self) -> dict[str, NDArray[np.float64]]:
        return {"position": np.array([self.position]), "time": np.array([self.steps / 10])}


class SequenceObservation(Walk):
    """Observations without a fixed size."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Sequence(spaces.Discrete(3))

    def observe(self) -> tuple[int, ...]:
        return (1,) * (self.steps % 5)


class OddActions(Walk):
    """Any other action space; what it is given does not matter."""

    SPACES: ClassVar[dict[str, spaces.Space[Any]]] = {
        "Dict": spaces.Dict(move=spaces.Discrete(3)),
        "Tuple": spaces.Tuple([spaces.Discrete(3)]),
        "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
        "MultiBinary": spaces.MultiBinary(2),
    }

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.action_space = self.SPACES[kind]

    def number(self, action: Any) -> float:
        return 1.0


class StartsAtFive(Walk):
    """Actions 5, 6 and 7; any other is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(3, start=5)

    def number(self, action: Any) -> float:
        if action not in (5, 6, 7):
            raise ValueError(f"no such action: {action}")
        return float(action) - 5


class BoxActions(Walk):
    """Continuous actions in any Box; remembers the last one, and then spoils it."""

    def __init__(self, box: spaces.Box | None = None) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if box is None else box
        self.received: NDArray[Any] = np.zeros(0)

    def number(self, action: Any) -> float:
        self.received = action.copy()
        action[...] = 77
        return float(self.received.sum())


class InfiniteActions(BoxActions):
    """Continuous actions without bounds."""

    def __init__(self) -> None:
        super().__init__(spaces.Box(-np.inf, np.inf, (1,), np.float32))


class EndsTwice(Walk):
    """Terminated and truncated at once, after four steps."""

    def terminated(self) -> bool:
        return self.steps >= 4

    def truncated(self) -> bool:
        return self.steps >= 4


class HiddenLimit(Walk):
    """Truncates after seven steps, though no time limit is declared."""

    def truncated(self) -> bool:
        return self.steps >= 7


class OneStep(Walk):
    """Terminates after a single step: H = 1."""

    def terminated(self) -> bool:
        return True


class NoGenerator(FixedStart):
    """`np_random` is not there at all."""

    np_random: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self.position, self.steps = self.start(), 0
        return self.observe(), {}
