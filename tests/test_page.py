"""The page of `fpi reproduce`, in a real browser: it opens from disk without network and without errors."""

import math
import os
import re
import shutil
import sys
from dataclasses import replace

import gymnasium as gym
import imageio.v3 as iio
import pytest
import result_folders

import fpi
from fpi.cli import study_report
from fpi.report import charts, figures, read, tables, write_page
from fpi.report import page as report_page

STUDY = result_folders.study(seeds=3, episodes=1_100)
PATIENCE = 120_000  # milliseconds, for computers that are busy with other tests
SIZES = {"desktop": (1280, "light"), "narrow": (420, "dark")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study with one model, so that there is a GIF, and its report."""
    folder = result_folders.write(tmp_path_factory.mktemp("results"), STUDY)
    env = gym.make("CartPole-v1")
    agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=2, tilings=1), actions=2, horizon=500, epsilon=1.0, ridge=1e-3)
    agent.learn(env, 20, seed=0)
    agent.save(folder / "runs" / "CartPole-v1--exact--seed-000" / "model.fpi")
    study_report.write_report(folder)
    return folder


# --- in a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        why = "there is no chromium here, so the page of `fpi reproduce` was not tested in a browser"
        (pytest.fail if os.environ.get("FPI_NEED_BROWSER") else pytest.skip)(why)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    # Chromium refuses to run as root inside its sandbox; what it opens here is our own page.
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=root)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=SIZES)
def opened(browser, folder, request):
    """The page, and what the browser complained about or asked for."""
    width, scheme = SIZES[request.param]
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.set_default_timeout(PATIENCE)
    tab.complaints, tab.requests, tab.scheme = [], [], scheme
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.on("request", lambda request: tab.requests.append(request.url))
    tab.goto((folder / "page.html").as_uri())
    tab.wait_for_selector("body[data-drawn]")
    yield tab
    tab.close()


@pytest.mark.process
def test_it_opens_without_network_and_without_errors(opened, folder):
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [(folder / "page.html").as_uri()]
    assert opened.locator(".chart svg.main-svg").count() >= 10
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.process
def test_it_may_fetch_nothing(browser, folder):
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto((folder / "page.html").as_uri())
    assert tab.evaluate("fetch('data:,x').then(() => 'fetched', () => 'refused')") == "refused"
    tab.close()


@pytest.mark.process
def test_tables_and_texts_are_there(opened):
    assert opened.inner_text("h1") == STUDY["title"]
    claims = opened.inner_text("#claims")
    assert "Exact freezing earns more than none on CartPole-v1" in claims and "not shown: CI includes 0" in claims
    assert result_folders.LEFT_OPEN.replace("`", "") in claims
    assert opened.locator("#claims p code").inner_text() == "fpi reproduce --full"
    assert opened.locator("header p code").all_inner_texts() == ["exact", "never"]
    assert opened.locator("#settings tbody tr").count() == opened.locator("#numbers tbody tr").count() == 6
    assert "187.0 (176.0 to 198.0)" in opened.inner_text("#numbers")
    assert opened.inner_text("#rerun code") == STUDY["command"]
    assert "compiled engine" in opened.inner_text(".lead")


@pytest.mark.slow
def test_the_contents_link_to_every_section(folder):
    text = (folder / "page.html").read_text()
    links = re.findall(r'<li><a href="#(\w+)">', text)
    assert links == re.findall(r'<section id="(\w+)">', text) and len(links) > 8


@pytest.mark.process
def test_no_table_has_to_be_pushed_aside(opened):
    tables = opened.locator(".wide")
    assert tables.count() >= 3
    assert tables.evaluate_all("tables => tables.filter(each => each.scrollWidth > each.clientWidth).length") == 0
    head = 'getComputedStyle(cell, "::before").content'
    shown = opened.locator("#numbers td").nth(1).evaluate(f"cell => {head}")
    assert ("mean" in shown) == (opened.viewport_size["width"] <= 640)


OVERHANG = """() => Math.max(...[...document.querySelectorAll(".chart .main-svg")].map(
  drawn => drawn.getBoundingClientRect().right - drawn.closest(".chart").getBoundingClientRect().right))"""


@pytest.mark.process
def test_charts_stay_within_their_boxes(opened):
    """Also where a box gets narrower and the window does not, as when a scroll bar appears."""
    assert opened.evaluate(OVERHANG) <= 0
    for padding in ("60px", ""):
        opened.evaluate("width => { document.querySelector('main').style.paddingRight = width; }", padding)
        for _ in range(PATIENCE // 100):
            if abs(opened.evaluate(OVERHANG)) < 1:
                break
            opened.wait_for_timeout(100)
        assert abs(opened.evaluate(OVERHANG)) < 1


@pytest.mark.process
def test_buttons_lie_over_no_title_and_no_curve(opened):
    cards = opened.locator(".card:has(.chart)").all()
    assert len(cards) >= 10
    for card in cards:
        title = card.get_by_text(re.compile("^(CartPole-v1|InvertedPendulum-v4)$")).bounding_box()
        buttons, curves = card.locator(".modebar").bounding_box(), card.locator(".nsewdrag").bounding_box()
        beside = title["x"] + title["width"] <= buttons["x"]
        assert beside or title["y"] + title["height"] <= buttons["y"]
        assert buttons["y"] + buttons["height"] <= curves["y"]


@pytest.mark.process
def test_empty_cells_take_no_line_on_narrow_screens(opened):
    empty = opened.locator("#settings td:empty")
    assert empty.count() == 3  # CartPole has no grid of actions
    assert empty.first.is_visible() == (opened.viewport_size["width"] > 640)


READ = """text => {
  const [place, picture] = [text, text.ownerSVGElement].map(each => each.getBoundingClientRect());
  const box = text.previousElementSibling;
  const painted = box && box.tagName === "rect" && getComputedStyle(box).fill;
  const below = painted && painted !== "none" ? painted : getComputedStyle(text.closest("figure")).backgroundColor;
  const style = getComputedStyle(text);
  const size = parseFloat(style.fontSize) * picture.width / text.ownerSVGElement.viewBox.baseVal.width;
  return {
    size, ink: style.fill, below, left: place.left, right: place.right, top: place.top, bottom: place.bottom,
    inside: place.left >= picture.left && place.right <= picture.right && place.bottom <= picture.bottom,
  };
}"""


def contrast(first, second):
    """As the Web Content Accessibility Guidelines define it, of two colours rgb(r, g, b)."""

    def luminance(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    light = luminance(first) / luminance(second)
    return max(light, 1 / light)


@pytest.mark.process
def test_freezing_is_drawn_so_that_it_can_be_read(opened):
    assert "stores its last uncovered step" in opened.inner_text("#freezing p")
    words = opened.locator("#freezing text")
    shown = [words.nth(i).evaluate(READ) for i in range(words.count())]
    assert set(words.all_text_contents()) >= {"1", "9", "stored", "covered: frozen"}
    assert all(word["inside"] and word["size"] >= 12 for word in shown)
    assert all(contrast(word["ink"], word["below"]) >= 4.5 for word in shown)
    for i, one in enumerate(shown):
        for other in shown[:i]:
            beside = one["left"] >= other["right"] or other["left"] >= one["right"]
            assert beside or one["top"] >= other["bottom"] or other["top"] >= one["bottom"]


@pytest.mark.process
def test_the_last_uncovered_step_is_stored_and_the_covered_tail_frozen(opened):
    looks = opened.locator("#freezing rect").evaluate_all("boxes => boxes.map(box => box.className.baseVal)")
    stored = looks.index("stored")
    assert set(looks[stored + 1 :]) == {"covered"} and set(looks[:stored]) == {"covered", "uncovered"}


@pytest.mark.process
def test_the_legend_switches_a_curve_with_its_band(opened):
    from playwright.sync_api import expect

    chart = opened.locator("#rewards .chart").first
    curves, entry = chart.locator(".scatterlayer .trace"), chart.locator(".legendtoggle").nth(1)
    expect(curves).to_have_count(6)
    entry.click()
    expect(curves).to_have_count(4)
    ink = chart.locator(".xtick text").first
    before = ink.evaluate("text => text.style.fill")
    opened.emulate_media(color_scheme="light" if opened.scheme == "dark" else "dark")
    expect(ink).not_to_have_css("fill", before)
    expect(curves).to_have_count(4)  # new colours, and the curve stays hidden
    opened.emulate_media(color_scheme=opened.scheme)
    entry.click()
    expect(curves).to_have_count(6)


@pytest.mark.process
def test_a_zoom_stays_when_the_colours_change(opened):
    from playwright.sync_api import expect

    chart = opened.locator("#stale .chart").last
    chart.scroll_into_view_if_needed()
    episodes = "place => place.layout.xaxis.range"
    ink = chart.locator(".xtick text").first
    whole, before = chart.evaluate(episodes), ink.evaluate("text => text.style.fill")
    plane = chart.locator(".nsewdrag").bounding_box()
    middle = plane["y"] + plane["height"] / 2
    chart.evaluate("place => { place.on('plotly_relayout', () => { place.dataset.zoomed = 'yes'; }); }")
    opened.mouse.move(plane["x"] + 0.3 * plane["width"], middle)
    opened.mouse.down()
    opened.mouse.move(plane["x"] + 0.7 * plane["width"], middle, steps=3)
    opened.mouse.up()
    expect(chart).to_have_attribute("data-zoomed", "yes")
    zoomed = chart.evaluate(episodes)
    assert zoomed[1] - zoomed[0] < 0.6 * (whole[1] - whole[0])
    opened.emulate_media(color_scheme="light" if opened.scheme == "dark" else "dark")
    expect(ink).not_to_have_css("fill", before)
    assert chart.evaluate(episodes) == zoomed
    opened.emulate_media(color_scheme=opened.scheme)


@pytest.mark.process
def test_hovering_tells_the_numbers(opened):
    chart = opened.locator("#rewards .chart").first
    chart.scroll_into_view_if_needed()
    chart.locator(".nsewdrag").hover()
    chart.locator(".hoverlayer .legend").wait_for()
    assert re.search(r"exact : \d+\.\d \(\d+\.\d to \d+\.\d\)", chart.locator(".hoverlayer").text_content())


@pytest.mark.process
def test_a_setting_can_be_chosen_for_the_heat_map(opened):
    card = opened.locator("#growth .card").first
    visible = "place => place.data.filter(trace => trace.visible).map(trace => trace.name)"
    assert card.locator(".chart").evaluate(visible) == ["exact"]
    card.locator("select").select_option("never")
    assert card.locator(".chart").evaluate(visible) == ["never"]


@pytest.mark.process
def test_curves_stand_out_from_the_page(opened):
    panel = opened.locator("#rewards .card").first.evaluate("card => getComputedStyle(card).backgroundColor")
    for colour in (*figures.PAPER_COLOURS.values(), *figures.OTHER_COLOURS):
        shown = ", ".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
        assert contrast(f"rgb({shown})", panel) >= 3


@pytest.mark.process
def test_the_policy_is_shown(opened):
    picture = opened.locator("#policy img")
    assert picture.evaluate("image => [image.complete, image.naturalWidth]") == [True, 300]


# --- without a browser -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_charts_are_what_plotly_accepts(folder):
    objects = pytest.importorskip("plotly.graph_objects")
    found = read(folder)
    for chart in [*charts.rewards(found), *charts.shares(found, "stale", "stale share"), *charts.growth(found)]:
        objects.Figure(chart["data"], chart["layout"])


def test_stages_without_data_are_not_drawn(folder):
    found = read(folder)
    for setting in found.panels["CartPole-v1"]:
        for run in setting.runs:
            run.series["data"][:, 30:] = 0
    first, second = charts.growth(found)
    assert [len(trace["z"]) for trace in first["data"]] == [30] * 3
    assert [len(trace["z"]) for trace in second["data"]] == [60] * 3


def test_undefined_numbers_are_holes(folder):
    found = read(folder)
    found.settings[0].runs[0].series["stale"][3] = float("nan")
    chart = charts.shares(found, "stale", "stale share")[0]
    assert chart["layout"]["yaxis"]["tickformat"] == ".2~%"  # 0.2%, 0.4% and 1%: whole ones would all read 0% or 1%
    line = chart["data"][1]
    assert line["y"][3] is None and line["y"][4] is not None


def test_what_comes_from_files_is_escaped(tmp_path):
    evil = "</script><script>alert(1)</script>"
    content = result_folders.study(seeds=1, episodes=20) | {"title": evil, "command": evil}
    found = read(result_folders.write(tmp_path, content))
    claim = dict.fromkeys(("text", "verdict", "detail"), evil)
    renamed = [replace(setting, name=f"{evil}--{evil}") for setting in found.settings]
    text = report_page.compose(replace(found, summary={"claims": [claim]}, settings=renamed), [], plotly="")
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 6 and "\\u003cscript>alert(1)" in text


def test_a_study_without_runs_has_a_page_of_its_claims(tmp_path):
    content = result_folders.study("figure1") | {"settings": {}, "seeds": [], "title": "Figure 1"}
    result_folders.write(tmp_path, content)
    told = study_report.write_report(tmp_path)
    assert len(told) == 1 and not (tmp_path / "figure.png").exists()
    text = (tmp_path / "page.html").read_text()
    assert 'id="claims"' in text
    assert not any(f'id="{name}"' in text for name in ("rewards", "settings", "freezing"))


def test_unfinished_studies_say_so(tmp_path):
    result_folders.write(tmp_path, result_folders.study(seeds=2, episodes=20))
    shutil.rmtree(tmp_path / "runs" / "CartPole-v1--exact--seed-001")
    found = read(tmp_path)
    assert "11 of 12 runs, the others are unfinished" in report_page.lead(found)
    assert report_page.lead(found).startswith("Study figure2, size quick: 6 settings")
    own = replace(found, study=found.study | {"name": "mine", "size": "own"})
    assert report_page.lead(own).startswith("Study mine.toml: 6 settings")


def test_settings_without_a_count_of_stale_data_are_named(folder):
    found = read(folder)
    assert "not counted" not in report_page.compose(found, [], plotly="")
    for run in found.settings[0].runs:
        del run.rows["probe.stale"]
    text = report_page.compose(found, [], plotly="")
    assert "Stale data are not counted for <code>CartPole-v1--exact</code>, only for PAC with tiles" in text


def test_only_what_differs_fills_the_table_of_settings(folder):
    head = tables.settings(read(folder)).partition("</thead>")[0]
    assert re.findall("<th>(.*?)</th>", head) == ["setting", "env", "horizon", "freeze", "action_grid"]


def test_numbers_are_shown_without_their_last_digits():
    pairs = {"low": [-1, -math.pi / 2], "action_grid": [[-3.0], [0.5]], "arguments": {"ridge": 0.1 + 0.2, "on": True}}
    expected = [("low", "[-1, -1.570796327]"), ("action_grid", "[-3, 0.5]"), ("ridge", "0.3"), ("on", "true")]
    assert list(tables._flatten(pairs)) == expected


def test_without_plotly_the_figure_is_made_and_one_line_says_what_to_install(tmp_path, monkeypatch):
    result_folders.write(tmp_path, result_folders.study(seeds=1, episodes=20))
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    told = study_report.write_report(tmp_path)
    assert (tmp_path / "figure.png").exists() and (tmp_path / "figure.pdf").exists()
    assert not (tmp_path / "page.html").exists()
    assert told[-1] == 'page.html needs plotly, which is not installed: pip install "frozen-policy-iteration[report]".'


def test_the_gif_is_an_episode(folder):
    (film,) = folder.glob("policy-*.gif")
    assert film.name == "policy-CartPole-v1--exact.gif"
    pictures = iio.imread(film)
    assert len(pictures) > 3 and (pictures[0] != pictures[-1]).any()


@pytest.mark.slow
def test_a_gif_that_cannot_be_drawn_does_not_stop_the_page(tmp_path):
    result_folders.write(tmp_path, result_folders.study(seeds=1, episodes=20))
    (tmp_path / "runs" / "CartPole-v1--exact--seed-000" / "model.fpi").write_text("no model")
    told = study_report.write_report(tmp_path)
    assert any(line.startswith("No GIF of CartPole-v1: ") for line in told)
    assert (tmp_path / "page.html").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_the_same_files_give_the_same_page(folder):
    before = (folder / "page.html").read_bytes()
    write_page(read(folder))
    assert (folder / "page.html").read_bytes() == before
