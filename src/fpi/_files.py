"""Files that are replaced whole or not at all, and JSON objects in them."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fpi.errors import InputError, SaveError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, to be written; it takes its place if nothing was raised, else it is removed."""
    if not os.path.isdir(path.parent):
        raise SaveError(f"Could not save to {path}: there is no folder {path.parent}. Create it first.")
    _remove_strays(path.parent)
    temporary = path.with_name(f".fpi-{_host()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise SaveError(_why_not_saved(path, error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """The JSON object in a file; anything else is an InputError that ends with this advice."""
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. {advice}") from error
    return content


def _host() -> str:
    return re.sub(r"\W", "_", platform.node())[:64]


def _remove_strays(folder: Path) -> None:
    """Remove what writers killed on this machine left behind; a living writer's file is left alone."""
    pattern = re.compile(rf"\.fpi-{_host()}-(\d{{1,9}})-[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for stray in filter(None, map(pattern.fullmatch, os.listdir(folder))):
            try:
                os.kill(int(stray[1]), 0)
            except ProcessLookupError:
                (folder / stray[0]).unlink(missing_ok=True)
            except PermissionError:
                continue  # alive, and another user's


def _sync_folder(folder: Path) -> None:
    # The new file is whole already; some file systems cannot sync a folder, which is no failure to save.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _why_not_saved(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "Free some space, or save elsewhere."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "Save to a folder you may write to."
    else:
        remedy = "Check the path, or save elsewhere."
    kept = "The file that was there is unchanged." if os.path.exists(path) else "Nothing was left behind."
    return f"Could not save to {path}: {error.strerror or error}. {remedy} {kept}"
