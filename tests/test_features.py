"""Feature maps: tile coding by its properties, norms by theory, bad input by its error text."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from fpi.errors import EnvironmentMismatch, InputError
from fpi.features import (
    RBF,
    FeatureMap,
    FloatArray,
    Fourier,
    Function,
    OneHot,
    TileCoding,
    as_feature_map,
    for_env,
    from_config,
)
from fpi.ranges import MEASURED_STEPS, observation_range

ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
EXTREMES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e308,
    -1e308,
    np.finfo(float).max,
    -np.finfo(float).max,
    2.0**53,
    1e16,
]


def cells_of(coding: TileCoding, observation: Any) -> list[tuple[int, ...]]:
    """The grid cell of every tiling; fails unless there is exactly one tile in each."""
    cells = coding.grid[:, 2].astype(int)
    per_tiling = math.prod(cells.tolist())
    indices, _ = coding.active(observation)
    assert indices.shape == (coding.tilings,)
    assert (indices // per_tiling == np.arange(coding.tilings)).all()
    return [tuple(int(c) for c in np.unravel_index(index, cells)) for index in indices % per_tiling]


@st.composite
def codings(draw: st.DrawFn, wrap: bool | None = None) -> TileCoding:
    dims = draw(st.integers(1, 3))
    low = draw(st.lists(st.floats(-1e3, 1e3), min_size=dims, max_size=dims))
    width = draw(st.lists(st.floats(1e-3, 1e3), min_size=dims, max_size=dims))
    return TileCoding(
        low,
        np.add(low, width),
        tiles=draw(st.lists(st.integers(1, 13), min_size=dims, max_size=dims)),
        tilings=draw(st.integers(1, 9)),
        actions=draw(st.integers(1, 3)),
        wrap=draw(st.lists(st.booleans(), min_size=dims, max_size=dims)) if wrap is None else wrap,
    )


def at_position(coding: TileCoding, positions: list[float]) -> FloatArray:
    """The observation that lies `positions` tiles above low."""
    tiles = np.array(coding.to_config()["tiles"])
    observation: FloatArray = coding.low + np.array(positions) * (coding.high - coding.low) / tiles
    return observation


@st.composite
def between_edges(draw: st.DrawFn, coding: TileCoding) -> list[float]:
    """Positions in tiles, in the range and clear of every edge of every tiling (multiples of 1/tilings)."""
    tiles = np.array(coding.to_config()["tiles"])
    steps = [draw(st.integers(0, int(count) * coding.tilings - 1)) for count in tiles]
    return [(step + draw(st.floats(0.1, 0.9))) / coding.tilings for step in steps]


# Tile coding


@settings(deadline=None)  # the first call compiles
@given(codings(), st.data())
def test_one_tile_per_tiling_whatever_the_observation(coding: TileCoding, data: st.DataObject) -> None:
    values = st.one_of(ANY_FLOAT, st.floats(-2e3, 2e3), st.sampled_from(EXTREMES))
    dims = len(coding.low)
    observation = data.draw(st.lists(values, min_size=dims, max_size=dims))
    cells_of(coding, observation)
    matrix = coding(observation)
    assert matrix.shape == (coding.actions, coding.dim)
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("wrap", [False, True])
def test_extreme_observations_stay_in_the_grid(wrap: bool) -> None:
    values = [sign * m * 10.0**e for sign in (-1, 1) for m in (1.1, 3.7, 8.1) for e in range(-320, 308, 3)]
    for tiles, tilings in itertools.product((1, 3, 7, 11), (1, 3)):
        coding = TileCoding(-math.pi, math.pi, tiles=tiles, tilings=tilings, actions=1, wrap=wrap)
        for value in [*EXTREMES, *values]:
            cells_of(coding, [value])


@settings(deadline=None)
@given(codings(wrap=False), st.data())
def test_out_of_range_is_clipped(coding: TileCoding, data: st.DataObject) -> None:
    dims = len(coding.low)
    observation = data.draw(st.lists(ANY_FLOAT, min_size=dims, max_size=dims))
    clipped = np.clip(observation, coding.low, coding.high)
    assert coding.key(observation) == coding.key(clipped)


@settings(deadline=None)
@given(codings(), st.data())
def test_tiles_are_where_the_definition_puts_them(coding: TileCoding, data: st.DataObject) -> None:
    positions = data.draw(between_edges(coding))
    description = coding.to_config()
    tilings = coding.tilings
    expected = [
        tuple(
            math.floor(position + (i * (2 * j + 1) % tilings) / tilings) % (count if wrap else count + 1)
            for j, (position, count, wrap) in enumerate(
                zip(positions, description["tiles"], description["wrap"], strict=True)
            )
        )
        for i in range(tilings)
    ]
    assert cells_of(coding, at_position(coding, positions)) == expected


@settings(deadline=None)
@given(codings(wrap=True), st.data())
def test_wrapped_dimensions_are_periodic(coding: TileCoding, data: st.DataObject) -> None:
    observation = at_position(coding, data.draw(between_edges(coding)))
    turns = data.draw(st.lists(st.integers(-3, 3), min_size=len(observation), max_size=len(observation)))
    moved = observation + np.array(turns) * (coding.high - coding.low)
    assert coding.key(observation) == coding.key(moved)


def test_wrap_is_per_dimension() -> None:
    coding = TileCoding([0, 0], [1, 1], tiles=4, tilings=2, actions=1, wrap=[True, False])
    assert coding.dim == 2 * 4 * 5
    assert coding.key([0.1, 0.3]) == coding.key([1.1, 0.3])
    assert coding.key([0.1, 0.3]) != coding.key([0.1, 1.3])


@settings(deadline=None)
@given(codings(wrap=False).filter(lambda coding: coding.tilings in (2, 4, 8)), st.data())
def test_neighbours_share_all_tiles_but_one(coding: TileCoding, data: st.DataObject) -> None:
    # The odd displacements are coprime to a power of two: in every dimension all tilings have other edges.
    positions = data.draw(between_edges(coding))
    dimension = data.draw(st.integers(0, len(positions) - 1))
    near, far = list(positions), list(positions)
    near[dimension] += 0.9 / coding.tilings
    far[dimension] += 1.0
    here = set(cells_of_all(coding, positions))
    assert len(here & set(cells_of_all(coding, near))) >= coding.tilings - 1
    if far[dimension] < coding.to_config()["tiles"][dimension]:
        assert not here & set(cells_of_all(coding, far))


def cells_of_all(coding: TileCoding, positions: list[float]) -> list[int]:
    return [int(index) for index in coding.active(at_position(coding, positions))[0]]


def test_edges_belong_to_the_upper_tile_and_the_end_to_the_last() -> None:
    coding = TileCoding([0], [4], tiles=4, tilings=1, actions=1)
    below = np.nextafter
    positions = [-0.0, 0.0, 1.0, below(1.0, 0), 2.0, 3.0, below(4.0, 0), 4.0, 4.5]
    assert [cells_of(coding, [x])[0][0] for x in positions] == [0, 0, 1, 0, 2, 3, 3, 3, 3]
    shifted = TileCoding([0], [4], tiles=4, tilings=2, actions=1)
    assert [cells_of(shifted, [x]) for x in (0.0, 0.5, 4.0, 9.0)] == [
        [(0,), (0,)],
        [(0,), (1,)],
        [(4,), (4,)],
        [(4,), (4,)],
    ]


def test_a_tiny_step_below_a_wrapped_range_is_its_end() -> None:
    coding = TileCoding([0], [4], tiles=4, tilings=2, actions=1, wrap=True)
    assert cells_of(coding, [-1e-9]) == [(3,), (0,)]
    assert cells_of(coding, [4.0]) == cells_of(coding, [0.0]) == [(0,), (0,)]
    assert cells_of(coding, [3.5]) == [(3,), (0,)]


def test_default_offsets_are_odd_displacements() -> None:
    offsets = TileCoding([0] * 3, [1] * 3, tiles=2, tilings=4, actions=1).to_config()["offsets"]
    assert offsets == [[0, 0, 0], [0.25, 0.75, 0.25], [0.5, 0.5, 0.5], [0.75, 0.25, 0.75]]


@pytest.mark.parametrize(
    ("tilings", "wrap", "dim"),
    [(1, False, 4**4 * 2), (2, False, 5**4 * 2 * 2), (4, False, 5**4 * 4 * 2), (4, True, 4**4 * 4 * 2)],
)
def test_number_of_features(tilings: int, wrap: bool, dim: int) -> None:
    coding = TileCoding([-1] * 4, [1] * 4, tiles=4, tilings=tilings, actions=2, wrap=wrap)
    assert coding.dim == dim
    assert coding.nnz == tilings


@settings(deadline=None)
@given(st.lists(st.integers(-60, 60), min_size=3, max_size=3))
def test_dtype_stride_and_container_do_not_matter(values: list[int]) -> None:
    coding = TileCoding([-50] * 3, [50] * 3, tiles=7, tilings=3, actions=2)
    expected = coding.key(np.array(values, dtype=np.float64))
    padded = np.full(12, np.nan)
    padded[1::4] = values
    frozen = np.array(values, dtype=np.float64)
    frozen.flags.writeable = False
    variants: list[Any] = [values, tuple(values), padded[1::4], frozen, np.array(values)[::-1][::-1]]
    variants += [np.array(values, dtype=t) for t in ("i1", "i8", "f2", "f4", ">f8", np.longdouble)]
    variants += [np.array([values]), np.asfortranarray(np.array(values).reshape(3, 1))]
    for variant in variants:
        before = np.array(variant)
        assert coding.key(variant) == expected
        np.testing.assert_array_equal(np.array(variant), before)


def test_booleans_and_scalars_are_numbers_too() -> None:
    assert TileCoding(0, 1, tiles=2, tilings=1, actions=1).key(True) == np.int32(1).tobytes()
    assert OneHot(3, 2).key(np.array([2.0], dtype=np.float32)) == 2
    assert OneHot(3, 2).key(np.int64(1)) == 1


# Against PyFixedReps; recorded/pyfixedreps.py asked it and says how

PYFIXEDREPS = json.loads((Path(__file__).parent / "recorded" / "pyfixedreps.json").read_text())


@pytest.mark.parametrize("asked", PYFIXEDREPS["tilings"])
def test_tiles_agree_with_pyfixedreps(asked: dict[str, Any]) -> None:
    tilings, tiles = asked["tilings"], asked["tiles"]
    cascade = np.repeat(np.arange(tilings)[:, None] / tilings, len(tiles), axis=1)
    ours = TileCoding(
        asked["low"], asked["high"], tiles=tiles, tilings=tilings, actions=1, wrap=asked["wrap"], offsets=cascade
    )
    strides = np.cumprod([1] + [count + 1 for count in tiles])
    for observation, indices in zip(asked["observations"], asked["indices"], strict=True):
        theirs = [
            tuple(index % int(strides[-1]) // int(low) % int(high // low) for low, high in itertools.pairwise(strides))
            for index in indices
        ]
        if tilings == 1:  # no offsets, so no spare cell on our side
            theirs = [tuple(min(c, n - 1) for c, n in zip(cell, tiles, strict=True)) for cell in theirs]
        assert cells_of(ours, observation) == theirs


def test_one_clipped_tiling_is_that_of_pyfixedreps() -> None:
    ours = TileCoding([-1, -1], [1, 1], tiles=[4, 8], tilings=1, actions=1)
    asked = PYFIXEDREPS["one clipped tiling"]
    for observation, index in zip(asked["observations"], asked["indices"], strict=True):
        assert cells_of(ours, observation) == [(index % 4, index // 4)]


# Every built-in map

MAPS: dict[str, FeatureMap] = {
    "one-hot": OneHot(5, 3),
    "tiles": TileCoding([0, -1], [1, 1], tiles=[3, 2], tilings=2, actions=3, wrap=[True, False]),
    "own offsets": TileCoding(0.1, 0.7, tiles=3, tilings=2, actions=2, offsets=[[0.1], [1 / 3]]),
    "fourier": Fourier([0, -1], [1, 1], order=2, actions=3),
    "rbf": RBF([[0.0, 0.0], [0.5, 1.0], [1.0, -1.0]], [0.3, 0.7], 3),
}
SAMPLES: dict[str, list[Any]] = {
    name: list(range(5)) if name == "one-hot" else np.linspace(-1.3, 1.3, 7).tolist() for name in MAPS
}
SAMPLES |= {name: [[x, 0.3 - x] for x in SAMPLES[name]] for name in ("tiles", "fourier", "rbf")}


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_separate_and_consistent(name: str) -> None:
    assert isinstance(MAPS[name], FeatureMap)
    features: Any = MAPS[name]
    assert features.separate
    block = features.dim // features.actions
    for sample in SAMPLES[name]:
        if hasattr(features, "active"):
            indices, values = features.active(sample, 4)
            assert (indices.dtype, values.dtype) == (np.int32, np.float64)
            assert indices.shape == values.shape == (features.nnz,)
            psi = np.zeros(block)
            psi[indices] = values
        else:
            psi = features.state(sample, 4)
        assert 0 < np.linalg.norm(psi) <= 1 + 1e-12
        np.testing.assert_array_equal(features(sample, 4), np.kron(np.eye(features.actions), psi))


@pytest.mark.parametrize("name", MAPS)
def test_maps_come_back_from_json(name: str) -> None:
    features: Any = MAPS[name]
    config = json.loads(json.dumps(features.to_config()))
    again: Any = from_config(config)
    assert type(again) is type(features)
    assert again.to_config() == features.to_config() == config
    for sample in SAMPLES[name]:
        np.testing.assert_array_equal(again(sample, 0), features(sample, 0))


@pytest.mark.parametrize("name", ["one-hot", "tiles"])
def test_equal_keys_and_only_they_mean_equal_features(name: str) -> None:
    features: Any = MAPS[name]
    for a, b in itertools.product(SAMPLES[name], repeat=2):
        assert (features.key(a) == features.key(b)) == np.array_equal(features(a), features(b))


def test_what_active_gives_may_be_changed() -> None:
    features = MAPS["tiles"]
    assert isinstance(features, TileCoding)
    for array in features.active([0.5, 0.5]):
        array[:] = 7
    assert features([0.5, 0.5]).max() == pytest.approx(math.sqrt(0.5))


def test_maps_keep_their_own_copy_of_what_they_were_made_from() -> None:
    low, high, centers = np.zeros(1), np.ones(1), np.array([[0.0], [0.5]])
    makers: list[Callable[[], Any]] = [
        lambda: TileCoding(low, high, tiles=3, tilings=2, actions=1),
        lambda: Fourier(low, high, order=2, actions=1),
        lambda: RBF(centers, 0.3, 1),
    ]
    maps = [make() for make in makers]
    before = [features([0.4]) for features in maps]
    low[:], high[:], centers[:] = -9, 9, 9
    for features, expected in zip(maps, before, strict=True):
        np.testing.assert_array_equal(features([0.4]), expected)


@pytest.mark.parametrize("name", ["tiles", "fourier", "rbf"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_entry_that_is_not_finite_is_named(name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"observation\[1\] is {value}: every entry must be finite"):
        MAPS[name]([0.5, value], 0)


def test_one_hot_wants_state_numbers() -> None:
    with pytest.raises(InputError, match=r"observation\[0\] is nan"):
        OneHot(5, 3).key(math.nan)
    for wrong in (5, -1, 1.5):
        with pytest.raises(InputError, match=rf"observation {wrong} is not a state number.*from 0 to 4"):
            OneHot(5, 3)(wrong)


@pytest.mark.parametrize("name", ["tiles", "fourier", "rbf"])
@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ([1.0], "1 entries, the features are for 2"),
        ([[1.0], [1.0, 2.0]], "not a regular array"),
        ([1j, 0], "real numbers, not complex128"),
        (["0.5", "1"], "real numbers, not <U3"),
        (None, "real numbers, not object"),
    ],
)
def test_observations_of_another_kind(name: str, observation: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        MAPS[name](observation, 0)


def tile_map(**changes: Any) -> TileCoding:
    arguments: dict[str, Any] = {"low": [0, 0], "high": [1, 1], "tiles": 2, "tilings": 2, "actions": 2}
    return TileCoding(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: OneHot(0, 2), "states is 0; pass a whole number of at least 1"),
        (lambda: OneHot(3, 2.5), "actions is 2.5; pass a whole number"),  # type: ignore[arg-type]
        (lambda: OneHot(10**7, 2), "makes 20,000,000 features, more than 10,000,000"),
        (lambda: tile_map(tiles=0), "tiles is 0"),
        (lambda: tile_map(tiles=[2, 2, 2]), "tiles has 3 values for 2 dimensions"),
        (lambda: tile_map(tilings="4"), "tilings is '4'"),
        (lambda: tile_map(wrap=[0, 1]), "wrap = .* must be True or False"),
        (lambda: tile_map(high=[1, 0]), r"low\[1\] = 0.0 and high\[1\] = 0.0 are not a finite range"),
        (lambda: tile_map(high=[math.inf, 1]), r"low\[0\] = 0.0 and high\[0\] = inf .*for_env"),
        (lambda: tile_map(low=[-1e308, 0], high=[1e308, 1]), r"low\[0\] = -1e\+308"),
        (lambda: tile_map(high=[5e-324, 1]), r"high\[0\] = 5e-324"),
        (lambda: tile_map(low=[math.nan, 0]), r"low\[0\] = nan"),
        (lambda: tile_map(low=[0, 0, 0]), r"one length, not \(3,\) and \(2,\)"),
        (lambda: tile_map(offsets=[0.0, 0.5]), r"offsets need the shape .* \(2, 2\)"),
        (lambda: tile_map(offsets=[[0, 0], [0, 1]]), "values from 0 to below 1"),
        (lambda: TileCoding([0] * 100, [1] * 100, tiles=4, tilings=2, actions=2), r"about 10\^70 features"),
        (lambda: TileCoding([0] * 9999, [1] * 9999, tiles=9, tilings=2, actions=2), r"about 10\^9999 feat"),
        (lambda: tile_map(tiles=1, wrap=True, tilings=10**9), "makes 2,000,000,000 features"),
        (lambda: Fourier([0] * 9, [1] * 9, order=9, actions=1), "makes 9,000,000,000 features"),
        (lambda: Fourier(0, 1, order=0, actions=1), "order is 0"),
        (lambda: RBF([1.0, 2.0], 1.0, 2), r"centers need the shape \(number, dimensions\)"),
        (lambda: RBF([[math.nan]], 1.0, 2), "with finite values"),
        (lambda: RBF([[0.0]], 0.0, 2), r"width \[0.0\] is not positive and finite"),
        (lambda: RBF([[0.0], [1e200]], 1.0, 2), "use a larger width"),
        (lambda: from_config({"type": "Tiles"}), "type 'Tiles' is unknown; this version knows OneHot, TileC"),
        (lambda: from_config({}), "type None is unknown"),
        (lambda: from_config({"type": ["OneHot"]}), "is unknown"),
        (lambda: from_config({"type": "OneHot", "states": 3}), "OneHot .* missing a required argument"),
        (lambda: from_config({"type": "OneHot", "states": 3, "actions": 2, "x": 1}), "unexpected keyword"),
        (lambda: from_config({"type": "OneHot", "states": "3", "actions": 2}), "states is '3'"),
    ],
)
def test_arguments_that_make_no_map(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()


def test_the_size_limit_counts_every_feature() -> None:
    assert OneHot(10**7, 1).dim == 10**7
    with pytest.raises(InputError, match="10,000,001"):
        OneHot(10**7 + 1, 1)


# Fourier and RBF


@settings(deadline=None)
@given(st.lists(ANY_FLOAT, min_size=2, max_size=2))
def test_fourier_is_the_cosine_basis(observation: list[float]) -> None:
    x = (np.clip(observation, [0, -1], [2, 1]) - [0, -1]) / 2
    frequencies = list(itertools.product(range(4), repeat=2))
    expected = [math.cos(math.pi * (a * x[0] + b * x[1])) / 4 for a, b in frequencies]
    state = Fourier([0, -1], [2, 1], order=3, actions=2).state(observation)
    np.testing.assert_allclose(state, expected, atol=1e-14)
    assert np.linalg.norm(state) <= 1 + 1e-12


def test_fourier_reaches_norm_one_at_the_origin() -> None:
    assert np.linalg.norm(Fourier([0] * 3, [1] * 3, order=4, actions=1).state([0, 0, 0])) == pytest.approx(1)


@pytest.mark.parametrize(("coupled", "size"), [(1, 1 + 3 * 2), (2, 1 + 3 * 2 + 3 * 4), (3, 27), (9, 27)])
def test_cosines_may_combine_fewer_entries(coupled, size):
    low, high, x = [0, -1, 2], [1, 1, 3], [0.3, 0.4, 2.9]
    features = Fourier(low, high, order=2, actions=2, coupled=coupled)
    scaled = (np.array(x) - low) / np.subtract(high, low)
    kept = [c for c in itertools.product(range(3), repeat=3) if np.count_nonzero(c) <= coupled]
    expected = np.sort([np.cos(np.pi * np.dot(c, scaled)) for c in kept]) / np.sqrt(size)
    assert np.sort(features.state(x)) == pytest.approx(expected) and features.dim == 2 * size == 2 * len(kept)
    assert np.array_equal(from_config(features.to_config()).state(x), features.state(x))
    assert Fourier([0] * 128, [1] * 128, order=3, coupled=1, actions=6).dim == 6 * (1 + 3 * 128)


@settings(deadline=None)
@given(st.lists(ANY_FLOAT, min_size=2, max_size=2), st.sampled_from([1e-3, 0.5, 1e3]))
def test_rbf_is_a_share_for_every_center(observation: list[float], width: float) -> None:
    state = RBF([[0.0, 0.0], [1.0, 0.5], [-1.0, 3.0], [0.0, 0.0]], width, 2).state(observation)
    assert (state >= 0).all()
    assert state.sum() == pytest.approx(1)
    assert state[0] == state[3]
    assert np.linalg.norm(state) <= 1


def test_rbf_is_that_of_pyfixedreps_normalised() -> None:
    asked = PYFIXEDREPS["bumps"]
    theirs = np.array(asked["features"])
    ours = RBF(asked["centers"], 0.4, 1).state(asked["observation"])
    np.testing.assert_allclose(ours, theirs / theirs.sum(), rtol=1e-12)


def test_rbf_width_may_differ_between_dimensions() -> None:
    stretched = RBF([[0, 0], [1, 20]], [0.5, 10], 1).state([0.3, 8])
    np.testing.assert_allclose(stretched, RBF([[0, 0], [1, 2]], [0.5, 1], 1).state([0.3, 0.8]))


# Plain functions


def test_functions_of_one_and_of_two_arguments() -> None:
    def one(observation: Any) -> Any:
        return [[observation[0], 0], [0, observation[0]]]

    def two(observation: Any, stage: int) -> Any:
        return [[stage / 10, 0], [0, stage / 10]]

    def optional(observation: Any, stage: int = 7) -> Any:
        return two(observation, stage)

    def bound_by_default(observation: Any, factor: float = 0.5) -> Any:
        return np.multiply(one(observation), factor)

    observation = np.array([0.25])
    functions: list[tuple[Callable[..., Any], float]]
    functions = [(one, 0.25), (two, 0.3), (optional, 0.3), (bound_by_default, 0.125)]
    for function, expected in functions:
        features = as_feature_map(function, 2)
        np.testing.assert_array_equal(features(observation, 3), np.eye(2) * expected)
        assert (features.actions, features.dim, features.separate) == (2, 2, False)
        assert not any(hasattr(features, name) for name in ("key", "active", "state", "to_config"))
    assert observation == [0.25]


def test_compiled_functions_that_hide_their_arguments_get_the_observation() -> None:
    assert Function(np.atleast_2d, 1)([0.5], 3).tolist() == [[0.5]]
    with pytest.raises(ValueError, match="no signature found"):
        __import__("inspect").signature(min)
    assert Function(min, 1)([[[0.5]], [[0.6]]], 3).tolist() == [[0.5]]


@pytest.mark.parametrize(
    "function",
    [lambda: 0, lambda a, b, c: 0, lambda a, *, b: 0, "no function"],
    ids=["0", "3", "keyword", "text"],
)
def test_functions_of_other_arguments(function: Any) -> None:
    with pytest.raises(InputError, match=r"must take \(observation\) or \(observation, stage\)"):
        Function(function, 2)


def test_scale_divides_and_the_key_is_asked() -> None:
    features = Function(lambda s: [[3.0, 4.0]], 1, scale=5, key=lambda s: round(s))
    np.testing.assert_allclose(features(0.9, 2), [[0.6, 0.8]])
    assert features.key(0.9, 2) == 1
    assert Function(lambda s: [[1.0]], 1, key=lambda s, stage: (s, stage)).key(5, 2) == (5, 2)
    for scale in (0, -1, math.inf, math.nan):
        with pytest.raises(InputError, match="a finite number above 0"):
            Function(lambda s: [[1.0]], 1, scale=scale)


def test_a_norm_above_one_is_told_with_the_scale_that_repairs_it() -> None:
    features = Function(lambda s: [[0.1, 0], [3, 4]], 2, scale=2)
    with pytest.raises(InputError, match=r"action 1 at stage 6 have the norm 2\.5; .*scale of at least 5\."):
        features(0, 6)
    assert features.dim == 0
    assert Function(lambda s: [[1 + 0.9e-9]], 1)(0).shape == (1, 1)
    with pytest.raises(InputError, match="the norm 1"):
        Function(lambda s: [[1 + 1.1e-9]], 1)(0)
    with pytest.raises(InputError, match="the norm inf"):
        Function(lambda s: [[1e200]], 1)(0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([0.1, 0.2], r"the shape \(2,\) at stage 0, expected \(actions, d\) = \(2, d\): one row per action"),
        ([[0.1], [0.2], [0.3]], r"the shape \(3, 1\)"),
        ([[], []], r"the shape \(2, 0\)"),
        (0.5, r"the shape \(\)"),
        ([[0.1, math.nan], [0, 0]], r"at stage 0, feature\[0, 1\] is nan"),
        ([[0, 0], [math.inf, 0]], r"at stage 0, feature\[1, 0\] is inf"),
        ([[0.1], [0.2, 0.3]], "features .* is not a regular array"),
        (None, "features must hold real numbers"),
    ],
)
def test_functions_that_give_no_features(value: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        Function(lambda s: value, 2)(0)


def test_functions_must_keep_their_number_of_features() -> None:
    features = Function(lambda s, stage: np.zeros((2, 3 + stage)), 2)
    assert features(0, 0).shape == (2, 3)
    with pytest.raises(InputError, match=r"the shape \(2, 4\) at stage 1, expected .* = \(2, 3\).*the same d"):
        features(0, 1)
    assert features(0, 0).shape == (2, features.dim) == (2, 3)


def test_functions_must_give_the_same_features_again() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="other features when it was asked again"):
        Function(lambda _: rng.uniform(0, 0.1, (2, 3)), 2)(0)
    asked: list[int] = []
    features = Function(lambda observation: asked.append(observation) or np.eye(2), 2)  # type: ignore[func-returns-value]
    for observation in range(3):
        features(observation)
    assert asked == [0, 0, 1, 2]  # twice at first, no more


def test_functions_are_not_asked_about_broken_observations() -> None:
    features = Function(lambda s: [[float(s[1] > 0)]], 1)  # would hide the NaN
    with pytest.raises(InputError, match=r"observation\[1\] is nan"):
        features(np.array([0, math.nan], dtype=np.float32))


def test_a_reused_buffer_does_not_change_features_that_were_given() -> None:
    buffer = np.zeros((1, 2))
    features = Function(lambda s: buffer, 1)
    first = features(0)
    buffer[:] = 0.5
    assert first.tolist() == [[0, 0]]


def test_as_feature_map_checks_what_it_passes_on() -> None:
    features = OneHot(4, 3)
    assert as_feature_map(features, 3) is features
    with pytest.raises(InputError, match="the features are for 3 actions, the agent for 2"):
        as_feature_map(features, 2)
    for wrong in (OneHot, "tiles", None):
        with pytest.raises(InputError, match="must be a feature map or a function"):
            as_feature_map(wrong, 2)  # type: ignore[arg-type]


# Ranges from environments


def with_few_actions(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    shape = env.action_space.shape
    return gym.wrappers.TransformAction(env, lambda action: np.full(shape, action - 1.0), spaces.Discrete(3))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("CartPole-v1", [-4.8, -10, -0.418, -10], [4.8, 10, 0.418, 10]),
        ("MountainCar-v0", [-1.2, -0.07], [0.6, 0.07]),
        ("MountainCarContinuous-v0", [-1.2, -0.07], [0.6, 0.07]),
        ("Acrobot-v1", [-1] * 4 + [-4 * np.pi, -9 * np.pi], [1] * 4 + [4 * np.pi, 9 * np.pi]),
        ("Pendulum-v1", [-1, -1, -8], [1, 1, 8]),
        ("InvertedPendulum-v4", [-1, -np.pi / 2, -10, -10], [1, np.pi / 2, 10, 10]),
        ("InvertedPendulum-v5", [-1, -np.pi / 2, -10, -10], [1, np.pi / 2, 10, 10]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
def test_for_env_knows_the_standard_tasks(name: str, low: list[float], high: list[float]) -> None:
    env = gym.make(name)
    if not isinstance(env.action_space, spaces.Discrete):
        env = with_few_actions(env)
    coding = TileCoding.for_env(env, tiles=3, tilings=2)
    np.testing.assert_allclose(coding.low, low, rtol=1e-6)
    np.testing.assert_allclose(coding.high, high, rtol=1e-6)
    assert coding.actions == env.action_space.n  # type: ignore[attr-defined]
    assert coding.dim == 4 ** len(low) * 2 * coding.actions
    assert coding(env.reset(seed=0)[0]).shape == (coding.actions, coding.dim)
    env.close()


def test_cartpole_ranges_are_exact() -> None:
    low, high = observation_range(gym.make("CartPole-v1"))
    assert high.tolist() == (-low).tolist() == [4.8, 10, 0.418, 10]


MUJOCO = ["InvertedDoublePendulum", "Reacher", "Swimmer", "Hopper", "HalfCheetah", "Walker2d"]


@pytest.mark.parametrize("name", [f"{task}-{version}" for task in MUJOCO for version in ("v4", "v5")])
@pytest.mark.filterwarnings("error:the environment declares no bounds", "ignore:.*is out of date")
def test_known_mujoco_ranges_hold_what_random_actions_see(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working directory
    env = gym.make(name)
    low, high = observation_range(env)
    env.action_space.seed(0)
    seen = [env.reset(seed=0)[0]]
    for _ in range(100):
        observation, _, ended, _, _ = env.step(env.action_space.sample())
        seen.append(env.reset()[0] if ended else observation)
    env.close()
    inside = (np.array(seen) >= low) & (np.array(seen) <= high)
    assert inside.mean(axis=0).min() > 0.8
    spread = (np.max(seen, axis=0) - np.min(seen, axis=0)) / (high - low)
    assert np.median(spread) > 0.05  # no range so wide that all observations share a tile


class Drift(gym.Env[Any, Any]):
    """Entries: bounded, unbounded, bounded below, constant; the second can be broken."""

    def __init__(self, broken: bool = False) -> None:
        self.observation_space = spaces.Box(
            np.array([0, -np.inf, 0, -1e308]), np.array([1, np.inf, np.inf, 1e308]), dtype=np.float64
        )
        self.action_space = spaces.Discrete(2, start=5)
        self.broken = broken

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.position = 0, self.np_random.uniform(-1, 1)
        return self.observation(), {}

    def observation(self) -> Any:
        return np.array([0.5, math.nan if self.broken else self.position, self.steps, 7.0])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (5, 6)
        self.steps += 1
        self.position += 2.0 * action - 11
        return self.observation(), 0.0, self.steps == 10, False, {}


def test_unbounded_entries_are_measured_and_that_is_said() -> None:
    text = rf"no bounds .*{MEASURED_STEPS} random steps, and doubled, are used: \[1\] .*\[2\] 0 … 15, \[3\]"
    env = Drift()
    with pytest.warns(UserWarning, match=text) as caught:
        coding = TileCoding.for_env(env, tiles=2, tilings=1)
    assert "[0]" not in str(caught[0].message)
    assert caught[0].filename == __file__
    assert (coding.low[0], coding.high[0]) == (0, 1)
    assert (coding.low[2], coding.high[2]) == (0, 15)  # declared below; 0 … 10 seen, half of it added above
    assert (coding.low[3], coding.high[3]) == (6.5, 7.5)
    assert -22 <= coding.low[1] < -8
    assert 8 < coding.high[1] <= 22
    assert coding.actions == 2


@pytest.mark.filterwarnings("ignore:the environment declares no bounds")
def test_measuring_is_repeatable_and_leaves_the_generators_alone() -> None:
    first, second = Drift(), Drift()
    first.reset(seed=11)
    second.reset(seed=12)
    first.action_space.seed(3)
    actions, state = first.action_space.np_random.bit_generator.state, first.np_random.bit_generator.state
    a, b = observation_range(first), observation_range(second)
    np.testing.assert_array_equal(a, b)
    assert first.np_random.bit_generator.state == state
    assert first.action_space.np_random.bit_generator.state == actions
    untouched = Drift()
    untouched.reset(seed=11)
    np.testing.assert_array_equal(first.reset()[0], untouched.reset()[0])


def test_a_broken_environment_is_not_measured_and_its_generator_is_put_back() -> None:
    env = Drift(broken=True)
    state = env.np_random.bit_generator.state
    with pytest.raises(EnvironmentMismatch, match=r"observation\[1\] was not finite in a random roll-out"):
        observation_range(env)
    assert env.np_random.bit_generator.state == state


def test_known_ranges_are_not_used_for_changed_observations() -> None:
    env = gym.make("CartPole-v1")
    halved = gym.wrappers.RescaleObservation(
        gym.wrappers.TransformObservation(env, lambda o: o, spaces.Box(-8, 8, (4,))),
        np.float32(0),
        np.float32(1),
    )
    assert observation_range(halved)[0].tolist() == [0] * 4


@pytest.mark.filterwarnings("error:the environment declares no bounds")
def test_impossible_sizes_fail_before_the_environment_is_stepped() -> None:
    env = Drift()
    with pytest.raises(InputError, match="100,000,000"):
        TileCoding.for_env(env, tiles=100, tilings=1)
    assert not hasattr(env, "steps")


class Spaces(gym.Env[Any, Any]):
    def __init__(self, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions


BOX, TWO = spaces.Box(0, 1, (2,)), spaces.Discrete(2)


@pytest.mark.parametrize(
    ("observations", "actions", "text"),
    [
        (BOX, BOX, r"Box.*fpi\.ActionGrid\(env, points=5\)"),
        (BOX, spaces.MultiDiscrete([2, 2]), r"MultiDiscrete.*gymnasium\.ActionWrapper"),
        (spaces.Dict(x=BOX), TWO, r"Dict.*gymnasium\.wrappers\.FlattenObservation\(env\)"),
        (spaces.Tuple([BOX, TWO]), TWO, r"Tuple.*gymnasium\.wrappers\.FlattenObservation\(env\)"),
        (spaces.Discrete(16), TWO, r"fpi\.features\.OneHot\(states=16"),
    ],
)
def test_spaces_that_do_not_fit(observations: Any, actions: Any, text: str) -> None:
    with pytest.raises(EnvironmentMismatch, match=text):
        TileCoding.for_env(Spaces(observations, actions), tiles=2, tilings=1)


@pytest.mark.parametrize("kind", [TileCoding, OneHot, Fourier, RBF])
def test_the_name_of_an_environment_is_none(kind: Any) -> None:
    with pytest.raises(EnvironmentMismatch, match=r"the environment is a str, .* Make one: gymnasium\.make\(id\)"):
        kind.for_env("CartPole-v1")


def test_boxes_of_any_shape_and_constant_entries_are_tiled() -> None:
    space = spaces.Box(
        np.array([[0, 1], [2, 3]], dtype=np.uint8), np.array([[1, 1], [9, 4]], dtype=np.uint8), dtype=np.uint8
    )
    coding = TileCoding.for_env(Spaces(space, TWO), tiles=2, tilings=1)
    assert coding.low.tolist() == [0, 0.5, 2, 3]
    assert coding.high.tolist() == [1, 1.5, 9, 4]
    assert cells_of(coding, space.high) == [(1, 1, 1, 1)]


# Maps for an environment


class Square(gym.Env):
    """Observations in [0, 2] x [-1, 1]."""

    observation_space = gym.spaces.Box(np.array([0.0, -1.0]), np.array([2.0, 1.0]), dtype=np.float64)
    action_space = gym.spaces.Discrete(3)


def test_every_map_can_be_made_for_an_environment():
    box, lake = Square(), gym.make("FrozenLake-v1")
    made = {
        "OneHot": (OneHot.for_env(lake), OneHot(16, 4)),
        "TileCoding": (TileCoding.for_env(box), TileCoding([0, -1], [2, 1], tiles=4, tilings=4, actions=3)),
        "Fourier": (Fourier.for_env(box), Fourier([0, -1], [2, 1], order=3, actions=3)),
        "RBF": (
            RBF.for_env(box, centers=2),
            RBF([[0, -1], [0, 1], [2, -1], [2, 1]], [2, 2], 3),
        ),
    }
    for name, (features, expected) in made.items():
        assert features.to_config() == expected.to_config(), name
        env = lake if name == "OneHot" else box
        assert for_env({"type": name, **({"centers": 2} if name == "RBF" else {})}, env).to_config() == (
            expected.to_config()
        )
    function = Function.for_env(box, lambda x: np.eye(3), scale=2.0)
    assert function.actions == 3 and function([0.0, 0.0]).max() == 0.5
    assert RBF.for_env(box, centers=3, width=[0.5, 1]).width.tolist() == [0.5, 1]


def test_what_an_environment_does_not_fit_is_told():
    with pytest.raises(InputError, match="one-hot features need numbered states"):
        OneHot.for_env(Square())
    with pytest.raises(InputError, match="centers is 1; pass a whole number of at least 2"):
        RBF.for_env(Square(), centers=1)
    with pytest.raises(InputError, match="does not fit this version: .*order"):
        for_env({"type": "TileCoding", "order": 3}, Square())
