"""The datasets of all stages and levels, and what the regressions on them say about a state.

Algorithms ask here in terms of observations; features, compiled loops and remembered decisions stay behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpi import _kernels
from fpi._kernels import ENDED
from fpi.errors import InputError
from fpi.features import NORM_TOLERANCE, FeatureMap, OneHot, TileCoding
from fpi.regression import WIDTH_TIE, RidgeBank

ROOM = 4096  # states to begin with, a power of two
EXPLORING = {
    "first": _kernels.FIRST,
    "widest": _kernels.WIDEST,
    "greedy": _kernels.GREEDY,
    "random": _kernels.RANDOM,
}

Rows = tuple[NDArray[np.int32], NDArray[np.float64]]
Act = Callable[[Any, int], int]
Ruling = tuple[float, int, int, int, int]  # threshold, window, exploring rule, seed, episode


class Coverage(NamedTuple):
    """What the data of a stage and level say about the allowed actions of one state."""

    covered_at: int | None
    """The first prefix that covers all of them, or None."""
    values: NDArray[np.float64]
    widths: NDArray[np.float64]
    """Both at that prefix, or on all data; NaN for actions that are not allowed."""
    uncovered: NDArray[np.bool_]


class ExploringStep(NamedTuple):
    """The features of the step that an episode may store."""

    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    observation: Any  # None where the features can be saved without it
    level: int = 1


@dataclass(frozen=True)
class Dataset:
    """The data of one stage, in order."""

    features: NDArray[np.float64]
    """phi(s, a), one row per datum, all blocks side by side."""
    actions: NDArray[np.int64]
    targets: NDArray[np.float64]
    """The observed returns, in units of [0, 1] a stage."""
    episodes: NDArray[np.int64]
    """The episode each came from, counted from 0."""

    def __len__(self) -> int:
        return len(self.targets)


class Datasets:
    """One append-only regression per stage and level over the same features."""

    def __init__(self, features: FeatureMap, stages: int, ridge: float, epsilons: Sequence[float]) -> None:
        self.features = features
        self.stages = stages
        self.ridge = ridge
        self.thresholds = [epsilon * (1 + WIDTH_TIE) for epsilon in epsilons]  # of levels 1, 2, ...
        self.threshold = self.thresholds[0]
        self.largest_square = 1.0 if isinstance(features, TileCoding | OneHot) else 0.0
        """The largest squared norm of features: known from the start, or seen so far."""
        self._kept: ExploringStep | None = None
        self._walk: _Walk | None = None
        self._sparse = features.separate and hasattr(features, "active")
        self._lazy_bank: RidgeBank | None = None
        self._visited = _Visited(features.actions, getattr(features, "nnz", 0)) if self._sparse else None
        self._remembered: dict[tuple[int, Hashable], tuple[int, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_walk": None}  # compiled walks cannot be copied; the next episode makes a new one

    @property
    def bank(self) -> RidgeBank:
        """Made at first use, since a plain function shows its dimension only when it is called."""
        if self._lazy_bank is None:
            if not self.features.dim:
                raise InputError(
                    "the feature function has not been called yet, so its dimension is unknown. Learn or predict first."
                )
            separate, actions = self.features.separate, self.features.actions
            self._lazy_bank = RidgeBank(
                self.features.dim // actions if separate else self.features.dim,
                self.ridge,
                regressions=self.stages * len(self.thresholds),
                blocks=actions if separate else 1,
                nnz=self.features.nnz if self._sparse else None,  # type: ignore[attr-defined]
            )
        return self._lazy_bank

    @property
    def kept(self) -> ExploringStep:
        """Features of the last uncovered step that was decided."""
        assert self._kept is not None
        return self._kept

    def __len__(self) -> int:
        return 0 if self._lazy_bank is None else self._lazy_bank.view.used.item(_kernels.LOG)

    def _regression(self, stage: int, level: int = 1) -> int:
        """The number of a regression. Compiled code goes wherever it is sent, so stages are checked here."""
        if not 0 <= stage < self.stages:
            raise InputError(f"stage is {stage!r}; there are stages 0 to {self.stages - 1}.")
        return (level - 1) * self.stages + stage

    def size(self, stage: int, level: int = 1) -> int:
        regression = self._regression(stage, level)
        return 0 if self._lazy_bank is None else int(self.bank.view.sizes[regression])

    def sizes(self) -> NDArray[np.int64]:
        """Data per level (rows) and stage."""
        shape = len(self.thresholds), self.stages
        return np.zeros(shape, np.int64) if self._lazy_bank is None else self.bank.view.sizes.reshape(shape).copy()

    @property
    def nbytes(self) -> int:
        known = 0 if self._visited is None else self._visited.nbytes
        return known + (0 if self._lazy_bank is None else self.bank.nbytes)

    @property
    def config(self) -> Any:
        """The features as JSON can hold them, or None if a file cannot."""
        return self.features.to_config() if hasattr(self.features, "to_config") else None

    def describe(self, observation: Any, stage: int) -> NDArray[np.float64]:
        """What is known of a state's actions before any data: by this a feature function is recognised."""
        return self.features(observation, stage)

    # --- asking -------------------------------------------------------------------------------------------------------

    def rows(self, observation: Any, stage: int) -> Rows:
        """The features of a state: one row that all blocks share, or a row per action."""
        if self._sparse:
            indices, values = self.features.active(observation, stage)  # type: ignore[attr-defined]
            indices, values = np.asarray(indices, np.int32)[None], np.asarray(values, np.float64)[None]
        else:
            get = self.features.state if hasattr(self.features, "state") else self.features
            values = np.ascontiguousarray(np.atleast_2d(get(observation, stage)), np.float64)
            indices = np.empty((len(values), 0), np.int32)
        square = _kernels.largest_square(values)
        if not square <= (1 + NORM_TOLERANCE) ** 2:
            raise InputError(
                f"the features at stage {stage} have a norm of {np.sqrt(square):.6g}; the theory needs finite "
                "features of norm at most 1. Divide them by a bound, as fpi.features.Function does with `scale`."
            )
        self.largest_square = max(self.largest_square, square)
        return indices, values

    def key(self, observation: Any, stage: int) -> Hashable | None:
        """What tells the state from others at its stage, if the features say; None if it need not come back."""
        if not hasattr(self.features, "key"):
            return None
        name: Hashable = self.features.key(observation, stage)
        return name

    def consult(self, observation: Any, stage: int) -> Coverage:
        """What all data of the stage say, also where fewer of them cover."""
        indices, values = self.rows(observation, stage)
        actions = self.features.actions
        covered, width2, value = np.empty(actions), np.empty(actions), np.empty(actions)
        every = np.ones(actions, np.bool_)
        k = _kernels.consult(self.bank.view, stage, indices, values, self.threshold, every, covered, width2, value)
        return Coverage(k if k >= 0 else None, value, np.sqrt(width2), covered < 0)

    def estimate(self, observation: Any, stage: int, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Widths and values of all actions from the first k data of the stage."""
        actions = self.features.actions
        every, width2, value = np.ones(actions, np.bool_), np.empty(actions), np.empty(actions)
        _kernels.estimate(self.bank.view, stage, *self.rows(observation, stage), k, every, width2, value)
        return np.sqrt(width2), value

    def look(self, rows: Rows, stage: int, level: int, allowed: NDArray[np.bool_], known: Any = None) -> Coverage:
        """What a level says of the allowed actions. `known.progress` lets a state that comes back go on."""
        bank, regression, threshold = self.bank.view, self._regression(stage, level), self.thresholds[level - 1]
        values, widths, uncovered = np.empty(len(allowed)), np.empty(len(allowed)), np.empty(len(allowed), np.bool_)
        if known is None:
            k = _kernels.look(bank, regression, *rows, threshold, allowed, values, widths, uncovered)
        else:
            if known.progress is None:
                progress = np.empty((len(allowed), _kernels.FIELDS))
                progress[:, _kernels.SEEN] = -1
                known.progress = progress  # whole, whenever an interrupt comes
            k = _kernels.look_again(
                bank, regression, *rows, threshold, allowed, known.progress, values, widths, uncovered
            )
        return Coverage(k if k >= 0 else None, values, widths, uncovered)

    def keep(self, rows: Rows, observation: Any, action: int, level: int) -> None:
        """Remember an exploring step for `append`."""
        row = 0 if self.features.separate else action
        sample = None if hasattr(self.features, "to_config") else np.array(observation)[()]
        self._kept = ExploringStep(rows[0][row], rows[1][row], sample, level)

    def log_det(self, stage: int, k: int, level: int = 1) -> float:
        """log det Sigma_k - log det Sigma_0."""
        view, regression = self.bank.view, self._regression(stage, level)
        if k == 0 or view.blocks > 1:
            return float(_kernels.log_det_at(view, regression, k))
        return float(view.floats[view.members[view.cells[regression, _kernels.START] + k - 1], _kernels.LOG_DET])

    # --- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Any, stage: int, window: int, explore: str, seed: int, episode: int) -> int:
        """pi_t at one state, as `begin_episode` has it, from nothing but the data."""
        ruling = self.threshold, window, EXPLORING[explore], seed, episode
        rows = self.rows(observation, stage)
        code: int = _kernels.decide(self.bank.view, stage, *rows, self.features.actions, *ruling, stage)
        return code

    def begin_episode(self, window: int, explore: str, seed: int, episode: int) -> Act:
        """pi_t as a function (observation, stage) -> 2 * action, plus 1 at an uncovered state.

        The features of the last uncovered step are kept for `append`.
        """
        settings = (self.threshold, window, EXPLORING[explore], seed, episode)
        if self._visited is None:
            return self._decide_dense(settings)
        return self._decide_tiles(settings) if isinstance(self.features, TileCoding) else self._decide_sparse(settings)

    def _decide_tiles(self, settings: Ruling) -> Act:
        ruling, episode = settings[:-1], settings[-1]
        if self._walk is None or self._walk.ruling != ruling:
            self._walk = _Walk(self, ruling)
        self._kept = self._walk.kept  # an interrupt may have left another
        return self._walk.begin(episode)

    def _decide_sparse(self, settings: Ruling) -> Act:
        visited = self._visited
        assert visited is not None
        built_in = hasattr(self.features, "to_config")

        def decide(observation: Any, stage: int) -> int:
            regression = self._regression(stage)
            indices, values = self.rows(observation, stage)
            while True:
                code: int = _kernels.recall(
                    self.bank.view, visited.view, regression, indices[0], values[0], *settings, stage
                )
                if code >= 0:
                    break
                visited.grow()
            if code & 1:
                self._kept = ExploringStep(indices[0], values[0], None if built_in else np.array(observation)[()])
            return code

        return decide

    def _decide_dense(self, settings: Ruling) -> Act:
        actions, window = self.features.actions, settings[1]
        key = getattr(self.features, "key", None)

        def decide(observation: Any, stage: int) -> int:
            size = self.size(stage)
            if key is not None:
                name = (stage, key(observation, stage))
                known = self._remembered.get(name)
                if known is not None and (window > size or known[1] == size):
                    return known[0]
            indices, values = self.rows(observation, stage)
            code: int = _kernels.decide(self.bank.view, stage, indices, values, actions, *settings, stage)
            if code & 1:
                row = 0 if self.features.separate else code >> 1
                self._kept = ExploringStep(indices[row], values[row], np.array(observation)[()])
            elif key is not None:
                self._remembered[name] = code, size
            return code

        return decide

    # --- storing ------------------------------------------------------------------------------------------------------

    def append(self, kept: ExploringStep, stage: int, action: int, target: float, episode: int) -> None:
        """Add one datum to a stage."""
        regression = self._regression(stage, kept.level)
        if self._walk is not None and kept is self._walk.kept and self._walk.append(stage, action, target, episode):
            return
        block = action if self.features.separate else 0
        self.bank.append(regression, block, kept.indices, kept.values, target, action, episode)

    @property
    def last_episode(self) -> int:
        """The episode of the newest datum, or -1."""
        n = len(self)
        return self.bank.view.ints.item(n - 1, _kernels.EPISODE) if n else -1

    def dataset(self, stage: int, level: int = 1) -> Dataset:
        if not self.size(stage, level):
            none = np.zeros(0, np.int64)
            return Dataset(np.zeros((0, self.features.dim)), none, np.zeros(0), none.copy())
        view = self.bank.view
        data = self.bank.members(self._regression(stage, level))
        actions = view.ints[data, _kernels.ACTION_TAKEN]
        features = np.zeros((len(data), self.features.dim))
        first = actions * view.dim if self.features.separate else np.zeros_like(actions)
        columns = view.indices[data] if self._sparse else np.broadcast_to(np.arange(view.dim), (len(data), view.dim))
        np.put_along_axis(features, first[:, None] + columns, view.values[data], axis=1)
        return Dataset(features, actions, view.floats[data, _kernels.TARGET], view.ints[data, _kernels.EPISODE])

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """All data in order of arrival. The regressions are not saved: the same data give the same bits again."""
        if not len(self):
            return {}
        view, n = self.bank.view, len(self)
        return {
            "stage": view.ints[:n, _kernels.CELL] // view.blocks % self.stages,
            "level": view.ints[:n, _kernels.CELL] // view.blocks // self.stages + 1,
            "action": view.ints[:n, _kernels.ACTION_TAKEN].copy(),
            "episode": view.ints[:n, _kernels.EPISODE].copy(),
            "target": view.floats[:n, _kernels.TARGET].copy(),
            "indices": view.indices[:n].copy(),
            "values": view.values[:n].copy(),
        }

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Append what `to_tensors` gave, after checking every number of it; raises InputError."""
        if not tensors:
            return
        if not self.features.dim and "values" in tensors and tensors["values"].ndim == 2:
            raise InputError("the features have not shown their dimension yet; call them once.")
        view = self.bank.view
        n = check_log(tensors, self.stages, len(self.thresholds), self.features.actions, view.values.shape[1])
        check_column(tensors, "indices", np.int32, (n, view.indices.shape[1]), (0, view.dim))
        if np.any(np.diff(np.sort(tensors["indices"], axis=1), axis=1) == 0):
            raise InputError("its indices repeat")
        if not np.all(np.square(tensors["values"]).sum(axis=1) <= (1 + NORM_TOLERANCE) ** 2):
            raise InputError("it holds features of a norm above 1")
        for i in range(n):
            action = int(tensors["action"][i])
            kept = ExploringStep(tensors["indices"][i], tensors["values"][i], None, int(tensors["level"][i]))
            stage, episode = int(tensors["stage"][i]), int(tensors["episode"][i])
            self.append(kept, stage, action, float(tensors["target"][i]), episode)


def check_log(tensors: dict[str, NDArray[Any]], stages: int, levels: int, actions: int, columns: int) -> int:
    """How many data a file holds, after checking what all kinds of data have in common; raises InputError."""
    n = len(tensors["target"]) if "target" in tensors else 0
    ends = {"stage": (0, stages), "level": (1, levels + 1), "action": (0, actions), "episode": (0, 2**62)}
    for name, bounds in ends.items():
        check_column(tensors, name, np.int64, (n,), bounds)
    check_column(tensors, "target", np.float64, (n,))
    check_column(tensors, "values", np.float64, (n, columns))
    if np.any(np.diff(tensors["episode"]) <= 0):
        raise InputError("its episodes are out of order")
    if not (np.all(np.isfinite(tensors["target"])) and np.all(np.isfinite(tensors["values"]))):
        raise InputError("it holds numbers that are not finite")
    return n


def check_column(
    tensors: dict[str, NDArray[Any]],
    name: str,
    dtype: type,
    shape: tuple[int, ...],
    bounds: tuple[int, int] | None = None,
) -> None:
    found = tensors.get(name)
    if found is None or found.dtype != dtype or found.shape != shape:
        raise InputError(f"its {name} are missing or do not have the shape {shape}")
    if bounds is not None and np.any((found < bounds[0]) | (found >= bounds[1])):
        raise InputError(f"its {name} leave the range {bounds[0]} to {bounds[1] - 1}")


class _Walk:
    """A compiled walk through episodes under tile coding, made anew whenever the arrays it walks through are."""

    _end: Callable[[], None] | None = None

    def __init__(self, datasets: Datasets, ruling: tuple[float, int, int, int]) -> None:
        features, regressions, visited = datasets.features, datasets.bank, datasets._visited
        assert isinstance(features, TileCoding) and visited is not None
        x, narrow = np.zeros(len(features.grid)), np.zeros(len(features.grid), np.float32)
        clock, datum = np.zeros(4, np.int64), np.zeros(3)
        indices, values = np.zeros(features.nnz, np.int32), np.full(features.nnz, features.value)
        kept = np.zeros(features.nnz, np.int32)
        nowhere = np.zeros(0).data
        buffer = nowhere  # takes observations of its own form, faster than numpy would
        bank: _kernels.Bank | None = None
        known: _kernels.Visited | None = None
        walks: tuple[Iterator[int], ...] = ()
        next_code: Callable[[], int]
        work: Callable[[], int]

        def end() -> None:
            """Else compiled code would hold on to its arrays for ever."""
            clock[ENDED] = 1
            for walk in walks:
                next(walk, None)

        def renew() -> None:
            nonlocal bank, known, walks, next_code, work
            end()
            clock[ENDED] = 0
            arrays = regressions.view, visited.view
            shared = values, indices, kept, clock
            walks = (
                _kernels.follow_tiles(arrays[1], arrays[0].sizes, x, narrow, features.grid, *shared, *ruling[1:]),
                _kernels.work_tiles(*arrays, *shared, datum, *ruling),
            )
            next_code, work = (walk.__next__ for walk in walks)
            bank, known = arrays  # last, since an interrupt may come in between

        def begin(episode: int) -> Act:
            clock[1] = episode
            return decide

        def decide(observation: Any, stage: int) -> int:
            if bank is not regressions.view or known is not visited.view:
                renew()
            clock[0] = stage
            try:
                buffer[:] = observation  # a copy, since environments may reuse theirs
            except (TypeError, ValueError, NotImplementedError):
                read(observation, stage)
            code = next_code()
            if code >= 0:
                return code
            if code == -2:
                datasets._regression(stage)  # raises if there is no such stage
                features.active(observation, stage)  # raises, naming the entry that is not finite
            code = work()
            if code >= 0:
                return code
            visited.grow()
            return decide(observation, stage)

        def append(stage: int, action: int, target: float, episode: int) -> bool:
            """Add the step that is kept; False, and nothing done, if the arrays walked through have no room for it."""
            if bank is not regressions.view:
                return False
            datum[0], datum[1], datum[2] = stage, action, target
            clock[0], clock[1] = -1, episode
            return work() == 0

        def read(observation: Any, stage: int) -> None:
            """Any form of numbers; the next of the same form is quicker, if it is that of one of the arrays."""
            nonlocal buffer
            features.active(observation, stage)  # raises if it does not fit, naming both sizes
            single = getattr(observation, "dtype", None) == np.float32
            into = narrow if single else x
            into[:] = np.ravel(observation)
            buffer = nowhere  # until clock and buffer agree, since an interrupt may come in between
            clock[2] = single
            buffer = into.data

        self.ruling = ruling
        self.kept = ExploringStep(kept, values, None)
        self.begin = begin
        self.append = append
        self._end = end

    def __del__(self) -> None:
        if self._end is not None:
            self._end()


class _Visited:
    """Room for the states that compiled code remembers; nothing in it needs saving."""

    def __init__(self, actions: int, nnz: int) -> None:
        self._nnz = nnz
        self._columns = _kernels.KEY + 2 * nnz + _kernels.FIELDS * actions
        self.view = self._make(ROOM)

    def _make(self, room: int) -> _kernels.Visited:
        return _kernels.Visited(
            table=np.zeros(4 * room, np.int32), rows=np.zeros((room, self._columns)), used=np.zeros(1, np.int64)
        )

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.view)

    def grow(self) -> None:
        """Twice the room."""
        old = self.view
        self.view = self._make(2 * len(old.rows))
        self.view.rows[: len(old.rows)] = old.rows
        self.view.used[:] = old.used
        _kernels.rehash(self.view, self._nnz)
