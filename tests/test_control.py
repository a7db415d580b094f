"""The Gymnasium adapters: reward ranges, action grids, spaces, horizons, generator states and replays."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import environments as odd
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, NormalizeObservation, TimeLimit

from fpi.control import (
    BIT_GENERATORS,
    ActionGrid,
    Env,
    GeneratorState,
    ReplayReport,
    RewardRange,
    check_horizon,
    check_spaces,
    get_generator,
    replay,
    set_generator,
    time_limit,
)
from fpi.errors import EnvironmentMismatch, InputError

# --- RewardRange


@pytest.mark.parametrize(
    ("given", "extended", "absorbing"),
    [((0, 1), (0, 1), 0.0), ((-3, -1), (-3, 0), 1.0), ((2, 4), (0, 4), 0.0), ((-1, 3), (-1, 3), 0.25)],
)
def test_a_reward_range_is_extended_to_contain_zero(
    given: tuple[int, int], extended: tuple[int, int], absorbing: float
) -> None:
    rewards = RewardRange(*given)
    assert (rewards.low, rewards.high) == extended
    assert rewards.absorbing == absorbing
    assert rewards.to_unit(float(extended[0])) == 0.0
    assert rewards.to_unit(float(extended[1])) == 1.0


def test_the_unit_range_leaves_rewards_bit_for_bit_and_arrays_are_mapped_too() -> None:
    raw = np.random.default_rng(0).random(100)
    assert np.array_equal(RewardRange(0, 1).to_unit(raw), raw)
    assert np.array_equal(RewardRange(-2, 2).to_unit(raw), (raw + 2) / 4)


@pytest.mark.parametrize("bad", [(1, 0), (1, 1), (math.nan, 1), (0, math.nan), (-math.inf, 0), (0, math.inf)])
def test_a_reward_range_takes_two_finite_numbers_in_order(bad: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"two finite numbers, the smaller first"):
        RewardRange(*bad)


def test_a_reward_outside_the_range_names_the_step_and_the_range() -> None:
    rewards = RewardRange(-1, 3)
    for inside in (-1.0, 3.0, 3 + 3e-9, -1 - 3e-9):
        rewards.check(inside, step=1)
    for outside in (3 + 5e-9, -1 - 5e-9, 4.5):
        with pytest.raises(EnvironmentMismatch, match=r"step 17 .* reward_range=\(-1.0, 3.0\).*wider"):
            rewards.check(outside, step=17)
    for undefined in (math.nan, math.inf, -math.inf):
        with pytest.raises(EnvironmentMismatch, match=r"step 17 is -?(nan|inf).*repair"):
            rewards.check(undefined, step=17)


# --- ActionGrid


def test_a_grid_divides_inverted_pendulum_evenly_with_both_ends() -> None:
    env = ActionGrid(gym.make("InvertedPendulum-v5"), 4)
    assert env.action_space == spaces.Discrete(4)
    assert env.grid.tolist() == [[-3], [-1], [1], [3]]
    assert env.grid.dtype == np.float32


def test_a_grid_takes_every_combination_in_any_shape() -> None:
    low, high = np.array([[0, -1], [10, 5]], np.float32), np.array([[1, 1], [30, 5]], np.float32)
    env = ActionGrid(odd.BoxActions(spaces.Box(low, high)), 3)
    assert env.grid.shape == (81, 2, 2)
    assert len(np.unique(env.grid, axis=0)) == 27  # the last dimension has a single value
    assert env.grid[0].tolist() == low.tolist()
    assert env.grid[-1].tolist() == high.tolist()
    assert env.grid[:9, 1, 0].tolist() == [10, 10, 10, 20, 20, 20, 30, 30, 30]


def test_a_grid_of_an_integer_box_has_integers() -> None:
    env = ActionGrid(odd.BoxActions(spaces.Box(0, 6, (1,), np.int64)), 3)
    assert env.grid.tolist() == [[0], [3], [6]]
    assert env.grid.dtype == np.int64


def test_a_grid_passes_on_its_actions_and_survives_an_environment_that_writes_into_them() -> None:
    walk = odd.BoxActions()
    env = ActionGrid(walk, [-0.5, 0.25])
    env.reset(seed=0)
    for number, value in [(0, -0.5), (1, 0.25), (0, -0.5)]:
        env.step(np.int64(number))
        assert walk.received.tolist() == [value]


def test_listed_actions_may_be_rows_and_serve_infinite_boxes() -> None:
    assert ActionGrid(odd.InfiniteActions(), [[-40], [0], [40]]).grid.tolist() == [[-40], [0], [40]]
    assert ActionGrid(odd.InfiniteActions(), np.array([-40, 0.5])).grid.tolist() == [[-40], [0.5]]


def test_a_grid_is_part_of_the_specification() -> None:
    env = ActionGrid(gym.make("Pendulum-v1"), 3)
    assert env.spec is not None
    again = gym.make(env.spec)
    assert again.action_space == spaces.Discrete(3)
    assert again.get_wrapper_attr("grid").tolist() == env.grid.tolist()


def test_a_grid_over_infinite_bounds_is_refused() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"infinite bounds.*points=\[\.\.\.\]"):
        ActionGrid(odd.InfiniteActions(), 3)
    half = spaces.Box(np.array([0, 0], np.float32), np.array([1, np.inf], np.float32))
    with pytest.raises(EnvironmentMismatch, match="infinite bounds"):
        ActionGrid(odd.BoxActions(half), 3)


def test_a_grid_needs_a_box() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"Discrete\(3\).*needs no grid"):
        ActionGrid(odd.Walk(), 3)
    with pytest.raises(EnvironmentMismatch, match=r"MultiBinary"):
        ActionGrid(odd.OddActions("MultiBinary"), 3)


def test_a_grid_too_large_to_list_is_refused() -> None:
    cube = odd.BoxActions(spaces.Box(-1, 1, (3,)))
    assert ActionGrid(cube, 46).action_space == spaces.Discrete(46**3)
    with pytest.raises(EnvironmentMismatch, match=r"points=47 in 3 dimensions makes 47\^3 actions"):
        ActionGrid(cube, 47)
    with pytest.raises(EnvironmentMismatch, match=r"points=4 in 17 dimensions makes 4\^17 actions"):
        ActionGrid(odd.BoxActions(spaces.Box(-1, 1, (17,))), 4)


@pytest.mark.parametrize("points", [0, 1, -3, True])
def test_a_grid_needs_two_points(points: int) -> None:
    with pytest.raises(InputError, match="at least 2"):
        ActionGrid(odd.BoxActions(), points)


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ([0.5, 1.5], r"points\[1\] = \[1.5\] is not in the action space"),
        ([0.5, math.nan], r"points\[1\] = \[nan\]"),
        ([[0.5, 0.5]], r"shape \(1,\).*one action per row"),
        ([[0.5], [0.5, 0.5]], r"shape \(1,\).*one action per row"),
        (["left"], r"one action per row"),
        (0.5, r"one action per row"),
        ([], "empty"),
    ],
)
def test_listed_actions_must_lie_in_the_box(points: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        ActionGrid(odd.BoxActions(), points)


# --- spaces and horizon


def test_spaces_that_fit_give_the_first_action() -> None:
    assert check_spaces(odd.Walk(), 3) == 0
    assert check_spaces(odd.StartsAtFive(), 3) == 5
    assert check_spaces(odd.NumberObservation(), 3) == 0
    assert check_spaces(ActionGrid(odd.InfiniteActions(), [-1, 1]), 2) == 0
    assert type(check_spaces(odd.StartsAtFive(), 3)) is int


def test_continuous_actions_are_told_about_the_grid() -> None:
    for env in (odd.BoxActions(), odd.InfiniteActions(), gym.make("Pendulum-v1")):
        with pytest.raises(EnvironmentMismatch, match=r"Box.*fpi\.ActionGrid\(env, points=5\)"):
            check_spaces(env, 3)


@pytest.mark.parametrize("kind", sorted(odd.OddActions.SPACES))
def test_other_action_spaces_are_named(kind: str) -> None:
    with pytest.raises(EnvironmentMismatch, match=rf"{kind}\(.*ActionWrapper.*i-th {kind} action"):
        check_spaces(odd.OddActions(kind), 3)


def test_a_wrong_number_of_actions_names_both() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"has 3 actions, the agent 4.*actions=3"):
        check_spaces(odd.Walk(), 4)


def test_observations_that_are_no_arrays_are_named() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"Dict\(.*FlattenObservation"):
        check_spaces(odd.DictObservation(), 3)
    with pytest.raises(EnvironmentMismatch, match=r"Sequence\(.*ObservationWrapper"):
        check_spaces(odd.SequenceObservation(), 3)
    assert check_spaces(FlattenObservation(odd.DictObservation()), 3) == 0


def test_the_name_of_an_environment_is_not_an_environment() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"is a str, not a gymnasium.Env.*gymnasium.make"):
        check_spaces("CartPole-v1", 2)  # type: ignore[arg-type]


def test_the_time_limit_is_the_shortest_in_force() -> None:
    assert time_limit(gym.make("CartPole-v1")) == 500
    assert time_limit(gym.make("CartPole-v1", max_episode_steps=30)) == 30
    assert time_limit(TimeLimit(gym.make("CartPole-v1"), 20)) == 20
    assert time_limit(TimeLimit(gym.make("CartPole-v1"), 2000)) == 500
    assert time_limit(ActionGrid(gym.make("Pendulum-v1"), 3)) == 200
    assert time_limit(odd.Walk()) is None
    assert time_limit(gym.make("CartPole-v1").unwrapped) is None  # its specification says 500; nobody keeps it


def test_a_horizon_beyond_the_time_limit_names_both() -> None:
    env = TimeLimit(odd.Walk(), 10)
    for horizon in (1, 9, 10):
        check_horizon(env, horizon)
    check_horizon(odd.Walk(), 10**6)
    with pytest.raises(EnvironmentMismatch, match=r"horizon=11 .* limit of 10 .*horizon=10 .*max_episode_steps=11"):
        check_horizon(env, 11)


# --- generator states


def seeded(env: Env, kind: str, seed: int = 3) -> Env:
    env.unwrapped.np_random = np.random.Generator(getattr(np.random, kind)(seed))
    return env


@pytest.mark.parametrize("kind", sorted(BIT_GENERATORS))
def test_a_generator_state_goes_through_json_and_comes_back(kind: str) -> None:
    env = seeded(TimeLimit(odd.Walk(), 10), kind)
    env.unwrapped.np_random.integers(0, 9, size=7, dtype=np.uint32)  # leaves half a draw in the buffer
    state = json.loads(json.dumps(get_generator(env)))
    expected = env.unwrapped.np_random.random(1000)
    other = odd.Walk()
    set_generator(other, state)
    assert type(other.np_random.bit_generator).__name__ == kind
    assert get_generator(other) == state
    assert np.array_equal(other.np_random.random(1000), expected)


def test_a_stored_state_does_not_follow_the_generator() -> None:
    for kind in BIT_GENERATORS:
        env = seeded(odd.Walk(), kind)
        state = get_generator(env)
        before = json.dumps(state)
        env.np_random.random(1000)
        assert json.dumps(state) == before
        assert get_generator(env) != state


def test_two_environments_restored_from_one_state_do_not_share_a_generator() -> None:
    first, second = odd.Walk(), odd.Walk()
    first.reset(seed=0)
    state = get_generator(first)
    set_generator(second, state)
    first.np_random.random(10)
    assert get_generator(second) == state


def test_environments_without_a_numpy_generator_have_no_state() -> None:
    env = odd.NoGenerator()
    assert get_generator(env) is None
    set_generator(env, None)
    assert env.np_random is None
    legacy = odd.NoGenerator()
    legacy.np_random = np.random.RandomState(0)
    assert get_generator(legacy) is None


def test_nothing_is_restored_from_none() -> None:
    env = odd.Walk()
    env.reset(seed=0)
    before = get_generator(env)
    set_generator(env, None)
    assert get_generator(env) == before


def spoiled(kind: str, path: str, value: Any) -> GeneratorState:
    state = get_generator(seeded(odd.Walk(), kind))
    assert state is not None
    *outer, last = path.split(".")
    inner = state[outer[0]] if outer else state
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return state


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("PCG64", "bit_generator", "system"),
        ("PCG64", "bit_generator", ["PCG64"]),
        ("PCG64", "bit_generator", None),
        ("PCG64", "bit_generator", "MT19937"),
        ("PCG64", "state", 7),
        ("PCG64", "state.state", -1),
        ("PCG64", "state.state", 2**128),
        ("PCG64", "state.state", 1.5),
        ("PCG64", "has_uint32", None),
        ("PCG64", "more", 1),
        ("MT19937", "state.pos", 625),
        ("MT19937", "state.pos", -1),
        ("MT19937", "state.key", [1, 2]),
        ("MT19937", "state.key", [2**70] * 624),
        ("MT19937", "state.key", ["1"] * 624),
        ("Philox", "buffer_pos", 5),
        ("Philox", "buffer_pos", -1),
        ("Philox", "buffer", [1]),
        ("SFC64", "state.state", [1]),
    ],
)
def test_a_false_generator_state_is_refused_before_numpy_sees_it(kind: str, path: str, value: Any) -> None:
    env = odd.Walk()
    env.reset(seed=0)
    before = get_generator(env)
    with pytest.raises(InputError, match="not the state of a numpy bit generator"):
        set_generator(env, spoiled(kind, path, value))
    assert get_generator(env) == before


def test_positions_at_the_ends_of_a_buffer_are_fine() -> None:
    for kind, path, largest in [("MT19937", "state.pos", 624), ("Philox", "buffer_pos", 4)]:
        for position in (0, largest):
            set_generator(odd.Walk(), spoiled(kind, path, position))


# --- replay


class Recorded:
    """One episode of random actions, with what `replay` asks for."""

    def __init__(self, env: Env, steps: int = 30, seed: int = 0) -> None:
        env.reset(seed=seed)
        env.action_space.seed(seed)
        self.env = env
        self.start = get_generator(env)
        self.observations = [np.array(env.reset()[0])]
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.end = (False, False)
        while len(self.actions) < steps and not any(self.end):
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            self.actions.append(action)
            self.observations.append(np.array(observation))
            self.rewards.append(float(reward))
            self.end = (terminated, truncated)

    def replay(self, **changes: Any) -> ReplayReport | None:
        given = {"rewards": self.rewards, "end": self.end, **changes}
        observations = given.pop("observations", self.observations)
        return replay(self.env, self.start, self.actions, observations, **given)


DETERMINISTIC: list[Env] = [
    odd.Walk(),
    odd.FixedStart(),
    odd.NoGenerator(),
    odd.NanObservation(),
    odd.InfiniteReward(),
    odd.ReusedBuffer(),
    odd.ReadOnly(),
    odd.Strided(np.float64),
    odd.Strided(np.float16),
    odd.Strided(np.int32),
    odd.NumberObservation(),
    odd.StartsAtFive(),
    odd.EndsTwice(),
    odd.HiddenLimit(),
    odd.OneStep(),
    odd.OddActions("Dict"),
    TimeLimit(odd.Walk(), 10),
    FlattenObservation(odd.DictObservation()),
]


@pytest.mark.parametrize("env", DETERMINISTIC, ids=str)
def test_deterministic_environments_agree_bit_for_bit(env: Env) -> None:
    for seed in range(3):
        assert Recorded(env, seed=seed).replay() == ReplayReport(None, 0.0, "", False)


CONTROL = ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "InvertedPendulum-v5"]


def controlled(name: str) -> Env:
    env = gym.make(name)
    return ActionGrid(env, 4) if isinstance(env.action_space, spaces.Box) else env


@pytest.mark.parametrize("name", CONTROL)
def test_the_control_tasks_are_deterministic_to_the_last_bit(name: str) -> None:
    env = controlled(name)
    for seed in range(5):
        episode = Recorded(env, steps=100, seed=seed)
        report = episode.replay()
        assert report is not None
        assert report.agrees, report


@pytest.mark.parametrize("world", [odd.RandomFromStep2, odd.OwnGenerator, odd.BorrowedGenerator, odd.ReusedBufferNoise])
def test_randomness_from_step_2_on_is_found_at_step_2(world: type[odd.Walk]) -> None:
    report = Recorded(world()).replay()
    assert report is not None
    assert report.step == 2
    assert not report.agrees
    assert 1e-3 < report.difference < 10
    assert report.reason == f"the observation differs by {report.difference:.3g}"


def test_noise_of_a_millionth_is_found_with_its_size() -> None:
    report = Recorded(odd.TinyNoise()).replay()
    assert report is not None
    assert report.step is not None
    assert report.step < 10
    assert 1.9e-6 < report.difference < 2.1e-6


def test_a_random_end_is_found() -> None:
    reports = [Recorded(odd.RandomEnd(), seed=seed).replay() for seed in range(10)]
    found = [report for report in reports if report is not None and not report.agrees]
    assert found
    assert all("(terminated, truncated)" in report.reason and report.difference == math.inf for report in found)


def test_an_end_that_is_missing_or_of_another_kind_is_found_only_when_it_was_recorded() -> None:
    episode = Recorded(odd.HiddenLimit())
    assert episode.end == (False, True)
    for other in [(False, False), (True, True), (True, False)]:
        report = episode.replay(end=other)
        assert report is not None
        assert report.step == 7
        assert report.reason == f"(terminated, truncated) is (False, True) instead of {other}"
    unknown = episode.replay(end=None)
    assert unknown is not None
    assert unknown.agrees


def test_an_end_before_the_last_action_is_found() -> None:
    env = odd.HiddenLimit()
    env.reset(seed=0)
    state = get_generator(env)
    report = replay(env, state, [1] * 10, [env.reset()[0]])
    assert report is not None
    assert report.step == 7
    assert report.reason == "(terminated, truncated) is (False, True) instead of (False, False)"


def test_random_rewards_are_allowed_and_mentioned() -> None:
    episode = Recorded(odd.RandomRewards())
    assert episode.replay() == ReplayReport(None, 0.0, "", stochastic_rewards=True)
    assert episode.replay(rewards=None) == ReplayReport(None, 0.0, "", stochastic_rewards=False)


def test_the_observation_after_the_last_action_may_be_missing() -> None:
    episode = Recorded(odd.Walk(), steps=5)
    assert episode.replay(observations=episode.observations[:-1]) == ReplayReport(None, 0.0, "", False)
    changed = [*episode.observations[:-1], episode.observations[-1] + 0.5]
    report = episode.replay(observations=changed)
    assert report is not None
    assert (report.step, report.difference) == (5, 0.5)


def test_observations_recorded_in_a_wider_type_still_agree() -> None:
    episode = Recorded(controlled("CartPole-v1"))
    assert episode.observations[0].dtype == np.float32
    report = episode.replay(observations=[observation.astype(np.float64) for observation in episode.observations])
    assert report is not None
    assert report.agrees


@pytest.mark.parametrize(
    ("recorded", "size"),
    [
        ([0.25, np.nan], math.inf),
        ([np.nextafter(0.25, 1), 0.0], np.spacing(0.25)),
        ([-np.inf, 0.0], math.inf),
        ([0.25, 0.0, 0.0], math.inf),
        ([1.25, -0.5], 1.0),
    ],
)
def test_a_difference_is_measured_by_its_largest_entry(recorded: list[float], size: float) -> None:
    report = replay(
        odd.FixedStart(),
        None,
        [1],
        [[0.25, 0.0], np.array(recorded) + np.array([0, 0.1, 0])[: len(recorded)]],
    )
    assert report is not None
    assert report.step == 1
    assert report.difference == size


def test_nan_in_both_hides_no_other_difference() -> None:
    episode = Recorded(odd.NanObservation(), steps=3)
    changed = [*episode.observations[:3], episode.observations[3] + np.array([0.5, 0.0])]
    report = episode.replay(observations=changed)
    assert report is not None
    assert (report.step, report.difference) == (3, 0.5)


def test_nothing_is_said_where_the_start_does_not_come_back() -> None:
    assert Recorded(odd.OwnStart()).replay() is None
    assert Recorded(NormalizeObservation(odd.Walk())).replay() is None


@pytest.mark.parametrize("world", [odd.Walk, odd.RandomFromStep2, odd.OwnStart])
def test_the_generator_is_left_as_it_was_found(world: type[odd.Walk]) -> None:
    episode = Recorded(world())
    before = get_generator(episode.env)
    episode.replay()
    assert get_generator(episode.env) == before


def test_the_generator_is_left_as_it_was_found_when_the_environment_fails() -> None:
    episode = Recorded(odd.StartsAtFive())
    before = get_generator(episode.env)
    episode.actions[1] = 4
    with pytest.raises(ValueError, match="no such action"):
        episode.replay()
    assert get_generator(episode.env) == before


def test_a_run_goes_on_after_a_replay_as_if_there_had_been_none() -> None:
    def starts(with_replay: bool) -> list[list[float]]:
        env = odd.RandomRewards()
        episode = Recorded(env)
        if with_replay:
            episode.replay()
        return [env.reset()[0].tolist() for _ in range(5)]

    assert starts(with_replay=True) == starts(with_replay=False)


def test_global_generators_are_neither_read_nor_changed() -> None:
    def draws(with_replay: bool) -> list[float]:
        np.random.seed(17)  # noqa: NPY002
        random.seed(17)
        if with_replay:
            Recorded(odd.RandomFromStep2()).replay()
        return [np.random.random(), random.random()]  # noqa: NPY002

    assert draws(with_replay=True) == draws(with_replay=False)
