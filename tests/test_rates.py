"""Studies of rates: losses and cost of runs on testbeds, slopes, and what is concluded from them."""

import json
import math
import types
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fpi
from fpi import rate_studies, studies, testbeds
from fpi.cli import app
from fpi.errors import InputError
from fpi.experiment import RunConfig, Study, run_study
from fpi.experiment import run as runs
from fpi.experiment.backends import Local
from fpi.experiment.study import Job
from fpi.report import claims, rates, read
from fpi.report.rates import Rate
from fpi.report.results import Run, Setting

pytestmark = pytest.mark.filterwarnings("ignore:.*maximum and minimum values are equal")


def setting(name, *columns, cost=()):
    """A setting with one run for every table of columns."""
    made = [Run(seed, {"cost": dict(cost)}, table) for seed, table in enumerate(columns)]
    return Setting(name, {}, made)


def lost(*gaps, stored=-1):
    return {"gap": np.array(gaps), "stored_stage": np.full(len(gaps), stored)}


# --- runs on testbeds -------------------------------------------------------------------------------------------------


def small_job(algorithm="PAC"):
    chosen = {"PAC": studies.theorem1, "Regret": studies.theorem2}[algorithm]("quick")
    name, config = next((name, each) for name, each in chosen.settings.items() if each.env != "fpi/DeepSea-v0")
    return Job(name, replace(config, episodes=90).complete(), 3, "gymnasium")


@pytest.mark.parametrize("algorithm", ["PAC", "Regret"])
def test_rows_have_what_every_episode_lost(algorithm):
    job = small_job(algorithm)
    run = runs.Run(job, None)
    run.play(math.inf)
    world, found = job.setting.find_testbed(), []
    agent = job.setting.make_agent()

    def note(episode):
        """V* by trying every sequence of actions."""
        here = world.state(episode.observations[0])
        best = max(sum(means(here, way)) for way in np.ndindex(*[world.actions] * world.horizon))
        found.append(best - sum(means(here, episode.actions)))

    def means(state, actions):
        for action in actions:
            yield world.mean(state, int(action))
            state = world.next(state, int(action))

    agent.learn(job.setting.make_env(), 90, seed=3, callback=note)
    np.testing.assert_allclose(run.rows["gap"], found, atol=1e-12)
    assert (run.rows["gap"] > 0).sum() > 20
    np.testing.assert_array_equal(run.rows["probe.data"][-1], agent.summary().data)


@pytest.mark.parametrize("algorithm", ["PAC", "Regret"])
def test_a_run_on_a_testbed_goes_on_from_a_checkpoint(algorithm):
    job = small_job(algorithm)
    whole, first = runs.Run(job, None), runs.Run(job, None)
    whole.play(math.inf)
    first.play(0.0)  # nothing
    first.play(1e-9)  # one portion
    assert 0 < first.episodes < 90
    second = runs.Run(job, first.checkpoint())
    second.play(math.inf)
    assert second.rows.keys() == whole.rows.keys()
    for name, column in whole.rows.items():
        np.testing.assert_array_equal(second.rows[name], column)
    assert second.checkpoint().meta["cost"]["bytes"] == whole.agent.datasets.store.nbytes


def test_only_the_agent_is_timed_and_not_the_episode_that_compiles(monkeypatch):
    """Every look at the clock is a second later: a decision takes one, and so does what ends an episode."""
    now = iter(range(10**6))
    monkeypatch.setattr(runs, "time", types.SimpleNamespace(process_time=lambda: next(now), perf_counter=lambda: 0.0))
    job = small_job("Regret")
    assert job.setting.arguments["horizon"] == 2
    run = runs.Run(job, None)
    run.play(math.inf)
    assert run.stopwatch.seconds == (90 - 1) * (2 + 1)


def test_features_of_its_own_has_a_testbed_only():
    with pytest.raises(InputError, match=r"CartPole-v1 is no testbed .* Choose TileCoding"):
        RunConfig(env="CartPole-v1", episodes=3, features={"type": "testbed"}).complete()


def test_a_run_elsewhere_has_neither_gaps_nor_cost():
    tiles = {"type": "TileCoding", "tiles": 2, "tilings": 2}
    job = Job("cart", RunConfig(env="CartPole-v1", episodes=4, features=tiles).complete(), 0, "gymnasium")
    run = runs.Run(job, None)
    run.play(math.inf)
    assert "gap" not in run.rows and run.checkpoint().meta["cost"] == {}


# --- slopes -----------------------------------------------------------------------------------------------------------


def test_a_planted_slope_is_found():
    rng, x = np.random.default_rng(0), [2, 4, 8, 16, 32]
    values = 3.0 * np.array(x) ** 1.7 * rng.uniform(0.9, 1.1, (20, 5))
    rate = Rate("episodes", "d", x, values, 2, "d²")
    assert rate.slope.low < 1.7 < rate.slope.high and rate.slope.high - rate.slope.low < 0.1
    assert str(rate).startswith("slope 1.7") and str(rate).endswith("d² has 2")


def of(factor, exponent, **more):
    x = [1, 2, 4]
    return Rate("episodes", "d", x, factor * np.array([x, x], float) ** exponent, 2, "d²", **more)


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [
        (of(1, 1.9), "holds"),
        (of(1, 2.05), "holds"),  # which logarithms may do
        (of(1, 2.2), "contradicted"),
        (of(1, 2.2, allowed=[10.0, 50.0, 250.0]), "holds"),  # whose slope is 2.3
        (of(1, 2.2, allowed=[10.0, 40.0, 160.0]), "contradicted"),
        (of(11, 1.9, allowed=[10.0, 50.0, 250.0]), "contradicted"),  # more than the bound
        (replace(of(1, 1.9), values=np.array([[1.0, 2.0, 3.0]])), "not shown: one seed"),
        (replace(of(1, 1.9), x=[1], values=np.ones((2, 1))), "not shown: too short"),
    ],
)
def test_verdicts_on_slopes(rate, verdict):
    assert claims._slope(rate)[0] == verdict


def test_counts_are_held_against_the_loss_of_their_setting():
    found = {
        "a": setting("a", lost(0.9, 0.3, 0.1, *[0.0] * 17), lost(0.9, 0.9, *[0.0] * 18)),
        "b": setting("b", lost(0.3, 0.3, 0.3, 0.2, *[0.0] * 16), lost(0.3, *[0.1] * 19)),
    }
    about = {"settings": ["a", "b"], "of": "episodes that lose more", "against": "1/ε̄", "x": [2.0, 4.0]}
    rate = rates.between_settings(found, **about, exponent=2, paper="1/ε̄²", losses=[0.5, 0.25])
    assert rate.values.tolist() == [[1, 3], [2, 1]]
    assert not rates.unfinished(found, **about, losses=[0.5, 0.25])
    assert rates.unfinished(found, **about, losses=[0.5, 0.05])  # the last run still loses more than this
    assert rates.unfinished({"a": setting("a", lost(*[0.0] * 20, stored=0))}, ["a"], "episodes that explore")
    verdict, _ = claims._rate(found, **about, exponent=2, paper="1/ε̄²", losses=[0.5, 0.05])
    assert verdict == "not shown: too short"


def test_regret_is_that_of_the_setting_that_lost_most_so_far():
    found = {
        "soon": setting("p--soon", lost(1, 1, 0, 0, 0, 0)),
        "late": setting("p--late", lost(0.5, 0.5, 0.5, 0.5, 0.5, 0.5)),
    }
    rate = rates.over_episodes(found, ["soon", "late"], [1, 2, 4, 6, 8], 0.5, "√T")
    assert rate.x == [1, 2, 4, 6]  # as far as was played
    assert rate.values.tolist() == [[1, 2, 2, 3]]
    assert rate.lines == {"soon": [1, 2, 2, 2], "late": [0.5, 1, 2, 3]}


# --- the studies ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_theorem_1_counts_what_an_independent_run_counts(tmp_path):
    chosen = studies.theorem1("quick")
    few = {name: each for name, each in chosen.settings.items() if name.startswith("LinBandit")}
    kept = replace(
        chosen, settings=few, claims=tuple(c for c in chosen.claims if set(c.arguments["settings"]) <= set(few))
    )
    study = run_study(kept, tmp_path, backend=Local(1, start="fork"))
    summary = claims.summarise(study, read(tmp_path))
    losing, exploring = summary["rates"]
    for column, d in enumerate((2, 4)):
        world = testbeds.LinBandit(d=d, K=10)
        config = few[f"LinBandit-d--{d}"]
        agent = fpi.PAC(
            world.features, actions=10, horizon=1, ridge=1.0, theta_bound=1.0, epsilon=config.arguments["epsilon"],
            explore="widest",
        )  # fmt: skip
        played = []
        history = agent.learn(world.env(), config.episodes, seed=1, callback=played.append)
        starts = [world.state(episode.observations[0]) for episode in played]
        means = [[world.mean(state, action) for action in range(10)] for state in starts]
        count = sum(max(row) - row[int(e.actions[0])] > 0.5 for row, e in zip(means, played, strict=True))
        assert losing["values"][1][column] == count > 100
        assert exploring["values"][1][column] == (history.stored_stage >= 0).sum() > count
        assert exploring["allowed"][column] == agent.theory.episodes_bound(agent.settings.epsilon)
    assert [claim["verdict"] for claim in summary["claims"]] == ["holds", "holds"]


@pytest.mark.parametrize("size", studies.SIZES)
def test_epsilon_is_the_one_that_theorem_1_picks(size):
    study = studies.theorem1(size)
    for claim in study.claims:
        for name, loss in zip(claim.arguments["settings"], claim.arguments["losses"], strict=False):
            theory = rate_studies.theory_of(study.settings[name])
            assert theory.gap(study.settings[name].arguments["epsilon"]) == pytest.approx(loss, rel=1e-6)


def test_elimination_begins_where_it_is_said_to():
    """At a tenth of the constants a level is full after 16 episodes, and the worse action goes from the next on."""
    study = studies.theorem2("quick")
    config = replace(study.settings["DeepSea-scaled-0.2--gap-1"], episodes=160).complete()
    begins = rate_studies.first_elimination(config, 1.0)
    run = runs.Run(Job("sea", config, 0, "gymnasium"), None)
    run.play(math.inf)
    assert begins == 80 and run.rows["gap"][:begins].sum() == begins / 2 and not run.rows["gap"][begins:].any()
    with_theory = study.settings["DeepSea-sound--gap-1"]
    assert rate_studies.first_elimination(with_theory, 1.0) > 5_000


def test_scaled_and_sound_rows_are_told_apart():
    study = studies.theorem2("default")
    for claim in study.claims:
        scales = {study.settings[name].arguments["scale"] for name in claim.arguments["settings"]}
        assert scales == ({1.0} if "sound" in claim.text else {rate_studies.SCALE}) and ("scaled" in claim.text) != (
            scales == {1.0}
        )
    assert {claim.kind for claim in study.claims} == {"rate", "regret"}


@pytest.mark.process
def test_the_command_draws_slopes_and_says_them(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    told = CliRunner().invoke(app, ["reproduce", "cost", "--quick", "--workers", "2", "--out", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert "Regret, processor seconds against T: as T² at most" in told.output and "No GIF" not in told.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(summary["rates"]) == len(summary["claims"]) == 11
    bytes_held = next(rate for rate in summary["rates"] if rate["of"] == "bytes" and rate["against"] == "T")
    assert 0.5 < bytes_held["slope"]["estimate"] < 1.5
    assert (tmp_path / "figure.png").stat().st_size > 10_000 and (tmp_path / "page.html").exists()


def test_studies_of_rates_are_data():
    for size in studies.SIZES:
        for name in ("theorem1", "theorem2", "cost"):
            study = studies.NAMED[name](size)
            assert isinstance(study, Study) and all(each.isascii() for each in study.settings)
            assert json.loads(json.dumps(study.to_data()))["claims"]
