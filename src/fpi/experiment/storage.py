"""What a study leaves on disk, and in which order, so that a kill between any two lines loses no more than a slice."""

from __future__ import annotations

import fcntl
import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import fpi
from fpi import _files, model_files
from fpi.errors import InputError, ModelFileError, SaveError
from fpi.experiment.run import Checkpoint
from fpi.experiment.study import Job


class RunFolder:
    """A manifest; `checkpoint.fpi` until the run is finished, then `rows.safetensors`, and for one seed `model.fpi`."""

    def __init__(self, out: Path, job: Job, made_by: dict[str, Any]) -> None:
        self.path = out / "runs" / job.id
        self.job = job
        self._made_by = made_by
        self.manifest: dict[str, Any] = read_json(self.path / "manifest.json") if self.path.exists() else {}
        if not self.finished and not (self.path / "checkpoint.fpi").exists():
            self.manifest = {}  # nothing was kept of it
        made_with = {name: self.manifest.get(name) for name in self._identity}
        if self.manifest and made_with != self._identity:
            name = next(name for name, value in self._identity.items() if made_with[name] != value)
            raise InputError(
                f"{self.path} holds a run with another {name}: {_difference(made_with[name], self._identity[name])}. "
                "Choose another folder, or delete that folder."
            )
        if self.finished:  # a kill may have come just before this
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
            self.path.mkdir(parents=True, exist_ok=True)
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
        path = self.path / "checkpoint.fpi"
        return Checkpoint(*read_tensors(path)) if path.exists() else None

    def keep(self, checkpoint: Checkpoint) -> None:
        model_files.write(self.path / "checkpoint.fpi", checkpoint.tensors, checkpoint.meta)

    def finish(self, checkpoint: Checkpoint, keep_model: bool) -> None:
        """The manifest comes last: a run without it is taken up at its checkpoint, and ends in the same files."""
        model_files.write(self.path / "rows.safetensors", checkpoint.rows, {"id": self.job.id})
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
        name = next(name for name in {**before, **now} if before.get(name) != now.get(name))
        return f"{name}: {_difference(before.get(name), now.get(name))}"
    return f"{before!r} there, {now!r} here"


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """One command at a time. The lock goes with the process that holds it, however it ends."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / ".lock").open("w")
    except OSError as error:
        raise SaveError(f"Results cannot be written to {out}: {error.strerror}. Choose another folder.") from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"another command is at work in {out}. Wait for it, stop it, or choose another folder."
            ) from error
        yield


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        return model_files.read(path)
    except ModelFileError as error:
        raise ModelFileError(
            f"{path} is damaged or missing. Delete the folder {path.parent} and give the same command again: only this "
            "run is played anew."
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Empty where a kill came before the first line was written."""
    return _files.read_json(path, f"Delete the folder {path.parent} to begin anew.") if path.exists() else {}


def versions() -> dict[str, str]:
    """Of the packages that can affect results."""
    found = {"fpi": fpi.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in ("gymnasium", "mujoco", "numba", "numpy", "ray", "safetensors", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def revision() -> str | None:
    """The commit of this very source, with -dirty if files differ from it; None outside of a checkout."""
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
