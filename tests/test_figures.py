"""Results read back from a folder, and the figure in the paper's layout."""

import json

import numpy as np
import pytest
import result_folders

from fpi import model_files, plots, results
from fpi.cli import report
from fpi.errors import InputError


@pytest.fixture
def folder(tmp_path):
    return result_folders.write(tmp_path, result_folders.study())


def test_settings_are_grouped_and_named(folder):
    found = results.read(folder)
    assert list(found.panels) == ["CartPole-v1", "InvertedPendulum-v4"]
    assert [setting.label for setting in found.panels["CartPole-v1"]] == found.labels == ["exact", "last-20", "never"]
    assert [run.seed for run in found.settings[0].runs] == [0, 1, 2]
    assert found.asked == len(list(found.runs)) == 18


def test_small_multiples_where_more_than_freezing_differs(tmp_path):
    names = [f"CartPole-v1--tilings-{n}--{freeze}" for n in (1, 2, 4) for freeze in ("exact", "never")]
    found = results.read(result_folders.write(tmp_path, result_folders.study("freezing", names, episodes=50)))
    assert list(found.panels) == [f"CartPole-v1, tilings-{n}" for n in (1, 2, 4)]
    assert found.labels == ["exact", "never"]


def test_curves_are_means_over_windows(folder):
    setting = results.read(folder).settings[0]
    rows, _ = model_files.read(folder / "runs" / "CartPole-v1--exact--seed-000" / "rows.safetensors")
    run = setting.runs[0]
    assert run.windows.tolist() == list(range(10, 1_101, 10))
    assert run.series["return"] == pytest.approx(rows["return"].reshape(110, 10).mean(axis=1))
    shares = rows["covered_steps"].reshape(110, 10).sum(axis=1) / rows["length"].reshape(110, 10).sum(axis=1)
    assert run.series["covered_steps"] == pytest.approx(shares)
    assert run.series["stored_stage"] == pytest.approx((rows["stored_stage"] >= 0).reshape(110, 10).mean(axis=1))
    assert setting.growth.shape == (500, 11)
    assert setting.band("stale").episodes.tolist() == rows["probe.episode"].tolist()


def test_runs_shorter_than_the_windows_keep_every_episode(tmp_path):
    content = result_folders.study(settings=["CartPole-v1--exact"], seeds=1, episodes=7)
    run = next(results.read(result_folders.write(tmp_path, content)).runs)
    assert run.windows.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_bands_hold_the_mean_of_a_planted_distribution():
    """Of 400 intervals from 20 seeds about 95% hold the truth; the percentile bootstrap is a little too narrow."""
    values = np.random.default_rng(3).normal(5, 2, size=(20, 400))
    found = results.band(np.arange(400.0), values)
    assert found.mean == pytest.approx(values.mean(axis=0))
    assert 0.88 < ((found.low < 5) & (found.high > 5)).mean() < 0.97
    assert np.array_equal(found.low, results.band(np.arange(400.0), values).low)


def test_one_seed_has_no_band():
    found = results.band(np.arange(2.0), np.array([[1.0, 2.0]]))
    assert found.low.tolist() == found.mean.tolist() == found.high.tolist() == [1, 2]


def test_unfinished_runs_are_left_out(folder):
    manifest = folder / "runs" / "CartPole-v1--exact--seed-001" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"finished": None}))
    found = results.read(folder)
    assert [run.seed for run in found.settings[0].runs] == [0, 2]
    assert found.asked == 18


def test_damaged_files_are_named(folder):
    rows = folder / "runs" / "CartPole-v1--never--seed-002" / "rows.safetensors"
    rows.write_bytes(rows.read_bytes()[:100])
    with pytest.raises(InputError, match="CartPole-v1--never--seed-002.* Delete the folder"):
        results.read(folder)
    (folder / "study.json").write_text("{")
    with pytest.raises(InputError, match="study.json cannot be read"):
        results.read(folder)


# --- the figure --------------------------------------------------------------------------------------------


def test_the_caption_tells_window_seeds_and_band(folder):
    assert plots.caption(results.read(folder)) == (
        "Each point is the mean of 10 episodes over 3 seeds; shaded: 95% bootstrap interval over seeds."
    )


def test_axes_are_those_of_the_paper_and_hide_nothing(folder):
    cartpole, pendulum = results.read(folder).panels.values()
    assert plots.reward_limits(cartpole) == (0, 300)
    low, high = plots.reward_limits(pendulum)  # the invented rewards go from 8 to 40, the paper's axis from 10 to 30
    top = max(setting.band("return").high.max() for setting in pendulum)
    assert low < 10 and 30 < top < high


def test_colours_are_those_of_the_paper_and_differ():
    colours = plots.curve_colours(["exact", "last-20", "never", "widest"])
    assert (colours["exact"], colours["never"]) == (plots.RED, plots.BLUE)
    assert len(set(colours.values())) == 4


def test_the_figure_has_a_panel_per_environment_and_a_curve_per_setting(folder, monkeypatch):
    kept = []
    finish = plots._finish
    monkeypatch.setattr(plots, "_finish", lambda figure, *rest: (kept.append(figure), finish(figure, *rest)))
    plots.draw_rewards(results.read(folder), [folder / "figure.png", folder / "figure.pdf"])
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")
    panels = kept[0].axes
    assert [axes.get_title() for axes in panels] == ["CartPole-v1", "InvertedPendulum-v4"]
    for axes in panels:
        assert [line.get_label() for line in axes.lines] == ["exact", "last-20", "never"]
        assert len(axes.collections) == 3  # the bands
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("Episode", "Reward")


def test_many_panels_are_set_in_rows(tmp_path, monkeypatch):
    names = [f"CartPole-v1--tilings-{n}--{freeze}" for n in range(1, 6) for freeze in ("exact", "never")]
    found = results.read(result_folders.write(tmp_path, result_folders.study("freezing", names, 2, 60)))
    kept = []
    monkeypatch.setattr(plots, "_finish", lambda figure, *_: kept.append(figure))
    plots.draw_rewards(found, [tmp_path / "figure.png"])
    assert len(kept[0].axes) == 5
    assert kept[0].axes[0].get_gridspec().get_geometry() == (2, 3)


# --- GIFs of the policy ------------------------------------------------------------------------------------


def test_pictures_shrink_by_whole_fractions():
    picture = np.zeros((401, 600, 3), np.uint8)
    picture[:2, :2] = 100
    (small,) = report._smaller(iter([picture]))
    assert small.shape == (200, 300, 3)
    assert small[0, 0].tolist() == [100, 100, 100] and small[0, 1].tolist() == [0, 0, 0]
