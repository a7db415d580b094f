"""The command `fpi reproduce`: the paper's experiments, and studies of your own."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fpi import _files
from fpi._validation import counted
from fpi.cli import console
from fpi.cli.main import Command, app
from fpi.cli.options import RUNNING, Address, BackendName, chosen_size, flag, import_from_here, option
from fpi.errors import FpiError, InputError

if TYPE_CHECKING:
    from fpi.experiment import Study
    from fpi.report import Results

SIZE, FILES = "Size", "Files"


@app.command(cls=Command)
def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="figure1, figure2, figure2-paper, freezing, theorem1, theorem2, cost, domains, or a TOML file with a "
            "study of your own.",
        ),
    ],
    quick: Annotated[bool, flag("--quick", "A quick look: too small for most claims.", SIZE)] = False,
    full: Annotated[bool, flag("--full", "20 seeds, enough for every claim.", SIZE)] = False,
    seeds: Annotated[int | None, option("Number of seeds.", "N", SIZE, "as the study says", min=1)] = None,
    episodes: Annotated[int | None, option("Episodes of every run.", "N", SIZE, "as the study says", min=1)] = None,
    engine: Annotated[
        Literal["gymnasium", "compiled"],
        option(
            "gymnasium steps Gymnasium's environments, compiled their compiled versions, many times faster. Results "
            "are identical.",
            "NAME",
            RUNNING,
        ),
    ] = "gymnasium",
    backend: BackendName = "local",
    address: Address = None,
    workers: Annotated[
        int | None, option("Runs at a time. Results do not depend on it.", "N", RUNNING, "all cores", min=1)
    ] = None,
    out: Annotated[Path | None, option("Folder for the results.", "DIR", FILES, "runs/STUDY-SIZE")] = None,
    trust: Annotated[
        bool, flag("--trust", "Let a TOML file name environments of other modules, whose code is run.", FILES)
    ] = False,
) -> None:
    """Run one of the paper's experiments and report which of its claims hold.

    It may be interrupted at any time: the same command resumes it, with results
    that are identical to the bit. More seeds in the same folder only add runs.

    figure1        every Q^π is linear, and yet nothing is Bellman complete
    figure2        CartPole and InvertedPendulum, frozen exactly or not
    figure2-paper  the same with 2 tilings, as on the published axes
    freezing       how tilings, ranges, offsets and exploring change the gap
    theorem1       episodes that lose more than ε̄, against d, H and 1/ε̄
    theorem2       regret at two stages, against T and κ
    cost           processor time and memory, against T, H, |A|, d and 1/ε
    domains        control, MuJoCo, Atari, toy text, deep_sea, bandits: episodes
                   until they are solved. Every run has a cap of episodes and of
                   processor seconds: hours at most, --quick a minute or two

    Example: fpi reproduce figure2 --engine compiled
    """
    from fpi.cli import study_run
    from fpi.experiment import storage

    host = study_run.make_backend(backend, address, workers)
    warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)  # the study means this version
    warnings.filterwarnings("ignore", ".*maximum and minimum values are equal", UserWarning)  # testbeds of one state
    plan = _study(study, quick, full, trust).resized(seeds, episodes)
    if study.endswith(".toml"):
        _check_own(plan)
    place = out or Path("runs", f"{plan.name}-{plan.size}")
    for line in _opening(plan, engine, place):
        console.say(line)
    command = _command(study, plan.size, engine)
    for name, value in (("--seeds", seeds), ("--episodes", episodes), ("--out", out)):
        command += [] if value is None else [name, str(value)]
    command += ["--trust"] if trust else []
    whole = study_run.play(plan, place, shlex.join(command), host, engine)
    with storage.locked(place):
        _report(whole, engine, place)


def _opening(study: Study, engine: str, place: Path) -> Iterator[str]:
    """What is compared, what this size cannot tell about it, and what happens next."""
    yield study.title
    yield from filter(None, (study.about, _left_open(study, engine)))
    if study.settings:
        settings, seeds = len(study.settings), len(study.seeds)
        size = f"{counted(settings * seeds, 'run')}, {counted(settings, 'setting')} × {counted(seeds, 'seed')}"
        yield f"{size}, with the {engine} engine, into {place}."


def _left_open(study: Study, engine: str) -> str:
    """One sentence on the claims that are not judged at this size, with the commands that judge them."""
    from fpi import studies

    questions: dict[str, dict[str, None]] = {}  # by the size that tells, each once
    judged = study.judged
    for claim in study.claims:
        if claim not in judged:
            questions.setdefault(studies.smallest_size(study.name, claim), {})[claim.question] = None
    told = (
        f"{' or '.join(asked)}: `{shlex.join(_command(study.name, size, engine))}` can"
        for size, asked in sorted(questions.items(), key=lambda item: studies.SIZES.index(item[0]))
    )
    size = f"{counted(len(study.seeds), 'seed')} of {counted(study.episodes, 'episode')}"
    return f"{size} cannot tell {'; nor '.join(told)}." if questions else ""


def _command(study: str, size: str, engine: str) -> list[str]:
    flags = [f"--{size}"] if size in ("quick", "full") else []
    return ["fpi", "reproduce", study, *flags, *([] if engine == "gymnasium" else ["--engine", engine])]


def _report(study: Study, engine: str, out: Path) -> None:
    """Statistics into summary.json and onto the terminal, then everything to look at."""
    from fpi.cli.study_report import write_report
    from fpi.report import judged, read, summarise
    from fpi.report.results import uncounted

    found = read(out)
    if any(setting.judge is not None for setting in study.settings.values()):
        for kind, lines in judged.kinds(found).items():
            heads, run, left_out = judged.brief(lines)
            if run:
                console.show_columns(kind, heads, run)
            for told in left_out:
                console.say(told)
        for path in judged.write(found):
            console.say(f"{path} is written.")
        return
    summary = summarise(study, found) | {"left_open": _left_open(study, engine), "speed": found.speeds}
    _files.write_json(out / "summary.json", summary)
    for told in _warnings(found):
        typer.echo(f"Warning: {console.in_toml(told)}", err=True)
    if study.settings:
        _show_settings(study, summary)
        if told := uncounted(found):
            console.say(f"{told}\n")
        rows = [[name, f"{rate:,.0f}"] for name, rate in summary["speed"].items()]
        console.show_columns("Steps per second and core", ("what ran", "steps"), rows)
    if rows := [[claim["verdict"], claim["text"], claim["detail"]] for claim in summary["claims"]]:
        console.show_columns("Claim by claim", ("here", "claim", "because"), rows)
    if summary["left_open"]:
        console.say(summary["left_open"] + "\n")
    for line in write_report(out):
        console.say(line)


def _warnings(results: Results) -> Iterator[str]:
    """What the runs warned about, a line for every setting."""
    for setting in results.settings:
        texts = [f"{run.manifest['id']}: {text}" for run in setting.runs for text in run.manifest["warnings"]]
        if texts:
            more = f" ({len(texts) - 1:,} more like this in {setting.name}.)" if len(texts) > 1 else ""
            yield texts[0] + more


def _show_settings(study: Study, summary: dict[str, Any]) -> None:
    from fpi.statistics import Interval, over_seeds

    rows = []
    for name, each in summary["settings"].items():
        last = each["last"]
        bands = (over_seeds(Interval(**last[kind]), last["per_seed"]) for kind in ("mean", "iqm"))
        rows.append([name, *bands, "not counted" if each["stale"] is None else f"{each['stale']:.1%}"])
    title = f"Return over the last 10% of episodes, {counted(len(study.seeds), 'seed')}, 95% bootstrap bands"
    console.show_columns(title, ("setting", "mean", "interquartile mean", "stale data"), rows)


def _study(name: str, quick: bool, full: bool, trust: bool) -> Study:
    from fpi import studies

    size = chosen_size(quick, full)
    if name in studies.NAMED:
        return studies.NAMED[name](size)
    if not name.endswith(".toml"):
        raise InputError(f"there is no study {name}; choose {', '.join(studies.NAMED)}, or name a TOML file.")
    if quick or full:
        raise InputError("a study of your own has one size: leave --quick and --full out, use --seeds and --episodes.")
    if trust:
        import_from_here()
    own = studies.read(Path(name), trust)
    if any(setting.is_method for setting in own.settings.values()):
        raise InputError(f"{name} names methods to compare with: `fpi compare table1 --method` runs those.")
    return own


def _check_own(study: Study) -> None:
    """What does not fit is told before anything is begun, in the words of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come again when the study is run
            study.complete()
    except FpiError as error:
        raise type(error)(console.in_toml(str(error))) from error
