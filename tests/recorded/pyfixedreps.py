"""Asks PyFixedReps, a feature library that shares no code with fpi, and writes its answers beside this file.

It has no wheels for Python 3.13, so tests read the answers and do not need it. To ask again, with Python 3.11 or 3.12:

    pip install PyFixedReps-andnp==4.1.2 numba && python tests/recorded/pyfixedreps.py

It has no spare cell for shifted tilings: it gets one tile more, on a range one tile longer. Its "cascade" offsets are
then shares i/tilings of a tile, its wrap is modulo the tiles without the spare.
"""

import json
import math
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PyFixedReps.RBF import RBF
from PyFixedReps.TileCoder import TileCoder, TileCoderConfig

DIGITS = 4


def some_tilings(rng):
    """A random coding, with observations in its range and clear of every edge of every tiling."""
    dims, tilings = int(rng.integers(1, 4)), int(rng.integers(1, 10))
    tiles = rng.integers(1, 14, dims)
    wrap = rng.random(dims) < 0.5
    low = rng.uniform(-1000, 1000, dims).round(DIGITS)
    high = (low + 10 ** rng.uniform(-2, 3, dims)).round(DIGITS)
    width = (high - low) / tiles
    steps = rng.integers(0, tiles * tilings, (3, dims)) + rng.uniform(0.1, 0.9, (3, dims))
    observations = low + steps / tilings * width
    other = TileCoder(
        TileCoderConfig(
            tiles=(tiles + 1).tolist(),
            tilings=tilings,
            dims=dims,
            input_ranges=list(zip(low, high + width, strict=True)),
            bound=["wrap" if each else "clip" for each in wrap],
        )
    )
    return {
        "low": low.tolist(),
        "high": high.tolist(),
        "tiles": tiles.tolist(),
        "tilings": tilings,
        "wrap": wrap.tolist(),
        "observations": observations.tolist(),
        "indices": [other.get_indices(each).tolist() for each in observations],
    }


def one_clipped_tiling(rng):
    """Out of range and on edges too."""
    other = TileCoder(TileCoderConfig(tiles=[4, 8], tilings=1, dims=2, input_ranges=[(-1, 1)] * 2))
    edges = [[x, y] for x in (-3, -1, -0.5, 0, 1, 3) for y in (-1, -0.25, 1)]
    observations = [*edges, *rng.uniform(-2, 2, (30, 2)).round(DIGITS).tolist()]
    return {"observations": observations, "indices": [int(other.get_indices(each)[0]) for each in observations]}


def bumps(rng):
    centers = rng.uniform(-1, 1, (6, 3)).round(DIGITS)
    inside = centers.mean(axis=0)
    other = RBF({"centers": centers, "width": 0.4 * math.sqrt(2)})
    return {"centers": centers.tolist(), "observation": inside.tolist(), "features": other.encode(inside).tolist()}


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    answers = {
        "library": f"PyFixedReps-andnp {version('PyFixedReps-andnp')}",
        "tilings": [some_tilings(rng) for _ in range(60)],
        "one clipped tiling": one_clipped_tiling(rng),
        "bumps": bumps(rng),
    }
    one_a_line = json.dumps(answers).replace("}, {", "},\n{")
    Path(__file__).with_suffix(".json").write_text(one_a_line + "\n")
