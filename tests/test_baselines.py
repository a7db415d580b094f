"""OFUL, SupLinUCB and uniform play, against literal versions that invert matrices and import nothing from fpi."""

import doctest

import gymnasium as gym
import numpy as np
import pytest

from fpi import baselines, testbeds
from fpi.baselines import OFUL, SupLinUCB, Uniform
from fpi.errors import InputError

EPISODES = 400


def first_best(scores):
    top = max(scores)
    return next(a for a, score in enumerate(scores) if score >= top - 1e-9 * (1 + abs(top)))


class LiteralOFUL:
    """The formulas of the paper, every matrix computed anew."""

    def __init__(self, d, scale, ridge, delta, bound):
        self.d, self.scale, self.ridge, self.delta, self.bound = d, scale, ridge, delta, bound
        self.xs, self.ys = [], []

    def act(self, rows):
        gram = self.ridge * np.eye(self.d) + sum((np.outer(x, x) for x in self.xs), np.zeros((self.d, self.d)))
        inverse = np.linalg.inv(gram)
        theta = inverse @ sum((x * y for x, y in zip(self.xs, self.ys, strict=True)), np.zeros(self.d))
        ratio = np.linalg.det(gram) / self.ridge**self.d
        beta = 0.5 * np.sqrt(2 * np.log(1 / self.delta) + np.log(ratio)) + np.sqrt(self.ridge) * self.bound
        action = first_best([x @ theta + self.scale * beta * np.sqrt(x @ inverse @ x) for x in rows])
        return action, first_best([x @ theta for x in rows])

    def learn(self, x, y):
        self.xs.append(x)
        self.ys.append(y)


class LiteralSupLinUCB:
    """Chu et al., level by level."""

    def __init__(self, d, actions, rounds, explore, scale, delta, bound):
        self.d, self.rounds, self.explore = d, rounds, explore
        self.alpha = scale * (np.sqrt(0.5 * np.log(2 * rounds * actions / delta)) + bound)
        self.data = {s: [] for s in range(1, 60)}

    def act(self, rows):
        allowed, s, predicted = list(range(len(rows))), 1, None
        while True:
            gram = np.eye(self.d) + sum((np.outer(x, x) for x, _ in self.data[s]), np.zeros((self.d, self.d)))
            inverse = np.linalg.inv(gram)
            theta = inverse @ sum((x * y for x, y in self.data[s]), np.zeros(self.d))
            value = {a: rows[a] @ theta for a in allowed}
            w = {a: self.alpha * np.sqrt(rows[a] @ inverse @ rows[a]) for a in allowed}
            upper = {a: value[a] + w[a] for a in allowed}
            if predicted is None or all(w[a] <= 2.0**-s for a in allowed):
                predicted = allowed[first_best([value[a] for a in allowed])]
            if all(w[a] <= self.rounds**-0.5 for a in allowed):
                return allowed[first_best(list(upper.values()))], None, predicted
            if all(w[a] <= 2.0**-s for a in allowed):
                allowed = [a for a in allowed if upper[a] >= max(upper.values()) - 2.0 ** (1 - s)]
                s += 1
                continue
            wide = [a for a in allowed if w[a] > 2.0**-s]
            by = w if self.explore == "widest" else upper
            return wide[first_best([by[a] for a in wide])], s, predicted


def play(learner, testbed, literal, episodes=EPISODES):
    """Learn, and let the literal version say before every episode what it would do."""
    compared = []

    def compare(episode):
        literal(testbed.phi(testbed.state(episode.observations[0])), int(episode.actions[0]), episode.rewards[0])
        compared.append(episode.stored_stage)

    predictions = []
    begin_episode = learner.begin_episode

    def decide_and_predict(training_state):
        decide = begin_episode(training_state)

        def both(seen, stage):
            predictions.append(learner.predict(seen, stage))
            return decide(seen, stage)

        return both

    learner.begin_episode = decide_and_predict
    learner.learn(testbed.env(), episodes, seed=5, callback=compare)
    return predictions, compared


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("ridge", [1.0, 0.2])
def test_oful_is_the_paper_s(scale, ridge):
    testbed = testbeds.LinBandit(d=4, K=5, seed=1)
    slow = LiteralOFUL(4, scale, ridge, 0.1, 0.7)
    expected = []

    def literal(rows, played, reward):
        action, predicted = slow.act(rows)
        assert played == action
        expected.append(predicted)
        slow.learn(rows[played], reward)

    fast = OFUL(testbed.features, actions=5, scale=scale, ridge=ridge, delta=0.1, theta_bound=0.7)
    predictions, explored = play(fast, testbed, literal)
    assert predictions == expected
    assert explored == [0] * EPISODES and fast.data_stored == EPISODES


@pytest.mark.parametrize("explore", ["widest", "optimistic"])
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.02])
def test_suplinucb_is_the_paper_s(scale, explore):
    testbed = testbeds.LinBandit(d=4, K=5, seed=1)
    slow = LiteralSupLinUCB(4, 5, EPISODES, explore, scale, 0.1, 0.7)
    expected, levels = [], []

    def literal(rows, played, reward):
        action, level, predicted = slow.act(rows)
        assert played == action
        expected.append(predicted)
        levels.append(level)
        if level is not None:
            slow.data[level].append((rows[played], reward))

    fast = SupLinUCB(
        testbed.features, actions=5, rounds=EPISODES, explore=explore, scale=scale, delta=0.1, theta_bound=0.7
    )
    predictions, explored = play(fast, testbed, literal)
    assert predictions == expected
    assert [stage >= 0 for stage in explored] == [level is not None for level in levels]
    assert fast.sizes.tolist() == [len(slow.data[s]) for s in range(1, fast.levels + 1)]
    if scale == 0.02:
        assert None in levels  # the round that stores nothing was met
    assert len(set(levels)) > 1


def test_rewards_of_another_range_are_divided_by_their_span():
    """Doubled rewards, with their range, give the same play."""

    class Doubled(gym.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    testbed = testbeds.LinBandit(seed=0)

    def actions(env, reward_range):
        taken = []
        learner = OFUL(testbed.features, actions=10, reward_range=reward_range)
        learner.learn(env, 200, seed=0, callback=lambda e: taken.append(int(e.actions[0])))
        return taken

    assert actions(testbed.env(), (0, 1)) == actions(Doubled(testbed.env()), (0, 2))


def test_plain_functions_will_do_for_features():
    testbed = testbeds.LinBandit(seed=0)
    features = testbed.features
    by_map = OFUL(features, actions=10)
    by_function = OFUL(lambda seen: features(seen, 0), actions=10)
    returns = [learner.learn(testbed.env(), 100, seed=0).returns for learner in (by_map, by_function)]
    assert np.array_equal(*returns)


def test_going_on_is_the_same_as_not_stopping():
    testbed = testbeds.LinBandit(seed=0)
    for make in (
        lambda: OFUL(testbed.features, actions=10),
        lambda: SupLinUCB(testbed.features, actions=10, rounds=100),
        lambda: Uniform(actions=10),
    ):
        whole, parts = make(), make()
        returns = whole.learn(testbed.env(), 100, seed=4).returns
        env = testbed.env()
        halves = [parts.learn(env, 50, seed=4).returns, parts.learn(env, 50).returns]
        assert np.array_equal(returns, np.concatenate(halves))
        assert parts.episodes == 100


def test_uniform_play_is_uniform():
    testbed = testbeds.HubNet(K=6)
    counts = np.zeros((testbed.horizon, 6))

    def count(episode):
        counts[np.arange(testbed.horizon), episode.actions] += 1

    Uniform(actions=6, horizon=testbed.horizon).learn(testbed.env(), 3_000, seed=0, callback=count)
    assert abs(counts / 3_000 - 1 / 6).max() < 0.03  # over four standard deviations


def test_the_rank_one_updates_stay_accurate():
    rng = np.random.default_rng(0)
    testbed = testbeds.LinBandit(d=6, K=2)
    learner = OFUL(testbed.features, actions=2, ridge=1e-3)
    _, inverses, thetas = learner.look(testbed.observation(testbed.held_out(1)[0]), 0)
    gram, moment = 1e-3 * np.eye(6), np.zeros(6)
    for _ in range(5_000):
        x, y = rng.normal(size=6) * [0.5, 0.5, 0.1, 0.1, 0.01, 0.01], rng.random()
        learner.keep(0, x)
        learner.end_episode(learner.training_state, (0, 0, y))
        gram += np.outer(x, x)
        moment += y * x
    assert inverses[0] == pytest.approx(np.linalg.inv(gram), rel=1e-9, abs=1e-12)
    assert thetas[0] == pytest.approx(np.linalg.solve(gram, moment), rel=1e-9)
    assert learner.log_dets[0] == pytest.approx(np.linalg.slogdet(gram / 1e-3)[1], rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: OFUL(f, actions=0), "actions is 0"),
        (lambda f: OFUL(f, actions=10, scale=-1), "scale is -1"),
        (lambda f: OFUL(f, actions=10, ridge=0), "ridge is 0"),
        (lambda f: OFUL(f, actions=10, delta=1), "delta is 1"),
        (lambda f: OFUL(f, actions=10, theta_bound=0), "theta_bound is 0"),
        (lambda f: OFUL(f, actions=4), "make both the same"),
        (lambda f: SupLinUCB(f, actions=10, rounds=0), "rounds is 0"),
        (lambda f: SupLinUCB(f, actions=10, rounds=9, explore="boldest"), "explore is 'boldest'"),
        (lambda f: Uniform(actions=3, horizon=0), "horizon is 0"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make(testbeds.LinBandit().features)


def test_suplinucb_stops_where_its_rounds_end():
    testbed = testbeds.LinBandit()
    learner = SupLinUCB(testbed.features, actions=10, rounds=20)
    learner.learn(testbed.env(), 20, seed=0)
    with pytest.raises(InputError, match="made for 20 episodes"):
        learner.learn(testbed.env(), 1)
    assert learner.episodes == 20
    run = baselines.play(baselines.SupLinUCBMethod(rounds=20), testbed, seed=0, steps=30)  # more than it was made for
    assert len(run.losses) == 20 and not np.isnan(run.gap)


def test_the_example_runs():
    result = doctest.testmod(baselines)
    assert result.attempted > 0 and result.failed == 0
