"""What a learner asks of features, what action-separate maps share, and the checks of what they are given."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fpi._validation import check_whole
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
    def actions(self) -> int:
        """Rows of the feature matrix."""

    @property
    def dim(self) -> int:
        """Columns of the feature matrix, the blocks of all actions together."""

    @property
    def separate(self) -> bool:
        """Whether φ(s, a) is ψ(s) in the block of action a, and zero elsewhere."""

    def __call__(self, observation: Any, stage: int) -> FloatArray:
        """The feature matrix, one row per action."""


class OptionalMethods(NamedTuple):
    """What a feature map, or a class of functions, can do beyond what it must; None where it cannot.

    `active`, `key` and `to_config` are as in `FeatureMap`; `to_config` describes the map in JSON.
    """

    rows: Callable[[Any, int], Any]
    """ψ(s) of a dense action-separate map, else the feature matrix."""
    active: Callable[[Any, int], tuple[IndexArray, FloatArray]] | None
    key: Callable[[Any, int], Hashable] | None
    to_config: Callable[[], Any] | None


def optional_methods(features: Any) -> OptionalMethods:
    """Asked once, by whoever is given the features."""
    active, state, key, to_config = (getattr(features, name, None) for name in OPTIONAL)
    return OptionalMethods(state or features, active, key, to_config)


OPTIONAL = ("active", "state", "key", "to_config")


class ActionSeparate:
    """Action-separate blocks of equal size, and a description that can be saved."""

    separate = True

    def __init__(self, actions: int, block: int, arguments: Mapping[str, Any]) -> None:
        self.actions = check_whole("actions", actions, least=1)
        self.dim = self.actions * block
        check_size(self.dim)
        self._block = block
        self._arguments = {**arguments, "actions": self.actions}

    def __repr__(self) -> str:
        """Short: ranges, offsets and centers are left out, and what is equal in all dimensions is said once."""
        dims = len(self._arguments.get("low", self._arguments.get("width", ())))
        known = [f"{dims} dimensions"] if dims else []
        for name in ("states", "tiles", "tilings", "order", "coupled", "width"):
            if name in self._arguments:
                value = self._arguments[name]
                known.append(f"{name}={value[0] if isinstance(value, list) and len(set(value)) == 1 else value}")
        return described(self, *known)

    def to_config(self) -> dict[str, Any]:
        """A description that JSON can hold and `from_config` turns back into the same map."""
        return {"type": type(self).__name__, **copy.deepcopy(self._arguments)}

    def _diagonal(self, psi: FloatArray) -> FloatArray:
        matrix = np.zeros((self.actions, self.actions, self._block))
        every = np.arange(self.actions)
        matrix[every, every] = psi
        return matrix.reshape(self.actions, self.dim)


class Sparse(ActionSeparate):
    nnz: int

    def active(self, observation: Any, stage: int = 0) -> tuple[IndexArray, FloatArray]:
        """The non-zero features inside one block: indices and values."""
        raise NotImplementedError

    def __call__(self, observation: Any, stage: int = 0) -> FloatArray:
        indices, values = self.active(observation, stage)
        psi = np.zeros(self._block)
        psi[indices] = values
        return self._diagonal(psi)


class Dense(ActionSeparate):
    def state(self, observation: Any, stage: int = 0) -> FloatArray:
        """The features ψ(s) of the observation alone, which every action has in its own block."""
        raise NotImplementedError

    def __call__(self, observation: Any, stage: int = 0) -> FloatArray:
        return self._diagonal(self.state(observation, stage))


def described(features: Any, *known: str) -> str:
    size = f"{features.dim:,}" if features.dim else "not called yet, so an unknown number of"
    return f"<{type(features).__name__}: {', '.join(known)}, {features.actions} actions, {size} features>"


def vector(observation: Any, dims: int) -> FloatArray:
    """A fresh, contiguous float64 copy: environments may reuse their buffer."""
    vector = as_array("observation", observation).ravel()
    if vector.size != dims:
        raise InputError(f"the observation has {vector.size} entries, the features are for {dims}.")
    return vector


def as_array(name: str, value: Any) -> FloatArray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} {value!r} is not a regular array of numbers: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, not {array.dtype} ({value!r}).")
    return np.array(array, dtype=np.float64, order="C")


def check_finite(array: FloatArray, name: str = "observation") -> FloatArray:
    if not np.isfinite(array).all():
        entry = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(
            f"{name}{entry} is {array[tuple(entry)]}: every entry must be finite, because nothing can be "
            "learned from it. Look where the environment or the feature function produces it."
        )
    return array


def check_range(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    lows, highs = np.atleast_1d(as_array("low", low)), np.atleast_1d(as_array("high", high))
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


def per_dimension(name: str, value: Any, dims: int) -> list[Any]:
    one = not isinstance(value, list | tuple | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim == 0)
    values = [value] * dims if one else list(value)
    if len(values) != dims:
        raise InputError(f"{name} has {len(values)} values for {dims} dimensions: give one, or one for each.")
    return values


def check_size(features: int) -> None:
    if features > MOST_FEATURES:
        size = f"{features:,}" if features < 10**15 else f"about 10^{math.log10(features):.0f}"
        raise InputError(
            f"that makes {size} features, more than {MOST_FEATURES:,}: the number grows as a power of the "
            "dimensions. Use fewer tiles, a lower order, fewer observation entries, or your own features; `fpi check` "
            "names some that can be made."
        )
