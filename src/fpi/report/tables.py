"""Tables and lists as HTML. Every text that comes from a file is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from fpi.report.results import Results
from fpi.statistics import Interval, over_seeds


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Heads and cells are HTML already."""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(
        "<tr>"
        + "".join(f'<td data-head="{name}">{cell}</td>' for name, cell in zip(heads, row, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def prose(text: str) -> str:
    """A paragraph; what stands in backticks is typed or printed somewhere."""
    marked = re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
    return f"<p>{marked}</p>" if text else ""


def claims(results: Results) -> str:
    """What was judged, and what this size leaves open."""
    rows = [
        (escape(claim["text"]), _verdict(claim["verdict"]), escape(claim["detail"]))
        for claim in results.summary.get("claims", [])
    ]
    judged = table(("claim", "here", "what was found"), rows) if rows else ""
    return judged + prose(results.summary.get("left_open", ""))


def _verdict(text: str) -> str:
    kind = {"holds": "good", "contradicted": "bad"}.get(text.split(":")[0], "open")
    return f'<span class="verdict {kind}">{escape(text)}</span>'


def settings(results: Results) -> str:
    """What differs between settings as a table, what does not as a list."""
    if not results.settings:
        return ""
    flat = {setting.name: dict(_flatten(setting.config)) for setting in results.settings}
    keys = list(dict.fromkeys(key for config in flat.values() for key in config))
    values = {key: [config.get(key, "") for config in flat.values()] for key in keys}
    differing = [key for key in keys if len(set(values[key])) > 1]
    rows = [
        (f"<code>{escape(name)}</code>", *(escape(config.get(key, "")) for key in differing))
        for name, config in flat.items()
    ]
    shared = {key: values[key][0] for key in keys if key not in differing}
    return table(("setting", *map(escape, differing)), rows) + "<h3>The same in all settings</h3>" + pairs(shared)


def pairs(content: Mapping[str, object]) -> str:
    """Names and values; a name without a value is left out."""
    items = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>\n"
        for name, value in content.items()
        if value not in (None, "")
    )
    return f"<dl>{items}</dl>"


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, "" if key == "arguments" else f"{prefix}{key} ")
        elif value is not None and (prefix, key) != ("features ", "actions"):  # the agent's own
            yield prefix + key, _text(value)


def _text(value: Any) -> str:
    """Numbers without the noise of their last digits; study.json has them whole."""
    if isinstance(value, list):
        alone = (each[0] if isinstance(each, list) and len(each) == 1 else each for each in value)
        return f"[{', '.join(map(_text, alone))}]"
    if isinstance(value, float):
        return f"{value:.10g}"
    return value if isinstance(value, str) else json.dumps(value)


def numbers(results: Results) -> str:
    """The headline figure of every setting."""
    rows = [
        (
            f"<code>{escape(name)}</code>",
            *(over_seeds(Interval(**last[kind]), last["per_seed"]) for kind in ("mean", "iqm")),
            str(len(last["per_seed"])),
        )
        for name, last in ((name, found["last"]) for name, found in results.summary.get("settings", {}).items())
    ]
    return table(("setting", "mean", "IQM", "seeds"), rows) if rows else ""


def speed(results: Results) -> str:
    """Steps per second of one core."""
    rows = [(escape(name), f"{rate:,.0f}") for name, rate in results.summary.get("speed", {}).items()]
    return table(("what ran on one core", "steps per second"), rows) if rows else ""


def rerun(results: Results) -> str:
    """The command, and what it was run with."""
    study, manifests = results.study, [run.manifest for run in results.runs]
    told: dict[str, object] = {
        "git revision": _all([study, *manifests], "revision"),
        "begun": min((manifest["started"] for manifest in manifests), default=""),
        "ended": max((manifest["finished"] for manifest in manifests), default=""),
    }
    return f"<pre><code>{escape(study['command'])}</code></pre>" + pairs(told | study["versions"])


def _all(manifests: Sequence[Mapping[str, Any]], key: str) -> str:
    return ", ".join(sorted({str(manifest[key]) for manifest in manifests if manifest.get(key)}))
