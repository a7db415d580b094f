"""Ridge regression that remembers every prefix of its data.

`PrefixRidge` is append-only. After n data it answers, for any query and every k = 0..n, what the regression on
the first k data says: the elliptical width |phi| in Sigma_k^{-1} and the estimate phi' theta_k. One pass over the
data gives all prefixes, so the first prefix that covers a query, the freezing index of the paper, is exact.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpi._validation import check_whole, is_real
from fpi.errors import InputError
from fpi.kernels.append import append
from fpi.kernels.columns import locate
from fpi.kernels.cover import first_cover
from fpi.kernels.numerics import dot
from fpi.kernels.objects import made
from fpi.kernels.query import trace_query
from fpi.kernels.ridge import RidgeStore, new_store, widen
from fpi.settings import SMALLEST_RIDGE

Sparse = tuple[ArrayLike, ArrayLike]
Rows = tuple[NDArray[np.int32], NDArray[np.float64]]

LARGEST = 1e60  # of features, targets and the ridge: their products stay finite
WIDTH_TIE = 1e-9  # a width within this share of epsilon counts as covered


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
        self._store: RidgeStore | None = None  # made at the first append, which tells dense from sparse

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)

    @property
    def nbytes(self) -> int:
        """Bytes held by all arrays."""
        return 0 if self._store is None else self._store.nbytes

    def append(self, phi: ArrayLike | Sparse, target: float, block: int = 0) -> None:
        """Add one datum at the end.

        `block` is the number of the block that the features are in, from 0.
        """
        indices, values = self._rows(phi, single=True)
        if not (isinstance(block, int | np.integer) and 0 <= block < self.blocks):
            raise InputError(f"block is {block!r}; this regression has blocks 0 to {self.blocks - 1}.")
        if not (is_real(target) and abs(target) <= LARGEST):  # false for NaN too
            raise InputError(f"target is {target!r}; the regression needs finite numbers, so leave this datum out.")
        nnz = max(1, indices.shape[1]) if _is_sparse(phi, single=True) else None
        if self._store is None:
            self._store = made(new_store, self.dim, self.ridge, regressions=1, blocks=self.blocks, nnz=nnz)
        append(self._store, 0, int(block), *self._fitted(indices, values, pad=True), float(target), 0, 0)

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
        for cell, columns, values in self._queries(Phi, blocks):
            if self._store is None:
                if np.sqrt(dot(values, values) / self.ridge) > threshold:
                    return None
                continue
            found = int(first_cover(self._store, cell, columns, values, threshold))
            if found < 0:
                return None
            first = max(first, found)
        return first

    @property
    def log_dets(self) -> NDArray[np.float64]:
        """log det Sigma_k - log det Sigma_0 for every prefix k = 0..n."""
        log_dets = np.zeros(len(self) + 1)
        if self._store is not None:
            log_dets[1:] = self._store.log()[0]["log_det"]
        return log_dets

    def _trace(
        self, Phi: ArrayLike | Sparse, blocks: Sequence[int] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        queries = self._queries(Phi, blocks)
        width2 = np.empty((len(queries), len(self) + 1))
        estimate = np.zeros_like(width2)
        for i, (cell, columns, values) in enumerate(queries):
            if self._store is None:
                width2[i] = dot(values, values) / self.ridge
            else:
                where = np.empty(columns.size, np.int32)
                locate(self._store, cell, columns, where)
                trace_query(self._store, cell, where, values, width2[i], estimate[i])
        return width2.T, estimate.T

    def _queries(
        self, Phi: ArrayLike | Sparse, blocks: Sequence[int] | None
    ) -> list[tuple[int, NDArray[np.int32], NDArray[np.float64]]]:
        """(cell, active columns, values) of every row."""
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
            queries.append((int(cell), *self._fitted(indices[i : i + 1], values[i : i + 1])))
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

    def _fitted(self, indices: NDArray[np.int32], values: NDArray[np.float64], pad: bool = False) -> Rows:
        """One row in the form the store keeps, dense or sparse; `pad` it as data are."""
        columns, row = indices[0], values[0]
        dense_row = not columns.size and row.size == self.dim
        if self._store is None:
            return columns, row
        width = self._store.nnz
        if width == 0:
            if dense_row:
                return columns, row
            dense = np.zeros(self.dim)
            dense[columns] = row
            return np.empty(0, np.int32), dense
        if dense_row:
            columns = np.flatnonzero(row).astype(np.int32)
            row = row[columns]
        if pad:
            widen(self._store, columns.size)
        missing = (max(width, 1) if pad else 1) - columns.size  # a row without columns would look like a dense one
        if missing > 0:
            columns = np.append(columns, np.full(missing, -1, np.int32))
            row = np.append(row, np.zeros(missing))
        return columns, row
