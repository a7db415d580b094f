"""What FPI asks of Gymnasium environments: reward ranges, action grids, spaces and horizons."""

from __future__ import annotations

import math
from typing import Any

import environments as odd
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, TimeLimit

from fpi.envs import ActionGrid, RewardRange, check_horizon, check_spaces, rollout, time_limit
from fpi.errors import EnvironmentMismatch, InputError

# --- RewardRange


@pytest.mark.parametrize(
    ("given", "span", "noise", "of_two_stages"),
    [
        ((0, 1), 1, 1 / 2, (0, 2)),
        ((-3, -1), 3, 1 / 3, (-2, 0)),
        ((2, 4), 4, 1 / 4, (0, 2)),
        ((-1, 3), 4, 1 / 2, (-0.5, 1.5)),
    ],
)
def test_the_span_of_rewards_contains_zero_and_their_noise_does_not(
    given: tuple[int, int], span: float, noise: float, of_two_stages: tuple[float, float]
) -> None:
    rewards = RewardRange(*given)
    assert (rewards.low, rewards.high) == given
    assert (rewards.span, rewards.noise, rewards.value_range(2)) == (span, noise, of_two_stages)
    with pytest.raises(EnvironmentMismatch, match="not in reward_range"):
        rewards.check((given[0] + given[1]) / 2 + span, step=1)


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


# --- rollout


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((np.zeros(2), 0.0, False, {}), r"step of the environment gave \(array.* as Gymnasium's"),
        ((np.zeros(2), "much", False, False, {}), "the reward at step 1 is 'much', which is not a number"),
        ((np.zeros(2), 10**400, False, False, {}), "the reward at step 1 is 10000.*, which is not a number"),
        ((np.zeros(2), 0.0, "no", False, {}), "terminated is 'no'; let the environment return True or False"),
    ],
)
def test_what_a_step_answers_is_checked_wherever_episodes_are_played(answer: tuple[Any, ...], says: str) -> None:
    class Answers(odd.Walk):
        def step(self, action: Any) -> Any:
            return answer

    with pytest.raises(EnvironmentMismatch, match=says):
        list(rollout(Answers(), np.zeros(2), lambda observation, stage: 0, steps=3))
