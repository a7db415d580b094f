"""From an observation to the numbers of its active features: tile coding and one-hot."""

import numpy as np

from fpi._compiling import jit_inline, jit_part


@jit_inline
def tile_indices(x, grid, out):
    """Write the active tile of every tiling for observation `x` into `out`; False if it is not finite.

    A row of `grid` describes one dimension: its low end, tiles per unit, cells, whether it is periodic, and the shift
    of every tiling as a share of a tile.
    """
    dims = grid.shape[0]
    tilings = grid.shape[1] - 4
    cells_per_tiling = 1
    for j in range(dims):
        if not np.isfinite(x[j]):
            return False
        cells_per_tiling *= int(grid[j, 2])
    for i in range(tilings):
        index = 0
        for j in range(dims):
            position = (x[j] - grid[j, 0]) * grid[j, 1]
            cells = int(grid[j, 2])
            shift = grid[j, 4 + i]
            if grid[j, 3] != 0.0:
                if not np.isfinite(position):  # overflowed: any one cell is as good as another
                    position = 0.0
                cell = int(np.floor(np.fmod(position, cells) + shift)) % cells
            elif position <= 0.0:  # clipped, and safe for values an integer cannot hold
                cell = 0
            else:
                # With several tilings there is one more cell than tiles: the range still ends at `tiles`.
                tiles = cells - 1 if tilings > 1 else cells
                cell = min(int(np.floor(min(position, float(tiles)) + shift)), cells - 1)
            index = index * cells + cell
        out[i] = i * cells_per_tiling + index
    return True


@jit_part
def active_features(x, grid, states, out):
    """Write the active features of `x` into `out`: tile coding by `grid`, or one-hot features if there are `states`.

    False where there are none.
    """
    if states == 0:
        return tile_indices(x, grid, out)
    if not (0.0 <= x[0] < states and x[0] == np.floor(x[0])):
        return False
    out[0] = int(x[0])
    return True
