"""The episode loop: what a history, a callback and a progress bar tell, what seeds fix, and what targets are."""

import copy
import dataclasses
import functools
import gc
import inspect
import itertools
import warnings

import environments as odd
import gymnasium as gym
import numpy as np
import pytest
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys
from support import scenarios

import fpi
from fpi import compiled, training
from fpi.errors import CoverageWarning, InputError
from fpi.setting_fields import settings_of
from fpi.settings import EluderSettings, PACSettings, RegretSettings
from fpi.training import Episode

HORIZON = 5


def make_agent(**settings):
    features = fpi.TileCoding([-1, 0], [1, 1], tiles=2, tilings=2, actions=3)
    return fpi.PAC(features, **({"actions": 3, "horizon": HORIZON, "epsilon": 1.0, "ridge": 0.5} | settings))


def learned(episodes=20, seed=0, env=None, **settings):
    """An agent, its history, and its episodes as a callback saw them."""
    agent, seen = make_agent(**settings), []
    history = agent.learn(env or odd.Walk(), episodes, seed=seed, callback=seen.append)
    return agent, history, seen


def starts(seen):
    return [episode.observations[0].tolist() for episode in seen]


def assert_same(one, other):
    for name in ("returns", "lengths", "stored_stage"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# Histories and episodes


def test_a_history_has_one_entry_per_episode():
    agent, history, _ = learned(12)
    assert len(history) == 12 == agent.episodes
    assert history.returns.shape == history.lengths.shape == history.stored_stage.shape == (12,)
    assert (history.returns.dtype, history.lengths.dtype, history.stored_stage.dtype) == (float, int, int)
    assert set(history.lengths) == {HORIZON}
    assert np.all((history.stored_stage >= -1) & (history.stored_stage < HORIZON))
    assert np.count_nonzero(history.stored_stage >= 0) == agent.data_stored
    assert history.stored_stage[0] == HORIZON - 1  # nothing is covered yet, so the last step is stored


def test_learning_from_nothing_changes_nothing(tmp_path):
    agent, _, _ = learned()
    agent.save(tmp_path / "before.fpi")
    history = agent.learn(odd.Walk(), 0, seed=9, progress=True)
    agent.save(tmp_path / "after.fpi")
    assert len(history) == 0
    assert (history.returns.dtype, history.lengths.dtype, history.stored_stage.dtype) == (float, int, int)
    assert (tmp_path / "before.fpi").read_bytes() == (tmp_path / "after.fpi").read_bytes()


def test_an_episode_tells_what_was_played():
    agent, history, seen = learned(30)
    assert [episode.number for episode in seen] == list(range(30))
    for episode, total, length, explored in zip(
        seen, history.returns, history.lengths, history.stored_stage, strict=True
    ):
        assert episode.agent is agent
        assert len(episode.observations) == len(episode.actions) == len(episode.rewards) == episode.length == length
        assert (episode.total_reward, episode.stored_stage) == (total, explored)
        for before, action, after in zip(episode.observations, episode.actions, episode.observations[1:], strict=False):
            np.testing.assert_allclose(after - before, [0.1 * (action - 1), 0.1])
        positions = [x + 0.1 * (a - 1) for (x, _), a in zip(episode.observations, episode.actions, strict=True)]
        np.testing.assert_allclose(episode.rewards, np.exp(-np.square(positions)))


def test_frozen_counts_the_decisions_at_covered_states():
    agent, _, seen = learned(60)
    assert (seen[0].covered_steps, seen[0].stored_stage) == (0, HORIZON - 1)
    assert max(episode.covered_steps for episode in seen) == HORIZON
    for episode in seen:
        assert (episode.covered_steps == HORIZON) == (episode.stored_stage == -1)
    sure = []
    agent.learn(odd.Walk(), 1, callback=lambda episode: sure.append((episode, agent.data_stored)))
    ((episode, _),) = sure
    before = make_agent()
    before.learn(odd.Walk(), 60, seed=0)
    covered = [before.explain(observation, stage).covered for stage, observation in enumerate(episode.observations)]
    assert episode.covered_steps == sum(covered)


def test_where_the_agent_is_sure_it_plays_what_it_predicts():
    before = [make_agent()]

    def compare(episode):
        for stage, (observation, action) in enumerate(zip(episode.observations, episode.actions, strict=True)):
            if before[0].explain(observation, stage).covered:
                assert before[0].predict(observation, stage) == action
                compared.append(stage)
        before[0] = make_agent()
        before[0].learn(odd.Walk(), episode.number + 1, seed=0)

    compared = []
    make_agent().learn(odd.Walk(), 40, seed=0, callback=compare)
    assert len(compared) > 30


# Callbacks


def test_a_callback_comes_after_the_episode_was_learned():
    known = []
    agent = make_agent()
    agent.learn(odd.Walk(), 4, seed=0, callback=lambda episode: known.append((agent.episodes, agent.data_stored)))
    assert known == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_callback_stops_learning_with_something_true():
    agent = make_agent()
    history = agent.learn(odd.Walk(), 20, seed=0, callback=lambda episode: episode.number == 6)
    assert len(history) == agent.episodes == 7
    rest = agent.learn(odd.Walk(), 13)
    _, whole, _ = learned(20)
    np.testing.assert_array_equal(np.append(history.returns, rest.returns), whole.returns)


def test_a_callback_changes_nothing_by_looking():
    watched, without = make_agent(), make_agent()
    assert_same(
        watched.learn(odd.Walk(), 20, seed=0, callback=lambda episode: None), without.learn(odd.Walk(), 20, seed=0)
    )


def test_a_callback_may_play_in_the_environment():
    env, scores = odd.Walk(), []
    agent = make_agent()
    history = agent.learn(
        env, 20, seed=0, callback=lambda episode: scores.append(fpi.evaluate(agent, env, 2, seed=3)) and False
    )
    assert len(scores) == 20
    assert_same(history, learned(20)[1])


def test_an_error_in_a_callback_loses_no_episode():
    def fail(episode):
        if episode.number == 4:
            raise RuntimeError("disk full")

    agent = make_agent()
    with pytest.raises(RuntimeError, match="disk full"):
        agent.learn(odd.Walk(), 20, seed=0, callback=fail)
    assert agent.episodes == 5
    np.testing.assert_array_equal(agent.learn(odd.Walk(), 15).returns, learned(20)[1].returns[5:])


# Progress


def test_the_bar_tells_speed_return_data_and_covered_share(capsys):
    history = make_agent().learn(odd.Walk(), 40, seed=0, progress=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "40/40" in said
    assert "episodes/s" in said and "data" in said and "% covered" in said
    assert_same(history, learned(40)[1])


def test_the_bar_is_drawn_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    agent, returns = make_agent(), []
    monkeypatch.setattr("time.perf_counter", itertools.count().__next__)  # a second between any two looks
    agent.learn(odd.Walk(), 3, seed=0, progress=True, callback=lambda episode: returns.append(episode.total_reward))
    drawn = capsys.readouterr().out
    assert "\x1b[" in drawn and "━" in drawn
    assert f"return {returns[-1]:.1f}" in drawn and "3 data" in drawn and "0% covered" in drawn


def test_no_bar_without_asking(capsys):
    make_agent().learn(odd.Walk(), 3, seed=0)
    assert capsys.readouterr().out == ""


# Settings under which nothing can be learned


def small_features(norm):
    return lambda observation: norm * np.eye(3)


def coverage_warnings(agent):
    """The texts of the warnings while it learns twice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent.learn(odd.Walk(), 1, seed=0)
        agent.learn(odd.Walk(), 5)
    return [str(each.message) for each in caught if each.category is CoverageWarning]


def test_a_ridge_that_covers_everything_before_any_data_is_told_once():
    agent = make_agent(ridge=1.0)
    (text,) = coverage_warnings(agent)
    assert "a ridge of 1 and an accuracy (epsilon) of 1 every state is covered before there are any data" in text
    assert "at most 1 here, divided by the ridge is 1, and epsilon² is 1." in text
    assert agent.data_stored == 0
    assert agent.summary().covered.sum() == agent.summary().visits.sum() == 6 * HORIZON
    assert coverage_warnings(make_agent(ridge=1.0 - 1e-6)) == []
    (text,) = coverage_warnings(make_agent(ridge=30.0, epsilon=0.2))
    assert "a ridge of 30 and an accuracy (epsilon) of 0.2" in text and "is 0.0333333, and epsilon² is 0.04." in text


def test_features_of_any_kind_show_how_large_they_are():
    settings = {"actions": 3, "horizon": HORIZON, "epsilon": 1.0, "ridge": 0.01}
    (text,) = coverage_warnings(fpi.PAC(small_features(0.1), **settings))
    assert "at most 0.01 here, divided by the ridge is 1," in text
    assert coverage_warnings(fpi.PAC(small_features(0.11), **settings)) == []
    (text,) = coverage_warnings(fpi.PAC(small_features(0.0), **settings))
    assert "at most 0 here" in text
    waves = fpi.Fourier([-1, 0], [1, 1], order=1, actions=3)
    assert coverage_warnings(fpi.PAC(waves, **settings | {"ridge": 1.0})) != []
    assert coverage_warnings(fpi.PAC(waves, **settings)) == []
    assert coverage_warnings(fpi.PAC(fpi.TileCoding([-1, 0], [1, 1], tiles=2, tilings=1, actions=3), **settings)) == []


def test_levels_are_covered_together_or_not_at_all():
    features = make_agent().features
    (text,) = coverage_warnings(fpi.Regret(features, actions=3, horizon=HORIZON, ridge=16.0, max_level=2))
    assert "an accuracy (epsilon) of 0.25" in text
    for ridge, last in ((15.9, 2), (16.0, 3), (None, 1)):  # some level has something to learn
        agent = fpi.Regret(features, actions=3, horizon=HORIZON, ridge=ridge, max_level=last)
        assert coverage_warnings(agent) == [] and agent.data_stored > 0


def test_a_warning_that_is_made_an_error_leaves_a_whole_agent():
    agent = make_agent(ridge=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CoverageWarning):
            agent.learn(odd.Walk(), 5, seed=0)
    assert agent.episodes == 1
    later = agent.learn(odd.Walk(), 5).returns
    with pytest.warns(CoverageWarning):
        np.testing.assert_array_equal(later, make_agent(ridge=1.0).learn(odd.Walk(), 6, seed=0).returns[1:])


# Seeds


def test_the_seed_fixes_the_run():
    _, one, seen = learned(seed=5)
    _, same, _ = learned(seed=5)
    _, other, others = learned(seed=6)
    assert_same(one, same)
    assert starts(seen) != starts(others)
    assert not np.array_equal(one.returns, other.returns)


def test_the_seed_fixes_the_exploration_too():
    actions = [
        [episode.actions.tolist() for episode in learned(seed=seed, env=odd.FixedStart())[2]] for seed in (5, 5, 6)
    ]
    assert actions[0] == actions[1] != actions[2]


def test_a_seed_given_again_brings_the_starts_back_and_keeps_the_data():
    agent, first, second = make_agent(), [], []
    agent.learn(odd.Walk(), 10, seed=5, callback=first.append)
    stored = agent.data_stored
    agent.learn(odd.Walk(), 10, seed=5, callback=second.append)
    assert starts(first) == starts(second)
    assert [episode.number for episode in second] == list(range(10, 20))
    assert agent.episodes == 20 and agent.data_stored > stored


def test_without_a_seed_every_new_agent_learns_otherwise_and_goes_on_as_it_began(tmp_path):
    agents = [make_agent(), make_agent()]
    histories = [agent.learn(odd.Walk(), 10) for agent in agents]
    assert not np.array_equal(histories[0].returns, histories[1].returns)
    agents[0].save(tmp_path / "agent.fpi")
    copy = fpi.load(tmp_path / "agent.fpi")
    assert_same(agents[0].learn(odd.Walk(), 10), copy.learn(odd.Walk(), 10))


@pytest.mark.parametrize("seed", [np.int64(5), np.uint8(5)])
def test_seeds_of_numpy_are_seeds(seed):
    assert_same(learned(seed=seed)[1], learned(seed=5)[1])


def test_the_largest_seed():
    learned(seed=2**63 - 1)


@pytest.mark.parametrize("bad", [-1, 2**63, 1.0, True, "7", [1]])
def test_what_is_no_seed_and_no_number_of_episodes(bad):
    agent = make_agent()
    with pytest.raises(InputError, match=r"seed is .*; pass a whole number"):
        agent.learn(odd.Walk(), 3, seed=bad)
    with pytest.raises(InputError, match=r"episodes is .*; pass a whole number"):
        agent.learn(odd.Walk(), bad, seed=0)
    with pytest.raises(InputError, match="seed is"):
        fpi.evaluate(agent, odd.Walk(), 3, seed=bad)
    with pytest.raises(InputError, match="episodes is"):
        fpi.evaluate(agent, odd.Walk(), bad)
    assert agent.episodes == 0


class CountsSteps(odd.Walk):
    count = 0

    def step(self, action):
        self.count += 1
        return super().step(action)


def test_the_1st_2nd_4th_8th_episode_is_played_twice():
    agent, env, counts = make_agent(), CountsSteps(), []
    agent.learn(env, 9, seed=0, callback=lambda _: counts.append(env.count))
    twice = [1 + (number in (1, 2, 4, 8)) for number in range(1, 10)]
    assert np.diff([0, *counts]).tolist() == [HORIZON * times for times in twice]


# Evaluation


class Remembers(odd.Walk):
    """Keeps all starts and all actions."""

    def __init__(self):
        super().__init__()
        self.starts, self.actions = [], []

    def start(self):
        self.starts.append(super().start())
        return self.starts[-1]

    def number(self, action):
        self.actions.append(action)
        return super().number(action)


def test_all_agents_are_evaluated_from_the_same_starts():
    envs = [Remembers(), Remembers(), Remembers(), Remembers()]
    envs[1].reset(seed=77)
    fpi.evaluate(learned(30)[0], envs[0], 8, seed=4)
    fpi.evaluate(make_agent(explore="first", horizon=2), envs[1], 8, seed=4)
    fpi.evaluate(make_agent(), envs[2], 3, seed=4)
    fpi.evaluate(make_agent(), envs[3], 8, seed=5)
    assert envs[0].starts == envs[1].starts[1:]
    assert envs[0].starts[:3] == envs[2].starts  # more episodes only add starts
    assert len({*envs[0].starts, *envs[3].starts}) == 16


def test_evaluating_plays_predictions_and_reports_raw_returns():
    agent, env = learned(30)[0], Remembers()
    history = fpi.evaluate(agent, env, 3, seed=4)
    assert history.lengths.tolist() == [HORIZON] * 3
    position, expected, total = env.starts[0], [], 0.0
    for stage in range(HORIZON):
        expected.append(agent.predict(np.array([position, stage / 10]), stage))
        position += 0.1 * (expected[-1] - 1)
        total += np.exp(-(position**2))
    assert env.actions[:HORIZON] == expected
    assert history.returns[0] == pytest.approx(total, rel=1e-12)
    env = Remembers()
    assert fpi.evaluate(agent, env, 1, seed=4, explore=False).covered_steps is None
    position = env.starts[0]
    for stage, action in enumerate(env.actions):
        assert action == agent.predict(np.array([position, stage / 10]), stage, explore=False)
        position += 0.1 * (action - 1)


def test_evaluated_episodes_are_numbered_on_from_those_learned_from():
    """Each plays pi_t of its own number t, as learning would have: the random rule draws anew in every episode."""
    agent = make_agent(explore="random")
    agent.learn(odd.Walk(), 3, seed=5)
    env = Remembers()
    history = fpi.evaluate(agent, env, 4, seed=4)
    policy, played, covered = agent.policy(), [], []
    for number, start in enumerate(env.starts):
        policy.reset()
        position, count = start, 0
        for stage in range(HORIZON):
            observation = np.array([position, stage / 10])
            decision = agent.decide(observation, stage, agent.episodes + number)
            assert policy(observation) == decision.action
            played.append(decision.action)
            count += decision.covered
            position += 0.1 * (decision.action - 1)
        covered.append(count)
    assert env.actions == played
    assert history.covered_steps.tolist() == covered
    assert history.covered_share == sum(covered) / (4 * HORIZON)
    observation = np.array([9.0, 0.0])  # nowhere near the data
    numbered = {agent.decide(observation, 0, number).action for number in range(20)}
    assert len(numbered) > 1 and not agent.decide(observation, 0).covered


def test_the_policy_at_an_uncovered_state_is_what_learning_plays_next():
    for explore in ("first", "widest", "greedy", "random"):
        agent, episodes = make_agent(explore=explore), []
        agent.learn(odd.Walk(), 25, seed=5)
        before = copy.deepcopy(agent)
        agent.learn(odd.Walk(), 1, callback=episodes.append)
        (episode,) = episodes
        answers = [before.predict(seen, stage) for stage, seen in enumerate(episode.observations[: episode.length])]
        assert answers == episode.actions.tolist(), explore
        assert episode.stored_stage >= 0


def test_an_agent_that_only_predicts_is_evaluated_by_that():
    class OnlyPredicts:
        actions, horizon = 3, HORIZON

        def predict(self, observation, stage):
            return stage % 3

    env = Remembers()
    history = fpi.evaluate(OnlyPredicts(), env, 2, seed=4)
    with pytest.raises(InputError, match="which this agent does not have"):
        fpi.evaluate(OnlyPredicts(), Remembers(), 2, seed=4, explore=False)
    assert env.actions == [stage % 3 for stage in range(HORIZON)] * 2
    assert history.covered_steps is None and np.isnan(history.covered_share)


def test_a_subclass_with_a_predict_of_its_own_is_evaluated_by_that():
    class Stubborn(fpi.PAC):
        def predict(self, observation, stage, explore=True):
            return 2

    features = fpi.TileCoding([-1, 0], [1, 1], tiles=2, tilings=2, actions=3)
    agent, env = Stubborn(features, actions=3, horizon=HORIZON, epsilon=1.0, ridge=0.5), Remembers()
    assert fpi.evaluate(agent, env, 2, seed=4).covered_steps is None
    assert env.actions == [2] * 2 * HORIZON
    assert agent.policy()(np.zeros(2)) == 2


def test_evaluating_changes_neither_agent_nor_run(tmp_path):
    agent, env = make_agent(), odd.Walk()
    first = agent.learn(env, 10, seed=0)
    agent.save(tmp_path / "before.fpi")
    fpi.evaluate(agent, env, 5, seed=0)
    agent.save(tmp_path / "after.fpi")
    second = agent.learn(env, 10)
    assert (tmp_path / "before.fpi").read_bytes() == (tmp_path / "after.fpi").read_bytes()
    np.testing.assert_array_equal(np.append(first.returns, second.returns), learned(20)[1].returns)


def test_evaluating_nothing():
    assert len(fpi.evaluate(make_agent(), odd.Walk(), 0)) == 0


# Targets, by hand


class Script(gym.Env):
    """One action, given rewards, and then the end. The observation is the number of steps."""

    def __init__(self, *rewards):
        self.rewards, self.steps, self.longest = rewards, 0, 0
        self.action_space, self.observation_space = gym.spaces.Discrete(1), gym.spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        reward, self.steps = self.rewards[self.steps], self.steps + 1
        self.longest = max(self.longest, self.steps)
        return self.steps, reward, self.steps == len(self.rewards), False, {}


def targets(*rewards, horizon, reward_range):
    """The target of every stage, one stored per episode from the last stage backwards."""
    features = fpi.OneHot(states=10, actions=1)
    agent = fpi.PAC(features, actions=1, horizon=horizon, epsilon=1.0, ridge=0.5, reward_range=reward_range)
    env = Script(*rewards)
    history = agent.learn(env, 10, seed=0)
    played = min(horizon, len(rewards))
    assert env.longest == played
    assert history.stored_stage.tolist() == [*range(played)][::-1] + [-1] * (10 - played)
    assert set(history.returns) == {sum(rewards[:played])}
    assert set(history.lengths) == {played}
    assert all(len(agent.dataset(stage)) == (stage < played) for stage in range(horizon))
    span = max(reward_range[1], 0) - min(reward_range[0], 0)
    for stage in range(played):
        assert agent.dataset(stage).targets == pytest.approx(span * agent.datasets.dataset(stage).targets, rel=1e-15)
    return [agent.dataset(stage).targets.item() for stage in range(played)]


def test_unit_rewards_are_summed_as_they_are():
    assert targets(1.0, 0.25, 0.5, horizon=3, reward_range=(0, 1)) == [1.75, 0.75, 0.5]


def test_after_an_early_end_nothing_more_is_paid():
    assert targets(1.0, 0.25, 0.5, horizon=6, reward_range=(0, 1)) == [1.75, 0.75, 0.5]


@pytest.mark.parametrize(
    ("rewards", "horizon", "reward_range", "returns"),
    [
        ((1, -2, 4), 5, (-2, 4), [3, 2, 4]),  # the two stages after the end pay 0
        ((1, 4), 4, (1, 4), [5, 4]),
        ((-4, -1), 4, (-4, -1), [-5, -1]),
        ((1, -2, 4), 2, (-2, 4), [-1, -2]),  # a shorter horizon ends the episode: the 4 is never seen
    ],
)
def test_targets_are_sums_of_rewards_in_any_range(rewards, horizon, reward_range, returns):
    np.testing.assert_allclose(targets(*rewards, horizon=horizon, reward_range=reward_range), returns, rtol=1e-15)


def test_the_last_uncovered_step_is_stored_with_what_followed():
    agent, _, seen = learned(40)
    for episode in seen:
        if episode.stored_stage >= 0:
            data = agent.dataset(episode.stored_stage)
            (row,) = np.flatnonzero(data.episodes == episode.number)
            assert data.actions[row] == episode.actions[episode.stored_stage]
            assert data.targets[row] == pytest.approx(sum(episode.rewards[episode.stored_stage :]), rel=1e-14)
            matrix = agent.features(episode.observations[episode.stored_stage], episode.stored_stage)
            np.testing.assert_array_equal(data.features[row], matrix[data.actions[row]])
        else:
            assert all(episode.number not in agent.dataset(stage).episodes for stage in range(HORIZON))


# Policies


def test_a_policy_counts_stages_up_to_the_horizon():
    agent = learned(30)[0]
    policy = agent.policy()
    observation = np.array([0.2, 0.1])
    policy.reset()  # nothing was played, so this is still the coming episode
    for number in range(agent.episodes, agent.episodes + 2):
        assert [policy(observation) for _ in range(HORIZON)] == [
            agent.decide(observation, stage, number).action for stage in range(HORIZON)
        ]
        with pytest.raises(InputError, match=r"asked for 5 actions, its whole horizon. Call policy.reset\(\)"):
            policy(observation)
        policy.reset()


def test_episodes_are_exported_for_annotations():
    assert isinstance(learned(1)[2][0], Episode)


def live_arrays():
    """Counted by numba, whose own counts go wrong if compiled code forgets a reference."""
    stats = rtsys.get_allocation_stats()
    return stats.mi_alloc - stats.mi_free


def in_compiled(compiled_env):
    return lambda agent, env, episodes, seed=None: compiled.learn(agent, compiled_env, episodes, seed)


CARTPOLE, CORRIDOR = in_compiled(compiled.get("CartPole-v1")), in_compiled(scenarios.corridor_env())
PLAYED = {  # features, environment, actions, horizon, and how to learn
    **{name: (features, env, 3, 3, training.learn) for name, (features, env) in scenarios.FEATURES.items()},
    "tiles, compiled": (lambda: scenarios.cartpole_agent().features, scenarios.cartpole, 2, 25, CARTPOLE),
    "one-hot, compiled": (lambda: scenarios.corridor_agent().features, scenarios.Corridor, 2, 9, CORRIDOR),
}


@pytest.mark.parametrize("algorithm", [fpi.Regret, functools.partial(fpi.PAC, epsilon=0.5)], ids=["Regret", "PAC"])
@pytest.mark.parametrize(("features", "make_env", "actions", "horizon", "learn"), PLAYED.values(), ids=PLAYED)
def test_agents_that_are_gone_leave_no_arrays_behind(features, make_env, actions, horizon, learn, algorithm):
    env = make_env()

    def use():
        agent = algorithm(features(), actions=actions, horizon=horizon, ridge=0.1)
        learn(agent, env, 4, seed=0)
        agent.explain(env.reset(seed=0)[0], 0)
        learn(copy.deepcopy(agent), env, 2)
        return live_arrays()

    _nrt.memsys_enable_stats()
    use()  # what is compiled stays
    gc.collect()
    before = live_arrays()
    assert use() > before
    for _ in range(5):  # they are counted, so a few are enough
        use()
    gc.collect()
    assert live_arrays() == before


# Settings, from one source


def test_the_constructor_follows_the_settings():
    """Names, order and defaults of the arguments are those of the fields, and the features go by name too."""
    for kind, settings in ((fpi.PAC, PACSettings), (fpi.Regret, RegretSettings), (fpi.Eluder, EluderSettings)):
        _, *arguments = inspect.signature(kind).parameters.values()
        known = settings_of(settings)
        assert [each.name for each in arguments] == [each.name for each in known]
        assert all(each.kind is each.KEYWORD_ONLY for each in arguments)
        for argument, setting in zip(arguments, known, strict=True):
            missing = setting.default is dataclasses.MISSING
            assert argument.default is argument.empty if missing else argument.default == setting.default
    agent = fpi.PAC(features=fpi.OneHot(2, 3), actions=3, horizon=4)
    assert agent.settings == PACSettings(actions=3, horizon=4, epsilon=1.0, ridge=1e-3, explore="random")
    with pytest.raises(TypeError, match="epsilonn"):
        fpi.PAC(fpi.OneHot(2, 3), actions=3, horizon=4, epsilonn=1.0)
    with pytest.raises(TypeError, match="horizon"):
        fpi.PAC(fpi.OneHot(2, 3), actions=3)


def test_every_setting_says_what_it_means_and_refuses_what_does_not_fit():
    for kind in (PACSettings, RegretSettings, EluderSettings):
        for known in settings_of(kind):
            assert known.setting.meaning.endswith(".")
            assert known.choices or known.setting.check
            with pytest.raises(InputError, match=known.name):
                known.check(["no such value"])
            if known.default is not dataclasses.MISSING:
                known.check(known.default)
