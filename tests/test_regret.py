"""fpi.Regret beyond its actions: what it explains, where elimination draws the line, and the bandit it is for H = 1."""

import gymnasium as gym
import numpy as np
import pytest
from layered import LayeredMDP
from support.worlds import bandit

import fpi
from fpi import testbeds

RULES = ["paper", "stage", "interval"]
every_rule = pytest.mark.parametrize("elimination", RULES)


def learned(*means, episodes=6, **settings):
    """Orthogonal actions and ridge 1: level l takes 4^l - 1 data of every action it allows."""
    defaults = {"actions": len(means), "horizon": 1, "explore": "first", "scale": 1e-3}
    agent = fpi.Regret(fpi.OneHot(1, len(means)), **(defaults | settings))
    agent.learn(bandit(*means), episodes, seed=0)
    return agent


# --- settings ------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_paper():
    agent = fpi.Regret(fpi.OneHot(2, 3), actions=3, horizon=4)
    assert agent.ridge == agent.theory.ridge == 0.25
    assert agent.settings.ridge is None and agent.settings.scale == 1.0
    assert (agent.settings.explore, agent.settings.elimination) == ("greedy", "paper")
    assert agent.levels == 40
    assert fpi.Regret(fpi.OneHot(2, 3), actions=3, horizon=4, max_level=99).levels == 40
    assert fpi.Regret(fpi.OneHot(2, 3), actions=3, horizon=4, max_level=3).levels == 3
    assert fpi.Regret(fpi.OneHot(2, 3), actions=3, horizon=4, max_level=3, misspecification=0.5).levels == 2


def test_scale_multiplies_alpha_and_nothing_else():
    def gap(scale):
        settings = {"horizon": 4, "misspecification": 0.01, "scale": scale}
        return fpi.Regret(fpi.OneHot(2, 3), actions=3, **settings).level_gap(3) - 0.01

    assert gap(0.1) == pytest.approx(gap(1.0) / 10)
    assert gap(0.1) > 0


# --- what it says --------------------------------------------------------------------------------------


def test_an_agent_that_knows_nothing_says_so():
    agent = fpi.Regret(fpi.OneHot(1, 2), actions=2, horizon=3)
    told = agent.explain(0, 1)
    assert (told.action, told.covered, told.level, told.freezing_index) == (0, False, 0, None)
    assert (told.gap, told.vacuous) == (2.0, True)
    assert told.values.tolist() == [0, 0] and told.widths == pytest.approx([3**0.5] * 2)
    assert all(reason.startswith("not covered yet at level 1") for reason in told.reasons)
    assert str(told).startswith("action 0; the state is not covered yet\n")
    assert str(told).endswith("the theory promises nothing here yet")
    assert agent.played == () and agent.data_stored == 0


def test_explain_tells_levels_action_sets_and_why_an_action_went():
    """After 6 + 4 episodes level 1 is full, has eliminated action 0, and level 2 has 4 of its 15 data."""
    agent = learned(0.2, 0.8, episodes=10)
    told = agent.explain(0, 0)
    assert (told.action, told.covered, told.level, told.freezing_index) == (1, True, 1, 6)
    assert told.values == pytest.approx([0.15, 0.6]) and told.widths == pytest.approx([0.5, 0.5])
    first, second = told.level_states
    assert (first.level, first.covered, first.action) == (1, 6, 1)
    assert (second.level, second.covered, second.action) == (2, None, None)
    assert first.allowed.tolist() == [True, True]
    assert first.survives.tolist() == second.allowed.tolist() == second.uncovered.tolist() == [False, True]
    assert second.values[1] == pytest.approx(0.8 * 4 / 5) and second.widths[1] == pytest.approx(5**-0.5)
    bar = 0.6 - 2 * agent.level_gap(1)
    assert first.threshold == pytest.approx(bar)
    assert told.reasons[0].startswith(f"eliminated at level 1: its value 0.15 does not reach {bar:.4g}")
    assert told.reasons[1] == "not covered yet at level 2: value 0.64, width 0.4472"
    assert told.gap == pytest.approx(2 * agent.level_gap(1)) and not told.vacuous
    said = str(told).splitlines()
    assert said[0] == "action 1; the state is covered up to level 1"
    assert said[1:3] == [f"  action {a}: {reason}" for a, reason in enumerate(told.reasons)]
    assert f"a loss of at most {told.gap:.4g}" in said[3]


def test_a_promise_is_the_theorys_only_at_its_own_scale():
    settings = {"episodes": 6 + 15 + 20, "max_level": 2, "theta_bound": 1e-9, "delta": 0.9}
    scaled, sound = learned(0.2, 0.8, **settings), learned(0.2, 0.8, **settings, scale=1.0)
    assert "the theory promises" not in str(scaled.explain(0, 0))
    assert "the theory promises" in str(sound.explain(0, 0))
    assert sound.explain(0, 0).gap > scaled.explain(0, 0).gap


def test_a_reason_by_intervals_names_the_error():
    agent = learned(0.2, 0.8, elimination="interval")
    told, alpha = agent.explain(0, 0), agent.theory.alpha(6, 2 * np.log(4), 1)  # three data each
    at = told.level_states[0]
    assert at.errors == pytest.approx([alpha / 2] * 2)
    assert at.threshold == pytest.approx(0.6 - alpha / 2)
    assert f"its value 0.15 plus its error {alpha / 2:.4g} does not reach {at.threshold:.4g}" in told.reasons[0]


def test_after_the_last_level_nothing_is_stored_and_the_best_is_played():
    agent = learned(0.2, 0.8, episodes=6 + 15, max_level=2)
    history = agent.learn(bandit(0.2, 0.8), 5)
    assert history.stored_stage.tolist() == [-1] * 5 and history.returns == pytest.approx([0.8] * 5)
    assert agent.played == (3,)  # L-bar, one above the last that is stored
    assert agent.data_stored == 21
    told = agent.explain(0, 0)
    assert (told.level, told.freezing_index, told.action) == (2, 15, 1)
    assert told.reasons[1].startswith("a candidate at level 2")
    assert agent.summary().data.tolist() == [21] and agent.summary().covered.tolist() == [5]


@pytest.mark.filterwarnings("ignore::fpi.errors.CoverageWarning")
def test_episode_t_climbs_t_levels_at_most():
    """Zero features are covered at every level before any data."""
    agent = fpi.Regret(lambda state: np.zeros((2, 2)), actions=2, horizon=1)
    played = []
    for episodes in (0, 1, 2, 36, 5):
        agent.learn(bandit(0.2, 0.8), episodes, seed=None, callback=lambda _: played.append(agent.played))
        level_states = agent.level_states(0, 0)
        assert [at.level for at in level_states] == list(range(1, min(agent.episodes + 1, 40) + 1))
        assert {at.covered for at in level_states} == {0}
        assert agent.explain(0, 0).level == len(level_states) and agent.predict(0, 0) == 0
    assert played == [(min(t, 41),) for t in range(1, 45)]
    assert agent.data_stored == 0


# --- levels that begin later ------------------------------------------------------------------------------


def test_levels_before_the_first_are_never_stored_or_tested():
    agent = learned(0.2, 0.8, episodes=400, first_level=3)
    sizes = agent.datasets.sizes()[:, 0]
    assert sizes[:2].tolist() == [0, 0] and sizes[2] == 2 * 63  # ridge 1: a width of 1/8 takes 63 data
    states = agent.level_states(0, 0)
    assert [at.level for at in states] == list(range(3, 3 + len(states)))
    assert states[0].allowed.all() and agent.explain(0, 0).level == states[-1].level - 1 >= 3
    np.testing.assert_array_equal(agent.explain(0, 0).values, states[-2].values)


@pytest.mark.filterwarnings("ignore::fpi.errors.CoverageWarning")
def test_line_3_begins_at_the_first_level():
    played = []
    agent = fpi.Regret(lambda observation: np.zeros((2, 2)), actions=2, horizon=1, first_level=4)
    env = LayeredMDP(0, horizon=1, states=1, actions=2)
    agent.learn(env, 40, seed=0, callback=lambda episode: played.append(agent.played))  # all is covered
    assert played == [(min(t + 3, 41),) for t in range(1, 41)]


def test_auto_is_the_first_level_that_promises_less_than_the_horizon():
    agent = fpi.Regret(lambda observation: np.eye(2), actions=2, horizon=1, first_level="auto")  # d is not known yet
    agent.learn(LayeredMDP(0, horizon=1, states=1, actions=2), 30, seed=0)
    first = agent.first_level
    assert first > 1 and agent.level_gap(first) < 0.5 <= agent.level_gap(first - 1)
    assert agent.datasets.sizes()[:, 0].nonzero()[0].tolist() == [first - 1]
    rough = fpi.Regret(fpi.OneHot(1, 2), actions=2, horizon=1, first_level="auto", misspecification=0.4)
    assert rough.first_level == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"first_level": 0}, "first_level is 0"),
        ({"first_level": "last"}, 'the number of a level, or "auto"'),
        ({"first_level": 5, "max_level": 4}, "the last level is 4"),
    ],
)
def test_first_levels_that_are_none_are_refused(settings, said):
    with pytest.raises(fpi.errors.InputError, match=said):
        fpi.Regret(fpi.OneHot(1, 2), actions=2, horizon=1, **settings)


def test_optimism_adds_alpha_widths_of_the_level_itself():
    """Three data of the worse action, one of the better: what is not known well may be worth more."""
    agent = fpi.Regret(lambda observation: np.eye(2), actions=2, horizon=1, scale=0.5, explore="optimistic")
    played = []
    agent.learn(bandit(0.2, 0.8), 6, seed=0, callback=lambda episode: played.append(int(episode.actions[0])))
    n = agent.theory.dataset_bound(0.5)
    assert agent.optimism(0, 1) == pytest.approx(agent.theory.alpha(n, level=1))
    counts, sums, expected = np.zeros(2), np.zeros(2), []
    for _ in range(6):
        scores = sums / (1 + counts) + agent.optimism(0, 1) / np.sqrt(1 + counts)
        scores[counts == 3] = -np.inf  # covered: a width of 1/2
        expected.append(int(scores.argmax()))
        counts[expected[-1]] += 1
        sums[expected[-1]] += (0.2, 0.8)[expected[-1]]
    assert played == expected


# --- where elimination draws the line --------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize(("factor", "kept"), [(1.0, True), (1 - 1e-6, True), (1 + 1e-6, False), (1 + 1e-14, True)])
def test_an_action_at_the_edge_is_kept(elimination, factor, kept):
    """Its value is as far below the best as the rule allows, give or take: ties keep actions."""
    scale = 0.02
    agent = learned(0.0, 0.5, episodes=0, scale=scale, elimination=elimination)
    threshold = 2 * agent.level_gap(1)
    if elimination == "interval":
        threshold = 2 * agent.theory.alpha(6, 2 * np.log(4), 1) / 2  # both errors, alpha times the width 1/2
    best = threshold * 4 / 3 * factor  # three data and ridge 1 make 3/4 of it
    agent = learned(0.0, best, scale=scale, elimination=elimination)
    (first, *_) = agent.level_states(0, 0)
    assert first.covered == 6 and first.values[1] == pytest.approx(threshold * factor)
    assert first.survives.tolist() == [kept, True]


@pytest.mark.parametrize("elimination", ["paper", "stage"])
def test_thresholds_by_stage(elimination):
    """Delta_l falls with the stage: the paper's rule takes the first for all, the other those of the stages left."""
    env = LayeredMDP(0, horizon=3, states=1, actions=2)
    agent = fpi.Regret(fpi.OneHot(1, 2), actions=2, horizon=3, scale=0.01, elimination=elimination)
    agent.learn(env, 80, seed=0)
    first, second, third = agent.stage_gaps(1)
    assert first == agent.level_gap(1) > second > third
    allowed = [3 * first] * 3 if elimination == "paper" else [first + second + third, second + third, third]
    for stage, gaps in enumerate(allowed):
        at = agent.level_states(0, stage)[0]
        assert at.threshold == pytest.approx(at.values.max() - 2 * gaps)


def test_intervals_add_the_gap_of_later_stages_only():
    env = LayeredMDP(0, horizon=3, states=1, actions=2)
    settings = {"misspecification": 0.01, "elimination": "interval"}
    agent = fpi.Regret(fpi.OneHot(1, 2), actions=2, horizon=3, scale=0.01, **settings)
    agent.learn(env, 80, seed=0)
    _, second, third = agent.stage_gaps(1)
    for stage, later in enumerate([second + third, third, 0]):
        at = agent.level_states(0, stage)[0]
        data = agent.dataset(stage, 1).features[: at.covered]
        log_det = np.linalg.slogdet(np.eye(2) + data.T @ data / agent.ridge)[1]
        errors = agent.theory.alpha(at.covered, log_det, 1, stage) * at.widths + 0.01
        assert at.errors == pytest.approx(errors)
        assert at.threshold == pytest.approx((at.values - errors).max() - 2 * later)


def test_a_set_follows_the_frozen_data_and_not_later_ones():
    """Later data of level 1, from another state, do not move an interval that is frozen."""
    env = LayeredMDP(0, horizon=1, states=3, actions=3)
    agent = fpi.Regret(lambda state: np.eye(3) * (1 - state / 4), actions=3, horizon=1, elimination="interval")
    before = {}

    def keep(episode):
        for state in range(3):
            at = agent.level_states(state, 0)[0]
            if at.covered is not None:
                now = (at.threshold, at.errors.tolist(), at.survives.tolist(), at.values.tolist())
                assert before.setdefault(state, now) == now

    agent.learn(env, 60, seed=0, callback=keep)
    frozen = [agent.level_states(state, 0)[0].covered for state in range(3)]
    assert len(set(frozen)) > 1 and min(frozen) < len(agent.dataset(0, 1))


# --- H = 1: a phased elimination bandit ------------------------------------------------------------------


class Contexts(gym.Env):
    """A linear bandit: every round shows one new vector per arm."""

    def __init__(self, arms, dim):
        self.shape = arms, dim
        self.theta = np.arange(1, dim + 1) / np.linalg.norm(np.arange(1, dim + 1))
        self.action_space = gym.spaces.Discrete(arms)
        self.observation_space = gym.spaces.Box(-1, 1, self.shape)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        x = self.np_random.normal(size=self.shape)
        self.x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return self.x, {}

    def step(self, action):
        mean = (1 + self.x[action] @ self.theta) / 2
        return self.x, float(self.np_random.random() < mean), True, False, {}


class PhasedElimination:
    """SupLinUCB as a bandit person would write it, with thresholds 2^-s, gaps as given, and frozen prefixes."""

    def __init__(self, dim, ridge, gaps):
        self.gaps, self.round = gaps, 0
        self.V = {s: [ridge * np.eye(dim)] for s in gaps}  # for every phase, after each of its own rounds
        self.b = {s: [np.zeros(dim)] for s in gaps}

    def widths(self, contexts, V):
        return np.sqrt((contexts * np.linalg.solve(V, contexts.T).T).sum(axis=1))

    def choose(self, contexts):
        """The arm, and the phase that explores it or None."""
        self.round += 1
        arms = np.arange(len(contexts))
        for s in range(1, min(self.round, len(self.gaps)) + 1):
            known = enumerate(self.widths(contexts[arms], V) for V in self.V[s])
            frozen = next((k for k, widths in known if np.all(widths <= 0.5**s)), None)
            if frozen is None:
                return int(arms[self.widths(contexts[arms], self.V[s][-1]).argmax()]), s
            estimates = contexts[arms] @ np.linalg.solve(self.V[s][frozen], self.b[s][frozen])
            best = int(arms[estimates.argmax()])
            arms = arms[estimates >= estimates.max() - 2 * self.gaps[s]]
        return best, None

    def learn(self, x, reward, s):
        self.V[s].append(self.V[s][-1] + np.outer(x, x))
        self.b[s].append(self.b[s][-1] + reward * x)


@pytest.mark.parametrize("arms", [3, 6])
def test_one_stage_is_a_phased_elimination_with_frozen_prefixes(arms):
    agent = fpi.Regret(lambda x: x, actions=arms, horizon=1, scale=0.03, explore="widest", max_level=3)
    env = Contexts(arms, 2)
    agent.features(np.ones((arms, 2)) / 2, 0)  # shows the dimension
    bandit = PhasedElimination(2, 1.0, {s: agent.level_gap(s) for s in (1, 2, 3)})
    phases = []

    def compare(episode):
        contexts = episode.observations[0]
        arm, phase = bandit.choose(contexts)
        assert (int(episode.actions[0]), episode.stored_stage) == (arm, -1 if phase is None else 0), episode.number
        assert agent.played == (min(episode.number + 1, 4) if phase is None else phase,)
        if phase:
            bandit.learn(contexts[arm], episode.rewards[0], phase)
        phases.append(phase)

    agent.learn(env, 200, seed=1, callback=compare)
    assert {1, 2, 3} <= set(phases)
    assert_every_level_sees_its_own_samples_only(agent, env, phases)


def assert_every_level_sees_its_own_samples_only(agent, env, phases):
    data = {level: agent.dataset(0, level) for level in (1, 2, 3)}
    for level, own in data.items():
        assert own.episodes.tolist() == [number for number, phase in enumerate(phases) if phase == level]
    differs = 0
    for seed in range(20):
        x, _ = env.reset(seed=seed)
        for at in agent.level_states(x, 0):
            own = data[at.level]
            k = len(own) if at.covered is None else at.covered
            X, q = own.features[:k], own.targets[:k]
            theta = np.linalg.solve(np.eye(2) + X.T @ X, X.T @ q)
            np.testing.assert_allclose(at.values[at.allowed], (x @ theta)[at.allowed], atol=1e-9)
            pooled = np.vstack([each.features for each in data.values()])
            all_targets = np.concatenate([each.targets for each in data.values()])
            theta = np.linalg.solve(np.eye(2) + pooled.T @ pooled, pooled.T @ all_targets)
            differs += not np.allclose(at.values[at.allowed], (x @ theta)[at.allowed], atol=1e-3)
    assert differs > 10


# --- going on ------------------------------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize("explore", ["greedy", "random"])
def test_stopping_saving_and_asking_in_between_change_nothing(tmp_path, elimination, explore):
    """One learn is three, with a file and questions about every state in between."""

    def make():
        features = fpi.TileCoding([0, 0], [1, 1], tiles=2, tilings=2, actions=3)
        settings = {"scale": 0.01, "ridge": 1.0, "elimination": elimination, "explore": explore}
        return fpi.Regret(features, actions=3, horizon=3, **settings)

    def env():
        return LayeredMDP(1, horizon=3, states=6, actions=3, early_end=0.1, observe="point")

    def answers(agent):
        world = env()
        pool = [(world.observation(stage, state), stage) for stage in range(3) for state in range(6)]
        return [(agent.predict(*question), str(agent.explain(*question))) for question in pool]

    whole, parts, path = make(), make(), tmp_path / "agent.fpi"
    whole.learn(env(), 240, seed=4)
    parts.learn(env(), 80, seed=4)
    answers(parts)
    parts.learn(env(), 80)
    parts.save(path)
    loaded = fpi.load(path)
    assert answers(loaded) == answers(parts)
    loaded.learn(env(), 80)
    assert loaded.played == whole.played
    assert answers(loaded) == answers(whole)
    loaded.save(path)
    whole.save(tmp_path / "whole.fpi")
    assert path.read_bytes() == (tmp_path / "whole.fpi").read_bytes()


# --- what scale has done


def bandit_learner(scale, **settings):
    world = testbeds.LinBandit(d=6, K=10)
    learner = fpi.Regret(world.features, actions=10, horizon=1, theta_bound=world.theta_bound, scale=scale, **settings)
    return learner, learner.learn(world.env(), 120, seed=0).returns.tolist()


def test_the_summary_says_so_while_scale_has_not_acted(tmp_path):
    (careful, one), (middle, other), (bold, third) = (bandit_learner(scale) for scale in (1.0, 0.5, 0.01))
    assert one == other and third != one  # the first eliminations make the difference
    assert "scale has not acted yet: no action is eliminated, so any scale from 1 on" in str(careful.summary())
    assert middle.summary().note.endswith("any scale from 0.5 on gives the same")
    assert bold.eliminated and bold.summary().note == ""
    assert fpi.Regret(bold.features, actions=10, horizon=1).summary().note == ""
    assert bandit_learner(1.0, explore="optimistic")[0].summary().note == ""
    for learner in (careful, bold):
        learner.save(tmp_path / "learner.fpi")
        assert fpi.load(tmp_path / "learner.fpi", features=bold.features).summary().note == learner.summary().note
    careful.eliminated = None  # as after a file of before, which does not say
    assert careful.summary().note == ""


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_engines_agree_on_what_scale_has_done(scale, tmp_path):
    env = gym.make("CartPole-v1")
    files = []
    for engine in ("gymnasium", "compiled"):
        features = fpi.TileCoding.for_env(env, tiles=1, tilings=1)
        learner = fpi.Regret(features, actions=2, horizon=12, max_level=3, scale=scale)
        learner.learn(env, 400, seed=0, engine=engine)
        assert learner.eliminated == (scale < 1)
        learner.save(tmp_path / "learner.fpi")
        files.append((tmp_path / "learner.fpi").read_bytes())
    assert files[0] == files[1]
