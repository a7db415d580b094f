"""`jit`: numba's compiler, with a cache on disk that notices every edit.

numba keeps compiled functions on disk, and takes them for good as long as the file that holds their source is the same.
But compiled code contains what it calls and the constants it reads, wherever they stand. Here the stamp of a function
is a digest of its own file, of the files of fpi which that one imports, and so on: of all that it can reach. An edit of
any of them compiles it again, an edit of another does not. Whether indices are checked (NUMBA_BOUNDSCHECK) counts, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba import config, njit, types

from fpi._interrupts import held

PACKAGE = __name__.partition(".")[0]
FOLDER = Path(__file__).parent
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)|import[ \t]+([\w.]+))", re.M)


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call: no fastmath, and division as numpy does it.

    Python's global lock stays, so that no two threads can meet in one object. A constant among the arguments of a call
    is a number like any other: numba would compile the function, and all that it calls, once more for each.
    """
    return _compiled(function)


def jit_inline(function: Callable[..., Any]) -> Any:
    """The same for small functions that are called for every datum: callers take them in."""
    return _compiled(function, inline="always")


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    options["error_model"] = "numpy"
    dispatcher = njit(cache=True, **options)(function)
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if not hasattr(file, "_source_stamp"):  # another numba: rather compile in every process than run stale code
        return _whole(njit(**options)(function))
    file._source_stamp = stamp(function.__module__)
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(map(types.unliteral, args)), kws)
    return _whole(dispatcher)


def _whole(dispatcher: Any) -> Any:
    """Let Ctrl-C wait while a function is compiled or loaded, at the first call of each kind."""
    for name in ("_compile_for_args", "compile"):
        setattr(dispatcher, name, _held(getattr(dispatcher, name)))
    return dispatcher


def _held(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with held:
            return function(*arguments)

    return call


@cache
def stamp(module: str) -> str:
    """Of everything that the compiled functions of a module of fpi depend on."""
    assert module.startswith(f"{PACKAGE}."), module
    checked = bool(config.BOUNDSCHECK)  # type: ignore[attr-defined]
    digest = blake2b(f"bounds check {checked}".encode(), digest_size=16)
    for name in sorted(reached(module)):
        source = _source(name) or ""
        digest.update(f"{name} {len(source)} {source}".encode())
    return digest.hexdigest()


def reached(module: str) -> set[str]:
    """The module and all of fpi that it imports, directly or by way of others."""
    found, left = {module}, [module]
    while left:
        fresh = set(imports(_source(left.pop()) or "")) - found
        found |= fresh
        left += fresh
    return found


def imports(source: str) -> Iterator[str]:
    """The modules of fpi that a source names in imports, at whatever place."""
    for package, names, module in IMPORT.findall(source):
        if module.partition(".")[0] == PACKAGE:
            yield module
        elif package.partition(".")[0] == PACKAGE:
            for name in re.findall(r"([\w*]+)(?:\s+as\s+\w+)?", names):
                inner = f"{package}.{name}"
                yield inner if _source(inner) is not None else package


@cache
def _source(module: str) -> str | None:
    """The text of a module, None if there is no such module."""
    place = FOLDER.joinpath(*module.split(".")[1:])
    read = __spec__.loader.get_data  # type: ignore[union-attr]  # reads from a zip file, too
    for path in (place / "__init__.py", place.with_suffix(".py")):
        try:
            return str(read(str(path)), "utf-8")
        except OSError:
            continue
    return None
