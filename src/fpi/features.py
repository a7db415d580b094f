"""Feature maps: from an observation to one feature vector per action.

The theory asks for ‖φ(s, a)‖ ≤ 1. The built-in maps keep to that by construction; `Function`, which
wraps any plain function, checks it at every call and can divide by a known bound.

All built-in maps are action-separate: φ(s, a) is ψ(s) in the block of action a and zero elsewhere, so
the regression splits into one small problem per action. `OneHot` and `TileCoding` are sparse (`active`)
and have a `key`; `Fourier` and `RBF` are dense (`state`). Observations outside the range of a map are
moved to its edge.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from fpi._kernels import tile_indices
from fpi._validation import check_positive, check_whole
from fpi.envs import Env, action_count, check_actions, observation_box, observation_range
from fpi.errors import InputError

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int32]

MOST_FEATURES = 10_000_000
NORM_TOLERANCE = 1e-9
_TINY = 1e-300  # a narrower range would overflow when tiles are counted per unit


@runtime_checkable
class FeatureMap(Protocol):
    """What a learner asks of features.

    Optional methods make it faster: `active(observation, stage)` gives indices and values inside one
    block (`nnz` of them, always), `state(observation, stage)` gives ψ(s) of a dense action-separate
    map, and equal answers of `key(observation, stage)` promise equal features at that stage.
    """

    @property
    def actions(self) -> int: ...

    @property
    def dim(self) -> int:
        """Columns of the feature matrix, the blocks of all actions together."""

    @property
    def separate(self) -> bool:
        """Whether φ(s, a) is ψ(s) in the block of action a, and zero elsewhere."""

    def __call__(self, observation: Any, stage: int) -> FloatArray:
        """The feature matrix, one row per action."""


class _Separate:
    """Action-separate blocks of equal size, and a description that can be saved."""

    separate = True

    def __init__(self, actions: int, block: int, arguments: Mapping[str, Any]) -> None:
        self.actions = check_whole("actions", actions, least=1)
        self.dim = self.actions * block
        _check_size(self.dim)
        self._block = block
        self._arguments = {**arguments, "actions": self.actions}

    def __repr__(self) -> str:
        """Short: ranges, offsets and centers are left out, and what is equal in all dimensions is said once."""
        dims = len(self._arguments.get("low", self._arguments.get("width", ())))
        known = [f"{dims} dimensions"] if dims else []
        for name in ("states", "tiles", "tilings", "order", "width"):
            if name in self._arguments:
                value = self._arguments[name]
                known.append(f"{name}={value[0] if isinstance(value, list) and len(set(value)) == 1 else value}")
        return _described(self, *known)

    def to_config(self) -> dict[str, Any]:
        """A description that JSON can hold and `from_config` turns back into the same map."""
        return {"type": type(self).__name__, **copy.deepcopy(self._arguments)}

    def _diagonal(self, psi: FloatArray) -> FloatArray:
        matrix = np.zeros((self.actions, self.actions, self._block))
        every = np.arange(self.actions)
        matrix[every, every] = psi
        return matrix.reshape(self.actions, self.dim)


class _Sparse(_Separate):
    nnz: int

    def active(self, observation: Any, stage: int = 0) -> tuple[IndexArray, FloatArray]:
        """The non-zero features inside one block: indices and values."""
        raise NotImplementedError

    def __call__(self, observation: Any, stage: int = 0) -> FloatArray:
        indices, values = self.active(observation, stage)
        psi = np.zeros(self._block)
        psi[indices] = values
        return self._diagonal(psi)


class _Dense(_Separate):
    def state(self, observation: Any, stage: int = 0) -> FloatArray:
        """The features ψ(s) of the observation alone, which every action has in its own block."""
        raise NotImplementedError

    def __call__(self, observation: Any, stage: int = 0) -> FloatArray:
        return self._diagonal(self.state(observation, stage))


class OneHot(_Sparse):
    """One feature per state and action, for observations that are state numbers 0 … states - 1."""

    nnz = 1

    def __init__(self, states: int, actions: int) -> None:
        self.states = check_whole("states", states, least=1)
        super().__init__(actions, self.states, {"states": self.states})

    @classmethod
    def for_env(cls, env: Env) -> Self:
        """One feature per state number of `env`."""
        space = env.observation_space
        if not isinstance(space, spaces.Discrete):
            raise InputError(f"one-hot features need numbered states, but the observations are {space}. Use tiles.")
        return cls(int(space.start + space.n), action_count(env))

    def key(self, observation: Any, stage: int = 0) -> int:
        value = float(_finite(_vector(observation, 1))[0])
        if not value.is_integer() or not 0 <= value < self.states:
            raise InputError(
                f"observation {value:g} is not a state number: OneHot({self.states}, {self.actions}) takes "
                f"whole numbers from 0 to {self.states - 1}. Use more states, or subtract the first number."
            )
        return int(value)

    def active(self, observation: Any, stage: int = 0) -> tuple[IndexArray, FloatArray]:
        return np.array([self.key(observation)], dtype=np.int32), np.ones(1)


class TileCoding(_Sparse):
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
        self.low, self.high = _range(low, high)
        dims = len(self.low)
        self.tilings = self.nnz = check_whole("tilings", tilings, least=1)
        tile_counts = [check_whole("tiles", each, least=1) for each in _per_dimension("tiles", tiles, dims)]
        wraps = _per_dimension("wrap", wrap, dims)
        if not all(isinstance(each, bool) for each in wraps):
            raise InputError(f"wrap = {wrap!r} must be True or False, or one of them for each dimension.")
        cells = [
            count + (self.tilings > 1 and not periodic) for count, periodic in zip(tile_counts, wraps, strict=True)
        ]
        _check_size(self.tilings * max(math.prod(cells), dims))
        shifts = self._default_offsets(dims) if offsets is None else _array("offsets", offsets)
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
        return self._tiles(observation).tobytes()

    def _tiles(self, observation: Any) -> IndexArray:
        x = _vector(observation, len(self.low))
        indices = np.empty(self.nnz, dtype=np.int32)
        if not tile_indices(x, self.grid, indices):
            _finite(x)
        return indices


class Fourier(_Dense):
    """Cosine basis cos(π c·x) for all c in {0, …, order}^dimensions, x being scaled to [0, 1]."""

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike, *, order: int, actions: int) -> None:
        self.low, self.high = _range(low, high)
        dims = len(self.low)
        self.order = check_whole("order", order, least=1)
        block = (self.order + 1) ** dims
        _check_size(block * dims)
        arguments = {"low": self.low.tolist(), "high": self.high.tolist(), "order": self.order}
        super().__init__(actions, block, arguments)
        self._frequencies = np.pi * np.indices([self.order + 1] * dims).reshape(dims, -1)

    @classmethod
    def for_env(cls, env: Env, *, order: int = 3) -> Self:
        """Cosines over the observations of `env`, on the range that `observation_range` finds."""
        return cls(*observation_range(env), order=order, actions=action_count(env))

    def state(self, observation: Any, stage: int = 0) -> FloatArray:
        x = np.clip(_finite(_vector(observation, len(self.low))), self.low, self.high)
        x = (x - self.low) / (self.high - self.low)
        angles: FloatArray = (self._frequencies * x[:, None]).sum(axis=0)
        return np.cos(angles) / math.sqrt(self._block)


class RBF(_Dense):
    """Gaussian bumps of standard deviation `width` (one, or one per dimension), normalised to sum 1.

    The range of the map is the smallest box that holds all centers.
    """

    def __init__(self, centers: npt.ArrayLike, width: npt.ArrayLike, actions: int) -> None:
        self.centers = _array("centers", centers)
        if self.centers.ndim != 2 or not self.centers.size or not np.isfinite(self.centers).all():
            raise InputError("centers need the shape (number, dimensions), with finite values.")
        dims = self.centers.shape[1]
        self.width = np.array(_per_dimension("width", _array("width", width).tolist(), dims))
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
        _check_size(number ** len(low))
        grid = np.stack(np.meshgrid(*np.linspace(low, high, number).T, indexing="ij"), axis=-1)
        step = (high - low) / (number - 1)
        return cls(grid.reshape(-1, len(low)), step if width is None else width, action_count(env))

    def state(self, observation: Any, stage: int = 0) -> FloatArray:
        x = np.clip(_finite(_vector(observation, len(self.width))), self._low, self._high)
        squares: FloatArray = (((x - self.centers) / self.width) ** 2).sum(axis=1)
        bumps: FloatArray = np.exp((squares.min() - squares) / 2)  # the largest is 1: no 0/0 far from all
        total: float = bumps.sum()
        return bumps / total


class Function:
    """Any plain function of (observation) or (observation, stage) that gives an (actions, d) matrix.

    Features are divided by `scale`, so a known bound of their norm makes it at most 1. An optional
    `key` function promises equal features for equal keys. `dim` is 0 until the first call shows it.
    """

    separate = False

    def __init__(
        self,
        function: Callable[..., Any],
        actions: int,
        *,
        scale: float = 1.0,
        key: Callable[..., Hashable] | None = None,
    ) -> None:
        self.actions = check_whole("actions", actions, least=1)
        self.dim = 0
        self._name = getattr(function, "__name__", type(function).__name__)
        self._function = with_stage(function)
        self.scale = check_positive("scale", scale)
        if key is not None:  # learners look for the method: it must not exist without a key
            self.key = with_stage(key)

    @classmethod
    def for_env(
        cls,
        env: Env,
        function: Callable[..., Any],
        *,
        scale: float = 1.0,
        key: Callable[..., Hashable] | None = None,
    ) -> Self:
        """`function` with the number of actions of `env`."""
        return cls(function, action_count(env), scale=scale, key=key)

    def __repr__(self) -> str:
        return _described(self, self._name)

    def __call__(self, observation: Any, stage: int = 0) -> FloatArray:
        if isinstance(observation, np.ndarray) and observation.dtype.kind == "f":
            _finite(observation)
        matrix = _array("features", self._function(observation, stage)) / self.scale
        columns = self.dim or (matrix.shape[-1] if matrix.ndim else 0)
        if columns == 0 or matrix.shape != (self.actions, columns):
            raise InputError(
                f"the feature function gave the shape {matrix.shape} at stage {stage}, expected (actions, d)"
                f" = ({self.actions}, {self.dim or 'd'}): one row per action, the same d at every call."
            )
        _finite(matrix, f"at stage {stage}, feature")
        with np.errstate(over="ignore"):
            norms = np.sqrt((matrix**2).sum(axis=1))
        widest = int(norms.argmax())
        if norms[widest] > 1 + NORM_TOLERANCE:
            bound = norms[widest] * self.scale
            raise InputError(
                f"the features of action {widest} at stage {stage} have the norm {norms[widest]:.6g}; the "
                "theory needs norms of at most 1. Divide by a bound: fpi.features.Function(function, "
                f"actions={self.actions}, scale=…) with a scale of at least {bound:.6g}."
            )
        self.dim = matrix.shape[1]
        return matrix


def _described(features: Any, *known: str) -> str:
    size = f"{features.dim:,}" if features.dim else "not called yet, so an unknown number of"
    return f"<{type(features).__name__}: {', '.join(known)}, {features.actions} actions, {size} features>"


def as_feature_map(features: FeatureMap | Callable[..., Any], actions: int) -> FeatureMap:
    """Feature maps as they are, plain functions wrapped in `Function`."""
    if isinstance(features, type) or not callable(features):
        raise InputError(
            f"features must be a feature map or a function, not {features!r}. For example "
            "fpi.TileCoding.for_env(env, tiles=4, tilings=4), or a function that gives an (actions, d) array."
        )
    if not isinstance(features, FeatureMap):
        return Function(features, actions)
    if features.actions != actions:
        raise InputError(
            f"the features are for {features.actions} actions, the agent for {actions}: make both the same."
        )
    return features


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


def with_stage(function: Callable[..., Any]) -> Callable[[Any, int], Any]:
    """`function` as one of (observation, stage), whether it asks for the stage or not."""
    try:
        signature = inspect.signature(function)
        named = [each for each in signature.parameters.values() if each.kind < each.VAR_POSITIONAL]
        required = [each for each in named if each.default is each.empty]
        takes_stage = len(required) == 2 or [each.name for each in named[1:2]] == ["stage"]
        signature.bind(*(None, 0)[: 2 if takes_stage else 1])
    except ValueError:  # some compiled functions do not tell their arguments
        takes_stage = False
    except TypeError as error:
        raise InputError(f"{function!r} must take (observation) or (observation, stage): {error}.") from error
    return function if takes_stage else lambda observation, stage: function(observation)


def _vector(observation: Any, dims: int) -> FloatArray:
    """A fresh, contiguous float64 copy: environments may reuse their buffer."""
    vector = _array("observation", observation).ravel()
    if vector.size != dims:
        raise InputError(f"the observation has {vector.size} entries, the features are for {dims}.")
    return vector


def _array(name: str, value: Any) -> FloatArray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} {value!r} is not a regular array of numbers: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, not {array.dtype} ({value!r}).")
    return np.array(array, dtype=np.float64, order="C")


def _finite(array: FloatArray, name: str = "observation") -> FloatArray:
    if not np.isfinite(array).all():
        entry = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(
            f"{name}{entry} is {array[tuple(entry)]}: every entry must be finite, because nothing can be "
            "learned from it. Look where the environment or the feature function produces it."
        )
    return array


def _range(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    lows, highs = np.atleast_1d(_array("low", low)), np.atleast_1d(_array("high", high))
    if lows.ndim != 1 or lows.shape != highs.shape or not lows.size:
        raise InputError(f"low and high must be vectors of one length, not {lows.shape} and {highs.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.flatnonzero(~((highs - lows > _TINY) & (highs - lows < math.inf)))
    if wrong.size:
        j = wrong[0]
        raise InputError(
            f"low[{j}] = {lows[j]} and high[{j}] = {highs[j]} are not a finite range from low to high. For "
            "unbounded observations choose the values that matter, or use TileCoding.for_env(env, …)."
        )
    return lows, highs


def _per_dimension(name: str, value: Any, dims: int) -> list[Any]:
    values = [value] * dims if np.ndim(value) == 0 else list(value)
    if len(values) != dims:
        raise InputError(f"{name} has {len(values)} values for {dims} dimensions: give one, or one for each.")
    return values


def _check_size(features: int) -> None:
    if features > MOST_FEATURES:
        size = f"{features:,}" if features < 10**15 else f"about 10^{math.log10(features):.0f}"
        raise InputError(
            f"that makes {size} features, more than {MOST_FEATURES:,}: the number grows as a power of the "
            "dimensions. Use fewer tiles, a lower order, fewer observation entries, or your own features."
        )
