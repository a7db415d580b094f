"""The constants of the paper against numbers computed by hand, and what agents make of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fpi
import fpi.testbeds
from fpi.algorithms.theory import Constants, covering_data
from fpi.errors import InputError

PAPER = Constants(horizon=2, dim=3, ridge=0.5, delta=0.1, misspecification=0.01, theta_bound=4.0, mode="paper")
TIGHT = Constants(horizon=2, dim=3, ridge=0.5, delta=0.1, misspecification=0.01, theta_bound=4.0)


def test_the_papers_d_and_alpha_by_hand():
    D = 2 * 3 / 0.2**2 * math.log(1 + 4 * 0.2**-4 / 0.25)
    assert PAPER.dataset_bound(0.2) == pytest.approx(D)
    alpha = (
        math.sqrt(2 * 2 * (3 / 2 * math.log(1 + D / 1.5) + math.log(2 / 0.1)))
        + math.sqrt(D) * 0.01
        + math.sqrt(0.5) * 4
    )
    assert PAPER.alpha(D) == pytest.approx(alpha)
    assert PAPER.gap(0.2) == pytest.approx(4 * (alpha * 0.2 + 0.01))
    assert PAPER.episodes_bound(0.2) == pytest.approx(2 * D)


def test_regret_is_bounded_by_more_than_ht_from_where_it_is_said():
    constants = Constants(horizon=2, dim=3, ridge=0.5, delta=0.1, misspecification=0.0, theta_bound=4.0)
    first = constants.trivial_episodes()
    assert constants.regret_bound(first) == 2 * first > constants.regret_bound(first + 100) - 200 + 1
    assert math.isinf(PAPER.trivial_episodes())  # with so large a kappa all levels may lose H


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0, 3.0])
def test_the_tight_d_is_the_most_data_that_the_determinant_has_room_for(epsilon):
    """Each makes it more than 1 + eps^2 times as large, and it is at most (1 + n / (ridge d))^d times what it was."""
    constants = Constants(horizon=2, dim=3, ridge=0.05, delta=0.1, misspecification=0.01, theta_bound=4.0)
    room = lambda n: 3 * math.log(1 + n / 0.15) - n * math.log(1 + epsilon**2)  # noqa: E731
    D = constants.dataset_bound(epsilon)
    assert D == int(D) > 0 and room(D) >= 0 > room(D + 1)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("dim", [1, 3])
def test_no_order_of_features_stores_more_than_the_tight_d(dim, epsilon):
    """Always the direction that the data know least of, which makes the determinant grow as much as it can."""
    sigma, stored = 0.1 * np.eye(dim), 0
    while (phi := np.linalg.eigh(sigma)[1][:, 0]) @ np.linalg.solve(sigma, phi) > epsilon**2:
        sigma, stored = sigma + np.outer(phi, phi), stored + 1
    assert stored <= Constants(1, dim, 0.1, 0.1, 0.0, 1.0).dataset_bound(epsilon)


@pytest.mark.parametrize(("epsilon", "share"), [(0.15, 0.47), (1.0, 0.65)])
def test_the_tight_d_is_about_half_of_what_the_papers_inequality_allows(epsilon, share):
    """n <= (2d / eps^2) ln(1 + n / (ridge d)), from min(1, x) <= 2 ln(1 + x), by its largest solution."""
    constants = Constants(1, 6, 1.0, 0.05, 0.0, 1.0)
    n = 1e9
    for _ in range(200):
        n = 2 * 6 / epsilon**2 * math.log(1 + n / 6)
    assert constants.dataset_bound(epsilon) < share * n


def test_nothing_is_stored_where_the_ridge_leaves_no_doubt():
    assert Constants(1, 3, 2.0, 0.1, 0.0, 1.0).dataset_bound(1.0) == 0


def test_later_stages_have_less_noise_and_bounds_of_their_own():
    """H = 3: returns deviate like sqrt(3)/2, sqrt(2)/2 and 1/2, and gaps sum over the stages."""
    bounds = 5.0, 1.0, 2.0
    constants = Constants(3, 2, 0.5, 0.1, 0.01, bounds)
    n = constants.dataset_bound(0.25)
    log_det = 2 * math.log(1 + n / 1.0)
    alphas = [
        math.sqrt(left) / 2 * math.sqrt(log_det + 2 * math.log(3 / 0.1)) + math.sqrt(n) * 0.01 + math.sqrt(0.5) * bound
        for left, bound in zip((3, 2, 1), bounds, strict=True)
    ]
    assert [constants.alpha(n, stage=stage) for stage in range(3)] == pytest.approx(alphas)
    assert constants.gap(0.25) == pytest.approx(2 * sum(0.25 * alpha + 0.01 for alpha in alphas))
    union = 2 * math.log(2 * 3 * 4 / 0.1)
    first = math.sqrt(3) / 2 * math.sqrt(log_det + union) + math.sqrt(n) * 0.01 + math.sqrt(0.5) * 5.0
    assert constants.level_gap(2) == max(constants.stage_gaps(0.25, 2)) == pytest.approx(first / 4 + 0.01)
    paper = Constants(3, 2, 0.5, 0.1, 0.01, 5.0, "paper")
    assert paper.alpha(9, stage=2) == paper.alpha(9)


def test_a_bound_of_theta_for_each_stage_is_a_setting():
    agent = fpi.PAC(fpi.OneHot(2, 2), actions=2, horizon=2, theta_bound=[3, 1])
    assert agent.settings.theta_bound == (3.0, 1.0)
    assert agent.theory.bias(0) == 3 * agent.theory.bias(1)
    for wrong, said in (((3.0,), "1 numbers, but there are 2 stages"), ((3.0, 0.0), "one for each stage")):
        with pytest.raises(InputError, match=said):
            fpi.PAC(fpi.OneHot(2, 2), actions=2, horizon=2, theta_bound=wrong)


def test_what_explain_promises_sums_the_errors_of_the_stages_left():
    world = fpi.testbeds.HubNet(seed=0)
    agent = fpi.PAC(world.features, actions=world.actions, horizon=world.horizon, epsilon=0.9, ridge=0.25)
    agent.learn(world.env(), 400, seed=0)
    for state in world.held_out(20):
        why = agent.explain(world.observation(state), 0)
        later = sum(0.9 * agent.alpha(stage) for stage in range(1, world.horizon))
        assert why.gap == pytest.approx(2 * why.value_error.max() + 2 * later) or not why.covered
    assert why.covered or any(agent.explain(world.observation(state), 0).covered for state in world.held_out(20))


def test_tight_noise_is_half_the_papers():
    exact = Constants(2, 3, 0.5, 0.1, 0.0, 1e-9)
    paper = Constants(2, 3, 0.5, 0.1, 0.0, 1e-9, "paper")
    assert exact.alpha(100) == pytest.approx(paper.alpha(100) / 2, rel=1e-6)
    assert exact.alpha(100, log_det=1.0) < exact.alpha(100)
    assert paper.alpha(100, log_det=1.0) == paper.alpha(100)  # the paper does not look at the data


def test_large_epsilon_does_not_shrink_the_papers_d_below_what_its_proof_gives():
    assert PAPER.dataset_bound(3.0) == PAPER.dataset_bound(1.0)


@pytest.mark.parametrize("target", [50.0, 5.0, 1.0])
def test_epsilon_for_a_target_is_the_largest_that_meets_it(target):
    constants = Constants(2, 3, 0.5, 0.1, 0.0, 4.0)
    epsilon = constants.epsilon_for(target)
    assert constants.gap(epsilon) <= target * (1 + 1e-9)
    assert epsilon == 1.0 or constants.gap(epsilon * 1.001) > target


def test_impossible_targets_are_said_to_be_so():
    with pytest.raises(InputError, match="smallest that the theory can promise"):
        TIGHT.epsilon_for(0.01)
    with pytest.raises(InputError, match="finite number above 0"):
        TIGHT.epsilon_for(0.0)


def test_levels_by_hand():
    assert Constants(4, 3, 0.25, 0.1, 0.0, 1.0).levels() == math.inf
    assert Constants(4, 3, 0.25, 0.1, 0.1, 1.0).levels() == math.floor(math.log2(2 / 0.1)) + 1 == 5
    assert Constants(4, 3, 0.25, 0.1, 5.0, 1.0).levels() == 2
    D = 2 * 3 * 16 * math.log(1 + 2**10 / 0.25)
    alpha = (
        math.sqrt(2 * 2 * (3 / 2 * math.log(1 + D / 1.5) + math.log(2 * 2 * 4 / 0.1)))
        + math.sqrt(D) * 0.01
        + math.sqrt(0.5) * 4
    )
    assert PAPER.level_gap(2) == pytest.approx(alpha / 4 + 0.01)
    assert PAPER.level_gap(0) == math.inf


def test_regret_and_mistakes_by_hand():
    """H = 1, d = 2: levels 1 to 4 may lose all, D_l + 1 episodes each; level 5 loses 4 Delta_4."""
    exact = Constants(1, 2, 0.3, 0.05, 0.0, 1.0)
    sizes = [exact.dataset_bound(2.0**-level) for level in range(1, 6)]
    losses = [4 * exact.level_gap(level) for level in range(6)]
    assert losses[3] > 1 > losses[4] > losses[5]
    coarse = sum(sizes[:4]) + 4
    assert exact.regret_bound([0, 1, 1_000]) == pytest.approx([0, 1, 1_000])
    assert exact.regret_bound(20_000) == pytest.approx(coarse + losses[4] * (20_000 - coarse))
    later = coarse + sizes[4] + 1
    assert exact.regret_bound(later + 7) == pytest.approx(coarse + losses[4] * (sizes[4] + 1) + losses[5] * 7)
    assert exact.mistakes_bound(1.0) == 0
    assert exact.mistakes_bound(0.99) == exact.mistakes_bound(losses[4]) == pytest.approx(coarse)
    assert exact.mistakes_bound(0.99 * losses[4]) == pytest.approx(later)
    assert exact.mistakes_bound(0.0) == exact.mistakes_bound(1e-300) == math.inf


@pytest.mark.parametrize("kappa", [0.0, 0.001, 0.4])
@pytest.mark.parametrize("horizon", [1, 3])
def test_beginning_where_levels_promise_something_is_no_worse(horizon, kappa):
    plain = Constants(horizon, 2, 0.3, 0.05, kappa, 1.0)
    first = plain.first_promising_level()
    if kappa == 0.4:  # no level promises anything
        assert first == 1
        return
    assert first > 2 and plain.level_gap(first) < 0.5 <= plain.level_gap(first - 1)
    later = replace(plain, first_level=first)
    episodes = np.unique(np.geomspace(1, 1e12, 400).round())
    assert (later.regret_bound(episodes) <= plain.regret_bound(episodes) * (1 + 1e-12)).all()
    assert later.regret_bound(1e12) < plain.regret_bound(1e12)
    for epsilon in np.geomspace(1e-4, 2 * horizon, 50):
        assert later.mistakes_bound(epsilon) <= plain.mistakes_bound(epsilon)
    skipped = sum(plain.level_episodes(level) for level in range(1, first))
    some = plain.level_loss(first + 1) * 0.999
    assert plain.mistakes_bound(some) - later.mistakes_bound(some) == pytest.approx(skipped)


def test_the_first_level_may_lose_everything():
    """H = 1: level 5 is the first, and D_5 + 1 episodes lose up to 1; from level 6 on they lose 4 Delta_5."""
    exact = Constants(1, 2, 0.3, 0.05, 0.0, 1.0, first_level=5)
    D = exact.dataset_bound(2.0**-5)
    assert exact.level_loss(5) == 1 > exact.level_loss(6) == 4 * exact.level_gap(5)
    assert exact.regret_bound(D + 8) == pytest.approx(D + 1 + 7 * exact.level_loss(6))


def test_longer_horizons_lose_the_square_and_fill_every_stage():
    long = Constants(3, 2, 0.3, 0.05, 0.0, 1.0, scale=1e-3)
    D, loss = long.dataset_bound(0.5), 4 * 9 * long.level_gap(1)
    assert loss < 3
    assert long.level_episodes(1) == pytest.approx(3 * D + 1)
    assert long.regret_bound(3 * D + 11) == pytest.approx(3 * (3 * D + 1) + loss * 10)


def test_regret_grows_like_the_root_of_the_episodes():
    episodes = np.array([1e12, 1e14])
    few, many = Constants(1, 2, 0.3, 0.05, 0.0, 1.0).regret_bound(episodes)
    assert 10 < many / few < 13  # logarithms are left


def test_misspecification_leaves_a_loss_in_every_episode():
    """L-bar is 4: three levels fill up, and what the last may lose it may lose for ever."""
    rough = Constants(1, 2, 0.3, 0.05, 0.1, 1.0, scale=0.1)
    gaps = [rough.level_gap(level) for level in range(1, 4)]
    assert rough.levels() == 4 and gaps[2] == min(gaps)
    assert rough.level_loss(4) == pytest.approx(4 * gaps[2])
    filled = sum(rough.dataset_bound(2.0**-level) + 1 for level in (1, 2, 3))
    slope = np.diff(rough.regret_bound([filled, filled + 1_000]))
    assert slope == pytest.approx(1_000 * 4 * gaps[2])
    assert rough.mistakes_bound(4 * gaps[2]) == pytest.approx(filled)
    assert rough.mistakes_bound(3.9 * gaps[2]) == math.inf


def test_an_episode_pays_for_the_largest_gap_from_its_smallest_level_on():
    stiff = Constants(1, 40, 8.0, 0.05, 0.0, 1e-9, scale=0.01)
    gaps = [stiff.level_gap(level) for level in range(1, 8)]
    assert gaps[1] == max(gaps)  # level 1 stores next to nothing
    assert stiff.level_loss(2) == stiff.level_loss(3) == pytest.approx(4 * gaps[1])
    assert stiff.level_loss(4) == pytest.approx(4 * gaps[2])


def test_the_last_level_stores_nothing():
    short = Constants(1, 2, 0.3, 0.05, 0.0, 1.0, scale=0.1, max_level=2)
    assert short.level_episodes(3) == math.inf
    assert short.mistakes_bound(0.99 * short.level_loss(3)) == math.inf
    assert short.mistakes_bound(short.level_loss(3)) < math.inf


def bandit(epsilon, episodes, **settings):
    world = fpi.testbeds.LinBandit(d=4, K=3, seed=0)
    agent = fpi.PAC(
        world.features, actions=3, horizon=1, epsilon=epsilon, ridge=1.0, theta_bound=world.theta_bound, **settings
    )
    agent.learn(world.env(), episodes, seed=0)
    return agent, world.observation(world.held_out(1)[0])


def test_explain_gives_a_bound_that_bites():
    agent, observation = bandit(0.1, 800)
    why = agent.explain(observation, 0)
    assert why.covered and not why.vacuous and why.advice == ""
    assert why.gap == pytest.approx(2 * why.value_error.max()) and why.gap < 1
    assert f"at most {why.gap:.4g}" in str(why)


@pytest.mark.parametrize(
    ("epsilon", "episodes", "settings", "advice"),
    [
        (0.6, 300, {}, "an epsilon of at most"),
        (0.05, 20, {}, "not covered yet"),
        (0.6, 300, {"freeze": "never"}, "only exact freezing"),
        (0.6, 300, {"misspecification": 2.0}, "no epsilon would do"),
    ],
)
def test_explain_says_what_would_make_a_vacuous_bound_bite(epsilon, episodes, settings, advice):
    agent, observation = bandit(epsilon, episodes, **settings)
    why = agent.explain(observation, 0)
    assert why.vacuous and advice in why.advice and why.advice in str(why)


def test_constants_of_an_agent_follow_its_settings():
    agent, _ = bandit(0.3, 50, constants="paper")
    assert agent.alpha(0) == agent.alpha(0, prefix=3) == agent.theory.alpha(agent.dataset_bound)
    agent, _ = bandit(0.3, 50)
    assert agent.alpha(0, prefix=3) < agent.alpha(0) < agent.theory.alpha(agent.dataset_bound)


@pytest.mark.slow
def test_summary_counts_decisions_and_data_and_survives_a_file(tmp_path):
    world = fpi.testbeds.HubNet(seed=0)
    agent = fpi.PAC(world.features, actions=world.actions, horizon=world.horizon, epsilon=1.0, ridge=0.25)
    assert "nothing visited yet" in str(agent.summary())
    covered = np.zeros(world.horizon, int)

    def count(episode):
        for stage in range(episode.length):
            observation = episode.observations[stage]
            covered[stage] += before.explain(observation, stage).covered

    before = agent
    for _ in range(60):
        agent.save(tmp_path / "before.fpi")
        before = fpi.load(tmp_path / "before.fpi", features=world.features)
        agent.learn(world.env(), 1, seed=0 if agent.episodes == 0 else None, callback=count)
    summary = agent.summary()
    assert summary.episodes == 60 and (summary.visits == 60).all()
    assert (summary.covered == covered).all() and covered.any()
    assert summary.data.sum() == agent.data_stored
    agent.save(tmp_path / "agent.fpi")
    assert str(fpi.load(tmp_path / "agent.fpi", features=world.features).summary()) == str(summary)


def data_that_cover(features, ridge, epsilon):
    """Store random states of the unit square by their width, until none is uncovered for long."""
    rng = np.random.default_rng(0)
    inverse, stored, since = np.eye(features.dim) / ridge, 0, 0
    while since < 1_000:
        phi = features(rng.uniform(size=2), 0)[0]
        width2 = phi @ inverse @ phi
        since += 1
        if width2 > epsilon**2 * (1 + 1e-9):
            inverse -= np.outer(inverse @ phi, inverse @ phi) / (1 + width2)
            stored, since = stored + 1, 0
    return stored


@pytest.mark.parametrize("epsilon", [2.0, 1.0, 0.5, 0.25])
def test_what_covering_takes_is_what_was_measured(epsilon):
    apart = fpi.TileCoding([0, 0], [1, 1], tiles=5, tilings=1, actions=1)
    assert data_that_cover(apart, 1e-3, epsilon) == covering_data(25, 1e-3, epsilon, overlapping=False)
    for tilings in (2, 8):
        tiles = fpi.TileCoding([0, 0], [1, 1], tiles=4, tilings=tilings, actions=1)
        found = data_that_cover(tiles, 1e-3, epsilon) / covering_data(tiles.dim, 1e-3, epsilon, overlapping=True)
        assert 0.5 < found < 1.1
    waves = fpi.Fourier([0, 0], [1, 1], order=4, actions=1)
    found = data_that_cover(waves, 1e-3, epsilon)
    assert found < 1.6 * covering_data(waves.dim, 1e-3, epsilon, overlapping=True)
    assert found < Constants(1, waves.dim, 1e-3, 0.1, 0.0, 1.0).dataset_bound(epsilon) / 2


def test_covering_takes_nothing_where_the_ridge_covers_everything():
    for overlapping in (False, True):
        assert covering_data(9, 1.0, 1.0, overlapping) == covering_data(9, 0.25, 2.0, overlapping) == 0
        assert covering_data(9, 0.99, 1.0, overlapping) > 0
