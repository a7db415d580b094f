"""The page put together: what was run and what came out first, then the pictures, then how to do it again."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path

from fpi._files import write_bytes
from fpi._validation import counted
from fpi.errors import importing
from fpi.report import charts, figures, tables
from fpi.report.charts import Chart
from fpi.report.results import Results, uncounted


@dataclass
class Page:
    """Sections in their order, and the charts they refer to by number. What has no content is left out."""

    sections: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    """A link to every section."""
    drawn: list[Chart] = field(default_factory=list)

    def add(self, name: str, title: str, text: str, content: str) -> None:
        if content:
            self.contents.append(f'<li><a href="#{name}">{title}</a></li>')
            self.sections.append(
                f'<section id="{name}">\n<h2>{title}</h2>\n{tables.prose(text)}\n{content}\n</section>\n'
            )

    def add_charts(self, name: str, title: str, text: str, shown: Sequence[Chart]) -> None:
        cards = "".join(self._card(chart) for chart in shown)
        self.add(name, title, text, f'<div class="charts">{cards}</div>' if shown else "")

    def _card(self, chart: Chart) -> str:
        self.drawn.append(chart)
        options = "".join(f"<option>{escape(choice)}</option>" for choice in chart.get("choices", []))
        select = f'<select aria-label="setting">{options}</select>' if options else ""
        return (
            f'<figure class="card"><h3>{escape(chart["title"])}</h3>{select}'
            f'<div class="chart" data-chart="{len(self.drawn) - 1}"></div></figure>\n'
        )

    def text(self, title: str, about: str, lead: str, plotly: str = "") -> str:
        """One file with everything in it, whose policy lets it fetch nothing, whatever it holds."""
        return string.Template(_text("page.html")).substitute(
            title=escape(title),
            about=tables.prose(about),
            lead=escape(lead),
            plotly=plotly,
            contents="".join(self.contents),
            sections="".join(self.sections),
            charts=json.dumps(self.drawn, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        )


def write_page(results: Results) -> Path:
    """Write `page.html` into the folder of the results and return its path."""
    with importing("report", "page.html needs plotly"):
        from plotly.offline import get_plotlyjs
    films = [results.folder / f"policy-{setting.name}.gif" for setting in results.settings]
    text = compose(results, [film for film in films if film.exists()], str(get_plotlyjs()))
    path = results.folder / "page.html"
    write_bytes(path, text.encode())
    return path


def compose(found: Results, films: Sequence[Path], plotly: str) -> str:
    """The whole page as text."""
    page = Page()
    if found.panels:
        page.add("freezing", "What freezing is", FREEZING_TEXT, _text("freezing.html").strip())
    page.add("claims", "Claims", CLAIMS_TEXT if found.panels else "", tables.claims(found))
    if found.panels:
        page.add_charts(
            "rewards",
            "Learning curves",
            f"{figures.caption(found)} Click a name in the legend to hide or show its curve.",
            charts.rewards(found),
        )
    page.add("numbers", "In numbers", RESULTS_TEXT, tables.numbers(found))
    stale = " ".join(filter(None, (STALE_TEXT, uncounted(found))))
    page.add_charts("stale", "Stale data", stale, charts.shares(found, "stale", "stale share"))
    page.add_charts(
        "frozen", "Decisions at covered states", FROZEN_TEXT, charts.shares(found, "covered_share", "covered share")
    )
    page.add_charts(
        "exploring", "Exploring episodes", EXPLORING_TEXT, charts.shares(found, "exploring_share", "exploring")
    )
    page.add_charts("growth", "Data per stage", GROWTH_TEXT, charts.growth(found))
    page.add("policy", "The policy at work", POLICY_TEXT, _films(films))
    page.add("settings", "Settings", "", tables.settings(found))
    page.add("speed", "Speed", "", tables.speed(found))
    page.add("rerun", "Run it again", "", tables.rerun(found))
    return page.text(found.study["title"], found.study.get("about", ""), lead(found), plotly)


def _text(name: str) -> str:
    return (resources.files("fpi.report") / name).read_text("utf-8")


FREEZING_TEXT = (
    "Where its data cover a state, the policy is frozen for good: an episode stores its last uncovered step with the "
    "return from there on, and since every later step was frozen, this return never goes stale."
)
CLAIMS_TEXT = (
    "Two settings are compared seed by seed, by the mean return over the last tenth of the episodes. “Earns more” "
    "holds if the 95% interval of the differences lies above 0, is contradicted if it lies below, and is not shown "
    "otherwise."
)
STALE_TEXT = (
    "The share of stored returns that no longer belong to the policy: from the stored pair on, it would now act "
    "otherwise than was played. Exact freezing keeps this at zero."
)
FROZEN_TEXT = "The share of decisions taken at covered states, where the policy is greedy and explores no more."
EXPLORING_TEXT = "The share of episodes that stored a datum. Learning is over when it reaches zero."
GROWTH_TEXT = "How many data each stage holds as the run goes on, mean over seeds. Choose a setting above each picture."
POLICY_TEXT = (
    "The next episode as the agent of the first seed would play it: greedy at covered states, exploring at all others, "
    "as in the curves."
)
RESULTS_TEXT = (
    "Return over the last tenth of the episodes. IQM is the mean of the middle half of the seeds; in brackets 95% "
    "bootstrap intervals over seeds, where these differ. With few seeds they are too narrow, so claims that compare "
    "two settings are decided by the differences between runs of the same seed."
)


def lead(found: Results) -> str:
    """One sentence on what was run."""
    study = found.study
    done = sum(1 for _ in found.runs)
    name = f"Study {study['name']}" + (".toml" if study["size"] == "own" else f", size {study['size']}")
    if not found.asked:
        return f"{name}."
    lengths = sorted({setting.config["episodes"] for setting in found.settings})
    episodes = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
    settings, seeds = counted(len(found.settings), "setting"), counted(len(study["seeds"]), "seed")
    runs = counted(done, "run") if done == found.asked else f"{done} of {found.asked} runs, the others are unfinished"
    return f"{name}: {settings} × {seeds} × {episodes} episodes. {runs}, made with the {study['engine']} engine."


def _films(paths: Sequence[Path]) -> str:
    cards = ""
    for path in paths:
        name = escape(path.stem.removeprefix("policy-").replace("--", ", "))
        image = base64.b64encode(path.read_bytes()).decode()
        cards += (
            f'<figure class="card film"><img alt="An episode of {name}" src="data:image/gif;base64,{image}">'
            f"<figcaption>{name}</figcaption></figure>\n"
        )
    return f'<div class="charts">{cards}</div>' if cards else ""
