"""Lowering rules that are called once for many equations, and what operands are made of.

The equations of a model repeat. Their functions are kept in the caches of the module, by all that
decides their operations::

    mul f32[8,16], mul f32[4]       one function (``OfAnyShape``), which gets the types of each
    x.T @ y, and the same again     one function of x and y (``seeing``), not of the transpose
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.interpreters import mlir as private_mlir
from jax._src.lib import jax_mlir_ext  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import func, hlo  # type: ignore[attr-defined]
from jax.interpreters import mlir

from impl._jax import lowering

#: The keys that this module adds to JAX's caches, whose own keys are equations.
_SHAPES, _SHARED = "samebits_shapes", "samebits_shared"
#: The operations of a call of C++, and of a fence.
_CALL, _BARRIER = "stablehlo.custom_call", "stablehlo.optimization_barrier"


class OfAnyShape:
    """A lowering rule that is called once for a module, and whose equations get any other shape.

    Its function computes each element from the elements at the same index, in the same way for all
    shapes. The types of its equations are then all that differs. To change them takes a tenth of
    the time of a trace.

    Args:
        rule: The rule, of arrays of one shape.
        kind: The values that decide the equations, apart from the shape and the dtypes.
    """

    def __init__(self, rule: Callable[..., Any], kind: Hashable) -> None:
        self._rule, self._kind = rule, kind

    def __call__(self, context: Any, *operands: Any) -> list[Any]:
        """Lowers the rule, for operands of one shape."""
        dtypes = tuple(aval.dtype for aval in (*context.avals_in, *context.avals_out))
        caches = context.module_context.lowering_cache
        kind = (_SHAPES, self._kind, dtypes, not context.avals_out[0].shape)
        if kind not in caches:
            caches[kind] = None if context.dim_var_values else self._of_one(context, operands)
        if caches[kind] is None:
            return [*self._rule(context, *operands)]
        function, values = caches[kind]
        types: dict[Any, Any] = {}
        for value, element in values:
            if element not in types:
                types[element] = ir.RankedTensorType.get(context.avals_out[0].shape, element)
            value.set_type(types[element])
        return [*jax_mlir_ext.inlined_func_call(function.operation, operands)]

    def _of_one(self, context: Any, operands: Sequence[Any]) -> Any:
        """Returns a function with the rule's equations, and its values that have the shape.

        Returns None if types are not all that depends on the shape.
        """
        shape = context.avals_out[0].shape
        avals = [
            [aval.update(shape=shape) for aval in each]
            for each in (context.avals_in, context.avals_out)
        ]
        types = [ir.RankedTensorType.get(shape, each.type.element_type) for each in operands]
        within = context.replace(avals_in=avals[0], avals_out=avals[1], const_lowering={})
        made = _detached(functools.partial(self._rule, within), types)
        block = made.entry_block
        operations = [op.operation for op in block.operations][:-1]
        values = [*block.arguments, *(each for op in operations for each in op.results)]
        arrays = [each for each in values if each.type.rank]
        if all(map(_has_no_shape, operations)) and all(
            tuple(each.type.shape) == shape for each in arrays
        ):
            return made, [(each, each.type.element_type) for each in arrays]
        return None


def _has_no_shape(operation: Any) -> bool:
    """Returns whether the types of an operation alone say of which shape it is."""
    dialect, _, name = operation.name.partition(".")
    return dialect == "stablehlo" and name != "custom_call" and not len(operation.regions)


#: The primitives of which equations with equal operands are lowered once.
_SHARING = frozenset({"dot_general", "reduce_sum"})
#: The primitives whose rules see what their operands are made of.
SEEING = _SHARING | {"add", "add_any", "sub"}
#: The dtypes of floats that calls read.
_FLOATS = {"bf16": jnp.bfloat16, "f16": jnp.float16, "f32": jnp.float32, "f64": jnp.float64}


@functools.cache
def see_operands() -> None:
    """Has JAX call some rules with the operands of each equation.

    JAX lowers other equations as functions, one for all that are equal in a module, so their rules
    see parameters.
    """
    found = {primitive for primitive in lowering.primitives() if primitive.name in SEEING}
    private_mlir._uncacheable_primitives.update(found)  # noqa: SLF001  # no other


def seeing(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the rule of a primitive, which lowers equations with equal operands once.

    The primitive has one result. Operands are equal if the arrays that they are made of
    (``source``) are. The rules of most primitives are returned as they are.
    """
    return functools.partial(_shared, name, rule) if name in _SHARING else rule


def _shared(
    name: str, rule: Callable[..., Any], context: Any, *operands: Any, **params: Any
) -> Any:
    if context.dim_var_values:
        return rule(context, *operands, **params)
    read = [source(operand) for operand in operands]
    arrays = [array for array, _ in read]
    made_of = tuple((array.type, tuple(axes)) for array, axes in read)
    caches = context.module_context.lowering_cache
    of, items = context.jaxpr_eqn_ctx, tuple(sorted(params.items()))
    key = (_SHARED, name, of, items, context.platforms, tuple(context.avals_in), made_of)
    if key not in caches:
        own = context.replace(const_lowering={})
        caches[key] = _of_sources(functools.partial(rule, own, **params), read, operands)
    return [*jax_mlir_ext.inlined_func_call(caches[key].operation, arrays)]


def with_call(context: Any, rule: Callable[..., Any], operands: Sequence[Any]) -> list[Any] | None:
    """Lowers a rule if it writes a call of C++, which XLA neither fuses nor repeats; else None."""
    read = [*map(source, operands)]
    own = context.replace(const_lowering={})
    function = _of_sources(functools.partial(rule, own), read, operands)
    if not any(_name(op.operation) == _CALL for op in function.entry_block.operations):
        return None
    arrays = [array for array, _ in read]
    return [*jax_mlir_ext.inlined_func_call(function.operation, arrays)]


def _of_sources(
    rule: Callable[..., Any], read: Sequence[tuple[Any, list[int]]], operands: Sequence[Any]
) -> Any:
    """Returns a rule of operands as a function of the arrays that they are made of."""

    def build(*parameters: Any) -> Any:
        made = [
            _made(parameter, axes, operand.type)
            for parameter, (_, axes), operand in zip(parameters, read, operands, strict=True)
        ]
        return rule(*made)

    return _detached(build, [array.type for array, _ in read])


def source(value: Any) -> tuple[Any, list[int]]:
    """Returns the array that transposes and exact conversions of floats made a value of.

    Returns:
        The array, and the axis of it that each axis of the value is.
    """
    axes = [*range(value.type.rank)]
    while True:
        owner = value.owner
        name = _name(owner)
        if name == "stablehlo.transpose":
            order = [*ir.DenseI64ArrayAttr(owner.attributes["permutation"])]
            axes = [order[axis] for axis in axes]
        elif name != "stablehlo.convert" or not _widens(owner):
            return value, axes
        value = owner.operands[0]


def _widens(conversion: Any) -> bool:
    old, new = (str(each.type.element_type) for each in (conversion.operands[0], conversion.result))
    return old in ("bf16", "f16") and new == "f32"


#: The operations on bits by which a float is sealed (``impl._exact.arithmetic``).
_SEALING = frozenset({"stablehlo.bitcast_convert", "stablehlo.minimum"})
#: The operations of floats whose results XLA does not know unless it knows all operands.
_PASSING = _SEALING.union(
    ("stablehlo.add", "stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.divide"),
    ("stablehlo.multiply", "stablehlo.negate", "stablehlo.reshape", "stablehlo.slice"),
    ("stablehlo.sqrt", "stablehlo.subtract", "stablehlo.transpose"),
)
#: The operation that ``lowering.zeros_of_run_time`` reads.
_REPLICA = "stablehlo.replica_id"
#: The beginnings of the names of calls of C++, and of functions that ``lowering.called`` made.
_CALLS, _FUNCTIONS = "samebits_", "portable_"
#: The attribute of an operation that is a call of C++ on each device of a partitioned program.
_MARK = "samebits_call"
#: The most values that ``is_of_run_time`` looks at.
_MOST_VALUES = 64


def mark_call(result: Any) -> None:
    """Marks the operation of a result that XLA partitions, and of which each device has a call."""
    result.owner.attributes[_MARK] = ir.StringAttr.get("")


def is_of_run_time(value: Any) -> bool:
    """Returns whether XLA can know no element of a float array before the program runs.

    XLA computes what depends on constants alone, so that it may know that a term of a sum is 0. The
    array comes from a parameter of the program, a call of C++ or ``lowering.zeros_of_run_time``,
    through operations that XLA does not compute from the other operands alone: 0 * x may be a NaN.
    False may be an error.
    """
    values = [value]
    for _ in range(_MOST_VALUES):
        if not values:
            return False
        value = values.pop()
        owner = value.owner
        name = _name(owner)
        if not name:
            if _text(owner.owner, "sym_visibility") == "public":
                return True
        elif name == _REPLICA:
            return True
        elif name == _CALL:
            if _MARK in owner.attributes or _text(owner, "call_target_name").startswith(_CALLS):
                return True
        elif name in (_PASSING if _is_float(value) else _SEALING) or (
            len(owner.operands) == 1
            and (name == _BARRIER or _text(owner, "callee").startswith(_FUNCTIONS))
        ):
            values += reversed(owner.operands)  # A constant is rarely the first one.
        elif name == "stablehlo.select" and _replaces_zeros(owner):
            values.append(owner.operands[2])
    return False


def _replaces_zeros(selection: Any) -> bool:
    """Returns whether a selection is the last operand, but for zeros."""
    condition, _, value = selection.operands
    if _name(condition.owner) != "stablehlo.compare":
        return False
    compared, other = condition.owner.operands
    return bool(compared == value != other)


def _name(owner: Any) -> str:
    """Returns the name of the operation that a value is a result of; of a parameter, nothing."""
    name: str = getattr(owner, "name", "")  # The owner of a parameter is a block.
    return name


def _text(operation: Any, name: str) -> str:
    """Returns the text of an attribute or the function that it names; "" without the attribute."""
    attributes = operation.operation.attributes
    return str(getattr(attributes[name], "value", "")) if name in attributes else ""


def _is_float(value: Any) -> bool:
    return isinstance(value.type.element_type, ir.FloatType)


def _made(array: Any, axes: Sequence[int], kind: Any) -> Any:
    """Returns the value of a type that has the axes of an array in another order."""
    if [*axes] != sorted(axes):
        array = hlo.transpose(array, mlir.dense_int_array([*axes]))
    return array if array.type == kind else hlo.convert(kind, array)


def narrow_type(value: Any) -> jax.ShapeDtypeStruct:
    """Returns the type of a float that calls read."""
    return jax.ShapeDtypeStruct(value.type.shape, _FLOATS[str(value.type.element_type)])


def _detached(build: Callable[..., Any], types: Sequence[Any]) -> Any:
    """Returns a function in no module, which returns what a function of its parameters returns."""
    made = func.FuncOp("shared", ir.FunctionType.get([*types], []), ip=False)  # type: ignore[arg-type]
    block = made.add_entry_block()  # type: ignore[attr-defined]  # of a decorator
    with ir.InsertionPoint(block):
        func.ReturnOp([*build(*block.arguments)])
    return made
