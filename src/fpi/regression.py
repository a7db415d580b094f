"""Ridge regression that remembers every prefix of its data.

`PrefixRidge` is append-only. After n data it answers, for any query and every k = 0..n, what the regression on
the first k data says: the elliptical width |phi| in Sigma_k^{-1} and the estimate phi' theta_k. One pass over the
data gives all prefixes, so the first prefix that covers a query, the freezing index of the paper, is exact.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpi import _kernels
from fpi._validation import check_whole, is_real
from fpi.errors import InputError
from fpi.settings import SMALLEST_RIDGE

Sparse = tuple[ArrayLike, ArrayLike]
Rows = tuple[NDArray[np.int32], NDArray[np.float64]]

ROOM = 256  # entries of an array to begin with, for sparse features; a power of two
LARGEST = 1e60  # of features, targets and the ridge: their products stay finite
WIDTH_TIE = 1e-9  # a width within this share of epsilon counts as covered


class RidgeBank:
    """Many prefix regressions over the same features in one set of arrays, which compiled code walks through.

    `nnz` is the number of active columns of sparse features, or None for dense ones.
    """

    def __init__(self, dim: int, ridge: float, *, regressions: int, blocks: int, nnz: int | None) -> None:
        self.nnz = nnz
        cells = regressions * blocks
        # The arrays as compiled code takes them, valid until the next append.
        self.view = _kernels.Bank(
            ridge=float(ridge),
            dim=int(dim),
            blocks=int(blocks),
            every=max(16, int(dim)),
            cells=np.zeros((cells, 4), np.int64),
            sizes=np.zeros(regressions, np.int64),
            log_dets=np.zeros(regressions),
            ints=np.zeros((0, 11), np.int64),
            floats=np.zeros((0, 4)),
            indices=np.zeros((0, nnz or 0), np.int32),
            values=np.zeros((0, dim if nnz is None else nnz)),
            members=np.zeros(0, np.int32),
            pool=np.zeros(0),
            low=np.zeros(0, np.float32),
            slots=np.zeros((1 if nnz is None else 4 * ROOM, 3), np.int64),
            used=np.zeros(5, np.int64),
        )
        if nnz is None:
            self.view.cells[:, _kernels.LOCAL] = dim

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.view if isinstance(part, np.ndarray))

    def append(
        self,
        regression: int,
        block: int,
        indices: NDArray[np.int32],
        values: NDArray[np.float64],
        target: float,
        action: int = 0,
        episode: int = 0,
    ) -> None:
        """Add one datum; `action` and `episode` are kept with it for the caller."""
        while not _kernels.append(self.view, regression, block, indices, values, target, action, episode):
            self._reserve(regression * self.view.blocks + block)

    def widen(self, nnz: int) -> None:
        """Let sparse data have up to `nnz` active columns."""
        assert self.nnz is not None
        if nnz > self.nnz:
            more = ((0, 0), (0, nnz - self.nnz))
            self.view = self.view._replace(
                indices=np.pad(self.view.indices, more, constant_values=-1),
                values=np.pad(self.view.values, more),
            )
            self.nnz = nnz

    def members(self, regression: int) -> NDArray[np.int64]:
        """Log numbers of a regression's data, in joint order."""
        view = self.view
        used = int(view.used[_kernels.LOG])
        return np.flatnonzero(view.ints[:used, _kernels.CELL] // view.blocks == regression)

    def _reserve(self, cell: int) -> None:
        """Make room for one more datum in a cell, where `_kernels.append` found none."""
        view = self.view
        log, members, pool, low, slots = view.used.tolist()
        count, local, _, room = view.cells[cell].tolist()
        columns = local + (self.nnz or 0)
        row = columns
        if count and count % view.every == 0:
            row += columns * (columns + 1) // 2 + columns
        fresh: dict[str, Any] = {}
        growth = (16, 1.0625) if self.nnz is None else (ROOM, 2.0)  # dense rows are large: no more than needed
        if log == len(view.ints):
            for name in ("ints", "floats", "indices", "values"):
                fresh[name] = _grown(getattr(view, name), log + 1, *growth)
        if count == room and members + max(4, 2 * count) > len(view.members):
            fresh["members"] = _grown(view.members, members + max(4, 2 * count), *growth)
        if pool + row > len(view.pool):
            fresh["pool"] = _grown(view.pool, pool + row, *growth)
        if low + columns > len(view.low):
            fresh["low"] = _grown(view.low, low + columns, *growth)
        if 2 * (slots + (self.nnz or 0)) > len(view.slots):
            fresh["slots"] = _rehashed(view.slots)
        if fresh:
            self.view = view._replace(**fresh)


def _grown(array: NDArray[np.generic], needed: int, least: int, factor: float) -> NDArray[np.generic]:
    grown = np.zeros((max(least, int(factor * needed)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _rehashed(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    grown = np.zeros((2 * len(slots), 3), np.int64)
    _kernels.move_slots(slots, grown)
    return grown


def _is_sparse(phi: ArrayLike | Sparse, single: bool) -> bool:
    """Whether features come as a pair of indices and values, not as an array."""
    return isinstance(phi, tuple) and len(phi) == 2 and np.ndim(phi[0]) == (1 if single else 2)


class PrefixRidge:
    """Append-only ridge regression with the width and the estimate at every prefix.

    With `blocks` > 1 features live in separate blocks of `dim` columns each (one per action, say): Sigma is block
    diagonal and each block is factored alone, while prefixes count all data in joint order.

    Features are dense arrays of `dim` numbers or sparse pairs (indices, values); whichever comes first is kept to.

    >>> ridge = PrefixRidge(2, 1.0)
    >>> ridge.append([1.0, 0.0], target=3.0)
    >>> ridge.widths([[1.0, 0.0]]).ravel().round(4).tolist()
    [1.0, 0.7071]
    >>> ridge.values([[1.0, 0.0]]).ravel().tolist()
    [0.0, 1.5]
    >>> ridge.first_cover([[1.0, 0.0]], epsilon=0.8)
    1
    """

    def __init__(self, dim: int, ridge: float, *, blocks: int = 1) -> None:
        if not (is_real(ridge) and SMALLEST_RIDGE <= ridge <= LARGEST):
            raise InputError(
                f"ridge is {ridge!r}; it keeps Sigma invertible, so pass a number from "
                f"{SMALLEST_RIDGE:g} to {LARGEST:g} (the paper has 1/H)."
            )
        self.dim = check_whole("dim", dim, least=1, bits=31)
        self.ridge = float(ridge)
        self.blocks = check_whole("blocks", blocks, least=1, bits=31)
        self._bank: RidgeBank | None = None  # made at the first append, which tells dense from sparse

    def __len__(self) -> int:
        return 0 if self._bank is None else int(self._bank.view.sizes[0])

    @property
    def nbytes(self) -> int:
        """Bytes held by all arrays."""
        return 0 if self._bank is None else self._bank.nbytes

    def append(self, phi: ArrayLike | Sparse, target: float, block: int = 0) -> None:
        """Add one datum at the end."""
        indices, values = self._rows(phi, single=True)
        if not (isinstance(block, int | np.integer) and 0 <= block < self.blocks):
            raise InputError(f"block is {block!r}; this regression has blocks 0 to {self.blocks - 1}.")
        if not (is_real(target) and abs(target) <= LARGEST):  # false for NaN too
            raise InputError(f"target is {target!r}; the regression needs finite numbers, so leave this datum out.")
        nnz = max(1, indices.shape[1]) if _is_sparse(phi, single=True) else None
        if self._bank is None:
            self._bank = RidgeBank(self.dim, self.ridge, regressions=1, blocks=self.blocks, nnz=nnz)
        self._bank.append(0, int(block), *self._fitted(indices, values), float(target))

    def widths(self, Phi: ArrayLike | Sparse, blocks: Sequence[int] | None = None) -> NDArray[np.float64]:
        """|phi| in Sigma_k^{-1} for every prefix k = 0..n (rows) and every query (columns)."""
        return np.sqrt(self._trace(Phi, blocks)[0])

    def values(self, Phi: ArrayLike | Sparse, blocks: Sequence[int] | None = None) -> NDArray[np.float64]:
        """The estimate phi' theta_k for every prefix k = 0..n (rows) and every query (columns)."""
        return self._trace(Phi, blocks)[1]

    def first_cover(self, Phi: ArrayLike | Sparse, epsilon: float, blocks: Sequence[int] | None = None) -> int | None:
        """The first k at which every query has a width of at most epsilon, or None.

        A width within 1e-9 * epsilon of epsilon counts as covered. Where rounding could decide, the width is
        computed afresh with 32 digits, so the answer is the exact one.
        """
        if not (is_real(epsilon) and 1e-100 <= epsilon <= 1e100):
            raise InputError(f"epsilon is {epsilon!r}; it bounds a width, so pass a number from 1e-100 to 1e100.")
        threshold = epsilon * (1 + WIDTH_TIE)
        first = 0
        for cell, where, values in self._queries(Phi, blocks):
            if self._bank is None:
                if np.sqrt(_kernels.dot(values, values) / self.ridge) > threshold:
                    return None
                continue
            position = _kernels.cover_position(self._bank.view, cell, where, values, threshold, 0)
            if position < 0:
                return None
            first = max(first, int(_kernels.order_of(self._bank.view, cell, position)))
        return first

    @property
    def log_dets(self) -> NDArray[np.float64]:
        """log det Sigma_k - log det Sigma_0 for every prefix k = 0..n."""
        log_dets = np.zeros(len(self) + 1)
        if self._bank is not None:
            log_dets[1:] = self._bank.view.floats[: len(self), _kernels.LOG_DET]
        return log_dets

    def _trace(
        self, Phi: ArrayLike | Sparse, blocks: Sequence[int] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        queries = self._queries(Phi, blocks)
        width2 = np.empty((len(queries), len(self) + 1))
        estimate = np.zeros_like(width2)
        for i, (cell, where, values) in enumerate(queries):
            if self._bank is None:
                width2[i] = _kernels.dot(values, values) / self.ridge
            else:
                _kernels.trace_query(self._bank.view, cell, where, values, width2[i], estimate[i])
        return width2.T, estimate.T

    def _queries(
        self, Phi: ArrayLike | Sparse, blocks: Sequence[int] | None
    ) -> list[tuple[int, NDArray[np.int32], NDArray[np.float64]]]:
        """(cell, local columns, values) of every row."""
        indices, values = self._rows(Phi, single=False)
        cells = np.zeros(len(values), np.int64) if blocks is None else np.asarray(blocks)
        if cells.shape != (len(values),) or cells.dtype.kind not in "iu":
            raise InputError(
                f"blocks has shape {cells.shape}; pass one whole number for each of the {len(values)} queries."
            )
        if np.any((cells < 0) | (cells >= self.blocks)):
            raise InputError(f"blocks holds {cells.tolist()}; this regression has blocks 0 to {self.blocks - 1}.")
        queries = []
        for i, cell in enumerate(cells):
            columns, row = self._fitted(indices[i : i + 1], values[i : i + 1], pad=False)
            where = np.empty(columns.size, np.int32)
            if self._bank is not None:
                _kernels.locate(self._bank.view, cell, columns, where)
            queries.append((int(cell), where, row))
        return queries

    def _rows(self, phi: ArrayLike | Sparse, *, single: bool) -> Rows:
        """Checked (m, nnz) indices, with no columns if dense, and values."""
        sparse = _is_sparse(phi, single)
        try:
            values = np.array(phi[1] if sparse else phi, np.float64)  # type: ignore[index]
            indices = np.array(phi[0] if sparse else np.empty((*values.shape[:-1], 0)))  # type: ignore[index]
        except (TypeError, ValueError) as error:
            raise InputError(f"features cannot be read as numbers ({error}); pass an array.") from error
        if single:
            values, indices = values[None], indices[None]
        if values.ndim != 2 or (not sparse and values.shape[1] != self.dim):
            shape = f"({self.dim},)" if single else f"(m, {self.dim})"
            raise InputError(f"features have shape {values.shape[single:]}; this regression takes {shape}.")
        if not np.all(np.abs(values) <= LARGEST):  # false for NaN too
            raise InputError(f"features hold NaN or numbers beyond {LARGEST:g}; the regression needs finite ones.")
        if sparse:
            if not indices.size:
                indices = indices.astype(np.int64)  # numpy takes an empty list for floats
            if indices.shape != values.shape or indices.dtype.kind not in "iu":
                raise InputError(f"sparse features need whole indices, one for each value; got {indices.shape}.")
            if np.any((indices < 0) | (indices >= self.dim)):
                raise InputError(f"sparse indices must lie in 0 to {self.dim - 1}; got {indices.tolist()}.")
            if np.any(np.diff(np.sort(indices, axis=1), axis=1) == 0):
                raise InputError(f"sparse indices must differ from each other; got {indices.tolist()}.")
        return indices.astype(np.int32), values

    def _fitted(self, indices: NDArray[np.int32], values: NDArray[np.float64], pad: bool = True) -> Rows:
        """One row in the form the bank keeps, dense or sparse."""
        columns, row = indices[0], values[0]
        dense_row = not columns.size and row.size == self.dim
        if self._bank is None:
            return columns, row
        if self._bank.nnz is None:
            if dense_row:
                return columns, row
            dense = np.zeros(self.dim)
            dense[columns] = row
            return np.empty(0, np.int32), dense
        if dense_row:
            columns = np.flatnonzero(row).astype(np.int32)
            row = row[columns]
        if pad:
            self._bank.widen(columns.size)
            missing = self._bank.nnz - columns.size
            columns = np.append(columns, np.full(missing, -1, np.int32))
            row = np.append(row, np.zeros(missing))
        return columns, row
