"""Files that are replaced whole or not at all, locks, and one reader for whatever may come from a stranger.

What is read here may have been planted: symbolic links are refused, devices and pipes too, and so is what is larger or
nested deeper than anything that fpi writes, before memory is spent on it.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from types import UnionType
from typing import Any

from fpi.errors import InputError, SaveError

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

LONGEST_PATH = 4096  # bytes
MOST_JSON = 64 * 2**20  # bytes; a study of thousands of settings takes a few of them
MOST_DEPTH = 32  # of objects within objects


def as_path(path: Any, what: str = "the path") -> Path:
    """A path that somebody passed; an InputError if it is none."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputError(f"{what} is {path!r}; pass text, or a pathlib.Path.")
    text = os.fspath(path)
    try:
        usable = bool(text) and "\0" not in text and len(os.fsencode(text)) <= LONGEST_PATH
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise InputError(
            f"{what} {text[:50]!r} cannot name a file: it is empty, longer than {LONGEST_PATH} bytes, or holds "
            "characters that no path has. Choose another."
        )
    return Path(text)


def resolved(path: Path) -> Path:
    """What a path leads to, links followed."""
    try:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise InputError(f"{path}: the working folder does not exist any more. Change to another one.") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, to be written; it takes its place if nothing was raised, else it is removed."""
    if not os.path.isdir(path.parent):
        raise SaveError(f"Could not save to {path}: there is no folder {path.parent}. Create it first.")
    _remove_strays(path.parent)
    temporary = path.with_name(f".fpi-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp")
    try:
        temporary.open("xb").close()  # nobody else's, and no link
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


def read_bytes(path: Path, most: int) -> bytes:
    """An ordinary file of at most so many bytes, and no link; anything else is an OSError."""
    with os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} are read")
        return file.read(size)


def read_json(path: Path, form: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object in a file, which has this form (see `misfit`); anything else is an OSError or a ValueError."""
    try:
        content: dict[str, Any] = json.loads(read_bytes(path, MOST_JSON))
        json.dumps(content, ensure_ascii=False).encode()  # text that cannot be written would fail much later
    except RecursionError:
        content = {}
    wrong = misfit(content, form) if content and is_flat(content) else "it is empty, or nested too deep"
    if wrong is not None:
        raise ValueError(wrong)
    return content


def misfit(content: Any, form: Any, name: str = "it") -> str | None:
    """What in JSON does not have a form, in words; None if all does.

    A form is a type, a function that says whether a value fits, [form] for a list, or {name: form} for an object with
    at least these; a name that may be missing ends in a question mark, and * is every name.
    """
    if isinstance(form, list | dict):
        if not isinstance(content, type(form)):
            return f"{name} is no {'list' if isinstance(form, list) else 'object'}"
        parts = [(f"{name}[{i}]", each, form[0]) for i, each in enumerate(content)] if isinstance(form, list) else []
        for key, inner in form.items() if isinstance(form, dict) else ():
            if key not in content and not key.endswith(("?", "*")):
                return f"{name} has no {key}"
            named = content if key == "*" else {key.rstrip("?")} & set(content)
            parts += [(each, content[each], inner) for each in named]
        return next(filter(None, (misfit(each, inner, part) for part, each, inner in parts)), None)
    fits = isinstance(content, form) if isinstance(form, type | UnionType) else form(content)
    return None if fits else f"{name} is {str(content)[:50]!r}"


def is_flat(content: Any, depth: int = MOST_DEPTH) -> bool:
    """Whether lists and objects are not nested deeper than anything that fpi writes."""
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return depth > 0 and all(is_flat(each, depth - 1) for each in parts)


def make_folder(path: Path) -> None:
    """Make a folder inside one that exists, if it is not there; a link in its place is an OSError."""
    with suppress(FileExistsError):
        os.mkdir(path)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise OSError(errno.ENOTDIR, "it is a symbolic link or a file, not a folder")


@contextmanager
def locked(path: Path, busy: str) -> Iterator[bool]:
    """Hold the lock file `path`, which stays empty; an InputError with this text if another process does.

    The lock goes with the process that holds it, however that ends. The file stays where the process was killed: yields
    whether it was found so.
    """
    descriptor, found = _lock(path, busy)
    try:
        yield found
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def lock_of(path: Path) -> Path:
    """The lock file for a file that people name, whatever they call it."""
    real = resolved(path)
    return real.with_name(f".fpi-{blake2b(os.fsencode(real.name), digest_size=8).hexdigest()}.lock")


def _lock(path: Path, busy: str) -> tuple[int, bool]:
    while True:
        try:
            descriptor, found = _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), False
        except FileExistsError:
            descriptor, found = _open(path, os.O_RDWR | os.O_CREAT), True
        try:
            if fcntl is not None:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise InputError(busy) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return descriptor, found
        os.close(descriptor)  # its holder has just removed it: lock the next


def _open(path: Path, flags: int) -> int:
    """Open an ordinary file; a link, folder, pipe or device is an OSError that says so."""
    only = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags | only, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, and may lead anywhere") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a folder, pipe or device, not a file")
    return descriptor


def _host() -> str:
    return re.sub(r"\W", "_", platform.node())[:64]


def _remove_strays(folder: Path) -> None:
    """Remove what writers killed on this machine left behind; a living writer's file is left alone."""
    pattern = re.compile(rf"\.fpi-{_host()}-(\d{{1,9}})-[0-9a-f]{{8,16}}\.tmp")
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
