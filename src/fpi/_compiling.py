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
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from llvmlite import ir
from llvmlite.binding import parse_assembly
from numba import config, njit, types
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.np import linalg

from fpi._interrupts import held

PACKAGE = __name__.partition(".")[0]
FOLDER = Path(__file__).parent
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)|import[ \t]+([\w.]+))", re.M)


def _load_arrays() -> None:
    """Import what numba needs in any case, without its look for a BLAS: that imports all of scipy.linalg.

    There is one, since fpi needs scipy, and numba looks again where a function uses it.
    """
    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = look


_load_arrays()


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call: no fastmath, and division as numpy does it.

    Python's global lock stays, so that no two threads can meet in one object. A constant among the arguments of a call
    is a number like any other: numba would compile the function, and all that it calls, once more for each.

    Compiled callers take it in as a part (`jit_part`), so that it is compiled on its own only where Python calls it.
    """
    whole, part = _compiled(function), jit_part(_namesake(function))
    whole.get_call_template, whole.get_overload = part.get_call_template, part.get_overload
    return whole


def jit_part(function: Callable[..., Any]) -> Any:
    """The same for what is called by compiled functions only, and becomes a part of each.

    numba would optimise it alone, and again in its callers, and again in theirs: most of the time that compiling took.
    """
    part = _compiled(function, pipeline_class=_PartCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    part._insert = lambda *_: None  # Python never finds it compiled, and is refused
    part._compile_for_args = _refuse
    return part


def jit_inline(function: Callable[..., Any]) -> Any:
    """The same for small functions that are called for every datum: callers take them in."""
    return _compiled(function, inline="always")


class _PartLibrary(JITCodeLibrary):
    """Code for others to take in, as it was written; there is nothing to run."""

    def _optimize_final_module(self) -> None:
        part = self._final_module
        nothing = self._codegen._create_empty_module(self.name)  # type: ignore[no-untyped-call]
        for function in part.functions:
            if not function.is_declaration:
                function.linkage = "linkonce_odr"  # once in each caller, if it is not inlined
        for each in part.global_variables:
            if each.name.startswith("_ZN08NumbaEnv"):  # the place that numba asks for when it loads the function
                place = ir.GlobalVariable(nothing, ir.IntType(8).as_pointer(), each.name)
                place.linkage, place.initializer = "common", ir.Constant(place.value_type, None)
        self._shared_module, self._final_module = part, parse_assembly(str(nothing))


class _Lower(Lower):
    """Counts no reference to an argument: whoever calls has one, and counting takes as long as a look-up."""

    counts = True
    given: frozenset[str] = frozenset()

    def lower_assign(self, kind: Any, statement: Any) -> Any:
        name = statement.target.name
        self.counts = not isinstance(statement.value, numba_ir.Arg) or self._assignments(name) > 1
        if not self.counts:
            self.given |= {name}
        made = super().lower_assign(kind, statement)  # type: ignore[no-untyped-call]
        self.counts = True
        return made

    def incref(self, kind: Any, value: Any) -> None:
        if self.counts:
            super().incref(kind, value)  # type: ignore[no-untyped-call]

    def delvar(self, name: str) -> None:
        if name not in self.given:
            super().delvar(name)  # type: ignore[no-untyped-call]

    def _assignments(self, name: str) -> int:
        found = (each for block in self.blocks.values() for each in block.find_insts(numba_ir.Assign))
        return sum(each.target.name == name for each in found)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Lowering(NativeLowering):
    _name = "lowering_of_fpi"
    lowering_class = _Lower


class _Compiler(Compiler):
    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()  # type: ignore[no-untyped-call]
        for each in pipelines:
            each.passes = [(_Lowering if step is NativeLowering else step, text) for step, text in each.passes]
            each.finalize()
        return pipelines


class _PartCompiler(_Compiler):
    def compile_extra(self, function: Any) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), function.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        return super().compile_extra(function)  # type: ignore[no-untyped-call]


def _namesake(function: Any) -> Any:
    """The same function with a place of its own in numba's cache."""
    other = FunctionType(function.__code__, function.__globals__, function.__name__)
    other.__module__, other.__qualname__ = function.__module__, f"{function.__qualname__}_part"
    return other


def _refuse(*_: Any) -> Any:
    raise TypeError("this is a part of compiled functions, and Python cannot call it")


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    options = {"error_model": "numpy", "pipeline_class": _Compiler, **options}
    dispatcher = njit(cache=True, **options)(function)
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if not hasattr(file, "_source_stamp"):  # another numba: rather compile in every process than run stale code
        return _whole(njit(**options)(function))
    file._source_stamp = stamp(function.__module__)
    file._load_index = _readable(file._load_index)
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(map(_handed_over, args)), kws)
    return _whole(dispatcher)


def _readable(load_index: Callable[[], Any]) -> Callable[[], Any]:
    """Nothing is in the cache if what is there names types that stood elsewhere once."""

    def load() -> Any:
        try:
            return load_index()
        except (AttributeError, ImportError):
            return {}

    return load


def _handed_over(kind: Any) -> Any:
    """The type of an argument for those that compiled code calls: no constants, and objects are lent (`Lent`)."""
    plain = types.unliteral(kind)  # type: ignore[no-untyped-call]
    return getattr(plain, "lent", plain)


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
