"""Every method of the harness against something that shares no code with it."""

import numpy as np
import pytest

from fpi import baselines, testbeds
from fpi.baselines import designs
from fpi.baselines.capi import CAPI as StagewiseCAPI
from fpi.baselines.core_sets import covered
from fpi.baselines.worlds import TestbedWorld as World

HUBS = testbeds.HubNet(B=2, m=3, K=3)
CORRIDOR = testbeds.HubCorridor(B=1, m=2, K=3, junk=1)
SEA = testbeds.DeepSea(6)
TRAP = testbeds.Trap(M=4, Lc=2, phase=400, p=0.5)
GATE = testbeds.Gate()


def run(method, testbed, steps=10_000, seed=0, **more):
    return baselines.play(method, testbed, seed=seed, steps=steps, **more)


# Designs


@pytest.mark.parametrize("seed", range(4))
def test_g_optimal_designs_attain_what_kiefer_and_wolfowitz_promise(seed):
    rng = np.random.default_rng(seed)
    rows = designs.reduced(rng.normal(size=(200, 4)) @ rng.normal(size=(4, 7)) * rng.random((200, 1)))
    assert rows.shape[1] == 4
    rho = designs.g_optimal(rows, tolerance=0.05)
    assert rho.sum() == pytest.approx(1) and rho.min() >= 0
    second = sum(weight * np.outer(row, row) for weight, row in zip(rho, rows, strict=True))
    largest = max(float(row @ np.linalg.solve(second, row)) for row in rows)
    assert 4 - 1e-9 <= largest <= 1.1 * 4
    assert np.count_nonzero(rho) <= 2 * 4 * 5 / 2


@pytest.mark.parametrize("most", [1.05, 2.0])
def test_spanners_span_with_small_coefficients(most):
    rows = np.random.default_rng(3).random((300, 6))
    start = np.abs(rows @ np.linalg.inv(rows[designs.largest_volume(rows)])).max()
    assert (start > most) == (most < 2)  # so that swaps are needed for the small one
    chosen = designs.spanner(rows, most)
    assert len(set(chosen.tolist())) == 6
    coefficients = np.linalg.lstsq(rows[chosen].T, rows.T, rcond=None)[0]
    assert np.allclose(rows[chosen].T @ coefficients, rows.T)
    assert np.abs(coefficients).max() <= most + 1e-9


# LSVI-UCB and its variants


def literal_lsvi(world, ridge, bonus, replan, episodes):
    """LSVI-UCB in the words of its paper, dense and slow: the actions of all episodes."""
    access = baselines.Online(world)
    horizon, d = access.horizon, access.dim
    data = [[] for _ in range(horizon)]
    w, grams = np.zeros((horizon, d)), [ridge * np.eye(d) for _ in range(horizon)]

    def q(stage, phi):
        bound = bonus * np.sqrt(phi @ np.linalg.inv(grams[stage]) @ phi)
        return min(phi @ w[stage] + bound, horizon - stage)

    actions, growth, since = [], [1.0] * horizon, 0
    for _ in range(episodes):
        if since == replan or max(growth) > np.log(2):
            growth, since = [0.0] * horizon, 0
            for h in reversed(range(horizon)):
                grams[h] = ridge * np.eye(d) + sum((np.outer(x, x) for x, _, _ in data[h]), np.zeros((d, d)))
                total = np.zeros(d)
                for x, reward, after in data[h]:
                    later = 0.0 if after is None else max(q(h + 1, phi) for phi in after.features)
                    total += x * (reward + later)
                w[h] = np.linalg.inv(grams[h]) @ total
        since += 1
        view = access.reset()
        while view is not None:
            values = np.array([q(view.stage, phi) for phi in view.features])
            action = int(np.flatnonzero(values >= values.max() - 1e-9 * (1 + abs(values.max())))[0])
            actions.append(action)
            reward, after = access.step(action)
            x = view.features[action]
            data[view.stage].append((x, reward, after))
            growth[view.stage] += np.log(1 + x @ np.linalg.inv(grams[view.stage]) @ x)
            view = after
    return actions


class Watched(baselines.Online):
    """Keeps the actions it was asked for."""

    def __init__(self, *args, **budget):
        super().__init__(*args, **budget)
        self.actions_seen = []

    def step(self, action):
        self.actions_seen.append(action)
        return super().step(action)


@pytest.mark.parametrize("testbed", [HUBS, CORRIDOR, testbeds.Trap()], ids=str)
def test_lsvi_ucb_takes_the_same_action_as_the_literal_one_at_every_step(testbed):
    watched = Watched(World(testbed, 0), episodes=40)
    with pytest.raises(baselines.BudgetSpent):
        for _ in baselines.LSVI_UCB(ridge=0.1, bonus=1.0, replan=10).run(watched):
            pass
    assert watched.actions_seen == literal_lsvi(World(testbed, 0), 0.1, 1.0, 10, 40)


def test_lsvi_ucb_fails_on_trap_and_skipping_does_not():
    budget = {"steps": 3_000, "episodes": 800}
    plain, skipping, frozen = (
        run(method, TRAP, **budget)
        for method in (baselines.LSVI_UCB(), baselines.OracleSkip(), baselines.FPIPAC(epsilon=0.3))
    )
    assert plain.losses[-200:].mean() == pytest.approx(0.4)
    assert plain.gap > 0.15
    assert skipping.losses[-200:].mean() < 0.05
    assert frozen.losses[-200:].mean() < 0.01


def test_rlsvi_at_zero_noise_is_fitted_q_without_chance():
    runs = [run(method, HUBS, 600) for method in (baselines.RLSVI(sigma=0.0), baselines.FittedQ(chance=0.0))]
    assert np.array_equal(runs[0].losses, runs[1].losses)
    assert not np.array_equal(runs[0].losses, run(baselines.RLSVI(sigma=0.3), HUBS, 600).losses)


def test_at_one_stage_lsvi_ucb_is_oful():
    """With the same ridge, and a bonus that stands still: the same actions, round by round."""
    bandit = testbeds.LinBandit(d=4, K=5)

    class Fixed(baselines.OFUL):
        beta = 0.5

    class FixedMethod(baselines.OFULMethod):
        def make(self, features, access):
            return Fixed(features, actions=access.actions, ridge=0.3)

    lsvi = run(Uncut(ridge=0.3, bonus=0.5, replan=1), bandit, 150)
    oful = run(FixedMethod(), bandit, 150)
    assert len(lsvi.losses) == 150
    assert np.array_equal(lsvi.losses, oful.losses)


class Uncut(baselines.LSVI_UCB):
    """Without the cut at H, which OFUL has not."""

    def q(self, rows, number):
        self.horizon = 1e9
        return super().q(rows, number)


# Planners


@pytest.mark.parametrize("design", ["g", "spanner"])
def test_a_backward_sweep_finds_theta(design):
    """Without noise one rollout of each direction is exact."""
    method = baselines.BackwardSweep(rollouts=1, design=design)
    result = run(method, CORRIDOR, noise="none")
    assert result.gap == pytest.approx(0, abs=1e-9)
    assert result.rows["restores"][-1] == 0 and result.rows["jumps"][-1] > 0
    start = CORRIDOR.held_out(1)[0]
    q = CORRIDOR.phi(start) @ method.thetas[0]
    assert q == pytest.approx(CORRIDOR.optimal_action_values(start))


class Watching(StagewiseCAPI):
    """CAPI that remembers which action it took at every state it visited."""

    def policy(self, view):
        action = super().policy(view)
        if covered(self.cores)(view) and self.inverses[view.stage]:
            self.taken.setdefault((view.stage, view.features.tobytes()), []).append(action)
        return action


def test_capi_never_changes_an_action_at_a_covered_state():
    method = Watching(rollouts=10)
    method.taken = {}
    run(method, testbeds.HubCorridor(B=2, m=3, K=4, junk=2, seed=1), 200_000)
    assert sum(map(len, method.taken.values())) >= 5_000
    assert sum(len(set(actions)) > 1 for actions in method.taken.values()) == 0


@pytest.mark.parametrize(
    "method",
    [
        baselines.CAPI(rollouts=1),
        baselines.CAPILiteral(rollouts=1),
        baselines.ConfidentLSPI(rollouts=1),
        baselines.ConfidentLSPI(rollouts=1, reuse=True),
    ],
    ids=["capi", "literal capi", "lspi", "lspi with reuse"],
)
@pytest.mark.parametrize("testbed", [HUBS, CORRIDOR, SEA], ids=["hubs", "corridor", "sea"])
def test_local_planners_are_near_the_best_without_noise(method, testbed):
    result = run(method, testbed, 300_000, noise="none")
    assert 0 <= result.gap < 0.02
    assert result.rows["jumps"][-1] == 0 < result.rows["restores"][-1]


def test_reuse_saves_steps():
    literal, reuse = (run(baselines.ConfidentLSPI(rollouts=5, reuse=reuse), HUBS, 100_000) for reuse in (False, True))
    assert reuse.rows["steps"][-1] < literal.rows["steps"][-1]


def test_politex_is_a_mixture_that_gets_better():
    method = baselines.Politex(iterations=12, rollouts=2, fresh=10)
    result = run(method, HUBS, 200_000)
    uniform = run(baselines.UniformMethod(), HUBS, 200)
    assert result.gap < uniform.gap
    judge = baselines.Judge(HUBS, baselines.Online(World(HUBS, 0)))
    first, last = (judge.gap(lambda view, k=k: method.act(k, view)) for k in (0, 11))
    assert last < first


# Null-space randomisation


@pytest.mark.parametrize(
    ("testbed", "complete"),
    [(HUBS, True), (SEA, True), (testbeds.HubCorridor(B=1, m=2, K=3), False)],
    ids=["hubs", "sea", "corridor"],
)
def test_the_residual_of_wu_is_zero_where_the_testbed_is_complete(testbed, complete):
    method = baselines.NullSpace()
    run(method, testbed, 600)
    assert testbed.complete == complete
    assert (method.residual < 1e-8) == complete


# Spans


@pytest.mark.parametrize("testbed", [HUBS, CORRIDOR, SEA], ids=["hubs", "corridor", "sea"])
def test_ocp_loses_in_no_more_episodes_than_there_are_directions(testbed):
    result = run(baselines.OCP(), testbed, 2_000, noise="none")
    ranks = sum(testbed.verify(policies=1, pool=200).ranks)
    assert 0 < np.count_nonzero(result.losses > 1e-9) <= ranks
    assert result.gap == pytest.approx(0, abs=1e-9)


def test_the_agnostic_recursion_counts_as_in_the_specification():
    result = run(baselines.Agnostic(), testbeds.DeepSea(16), 5_000, noise="none")
    assert result.gap == 0
    assert result.rows["episodes"][-1] == 65
    with pytest.raises(baselines.Inapplicable, match="Agnostic needs a fixed start state"):
        run(baselines.Agnostic(), HUBS)
    noisy = run(baselines.Agnostic(repeats=10), SEA, 5_000)
    assert noisy.gap == 0


# Bandits and agents


def test_upac_oful_learns_a_bandit_and_refuses_more_stages():
    bandit = testbeds.LinBandit(d=4, K=5)
    result = run(baselines.UPACOFUL(), bandit, 1_500)
    assert result.losses[-300:].mean() < 0.3 * result.losses[:50].mean()
    with pytest.raises(baselines.Inapplicable, match="needs one stage"):
        run(baselines.UPACOFUL(), HUBS)


def test_agents_run_unchanged():
    """Through the harness FPI-PAC stores what it stores when it learns by itself from the same episodes."""
    import fpi

    method = baselines.FPIPAC(epsilon=0.5, seed=3)
    result = run(method, CORRIDOR, seed=3, steps=120 * CORRIDOR.horizon, noise="none")
    agent = fpi.PAC(CORRIDOR.features, actions=3, horizon=CORRIDOR.horizon, epsilon=0.5, ridge=1 / CORRIDOR.horizon)
    starts = np.random.default_rng((3, 0))
    env = CORRIDOR.env("none")
    env.testbed.start = lambda rng, episode: env.next_start  # the starts of the harness
    for number in range(120):
        env.next_start = CORRIDOR.draw(starts)
        agent.learn(env, 1, seed=3 if number == 0 else None)
    for stage in range(CORRIDOR.horizon):
        assert np.array_equal(method.agent.dataset(stage).targets, agent.dataset(stage).targets)
        assert np.array_equal(method.agent.dataset(stage).features, agent.dataset(stage).features)
    assert len(result.losses) == 120
    start = CORRIDOR.held_out(1)[0]
    assert method.policy(baselines.View(0, CORRIDOR.phi(start))) == agent.greedy(CORRIDOR.observation(start), 0)


def test_the_covered_suffix_can_be_stored_as_well():
    """Then there is a datum of every step from the last uncovered one of an episode on; as samples they stay valid."""
    plain, whole = (baselines.FPIPAC(epsilon=0.5, seed=3, suffix=suffix) for suffix in (False, True))
    for method in (plain, whole):
        run(method, CORRIDOR, seed=3, steps=60 * CORRIDOR.horizon, noise="none")
    assert plain.agent.data_stored <= 60 < whole.agent.data_stored
    last = whole.agent.dataset(CORRIDOR.horizon - 1)
    assert last.episodes.tolist() == list(range(60))  # no later step: the last stage has a datum of every episode
    theta = CORRIDOR.weights(CORRIDOR.horizon - 1, lambda state: 0.0)
    assert last.targets == pytest.approx(last.features @ theta)
    assert len(whole.agent.dataset(0).targets) > len(plain.agent.dataset(0).targets)
    assert (plain.constants, whole.constants) == ("theory", "none")


@pytest.mark.slow
def test_fpi_fails_on_gate_and_others_do_not():
    for seed in range(5):
        assert run(baselines.FPIPAC(epsilon=0.3), GATE, 300, seed=seed).gap == pytest.approx(0.2)
        assert run(baselines.FPIPAC(epsilon=0.3, freeze="never"), GATE, 300, seed=seed).gap == pytest.approx(0.2)
        for method in (baselines.LSVI_UCB(), baselines.NullSpace(), baselines.MonteCarloLSPI()):
            assert run(method, GATE, 500, seed=seed).gap == pytest.approx(0), method
        assert run(baselines.CAPI(100), GATE, 2_000, seed=seed).gap == pytest.approx(0)


def test_monte_carlo_is_the_ridge_regression_of_all_returns():
    method = baselines.MonteCarloLSPI(ridge=0.2)
    watched = Watched(World(HUBS, 0), episodes=30)
    seen = []

    def reset(given=baselines.Online.reset):
        seen.append([])
        view = given(watched)
        seen[-1].append([view])
        return view

    def step(action, given=baselines.Online.step):
        reward, after = given(watched, action)
        seen[-1][-1] += [action, reward]
        seen[-1].append([after])
        return reward, after

    watched.reset, watched.step = reset, step
    with pytest.raises(baselines.BudgetSpent):
        for _ in method.run(watched):
            pass
    for stage in range(HUBS.horizon):
        x = np.array([episode[stage][0].features[episode[stage][1]] for episode in seen[:30]])
        y = np.array([sum(step[2] for step in episode[stage:-1]) for episode in seen[:30]])
        expected = np.linalg.solve(x.T @ x + 0.2 * np.eye(HUBS.dim), x.T @ y)
        assert method.w[stage] == pytest.approx(expected)


# The harness


def test_verdicts_say_whose_theorem_covers_what():
    hubs, corridor, gate = (baselines.facts(each, "bernoulli") for each in (HUBS, CORRIDOR, GATE))
    pac = baselines.FPIPAC()
    assert [pac.verdict(each) for each in (hubs, corridor, gate)] == ["yes", "yes", "needs deterministic transitions"]
    assert baselines.LSVI_UCB().verdict(hubs) == "scaled constants"
    assert baselines.LSVI_UCB().verdict(corridor) == "needs Bellman completeness"
    assert baselines.OCP().verdict(hubs) == "needs rewards without noise"
    assert baselines.OCP().verdict(baselines.facts(HUBS, "none")) == "yes"
    assert baselines.MonteCarloLSPI().verdict(hubs) == "no theorem"
    assert baselines.FPIPAC(freeze=20).verdict(hubs) == "no theorem"
    assert baselines.FPIRegret().verdict(hubs) == "scaled constants"
    assert baselines.FPIRegret(scale=1).verdict(hubs) == "yes"
    assert baselines.BackwardSweep().verdict(gate) == "yes"


def test_a_run_has_a_row_per_mark_and_one_at_the_end():
    result = run(baselines.FPIPAC(), HUBS, 700)
    assert result.rows["steps"].tolist() == [102, 144, 201, 285, 402, 567, 700]
    assert np.isfinite(result.rows["gap"]).all() and np.isfinite(result.rows["played_gap"]).all()
    assert len(result.losses) == result.rows["episodes"][-1] - 1 == 233
    assert (result.losses >= -1e-12).all()
    assert (np.diff(result.rows["seconds"]) >= 0).all()
    planner = run(baselines.BackwardSweep(rollouts=1_000), HUBS, 500)
    assert np.isnan(planner.gap) and planner.rows["steps"][-1] == 500  # no policy before its budget was spent
    assert planner.steps_to(0.3) == np.inf


def test_the_first_mark_counts():
    rows = {"steps": np.array([100.0, 200.0, 300.0]), "gap": np.array([np.nan, 0.2, 0.5])}
    result = baselines.Run(rows, np.zeros(0))
    assert [result.steps_to(gap) for gap in (0.6, 0.2, 0.1)] == [200, 200, np.inf]


def test_gaps_are_those_of_the_evaluator():
    judge = baselines.Judge(CORRIDOR, baselines.Online(World(CORRIDOR, 0)))
    expected = CORRIDOR.gaps(CORRIDOR.held_out(200), lambda state: 1).mean()
    assert judge.gap(lambda view: 1) == pytest.approx(expected)
    halves = baselines.Mixture((lambda view: 1, lambda view: 0))
    assert judge.gap(halves) == pytest.approx((judge.gap(lambda view: 1) + judge.gap(lambda view: 0)) / 2)
