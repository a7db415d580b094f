"""Environments of other packages with numbered states: bsuite's deep_sea, and Atari games by bytes of their memory."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from fpi.errors import importing

Step = tuple[int, float, bool, bool, dict[str, Any]]
BYTE = 256


class DeepSea(gym.Env[Any, np.int64]):
    """bsuite's own `deep_sea`; which action means right is drawn for every cell from `seed`."""

    def __init__(self, size: int, seed: int = 0) -> None:
        with importing("bsuite", "deep_sea needs bsuite"):
            made: Any = importlib.import_module("bsuite.environments.deep_sea")
        self.sea = made.DeepSea(size, mapping_seed=seed)
        self.observation_space, self.action_space = spaces.Discrete(size * size), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return int(np.argmax(self.sea.reset().observation)), {}

    def step(self, action: np.int64) -> Step:
        seen = self.sea.step(int(action))
        return int(np.argmax(seen.observation)), float(seen.reward), bool(seen.last()), False, {}


class Atari(gym.Env[Any, np.int64]):
    """A game without sticky actions. A state is the number of decisions so far, and some bytes of memory.

    `memory` are pairs of a byte and the width of its cells; `moves` are those of the game's actions that are allowed,
    each for `frameskip` frames.
    """

    def __init__(
        self, game: str, memory: Sequence[Sequence[int]], moves: Sequence[int], frameskip: int, decisions: int
    ):
        with importing("atari", f"{game} needs ale-py"):
            importlib.import_module("ale_py")
        self.game = gym.make(f"ALE/{game}-v5", obs_type="ram", repeat_action_probability=0, frameskip=frameskip)
        self.moves, self.decisions = list(moves), decisions
        self.bytes, self.widths = np.array(memory).T
        self.cells = -(-BYTE // self.widths)
        self.observation_space = spaces.Discrete((decisions + 1) * math.prod(self.cells.tolist()))
        self.action_space = spaces.Discrete(len(self.moves))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.made = 0
        return self._number(self.game.reset(seed=seed)[0]), {}

    def step(self, action: np.int64) -> Step:
        memory, reward, ended, cut, _ = self.game.step(self.moves[int(action)])
        self.made += 1
        return self._number(memory), float(reward), bool(ended), bool(cut or self.made == self.decisions), {}

    def _number(self, memory: Any) -> int:
        number = self.made
        for cell, cells in zip(memory[self.bytes] // self.widths, self.cells, strict=True):
            number = number * int(cells) + int(cell)
        return number


gym.register("bsuite/deep_sea-v0", entry_point="fpi.adapters:DeepSea")
gym.register("ALE/Cells-v0", entry_point="fpi.adapters:Atari")
