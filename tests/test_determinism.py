"""Generator states, replays, and `check`: what it sees in good, fixable and unfit environments and says of them."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import environments as odd
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, NormalizeObservation, TimeLimit

from fpi.determinism import CheckReport, ReplayReport, check, noise_advice, replay
from fpi.envs import ActionGrid, Env
from fpi.errors import EnvironmentMismatch, InputError
from fpi.generators import GeneratorState, get_generator, set_generator

# --- generator states


def test_a_generator_state_goes_through_json_and_comes_back() -> None:
    env = TimeLimit(odd.Walk(), 10)
    env.reset(seed=3)
    env.unwrapped.np_random.integers(0, 9, size=7, dtype=np.uint32)  # leaves half a draw in the buffer
    state = json.loads(json.dumps(get_generator(env)))
    expected = env.unwrapped.np_random.random(1000)
    other = odd.Walk()
    set_generator(other, state)
    assert get_generator(other) == state
    assert np.array_equal(other.np_random.random(1000), expected)


def test_a_stored_state_does_not_follow_the_generator() -> None:
    env = odd.Walk()
    env.reset(seed=3)
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
    for other in (np.random.RandomState(0), np.random.Generator(np.random.MT19937(0))):
        env.np_random = other
        assert get_generator(env) is None


def test_nothing_is_restored_from_none() -> None:
    env = odd.Walk()
    env.reset(seed=0)
    before = get_generator(env)
    set_generator(env, None)
    assert get_generator(env) == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("bit_generator", ["PCG64"]),
        ("bit_generator", None),
        ("state", 7),
        ("state.state", -1),
        ("state.state", 2**128),
        ("state.state", 1.5),
        ("state.inc", None),
        ("state.more", 1),
        ("has_uint32", None),
        ("has_uint32", 2),
        ("uinteger", 2**32),
        ("more", 1),
    ],
)
def test_a_false_generator_state_is_refused_before_numpy_sees_it(path: str, value: Any) -> None:
    env = odd.Walk()
    env.reset(seed=0)
    before, state = get_generator(env), get_generator(env)
    assert state is not None
    *outer, last = path.split(".")
    inner = state[outer[0]] if outer else state
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    with pytest.raises(InputError, match="not the state of a numpy PCG64"):
        set_generator(env, state)
    assert get_generator(env) == before


@pytest.mark.parametrize("kind", ["MT19937", "PCG64DXSM", "Philox", "SFC64", "os.system"])
def test_states_of_other_generators_are_named(kind: str) -> None:
    state: GeneratorState = {"bit_generator": kind, "state": {"key": [1, 2], "pos": 625}}
    with pytest.raises(InputError, match=rf"'{kind}'.*PCG64 only.*Give the environment a PCG64"):
        set_generator(odd.Walk(), state)


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


def well_behaved() -> list[Env]:
    return [
        odd.Walk(),
        odd.FixedStart(),
        odd.NoGenerator(),
        odd.ReusedBuffer(),
        odd.ReadOnly(),
        *(odd.Strided(dtype) for dtype in (np.float64, np.float16, np.int32)),
        odd.NumberObservation(),
        odd.StartsAtFive(),
        odd.EndsTwice(),
        odd.OneStep(),
    ]


DETERMINISTIC: list[Env] = [
    *well_behaved(),
    odd.NanObservation(),
    odd.InfiniteReward(),
    odd.HiddenLimit(),
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


# --- check


class Features:
    """Features of a given norm for three actions, dense."""

    actions, dim, separate = 3, 6, True

    def __init__(self, norm: float, late: float = 0.0) -> None:
        self.norm, self.late = norm, late

    def __call__(self, observation: Any, stage: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = np.zeros((3, 6))
        rows[1, 2:4] = np.array([0.6, 0.8]) * (self.norm + self.late * stage)
        return rows


class SparseFeatures(Features):
    """The same, by active indices; asking for the dense matrix is a mistake."""

    def __call__(self, observation: Any, stage: int) -> Any:
        raise AssertionError("the sparse form is enough")

    def active(self, observation: Any, stage: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return np.array([0, 1], np.int32), np.array([0.6, 0.8]) * self.norm


def limited(env: Env, steps: int = 20) -> Env:
    return TimeLimit(env, steps)


FIT: list[Env] = [*well_behaved(), odd.RandomRewards()]


@pytest.mark.parametrize("env", FIT, ids=str)
def test_odd_but_sound_environments_are_fit(env: Env) -> None:
    report = check(limited(env))
    assert report.deterministic is True
    assert report.difference is None
    assert report.verdict == "Fit for FPI."
    assert report.ok


def test_a_report_says_what_was_seen() -> None:
    report = check(limited(odd.Walk()), episodes=3)
    assert report.environment == "Walk"
    assert report.action_space == "Discrete(3)"
    assert (report.horizon, report.time_limit, report.lengths, report.early_ends) == (20, 20, (20, 20, 20), 0)
    assert 0 < report.rewards[0] < report.rewards[1] <= 1
    assert report.random_starts
    assert not report.stochastic_rewards
    assert report.feature_norm is None


def test_fixed_starts_and_random_rewards_are_told_apart() -> None:
    assert not check(limited(odd.FixedStart())).random_starts
    assert check(limited(odd.Walk()), episodes=1).random_starts
    assert check(limited(odd.RandomRewards())).stochastic_rewards


@pytest.mark.parametrize(
    ("env", "lengths"), [(odd.EndsTwice(), 4), (odd.HiddenLimit(), 7), (odd.OneStep(), 1)], ids=str
)
def test_early_ends_are_counted(env: Env, lengths: int) -> None:
    report = check(limited(env), episodes=3)
    assert report.lengths == (lengths,) * 3
    assert report.early_ends == 3
    at_the_end = check(env, horizon=lengths, episodes=3)
    assert at_the_end.early_ends == 0
    assert at_the_end.ok


CONTROL = [
    ("CartPole-v1", "Fit for FPI."),
    ("MountainCar-v0", "reward_range=(-1, 0)"),
    ("Acrobot-v1", "reward_range=(-1, 0)"),
    ("Pendulum-v1", "reward_range=(-1"),
    ("InvertedPendulum-v5", "Fit for FPI."),
]


@pytest.mark.parametrize(("name", "verdict"), CONTROL)
def test_the_control_tasks_are_fit(name: str, verdict: str) -> None:
    env = gym.make(name)
    if isinstance(env.action_space, spaces.Box):
        env = ActionGrid(env, 4)
    report = check(env, horizon=100, episodes=2)
    assert report.environment == name
    assert report.deterministic is True
    assert report.ok
    assert report.random_starts
    assert verdict in report.verdict


@pytest.mark.parametrize("world", [odd.RandomFromStep2, odd.OwnGenerator, odd.BorrowedGenerator, odd.ReusedBufferNoise])
def test_randomness_from_step_2_on_makes_an_environment_unfit(world: type[odd.Walk]) -> None:
    report = check(limited(world()))
    assert report.deterministic is False
    assert report.difference is not None
    assert report.difference.step == 2
    assert not report.ok
    assert report.verdict.startswith("Not fit for FPI because its transitions are random")
    assert f"episode 1 are replayed, the observation differs by {report.difference.difference:.3g} at step 2" in (
        report.verdict
    )


def test_noise_of_a_millionth_makes_an_environment_unfit() -> None:
    report = check(limited(odd.TinyNoise()))
    assert report.difference is not None
    assert report.difference.difference == pytest.approx(2e-6, rel=0.01)
    assert "differs by 2e-06" in report.verdict
    assert not report.ok


def test_a_random_end_makes_an_environment_unfit() -> None:
    report = check(limited(odd.RandomEnd()), episodes=10)
    assert report.deterministic is False
    assert "(terminated, truncated)" in report.verdict


def test_a_start_that_does_not_come_back_leaves_determinism_open() -> None:
    for env in (odd.OwnStart(), NormalizeObservation(odd.Walk())):
        report = check(limited(env))
        assert report.deterministic is None
        assert not report.ok
        assert not report.reproducible_starts
        assert report.verdict.startswith("Fitness for FPI could not be judged: its starts are not reproducible.")
        assert "self.np_random" in report.verdict and "random:" not in report.verdict


class TwoStarts(odd.Walk):
    """Starts here and there by turns, whatever the generator says."""

    resets = 0

    def start(self) -> float:
        self.resets += 1
        return 0.25 if self.resets % 2 else 0.5


class TwoNoisyStarts(TwoStarts):
    def noise(self) -> float:
        return float(self.np_random.normal())


def test_starts_that_are_not_reproducible_are_told_apart_from_random_transitions() -> None:
    assert Recorded(TwoStarts()).replay() == ReplayReport(None, 0.0, "", False, start_reproducible=False)
    sound, noisy, usual = (check(limited(world())) for world in (TwoStarts, TwoNoisyStarts, odd.RandomFromStep2))
    assert (sound.deterministic, sound.reproducible_starts, sound.ok) == (True, False, True)
    assert sound.verdict.startswith("Fit for FPI. Its starts are not reproducible: that of episode 1 did not come back")
    assert (noisy.deterministic, noisy.reproducible_starts, noisy.ok) == (False, False, False)
    assert "because its transitions are random" in noisy.verdict and "starts are not reproducible" in noisy.verdict
    assert usual.reproducible_starts and "starts" not in usual.verdict


class Arcade(odd.RandomFromStep2):
    """Takes the arguments of Atari games."""

    def __init__(self, frameskip: Any = 4, repeat_action_probability: float = 0.25) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("env", "advice"),
    [
        (gym.make("FrozenLake-v1"), " Switch it off: gymnasium.make(id, is_slippery=False)."),
        (gym.make("FrozenLake-v1", is_slippery=False), ""),
        (Arcade(), " Switch it off: gymnasium.make(id, repeat_action_probability=0.0)."),
        (odd.RandomFromStep2(), ""),
    ],
    ids=str,
)
def test_noise_that_has_a_switch_is_named(env: Env, advice: str) -> None:
    assert noise_advice(env) == advice
    assert advice in check(limited(env)).verdict


def test_the_arguments_an_environment_was_made_with_count() -> None:
    gym.register("fpi-tests/Arcade-v0", Arcade, kwargs={"frameskip": (2, 5), "repeat_action_probability": 0.0})
    assert noise_advice(gym.make("fpi-tests/Arcade-v0")) == " Switch it off: gymnasium.make(id, frameskip=4)."
    assert noise_advice(gym.make("fpi-tests/Arcade-v0", frameskip=3)) == ""


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (odd.NanObservation(), r"at step 3 of episode 1 the observation is \[.*nan\]"),
        (odd.InfiniteReward(), r"at step 3 of episode 1 the reward is inf"),
    ],
    ids=str,
)
def test_undefined_numbers_are_named_with_their_step(env: Env, text: str) -> None:
    report = check(limited(env), features=Features(1.0))
    assert report.lengths == (3,)
    assert report.deterministic is True
    assert not report.ok
    assert re.search(text, report.verdict)
    assert all(map(math.isfinite, report.rewards))


def test_continuous_actions_need_a_grid_and_are_played_all_the_same() -> None:
    for env in (odd.BoxActions(), odd.InfiniteActions()):
        report = check(limited(env))
        assert report.deterministic is True
        assert report.ok
        assert report.verdict.startswith("Fit for FPI with changes: the action space is Box")
        assert "fpi.ActionGrid" in report.verdict


@pytest.mark.parametrize("kind", sorted(odd.OddActions.SPACES))
def test_other_action_spaces_are_named(kind: str) -> None:
    report = check(limited(odd.OddActions(kind)))
    assert f"the action space is {kind}(" in report.verdict
    assert report.ok


def test_several_changes_are_numbered() -> None:
    class Robot(odd.BoxActions):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = odd.DictObservation().observation_space

        def observe(self) -> Any:
            return {"position": np.array([self.position]), "time": np.array([self.steps / 10])}

    report = check(limited(Robot()), horizon=30)
    assert report.deterministic is True
    for text in (
        "(1) the action space is Box",
        "(2) the observation space is Dict",
        "(3) horizon=30 is longer",
    ):
        assert text in report.verdict


def test_observations_without_a_fixed_size_cannot_be_checked() -> None:
    with pytest.raises(EnvironmentMismatch, match=r"Sequence\("):
        check(odd.SequenceObservation())


def test_a_missing_time_limit_asks_for_a_horizon() -> None:
    endless = check(odd.Walk(), episodes=1)
    assert endless.lengths == (10_000,)
    assert "choose a horizon: no time limit is declared" in endless.verdict
    assert "did not end" in endless.verdict
    assert "took 4 to 4 steps" in check(odd.EndsTwice()).verdict
    assert check(odd.Walk(), horizon=12).lengths == (12,) * 5
    assert check(odd.Walk(), horizon=12).verdict == "Fit for FPI."


def test_a_cut_before_the_horizon_asks_for_a_shorter_one() -> None:
    for report in (
        check(odd.HiddenLimit()),
        check(limited(odd.HiddenLimit())),
        check(odd.HiddenLimit(), horizon=8),
    ):
        assert report.verdict == (
            "Fit for FPI with changes: use horizon=7 or less: an episode was truncated after that many steps."
        )
    assert check(odd.HiddenLimit(), horizon=7).verdict == "Fit for FPI."


def test_a_horizon_shorter_than_the_limit_is_fine_and_a_longer_one_is_not() -> None:
    assert check(limited(odd.Walk()), horizon=5).verdict == "Fit for FPI."
    longer = check(limited(odd.Walk()), horizon=25)
    assert longer.horizon == 20
    assert "horizon=25 is longer than the environment's time limit of 20" in longer.verdict


def test_rewards_outside_the_unit_range_suggest_a_range_that_holds_them() -> None:
    report = check(limited(odd.WideRewards()))
    assert report.rewards == (-2.5, 0.5)
    assert report.ok
    assert "pass reward_range=(-2.5, 0.5)" in report.verdict
    pendulum = check(ActionGrid(gym.make("Pendulum-v1"), 3), episodes=2)
    suggested = re.search(r"reward_range=\((-\d+), 0\)", pendulum.verdict)
    assert suggested is not None
    assert pendulum.rewards[0] - 1 < float(suggested[1]) <= pendulum.rewards[0]


def test_the_largest_feature_norm_is_reported() -> None:
    assert check(limited(odd.Walk()), features=Features(1.0)).feature_norm == pytest.approx(1.0)
    assert check(limited(odd.Walk()), features=Features(1.0)).verdict == "Fit for FPI."
    assert check(limited(odd.Walk()), features=Features(0.1, late=0.01)).feature_norm == pytest.approx(0.29)
    for features in (Features(2.5), SparseFeatures(2.5)):
        report = check(limited(odd.Walk()), features=features)
        assert report.feature_norm == pytest.approx(2.5)
        assert "the largest norm is 2.5" in report.verdict


def test_features_for_another_number_of_actions_are_named() -> None:
    features = Features(1.0)
    features.actions = 4
    report = check(limited(odd.Walk()), features=features)
    assert "has 3 actions, the agent 4" in report.verdict


def test_a_check_leaves_the_generator_as_it_was_found() -> None:
    for env in (limited(odd.Walk()), limited(odd.RandomFromStep2())):
        env.reset(seed=8)
        before = get_generator(env)
        check(env)
        assert get_generator(env) == before


def test_the_action_space_is_not_disturbed() -> None:
    env = limited(odd.Walk())
    env.action_space.seed(4)
    expected = [env.action_space.sample() for _ in range(20)]
    env.action_space.seed(4)
    check(env)
    assert [env.action_space.sample() for _ in range(20)] == expected


def test_the_same_seed_gives_the_same_report_and_another_seed_another() -> None:
    def rewards(seed: int) -> tuple[float, float]:
        report: CheckReport = check(limited(odd.Walk()), seed=seed)
        return report.rewards

    assert rewards(0) == rewards(0) != rewards(1)


@pytest.mark.parametrize("bad", [{"episodes": 0}, {"horizon": 0}, {"horizon": -1}])
def test_numbers_below_one_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 1"):
        check(odd.Walk(), **bad)  # type: ignore[arg-type]
