"""Results read back from a folder, and the figure in the paper's layout."""

import json
import shutil

import numpy as np
import pytest
import result_folders

from fpi import model_files
from fpi.cli import study_report
from fpi.errors import DamagedResults, InputError
from fpi.report import figures, read
from fpi.statistics import CURVE_RESAMPLES, bootstrap_interval


@pytest.fixture
def folder(tmp_path):
    return result_folders.write(tmp_path, result_folders.study())


def test_settings_are_grouped_and_named(folder):
    found = read(folder)
    assert list(found.panels) == ["CartPole-v1", "InvertedPendulum-v4"]
    assert [setting.label for setting in found.panels["CartPole-v1"]] == found.labels == ["exact", "last-20", "never"]
    assert [run.seed for run in found.settings[0].runs] == [0, 1, 2]
    assert found.asked == len(list(found.runs)) == 18


def test_small_multiples_where_more_than_freezing_differs(tmp_path):
    names = [f"CartPole-v1--tilings-{n}--{freeze}" for n in (1, 2, 4) for freeze in ("exact", "never")]
    found = read(result_folders.write(tmp_path, result_folders.study("freezing", names, episodes=50)))
    assert list(found.panels) == [f"CartPole-v1, tilings-{n}" for n in (1, 2, 4)]
    assert found.labels == ["exact", "never"]


def test_the_legend_lies_on_no_panel(folder):
    figure = read(folder).plot()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["exact", "last-20", "never"]
    assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)
    assert not any(axes.get_legend() for axes in figure.axes)


def test_curves_are_means_over_windows(folder):
    setting = read(folder).settings[0]
    rows, _ = model_files.read(folder / "runs" / "CartPole-v1--exact--seed-000" / "rows.safetensors")
    run = setting.runs[0]
    assert run.windows.tolist() == list(range(10, 1_101, 10))
    assert run.series["return"] == pytest.approx(rows["return"].reshape(110, 10).mean(axis=1))
    shares = rows["covered_steps"].reshape(110, 10).sum(axis=1) / rows["length"].reshape(110, 10).sum(axis=1)
    assert run.series["covered_share"] == pytest.approx(shares)
    assert run.series["exploring_share"] == pytest.approx((rows["stored_stage"] >= 0).reshape(110, 10).mean(axis=1))
    assert setting.growth.shape == (500, 11)
    assert setting.curve("stale")[0].tolist() == rows["probe.episode"].tolist()


def test_runs_shorter_than_the_windows_keep_every_episode(tmp_path):
    content = result_folders.study(settings=["CartPole-v1--exact"], seeds=1, episodes=7)
    run = next(read(result_folders.write(tmp_path, content)).runs)
    assert run.windows.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_curves_come_with_bootstrap_intervals(folder):
    setting = read(folder).settings[0]
    values = np.array([run.series["return"] for run in setting.runs])
    episodes, found = setting.curve("return")
    assert episodes.tolist() == setting.runs[0].windows.tolist()
    for column, expected in zip(found, bootstrap_interval(values, resamples=CURVE_RESAMPLES), strict=True):
        assert np.array_equal(column, expected)
    assert np.array_equal(found.estimate, values.mean(axis=0)) and (found.low < found.high).all()


def test_unfinished_runs_are_left_out(folder):
    manifest = folder / "runs" / "CartPole-v1--exact--seed-001" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"finished": None}))
    found = read(folder)
    assert [run.seed for run in found.settings[0].runs] == [0, 2]
    assert found.asked == 18


def test_damaged_files_are_named(folder):
    rows = folder / "runs" / "CartPole-v1--never--seed-002" / "rows.safetensors"
    rows.write_bytes(rows.read_bytes()[:100])
    with pytest.raises(DamagedResults, match="CartPole-v1--never--seed-002.* Delete the folder"):
        read(folder)
    (folder / "study.json").write_text("{")
    with pytest.raises(DamagedResults, match="study.json is damaged"):
        read(folder)
    (folder / "study.json").unlink()
    with pytest.raises(InputError, match="has no study.json. A folder of results is made by `fpi reproduce`"):
        read(folder)


def test_rows_without_a_column_are_named(folder):
    path = folder / "runs" / "CartPole-v1--never--seed-002" / "rows.safetensors"
    rows, meta = model_files.read(path)
    del rows["length"]
    model_files.write(path, rows, meta)
    with pytest.raises(DamagedResults, match="never--seed-002.* has no column length of 1,100 rows.*Delete"):
        read(folder)


def test_a_frame_has_a_row_per_episode_of_every_run(folder):
    frame = read(folder).to_frame()
    columns = ["setting", "seed", "episode", "return", "length", "stored_stage", "covered_steps"]
    assert frame.columns.tolist() == columns and len(frame) == 18 * 1_100
    rows, _ = model_files.read(folder / "runs" / "InvertedPendulum-v4--never--seed-001" / "rows.safetensors")
    run = frame[(frame["setting"] == "InvertedPendulum-v4--never") & (frame["seed"] == 1)]
    assert run["episode"].tolist() == list(range(1_100))
    for name in columns[3:]:
        assert np.array_equal(run[name], rows[name])


def test_results_say_what_they_are(folder):
    shutil.rmtree(folder / "runs" / "CartPole-v1--exact--seed-001")
    assert repr(read(folder)) == "<Results of figure2: 6 settings, 17 of 18 runs finished>"


def test_results_without_finished_runs_have_an_empty_frame_and_no_curves(folder):
    shutil.rmtree(folder / "runs")
    assert len(read(folder).to_frame()) == 0
    with pytest.raises(InputError, match="no run of this study is finished"):
        read(folder).plot()


# --- the figure --------------------------------------------------------------------------------------------


def test_the_caption_tells_window_seeds_and_band(folder):
    assert figures.caption(read(folder)) == (
        "Each point is the mean of 10 episodes over 3 seeds; shaded: 95% bootstrap interval over seeds."
    )


def test_axes_are_those_of_the_paper_and_hide_nothing(folder):
    cartpole, pendulum = read(folder).panels.values()
    assert figures.reward_limits(cartpole) == (0, 300)
    low, high = figures.reward_limits(pendulum)  # the invented rewards go from 8 to 40, the paper's axis from 10 to 30
    top = max(setting.curve("return")[1].high.max() for setting in pendulum)
    assert low < 10 and 30 < top < high


def test_colours_are_those_of_the_paper_and_differ():
    colours = figures.curve_colours(["exact", "last-20", "never", "widest"])
    assert (colours["exact"], colours["never"]) == (figures.RED, figures.BLUE)
    assert len(set(colours.values())) == 4


@pytest.mark.slow
def test_the_figure_has_a_panel_per_environment_and_a_curve_per_setting(folder):
    figure = read(folder).plot()
    assert figure.get_suptitle() == "Figure 2: what freezing does"
    assert [axes.get_title() for axes in figure.axes] == ["CartPole-v1", "InvertedPendulum-v4"]
    for axes in figure.axes:
        assert [line.get_label() for line in axes.lines] == ["exact", "last-20", "never"]
        assert len(axes.collections) == 3  # the bands
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("Episode", "Reward")
    figures.save(figure, folder / "figure.png")
    figures.save(figure, folder / "figure.pdf")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_many_panels_are_set_in_rows(tmp_path):
    names = [f"CartPole-v1--tilings-{n}--{freeze}" for n in range(1, 6) for freeze in ("exact", "never")]
    figure = read(result_folders.write(tmp_path, result_folders.study("freezing", names, 2, 60))).plot()
    assert len(figure.axes) == 5
    assert figure.axes[0].get_gridspec().get_geometry() == (2, 3)


# --- GIFs of the policy ------------------------------------------------------------------------------------


def test_pictures_shrink_by_whole_fractions():
    picture = np.zeros((401, 600, 3), np.uint8)
    picture[:2, :2] = 100
    (small,) = study_report._smaller(iter([picture]))
    assert small.shape == (200, 300, 3)
    assert small[0, 0].tolist() == [100, 100, 100] and small[0, 1].tolist() == [0, 0, 0]
