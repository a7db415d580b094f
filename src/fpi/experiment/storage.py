"""What a study leaves on disk, and in which order, so that a kill between any two lines loses no more than a slice."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fpi
from fpi import _files, model_files
from fpi._validation import is_real, is_whole
from fpi.baselines.harness import COLUMNS as MARKED
from fpi.errors import DamagedResults, FpiError, InputError, ModelFileError, SaveError
from fpi.experiment.run import COLUMNS, GAP, RANDOM, Checkpoint
from fpi.experiment.study import MOST_RUNS, Job, names_a_folder, probe_episodes, run_id
from fpi.run_config import RunConfig


class RunFolder:
    """A manifest; `checkpoint.fpi` until the run is finished, then `rows.safetensors`, and for one seed `model.fpi`."""

    def __init__(self, out: Path, job: Job, made_by: dict[str, Any]) -> None:
        self.path = out / "runs" / job.id
        self.job = job
        self._made_by = made_by
        self.manifest: dict[str, Any] = read_manifest(self.path)
        if not self.finished and not (self.path / "checkpoint.fpi").exists():
            self.manifest = {}  # nothing was kept of it
        made_with = {name: self.manifest.get(name) for name in self._identity}
        if self.manifest and made_with != self._identity:
            name = next(name for name, value in self._identity.items() if made_with[name] != value)
            raise InputError(
                f"{self.path} holds a run with another {name}: {_difference(made_with[name], self._identity[name])}. "
                "Choose another folder, or delete that folder."
            )
        if self.finished:
            read_rows(self.path, self._identity["setting"])
        elif self.manifest:
            self.checkpoint()

    def tidy(self) -> None:
        """Remove what a finished run no longer needs; a kill may have come just before this."""
        if self.finished:
            (self.path / "checkpoint.fpi").unlink(missing_ok=True)

    @property
    def _identity(self) -> dict[str, Any]:
        """What must be equal for rows to be equal, as JSON gives it back."""
        whole = {"setting": self.job.setting.to_data(), "seed": self.job.seed, "engine": self.job.engine}
        plain: dict[str, Any] = json.loads(json.dumps(whole))
        return plain

    @property
    def finished(self) -> bool:
        return bool(self.manifest.get("finished")) and (self.path / "rows.safetensors").exists()

    def begin(self) -> Checkpoint | None:
        """Make the folder, or find how far an earlier attempt came."""
        try:
            _files.make_folder(self.path.parent)
            _files.make_folder(self.path)
        except OSError as error:
            raise SaveError(f"{self.path} cannot be made: {error.strerror}. Choose another folder.") from error
        if not self.manifest:
            self.manifest = {
                "id": self.job.id,
                **self._identity,
                **self._made_by,
                "started": _now(),
                "finished": None,
            }
            _files.write_json(self.path / "manifest.json", self.manifest)
        return self.checkpoint()

    def checkpoint(self) -> Checkpoint | None:
        return read_checkpoint(self.path, self._identity["setting"])

    def keep(self, checkpoint: Checkpoint) -> None:
        model_files.write(self.path / "checkpoint.fpi", checkpoint.tensors, checkpoint.meta, follow=False)

    def finish(self, checkpoint: Checkpoint, keep_model: bool) -> None:
        """The manifest comes last: a run without it is taken up at its checkpoint, and ends in the same files."""
        model_files.write(self.path / "rows.safetensors", checkpoint.rows, {"id": self.job.id}, follow=False)
        if keep_model and checkpoint.model is not None:
            _files.write_bytes(self.path / "model.fpi", checkpoint.model)
        found = {name: checkpoint.meta[name] for name in ("seconds", "steps", "warnings", "cost")}
        self.manifest |= {"finished": _now(), **found}
        _files.write_json(self.path / "manifest.json", self.manifest)
        (self.path / "checkpoint.fpi").unlink(missing_ok=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _difference(before: Any, now: Any) -> str:
    """The first place where two values differ, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        name = next(name for name in {**before, **now} if before.get(name, ...) != now.get(name, ...))
        return f"{name}: {_difference(before.get(name), now.get(name))}"
    return f"{before!r} there, {now!r} here"


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """One command at a time, in a folder without links."""
    with ExitStack() as held:
        try:
            out.mkdir(parents=True, exist_ok=True)
            _refuse_links(out)
            busy = f"another command is at work in {out}. Wait for it, stop it, or choose another folder."
            held.enter_context(_files.locked(out / ".lock", busy))
        except OSError as error:
            raise SaveError(f"Results cannot be written to {out}: {error.strerror}. Choose another folder.") from error
        yield


# --- the one reader of what stands in a folder ------------------------------------------------------------------------


def _is_positive(value: Any) -> bool:
    return is_real(value) and value >= 0


def _is_seed(value: Any) -> bool:
    return is_whole(value) and 0 <= value < 2**63


def _is_setting(value: Any) -> bool:
    try:
        return RunConfig.from_data(value).is_method or is_whole(value["arguments"]["horizon"])
    except (FpiError, KeyError, TypeError):
        return False


MADE_BY = {"versions": {"*": str}, "revision": str | None}
STUDY = {
    **dict.fromkeys(("name", "title", "size", "engine", "command"), str),
    "about?": str,
    "seeds": [_is_seed],
    "settings": {"*": _is_setting},
    **MADE_BY,
}
MANIFEST = {
    "id": str,
    "setting": _is_setting,
    "seed": _is_seed,
    "engine": str,
    "started": str,
    "finished": str | None,
    **MADE_BY,
}
SO_FAR = {"seconds": _is_positive, "warnings": [str], "cost?": {"*": _is_positive}}
FINISHED = {**SO_FAR, "steps": _is_seed}
PROGRESS = {**FINISHED, "episodes": _is_seed, "finished": bool}
INTERVAL = {"estimate": object, "low": object, "high": object}
SUMMARY = {
    "claims": [{"text": str, "verdict": str, "detail": str}],
    "settings": {"*": {"last": {"mean": INTERVAL, "iqm": INTERVAL, "per_seed": [object]}}},
    "speed?": {"*": is_real},
    "left_open?": str,
}


def read_study(out: Path) -> dict[str, Any]:
    """The content of study.json; empty where there is none, as a kill before the first line leaves it."""
    _refuse_links(out)
    study = _read_json(out / "study.json", STUDY)
    names, seeds = study.get("settings", {}), study.get("seeds", [])
    if not all(map(names_a_folder, names)) or len(set(seeds)) < len(seeds) or len(names) * len(seeds) > MOST_RUNS:
        raise _damaged(out / "study.json", "its settings and seeds are not those of a study")
    return study


def read_summary(out: Path) -> dict[str, Any]:
    """The content of summary.json; empty where there is none."""
    return _read_json(out / "summary.json", SUMMARY)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run; empty where there is none."""
    _refuse_links(folder)
    path = folder / "manifest.json"
    manifest = _read_json(path, MANIFEST)
    if manifest.get("finished") and (wrong := _files.misfit(manifest, FINISHED)):
        raise _damaged_run(path, wrong)
    return manifest


def read_rows(folder: Path, setting: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The rows of a finished run."""
    path = folder / "rows.safetensors"
    rows, meta = _read_tensors(path)
    wrong = _wrong_rows(rows, setting, setting["episodes"])
    if meta.get("id") != folder.name:
        wrong = "it belongs to another run"
    if wrong:
        raise _damaged_run(path, wrong)
    return rows


def finished_runs(
    out: Path, name: str, setting: dict[str, Any], seeds: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any], dict[str, NDArray[Any]]]]:
    """Seed, manifest and rows of the runs of a setting that are finished."""
    for seed in seeds:
        folder = out / "runs" / run_id(name, seed)
        manifest = read_manifest(folder)
        if manifest.get("finished"):
            yield seed, manifest, read_rows(folder, setting)


def read_checkpoint(folder: Path, setting: dict[str, Any]) -> Checkpoint | None:
    """How far a run came, if anything was kept of it."""
    path = folder / "checkpoint.fpi"
    if not path.exists():
        return None
    tensors, meta = _read_tensors(path)
    agent, done = tensors.get("agent", np.zeros(0)), len(np.atleast_1d(tensors.get("return", ())))
    wrong = _files.misfit(meta, PROGRESS) or _wrong_rows(tensors, setting, done)
    if wrong or agent.dtype != np.uint8 or agent.ndim != 1 or not meta["episodes"] == done <= setting["episodes"]:
        raise _damaged_run(path, wrong or "it is not the checkpoint of such a run")
    return Checkpoint(tensors, meta)


def _wrong_rows(rows: dict[str, NDArray[Any]], setting: dict[str, Any], done: int) -> str | None:
    """What is wrong with the rows of so many episodes, in words."""
    if RunConfig.from_data(setting).is_method:
        return _wrong_marks(rows)
    judged = setting.get("judge") is not None
    if judged:  # such a run may end before all its episodes
        done = min(done, np.size(rows.get("return", ())))
    probes = [each for each in probe_episodes(setting["episodes"]) if each <= done and not judged]
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {name: (dtype, (done,)) for name, dtype in COLUMNS.items()}
    shapes["probe.episode"] = np.int64, (len(probes),)
    shapes["probe.data"] = np.int64, (len(probes), setting["arguments"]["horizon"])
    if "probe.stale" in rows:
        shapes["probe.stale"] = np.float64, (len(probes),)
    if GAP in rows:
        shapes[GAP] = np.float64, (done,)
    if judged:
        times = np.size(rows.get("judge.mean", ()))
        shapes |= {"judge.episode": (np.int64, (times,)), "judge.mean": (np.float64, (times,))}
        shapes["random"] = np.float64, (RANDOM,)
    for name, (dtype, shape) in shapes.items():
        if name not in rows or rows[name].dtype != dtype or rows[name].shape != shape:
            return f"it has no column {name} of {shape[0]:,} rows"
    possible = (
        np.isfinite(rows["return"]).all()
        and (rows["length"] >= 1).all()
        and ((rows["covered_steps"] >= 0) & (rows["covered_steps"] <= rows["length"])).all()
        and ((rows["stored_stage"] >= -1) & (rows["stored_stage"] < rows["length"])).all()
        and rows["probe.episode"].tolist() == probes
        and (not judged or rows["judge.episode"][-1:].tolist() == [done])
    )
    return None if possible else "its numbers are not those of episodes"


def _wrong_marks(rows: dict[str, NDArray[Any]]) -> str | None:
    """The same for a method that is compared with, whose bill stands at marks."""
    marks = [rows.get(f"mark.{name}", np.zeros(0)) for name in MARKED]
    if any(each.dtype != np.float64 or each.shape != (max(1, len(marks[0])),) for each in marks):
        return "it has no bill of a method"
    loss = rows.get("loss", np.zeros((0, 0)))
    return None if loss.dtype == np.float64 and loss.ndim == 1 else "it has no losses of a method"


def _read_json(path: Path, form: dict[str, Any]) -> dict[str, Any]:
    damaged = _damaged_run if form is MANIFEST else _damaged
    if not os.path.lexists(path):
        return {}
    try:
        return _files.read_json(path, form)
    except OSError as error:
        raise damaged(path, error.strerror) from error
    except ValueError as error:
        raise damaged(path, error) from error


def _read_tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    try:
        return model_files.read(path, follow=False)
    except ModelFileError as error:
        raise _damaged_run(path, "it is missing, cut short, or does not match its digest") from error


def _refuse_links(folder: Path) -> None:
    """What a link leads to lies elsewhere, and is nobody's to read or write here."""
    try:
        entries = [Path(entry.path) for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        entries = []
    except OSError as error:
        raise _damaged(folder, error.strerror, "that folder") from error
    for path in (*entries, *((folder, folder.parent) if folder.parent.name == "runs" else ())):
        if path.is_symlink():
            raise _damaged(path, "it is a symbolic link, which may lead anywhere", "the link")


def _damaged(path: Path, reason: object, delete: str = "that file", kept: str = "finished runs are kept") -> FpiError:
    return DamagedResults(
        f"{path} is damaged: {reason}. Nothing was changed. Delete {delete} and give the command that made it again: "
        f"{kept}."
    )


def _damaged_run(path: Path, reason: object) -> FpiError:
    return _damaged(path, reason, f"the folder {path.parent}", "only this run is played anew")


@cache
def versions() -> dict[str, str]:
    """Of the packages that can affect results, as this process has them."""
    found = {"fpi": fpi.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in ("gymnasium", "mujoco", "numba", "numpy", "ray", "safetensors", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def revision() -> str | None:
    """The commit of this very source, as first asked for, with -dirty if files differ; None outside of a checkout."""
    git = ["git", "-C", str(Path(fpi.__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], check=True, capture_output=True)
        found = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
