"""`PrefixRidge` against a QR factorisation in long double, which imports nothing from fpi."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import fpi

SIZES = ((2_000, 16), (5_000, 64), (20_000, 256))
RIDGES = (1.0, 1e-3, 1e-6, 1e-8)
KINDS = ("dense", "low-rank", "tiles")
HARDEST = "low-rank", 1e-8
QUERIES = 4
MOST_EXACT = 10**8

Long = NDArray[np.longdouble]


@dataclass
class Row:
    widths: float = 0.0
    values: float = 0.0
    decisions: int = 0
    wrong: int = 0


def run() -> Iterator[Table | str]:
    ridges = [f"{ridge:.0e}" if ridge < 1 else f"λ = {ridge:g}" for ridge in RIDGES]
    table = Table("features", "n", "d", *ridges, "close decisions, wrong")
    for n, d in SIZES:
        for kind in KINDS:
            rows = {
                ridge: measure(kind, n, d, ridge)
                for ridge in RIDGES
                if (n, d) != SIZES[-1] or (kind, ridge) == HARDEST  # others take half a minute each
            }
            if rows:
                cells = (
                    f"{rows[each].widths:.1e} / {rows[each].values:.1e}" if each in rows else "" for each in RIDGES
                )
                decisions, wrong = (sum(getattr(row, name) for row in rows.values()) for name in ("decisions", "wrong"))
                table.add_row(kind, f"{n:,}", str(d), *cells, f"{decisions}, {wrong}")
    yield table
    yield "Targets: 1e-6 for λ ≥ 1e-6 and 1e-5 below; no wrong decision."


def make(kind: str, n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows of norm 1; every tenth one repeats an earlier one."""
    if kind == "tiles":
        rows = np.zeros((n, d))
        np.put_along_axis(rows, rng.permuted(np.tile(np.arange(d), (n, 1)), axis=1)[:, :4], 0.5, axis=1)
    else:
        rows = rng.normal(size=(n, d))
        if kind == "low-rank":  # a few directions, with a little of the others in every third row
            thin = rng.normal(size=(n, d // 8)) @ rng.normal(size=(d // 8, d))
            rows = thin + 1e-3 * rows * (np.arange(n) % 3 == 0)[:, None]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[9::10] = rows[rng.integers(9, size=len(rows[9::10]))]
    return rows


def measure(kind: str, n: int, d: int, ridge: float) -> Row:
    rng = np.random.default_rng(n + d)
    phi = make(kind, n, d, rng)
    targets = phi @ rng.normal(size=d) + rng.uniform(size=n)
    queries = np.vstack([make(kind, QUERIES - 1, d, rng), phi[n // 2]])
    ours = fpi.PrefixRidge(d, ridge)
    for row, target in zip(phi, targets, strict=True):
        if kind == "tiles":
            active = np.flatnonzero(row)
            ours.append((active, row[active]), target)
        else:
            ours.append(row, target)

    prefixes = sorted({1, 7, d, 2 * d + 3, n // 3, n - 1, n})
    widths, values = ours.widths(queries), ours.values(queries)
    result = Row()
    for k, (exact_widths, exact_values) in zip(
        prefixes, reference(phi, targets, queries, ridge, prefixes), strict=True
    ):
        result.widths = max(result.widths, float(np.max(np.abs(widths[k] - exact_widths) / exact_widths)))
        scale = max(float(np.max(np.abs(exact_values))), 1e-300)
        result.values = max(result.values, float(np.max(np.abs(values[k] - exact_values))) / scale)
        if k * d * d > MOST_EXACT and k < n:
            continue  # deciding with 32 digits takes seconds there; once, at the end, is enough
        for query, width in zip(queries[-1:], exact_widths[-1:], strict=True):
            for nudge in (3e-9, -3e-9):
                first = ours.first_cover(query[None], float(width * (1 + np.longdouble(nudge))))
                result.decisions += 1
                result.wrong += (first is not None and first <= k) != (nudge > 0)
    return result


def reference(
    phi: NDArray[np.float64],
    targets: NDArray[np.float64],
    queries: NDArray[np.float64],
    ridge: float,
    prefixes: list[int],
) -> list[tuple[Long, Long]]:
    """Widths and estimates at some prefixes by Householder reflections in long double."""
    d = phi.shape[1]
    factor = np.zeros((d, d + 1), np.longdouble)  # R and its right-hand side
    factor[np.arange(d), np.arange(d)] = np.sqrt(np.longdouble(ridge))
    answers, done = [], 0
    for k in prefixes:
        while done < k:
            upto = min(k, done + 512)
            block = np.column_stack([phi[done:upto], targets[done:upto]]).astype(np.longdouble)
            factor = triangle(np.vstack([factor, block]), d)
            done = upto
        x = queries.T.astype(np.longdouble)
        for i in range(d):  # R' x = query
            x[i] = (x[i] - factor[:i, i] @ x[:i]) / factor[i, i]
        answers.append((np.sqrt((x * x).sum(axis=0)), x.T @ factor[:, d]))
    return answers


def triangle(matrix: Long, d: int) -> Long:
    """The upper triangle of a QR factorisation."""
    for j in range(d):
        v = matrix[j:, j].copy()
        norm = np.sqrt(v @ v)
        if norm == 0:
            continue
        v[0] += np.copysign(norm, v[0])
        v /= np.sqrt(v @ v)
        matrix[j:, j:] -= 2 * np.outer(v, v @ matrix[j:, j:])
    result = np.triu(matrix[:d])
    return result
