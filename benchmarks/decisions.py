"""What one decision costs as data grow, and how much memory they take."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import fpi
from fpi.data import ExploringStep
from fpi.datasets import Datasets
from fpi.kernels.cover import first_cover

SIZES = (100, 1_000, 10_000)


def run(console: Console) -> None:
    table = Table("query", *(f"n = {n:,}" for n in SIZES), "n × 100 costs", title="µs a decision")
    for name, costs in (
        ("tile coding, state seen before", [_seen(_tiles(), n) for n in SIZES]),
        ("one-hot, state seen before", [_seen(fpi.OneHot(500, 2), n) for n in SIZES]),
        *((f"dense, no key, d = {d}", [_dense(d, n)[0] for n in SIZES]) for d in (64, 256)),
    ):
        table.add_row(name, *(f"{cost:.2f}" for cost in costs), f"{costs[-1] / costs[0]:.2f} times")
    console.print(table)

    table = Table(
        "features", *(f"n = {n:,}" for n in SIZES), title="bytes held, as a multiple of 8·n·d (target: at most 3)"
    )
    for d in (64, 256):
        table.add_row(f"dense, d = {d}", *(f"{_dense(d, n)[1] / (8 * n * d):.2f}" for n in SIZES))
    table.add_row("tiles, 4 active of d = 2,500 a block", *(f"{_tile_bytes(n) / (8 * n * 2500):.3f}" for n in SIZES))
    console.print(table)


def _tiles() -> fpi.TileCoding:
    return fpi.TileCoding([-1] * 4, [1] * 4, tiles=4, tilings=4, actions=2)


def _best(act: Callable[[], Any], number: int) -> float:
    """Best of five, in µs."""
    act()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(number):
            act()
        times.append((time.perf_counter() - began) / number * 1e6)
    return min(times)


def _seen(features: Any, n: int) -> float:
    """n data in one stage, then the decision at a state that was decided before."""
    rng = np.random.default_rng(0)
    data = Datasets(features, 1, 1e-3, [1.0])
    tiles = isinstance(features, fpi.TileCoding)

    def observe() -> Any:
        return rng.uniform(-1, 1, 4) if tiles else int(rng.integers(500))

    state = observe()
    for i in range(n):
        indices, values = data.rows(observe() if i > 1 else state, 0)  # both actions of `state` come first
        data.append(ExploringStep(indices[0], values[0], None), 0, i % 2, rng.random(), i)
    decide = data.begin_episode(2**62, "first", 0, n)
    _, explores = decide(state, 0)
    assert not explores
    return _best(lambda: decide(state, 0), 2_000)


def _dense(d: int, n: int) -> tuple[float, int]:
    """A fresh covered query, asked with no memory of earlier ones: cost and memory."""
    rng = np.random.default_rng(0)
    ridge = fpi.PrefixRidge(d, 1e-3)
    for _ in range(n):
        phi = rng.normal(size=d)
        ridge.append(phi / np.linalg.norm(phi), rng.random())
    phi = rng.normal(size=(1, d))
    phi /= np.linalg.norm(phi)
    epsilon = float(ridge.widths(phi)[n // 3, 0])  # covered after a third of the data

    def act() -> Any:
        return first_cover(ridge._store, 0, np.empty(0, np.int32), phi[0], epsilon * 1.001)

    assert act() > 0
    return _best(act, 20), ridge.nbytes


def _tile_bytes(n: int) -> int:
    features = _tiles()
    rng = np.random.default_rng(0)
    data = Datasets(features, 1, 1e-3, [1.0])
    for i in range(n):
        indices, values = data.rows(rng.uniform(-1, 1, 4), 0)
        data.append(ExploringStep(indices[0], values[0], None), 0, i % 2, rng.random(), i)
    return data.nbytes
