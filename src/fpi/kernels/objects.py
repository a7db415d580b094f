"""Objects of compiled code: fields with fixed types, which own their arrays and replace them by longer ones.

Python holds a handle and reaches the arrays by functions only, so nothing that Python does can leave compiled code with
arrays that are too short. Compiled functions bind an array after whatever may replace it, never before.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.experimental import structref
from numba.extending import intrinsic
from numba.np.arrayobj import _empty_nd_impl

from fpi._compiling import jit_part
from fpi._interrupts import held
from fpi.kernels.lending import Kind

VECTOR = types.Array(types.float64, 1, "C")
SINGLES = types.Array(types.float32, 1, "C")
MATRIX = types.Array(types.float64, 2, "C")
INTS = types.Array(types.int64, 1, "C")
INDICES = types.Array(types.int32, 1, "C")
INDEX_ROWS = types.Array(types.int32, 2, "C")
FLAGS = types.Array(types.boolean, 1, "C")
FLAG_ROWS = types.Array(types.boolean, 2, "C")

new: Any = structref.new
"""An object of a type that `define` gave, with fields of 0 and no arrays; in compiled code only."""


class Handle(structref.StructRefProxy):
    """An object of compiled code in the hands of Python."""

    __slots__ = ()
    _numba_type_: Any = vars(structref.StructRefProxy)["_type"]  # a slot: the property would run Python code

    def __new__(cls, *_: object) -> "Handle":
        raise TypeError(f"a {cls.__name__} is made by compiled code")


def define(kind: type[Kind], handle: type[Handle], **fields: Any) -> Kind:
    """The type of objects with these fields; `kind` and `handle` must be at the top of their module to be cached."""
    structref.register(kind)  # type: ignore[no-untyped-call]
    structref.define_boxing(kind, handle)  # type: ignore[no-untyped-call]
    return kind(tuple(fields.items()))


def made(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """An object that compiled code makes. To hand it over numba runs Python, where it does not expect Ctrl-C."""
    with held:
        return make(*arguments, **named)


def records(dtype: np.dtype[Any], dims: int = 1) -> types.Array:
    """The type of an array of records."""
    return types.Array(from_dtype(dtype), dims, "C")


def entry(function: Any, *arguments: types.Type) -> Callable[..., Any]:
    """A compiled function for arguments of these types and no others, without a look at them: four times faster.

    For handles and numbers only, and only where the caller made the handle itself.
    """
    function.compile(arguments)
    found: Callable[..., Any] = function.overloads[arguments].entry_point
    return found


def _allocate(shape: Any, dtype: Any, clear: bool) -> Any:
    whole = isinstance(shape, types.Integer)
    if not (whole or isinstance(shape, types.UniTuple)) or not isinstance(dtype, types.DType | types.NumberClass):
        return None  # numba says that there is no such function
    array = types.Array(dtype.dtype, 1 if whole else shape.count, "C")
    sizes = types.int64 if whole else types.UniTuple(types.int64, shape.count)  # type: ignore[no-untyped-call]

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths = [arguments[0]] if whole else cgutils.unpack_tuple(builder, arguments[0])  # type: ignore[no-untyped-call]
        made = _empty_nd_impl(context, builder, array, lengths)  # type: ignore[no-untyped-call]
        if clear:
            size = builder.mul(made.itemsize, made.nitems)
            cgutils.memset(builder, made.data, size, 0)  # type: ignore[no-untyped-call]
        return made._getvalue()

    return array(sizes, dtype), make


def _empty(_: Any, shape: types.Type, dtype: types.Type) -> Any:
    """`np.empty`, which would take numba seconds to compile for all types of entries; so would `np.zeros`."""
    return _allocate(shape, dtype, clear=False)


def _zeros(_: Any, shape: types.Type, dtype: types.Type) -> Any:
    return _allocate(shape, dtype, clear=True)


empty: Any = intrinsic(_empty)
zeros: Any = intrinsic(_zeros)


@jit_part
def longer(array, needed, least, factor):
    """A copy of an array with room for `needed` entries and some more; what is new is 0."""
    room = max(least, int(factor * needed))
    new = zeros((room,) + array.shape[1:], array.dtype)  # noqa: RUF005  # which numba does not know
    for i in range(array.shape[0]):  # loops: slices would take seconds to compile
        if array.ndim == 1:
            new[i] = array[i]
        else:
            for j in range(array.shape[1]):
                new[i, j] = array[i, j]
    return new
