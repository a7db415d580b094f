"""The built-in feature maps. Observations outside the range of a map are moved to its edge."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from fpi._validation import check_whole
from fpi.envs import Env, action_count, check_actions, observation_box
from fpi.errors import InputError
from fpi.features.base import (
    Dense,
    FeatureMap,
    FloatArray,
    IndexArray,
    Sparse,
    as_array,
    check_finite,
    check_range,
    check_size,
    per_dimension,
    vector,
)
from fpi.kernels.tiles import tile_indices
from fpi.ranges import observation_range


class OneHot(Sparse):
    """One feature per state and action, for observations that are state numbers 0 … states - 1."""

    nnz = 1

    def __init__(self, states: int, actions: int) -> None:
        self.states = check_whole("states", states, least=1)
        super().__init__(actions, self.states, {"states": self.states})

    @classmethod
    def for_env(cls, env: Env) -> Self:
        """One feature per state number of `env`."""
        actions, space = action_count(env), env.observation_space
        if not isinstance(space, spaces.Discrete):
            raise InputError(f"one-hot features need numbered states, but the observations are {space}. Use tiles.")
        return cls(int(space.start + space.n), actions)

    def key(self, observation: Any, stage: int = 0) -> int:
        """The number of the state."""
        value = float(check_finite(vector(observation, 1))[0])
        if not value.is_integer() or not 0 <= value < self.states:
            raise InputError(
                f"observation {value:g} is not a state number: OneHot({self.states}, {self.actions}) takes "
                f"whole numbers from 0 to {self.states - 1}. Use more states, or subtract the first number."
            )
        return int(value)

    def active(self, observation: Any, stage: int = 0) -> tuple[IndexArray, FloatArray]:
        return np.array([self.key(observation)], dtype=np.int32), np.ones(1)


class TileCoding(Sparse):
    """Several grids over the observation, shifted against each other; one active tile in each.

    `tiles` are the intervals of [low, high] per dimension (one number, or one per dimension). With
    several tilings a dimension has one cell more than tiles, because the shifted grid sticks out. A
    dimension with `wrap` is periodic (high is low again) and needs no such cell. `offsets[i, j]` is the
    shift of tiling i in dimension j as a share of a tile; by default i·(1, 3, 5, …) / tilings, modulo
    1: odd displacements, which spread the grids evenly and favour no diagonal. Active features have
    the value 1/√tilings, so that the norm is 1.
    """

    def __init__(
        self,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        *,
        tiles: int | Sequence[int],
        tilings: int,
        actions: int,
        wrap: bool | Sequence[bool] = False,
        offsets: npt.ArrayLike | None = None,
    ) -> None:
        self.low, self.high = check_range(low, high)
        dims = len(self.low)
        self.tilings = self.nnz = check_whole("tilings", tilings, least=1)
        tile_counts = [check_whole("tiles", each, least=1) for each in per_dimension("tiles", tiles, dims)]
        wraps = per_dimension("wrap", wrap, dims)
        if not all(isinstance(each, bool) for each in wraps):
            raise InputError(f"wrap = {wrap!r} must be True or False, or one of them for each dimension.")
        cells = [
            count + (self.tilings > 1 and not periodic) for count, periodic in zip(tile_counts, wraps, strict=True)
        ]
        check_size(self.tilings * max(math.prod(cells), dims))
        shifts = self._default_offsets(dims) if offsets is None else as_array("offsets", offsets)
        if shifts.shape != (self.tilings, dims) or not ((shifts >= 0) & (shifts < 1)).all():
            raise InputError(
                f"offsets need the shape (tilings, dimensions) = {(self.tilings, dims)} and values from 0 to "
                "below 1 (shares of a tile)."
            )
        arguments = {
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "tiles": tile_counts,
            "tilings": self.tilings,
            "wrap": wraps,
            "offsets": shifts.tolist(),
        }
        super().__init__(actions, self.tilings * math.prod(cells), arguments)
        width = self.high - self.low
        scale = np.array(tile_counts) / width
        # Rounded up where needed, so that `high` lies in the same tile as everything beyond it.
        scale = np.where(scale * width < tile_counts, np.nextafter(scale, np.inf), scale)
        self.value = 1 / math.sqrt(self.tilings)
        grid = np.column_stack([self.low, scale, np.array(cells), np.array(wraps), shifts.T])
        self.grid = np.ascontiguousarray(grid)  # one memory layout: the loops are compiled once

    def _default_offsets(self, dims: int) -> FloatArray:
        displacement = np.outer(np.arange(self.tilings), 2 * np.arange(dims) + 1)
        return displacement % self.tilings / self.tilings

    @classmethod
    def for_env(
        cls,
        env: Env,
        *,
        tiles: int | Sequence[int] = 4,
        tilings: int = 4,
        wrap: bool | Sequence[bool] = False,
        offsets: npt.ArrayLike | None = None,
    ) -> Self:
        """Tiles over the observations of `env`, on the range that `observation_range` finds."""
        build = functools.partial(
            cls, tiles=tiles, tilings=tilings, wrap=wrap, offsets=offsets, actions=action_count(env)
        )
        dims = observation_box(env).low.size
        build(np.zeros(dims), np.ones(dims))  # impossible sizes fail here, before the environment is stepped
        return build(*observation_range(env))

    def active(self, observation: Any, stage: int = 0) -> tuple[IndexArray, FloatArray]:
        return self._tiles(observation), np.full(self.nnz, self.value)

    def key(self, observation: Any, stage: int = 0) -> bytes:
        """The tiles it lies in, as bytes."""
        return self._tiles(observation).tobytes()

    def _tiles(self, observation: Any) -> IndexArray:
        x = vector(observation, len(self.low))
        indices = np.empty(self.nnz, dtype=np.int32)
        if not tile_indices(x, self.grid, indices):
            check_finite(x)
        return indices


class Fourier(Dense):
    """Cosine basis cos(π c·x) for c in {0, …, order}^dimensions, x being scaled to [0, 1].

    `coupled` is how many entries of c may differ from 0, that is, how many dimensions one cosine combines. By default
    all of them, and the number of features is a power of the dimensions; with 1 it is dimensions · order + 1.
    """

    def __init__(
        self, low: npt.ArrayLike, high: npt.ArrayLike, *, order: int, actions: int, coupled: int | None = None
    ) -> None:
        self.low, self.high = check_range(low, high)
        dims = len(self.low)
        self.order = check_whole("order", order, least=1)
        together = dims if coupled is None else min(check_whole("coupled", coupled, least=1), dims)
        block = sum(math.comb(dims, entries) * self.order**entries for entries in range(together + 1))
        check_size(block * dims)
        arguments = {"low": self.low.tolist(), "high": self.high.tolist(), "order": self.order}
        super().__init__(actions, block, arguments if coupled is None else arguments | {"coupled": together})
        if together == dims:
            self._frequencies = np.pi * np.indices([self.order + 1] * dims).reshape(dims, -1)
        else:
            self._frequencies = np.pi * _coupled_frequencies(dims, self.order, together)

    @classmethod
    def for_env(cls, env: Env, *, order: int = 3, coupled: int | None = None) -> Self:
        """Cosines over the observations of `env`, on the range that `observation_range` finds."""
        actions = action_count(env)
        dims = observation_box(env).low.size
        cls(np.zeros(dims), np.ones(dims), order=order, actions=actions, coupled=coupled)  # fails before any step
        return cls(*observation_range(env), order=order, actions=actions, coupled=coupled)

    def state(self, observation: Any, stage: int = 0) -> FloatArray:
        x = np.clip(check_finite(vector(observation, len(self.low))), self.low, self.high)
        x = (x - self.low) / (self.high - self.low)
        angles: FloatArray = (self._frequencies * x[:, None]).sum(axis=0)
        return np.cos(angles) / math.sqrt(self._block)


def _coupled_frequencies(dims: int, order: int, coupled: int) -> npt.NDArray[np.int64]:
    """Every c with up to `coupled` entries from 1 to `order`, the others 0: one per column, few entries first."""
    columns = []
    for entries in range(coupled + 1):
        for places in itertools.combinations(range(dims), entries):
            for values in itertools.product(range(1, order + 1), repeat=entries):
                column = np.zeros(dims, np.int64)
                column[list(places)] = values
                columns.append(column)
    return np.array(columns).T


class RBF(Dense):
    """Gaussian bumps of standard deviation `width` (one, or one per dimension), normalised to sum 1.

    The range of the map is the smallest box that holds all centers.

    `centers`: where the bumps are, shape (number, dimensions).
    """

    def __init__(self, centers: npt.ArrayLike, width: npt.ArrayLike, actions: int) -> None:
        self.centers = as_array("centers", centers)
        if self.centers.ndim != 2 or not self.centers.size or not np.isfinite(self.centers).all():
            raise InputError("centers need the shape (number, dimensions), with finite values.")
        dims = self.centers.shape[1]
        self.width = np.array(per_dimension("width", as_array("width", width).tolist(), dims))
        if not ((self.width > 0) & np.isfinite(self.width)).all():
            raise InputError(f"width {self.width.tolist()} is not positive and finite.")
        self._low, self._high = self.centers.min(axis=0), self.centers.max(axis=0)
        with np.errstate(over="ignore"):
            largest = (((self._high - self._low) / self.width) ** 2).sum()
        if not np.isfinite(largest):
            raise InputError("the centers lie too many widths apart for floating point: use a larger width.")
        arguments = {"centers": self.centers.tolist(), "width": self.width.tolist()}
        super().__init__(actions, len(self.centers), arguments)

    @classmethod
    def for_env(cls, env: Env, *, centers: int = 4, width: npt.ArrayLike | None = None) -> Self:
        """A grid of `centers` bumps in each dimension of the observations of `env`, one grid step wide."""
        low, high = observation_range(env)
        number = check_whole("centers", centers, least=2)
        check_size(number ** len(low))
        grid = np.stack(np.meshgrid(*np.linspace(low, high, number).T, indexing="ij"), axis=-1)
        step = (high - low) / (number - 1)
        return cls(grid.reshape(-1, len(low)), step if width is None else width, action_count(env))

    def state(self, observation: Any, stage: int = 0) -> FloatArray:
        x = np.clip(check_finite(vector(observation, len(self.width))), self._low, self._high)
        squares: FloatArray = (((x - self.centers) / self.width) ** 2).sum(axis=1)
        bumps: FloatArray = np.exp((squares.min() - squares) / 2)  # the largest is 1: no 0/0 far from all
        total: float = bumps.sum()
        return bumps / total


# --- maps from a description ------------------------------------------------------------------------------------------

_BUILT_IN: dict[str, type[Any]] = {each.__name__: each for each in (OneHot, TileCoding, Fourier, RBF)}
_DECIDED_BY_ENV = {"low", "high", "states"}


def from_config(config: Mapping[str, Any]) -> FeatureMap:
    """The built-in map that `to_config` described."""
    name, arguments, built_in = _split(config)
    return _called(name, built_in, arguments)


def for_env(config: Mapping[str, Any], env: Env) -> FeatureMap:
    """The built-in map of a description that may leave ranges, states and actions to the environment.

    Without a `type` it is `OneHot` for numbered states, else `TileCoding`.
    """
    numbered = isinstance(env.observation_space, spaces.Discrete)
    name, arguments, built_in = _split({"type": "OneHot" if numbered else "TileCoding", **config})
    check_actions(env, arguments.pop("actions", action_count(env)))
    if _DECIDED_BY_ENV & set(arguments) or np.ndim(arguments.get("centers", 0)):
        return _called(name, built_in, {**arguments, "actions": action_count(env)})
    return _called(name, built_in.for_env, {"env": env, **arguments})


def _split(config: Mapping[str, Any]) -> tuple[str, dict[str, Any], type[Any]]:
    arguments = dict(config)
    name = arguments.pop("type", None)
    built_in = _BUILT_IN.get(name) if isinstance(name, str) else None
    if built_in is None:
        raise InputError(f"feature map type {name!r} is unknown; this version knows {', '.join(_BUILT_IN)}.")
    return built_in.__name__, arguments, built_in


def _called(name: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> FeatureMap:
    try:
        inspect.signature(make).bind(**arguments)
    except TypeError as error:
        raise InputError(f"the description of {name} features does not fit this version: {error}.") from error
    features: FeatureMap = make(**arguments)
    return features
