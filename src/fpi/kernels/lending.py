"""Objects and arrays of compiled code in the hands of functions that do not count references to them.

Counting is atomic, since threads might share what is counted. It would take a third of the time of learning, and nobody
needs it: whoever calls a function holds what it hands over, until the function returns.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_cast,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
)


class Kind(types.StructRef):
    """The type of an object that compiled code makes."""

    @property
    def lent(self) -> "Lent":
        """What compiled functions get of it from others, see `_compiling.jit_part`."""
        return Lent(self)


class Lent(types.Type):
    """An object that another function holds meanwhile, and through its fields the objects that it holds.

    It cannot be kept: compiled functions that return one, or store it, are not compiled.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        super().__init__(f"Lent({type(kind).__module__}.{type(kind).__name__})")

    def can_convert_from(self, _: Any, other: types.Type) -> Conversion | None:
        return Conversion.safe if other == self.kind else None


register_model(Lent)(models.OpaqueModel)


@lower_cast(Kind, Lent)  # type: ignore[untyped-decorator, no-untyped-call]
def _lend(context: Any, builder: Any, kind: Kind, _: Lent, value: Any) -> Any:
    """Where the fields stand."""
    fields = structref._Utils(context, builder, kind).get_data_pointer(value)  # type: ignore[no-untyped-call]
    return builder.bitcast(fields, context.get_value_type(types.voidptr))


@infer_getattr
class _LentFields(AttributeTemplate):
    key = Lent

    def generic_resolve(self, lent: Lent, name: str) -> Any:  # type: ignore[override]
        field = lent.kind.field_dict.get(name)
        return field.lent if isinstance(field, Kind) else field


def _fields(context: Any, builder: Any, lent: Lent, value: Any) -> Any:
    made = lent.kind.get_data_type()  # type: ignore[no-untyped-call]
    where = builder.bitcast(value, context.data_model_manager[made].get_value_type().as_pointer())
    return cgutils.create_struct_proxy(made)(context, builder, ref=where)  # type: ignore[no-untyped-call]


@lower_getattr_generic(Lent)  # type: ignore[untyped-decorator, no-untyped-call]
def _get(context: Any, builder: Any, lent: Lent, value: Any, name: str) -> Any:
    field, found = lent.kind.field_dict[name], getattr(_fields(context, builder, lent, value), name)
    if isinstance(field, Kind):
        return _lend(context, builder, field, field.lent, found)
    context.nrt.incref(builder, field, found)
    return found


@lower_setattr_generic(Lent)  # type: ignore[untyped-decorator, no-untyped-call]
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    lent, given = signature.args
    field, fields = lent.kind.field_dict[name], _fields(context, builder, lent, arguments[0])
    new, before = context.cast(builder, arguments[1], given, field), getattr(fields, name)
    context.nrt.incref(builder, field, new)
    context.nrt.decref(builder, field, before)  # last: it may be the same
    setattr(fields, name, new)


def _lend_here(_: Any, kind: Kind) -> Any:
    """An argument of a function as other functions would get it, see `Lent`; not for an object that it made itself."""

    def hand_over(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _lend(context, builder, kind, kind.lent, arguments[0])

    return kind.lent(kind), hand_over


lend: Any = intrinsic(_lend_here)


def _borrow(_: Any, array: types.Array) -> Any:
    """An array of an object without a reference of one's own, whose counting takes longer than a look-up.

    Only while the object is held and does not exchange the array; what is borrowed must not be kept or returned.
    """

    def lend(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lent = context.make_array(array)(context, builder, arguments[0])
        lent.meminfo = cgutils.get_null_value(lent.meminfo.type)  # type: ignore[no-untyped-call]
        lent.parent = cgutils.get_null_value(lent.parent.type)  # type: ignore[no-untyped-call]
        return lent._getvalue()

    return array(array), lend


borrow: Any = intrinsic(_borrow)
