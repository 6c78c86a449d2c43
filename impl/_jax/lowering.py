"""The contexts of lowering rules, and the functions and marks that rules add to a module.

JAX caches lowered equations for each module, by the equation. An equation that has to be lowered in
another way here than elsewhere in the module (as JAX lowers it, with sizes of 64 bits, or by the
mode of a scope) needs caches of its own. A context with other caches makes them:

    lowering_cache of the module    {scatter-add f32[8]: ordered, "samebits_caches": (own, ...)}
    own                             {scatter-add f32[8]: JAX's own, "samebits_native": None}
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src import config, core, source_info_util, xla_bridge
from jax._src.core import Primitive
from jax._src.interpreters import mlir as private_mlir
from jax._src.interpreters import partial_eval as private_partial_eval
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import func, hlo  # type: ignore[attr-defined]
from jax.interpreters import mlir

from impl._jax import enables_x64, exports, jaxprs, parts, tags
from impl._jax.releases import PINNED_LAYOUTS_ARE_PARTITIONED

_metadata: Any = config.xla_metadata_context_manager
#: The name of the primitive that ``native`` makes, which also marks the caches of its equations.
NATIVE = "samebits_native"
#: The other keys that this module adds to JAX's caches, whose own keys are equations.
_CACHES, _SCOPE = "samebits_caches", "samebits_scope"


def is_native(context: Any) -> bool:
    """Returns whether a lowering rule is called for an equation within ``natively``."""
    return NATIVE in context.module_context.lowering_cache


def natively(context: Any) -> Any:
    """Returns the context of a lowering rule in which equations are lowered as JAX lowers them.

    Such equations have caches of their own, which also mark the context as native.
    """
    context = with_own_sizes(context)
    if is_native(context):
        return context
    return _with_caches(context, _CACHES, native=True)


@contextlib.contextmanager
def without_varying_types(context: Any) -> Iterator[Any]:
    """Yields the context of a lowering rule whose types do not say over which axes values vary.

    With ``check_vma``, types say so inside a ``shard_map``, and a loop that starts with a constant
    needs a cast of the constant. The types were checked before the program was lowered.
    """

    def plain(aval: Any) -> Any:
        return jaxprs.invariant(aval, tuple(jaxprs.varying(aval)))

    avals = {name: [*map(plain, getattr(context, name))] for name in ("avals_in", "avals_out")}
    with unchecked_varying():
        yield context.replace(**avals)


def unchecked_varying() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which JAX does not compare the axes over which operands vary."""
    scope: contextlib.AbstractContextManager[Any] = config._check_vma(False)  # noqa: SLF001  # no other
    return scope


def with_own_sizes(context: Any) -> Any:
    """Returns the context of a lowering rule whose sizes have the integers of this scope.

    A program for several platforms passes the platform's number to each of its functions, and a
    program with symbolic sizes the sizes, as integers of 32 bits. Inside ``jax.enable_x64``, JAX
    lowers a function that takes 64 bits, and caches it for the whole module (jax 0.10 to 0.12). So
    such a scope has caches of its own.
    """
    sizes = context.dim_var_values
    element = ir.IntegerType.get_signless(64 if enables_x64() else 32)
    if not sizes or ir.RankedTensorType(sizes[0].type).element_type == element:
        return context
    if not any(getattr(aval, "shape", ()) for aval in (*context.avals_in, *context.avals_out)):
        # The function of a reduction takes scalars, reads no value around it, and needs no size.
        return context
    kind = ir.RankedTensorType.get((), element)
    own = tuple(hlo.convert(kind, size) for size in sizes)
    return _with_caches(context, _SCOPE).replace(dim_var_values=own)


def with_own_equations(context: Any) -> Any:
    """Returns the context of a lowering rule whose jaxprs get the tag of this thread.

    JAX lowers two equal equations without tags once for a module. Inside an equation with a tag
    they are lowered according to this tag, so each tag has caches of its own.
    """
    tag = tags.current()
    if tag is None:
        return context
    return _with_caches(context, (tags.NAME, tag))


def _with_caches(context: Any, name: Hashable, *, native: bool = False) -> Any:
    """Returns the context with other caches, which the present caches store under a name."""
    module = context.module_context
    marks = {NATIVE: None} if native or is_native(context) else {}
    lowered, called = module.lowering_cache.setdefault(name, (marks, {}))
    within = module.replace(lowering_cache=lowered, cached_primitive_lowerings=called)
    return context.replace(module_context=within)


_native_p = Primitive(NATIVE)
_native_p.multiple_results = True
_native_p.def_abstract_eval(lambda *_, jaxpr: jaxpr.out_avals)


mlir.register_lowering(
    _native_p,
    lambda context, *operands, jaxpr: lower_equations(natively(context), jaxpr, *operands),
)


def native(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose equations are lowered as JAX lowers them, in every context.

    It takes arrays, and returns an array or a tree of arrays.
    """

    def run(*arrays: jax.Array) -> Any:
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*arrays)
        results = _native_p.bind(*arrays, jaxpr=jaxpr)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


_zeros_p = Primitive("samebits_zeros")
_zeros_p.def_abstract_eval(core.ShapedArray)


def _lower_zeros(context: Any, *, dtype: Any, **_: Any) -> list[Any]:
    single, own = (
        ir.RankedTensorType.get((), mlir.dtype_to_ir_type(each))
        for each in (np.dtype(np.float32), dtype)
    )
    zero = hlo.bitcast_convert(single, hlo.replica_id())
    zero = zero if own == single else hlo.convert(own, zero)
    (aval,) = context.avals_out
    return [private_mlir.broadcast_in_dim(context, zero, aval, broadcast_dimensions=[])]


mlir.register_lowering(_zeros_p, _lower_zeros)


def zeros_of_run_time(like: jax.Array) -> jax.Array:
    """Returns zeros of the type of an array, which XLA does not know before the program runs.

    Each is the number of the replica as the bits of a float. It is 0 or subnormal, so it is 0 on a
    CPU. XLA cannot compile a reduction whose function reads the number.
    """
    zeros: jax.Array = _zeros_p.bind(shape=like.shape, dtype=like.dtype)
    return zeros


def called(context: Any, name: str, rule: Callable[..., Any], *operands: Any) -> list[Any]:
    """Lowers a rule as a function of its own, which XLA calls and does not inline.

    XLA fuses nothing across the call, and optimises equal functions once. It partitions the
    function like the operations around the call. A program with symbolic sizes gets no such
    function, nor does an exported program where layouts have to be pinned: JAX cannot export a pin.
    The rule takes the context and the operands, and returns an array for each result.
    """
    if context.dim_var_values or (exports(context) and PINNED_LAYOUTS_ARE_PARTITIONED):
        return [*rule(context, *operands)]
    module, types = context.module_context, [operand.type for operand in operands]
    with ir.InsertionPoint(module.module.body):
        made = func.FuncOp(name, ir.FunctionType.get(types, []))
    made.attributes["sym_visibility"] = ir.StringAttr.get("private")
    module.symbol_table.insert(made)
    # The function cannot read the large constants of its caller.
    within = context.replace(const_lowering={})
    block = made.add_entry_block()  # type: ignore[attr-defined]  # of a decorator
    with ir.InsertionPoint(block):
        results = [*map(_pinned, rule(within, *map(_pinned, block.arguments)))]
        func.ReturnOp(results)
    returned = [result.type for result in results]
    whole = ir.FunctionType.get(types, returned)
    made.attributes["function_type"] = ir.TypeAttr.get(whole)
    symbol = ir.FlatSymbolRefAttr.get(made.sym_name.value)
    call = func.CallOp(returned, symbol, [*operands])
    kept = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
    call.operation.attributes["mhlo.frontend_attributes"] = kept
    return [*call.results]


def of_one_shape(context: Any, operands: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Returns the context, without shardings, and the operands of a rule in its result's shape."""
    shape = context.avals_out[0].shape
    if all(aval.shape == shape for aval in context.avals_in):
        return context, [*operands]
    avals = [aval.update(shape=shape) for aval in context.avals_in]
    axes = [[*range(len(shape) - aval.ndim, len(shape))] for aval in context.avals_in]
    whole = [
        operand
        if own.shape == shape
        else private_mlir.broadcast_in_dim(context, operand, aval, broadcast_dimensions=each)
        for operand, own, aval, each in zip(operands, context.avals_in, avals, axes, strict=True)
    ]
    return context.replace(avals_in=avals), whole


def _pinned(value: Any) -> Any:
    """Returns a value whose layout XLA keeps in the order of its axes.

    Works around a fault of XLA in jax 0.12, of which no upstream issue is known. If a function has
    collectives over several axes of a mesh, XLA may choose another layout for its parameter after
    it has chosen the layout of the operand of a call. XLA then passes the operand without a
    conversion, and the function reads elements at wrong positions.
    """
    rank = value.type.rank
    if rank < _FEWEST_AXES or not PINNED_LAYOUTS_ARE_PARTITIONED:
        return value
    order = [*reversed(range(rank))]
    made = private_mlir.custom_call(
        "LayoutConstraint",
        result_types=[value.type],
        operands=[value],
        api_version=1,
        operand_layouts=[order],
        result_layouts=[order],
    )
    return made.result


#: The least number of axes that have more than one order.
_FEWEST_AXES = 2


def lower_equations(context: Any, closed: Any, *operands: Any) -> Any:
    """Lowers equations in the context of a rule, as ``lower_fun`` does after its trace."""
    jaxpr = jaxprs.opened(closed)
    if is_native(context) and not jaxpr.effects:
        return written(context, core.jaxpr_as_fun(closed), *operands)
    module = context.module_context
    if context.platforms is not None:
        module = module.replace(platforms=context.platforms)
    results, tokens = mlir.jaxpr_subcomp(
        module,
        jaxpr,
        context.name_stack,
        context.tokens_in,
        private_mlir.ir_consts(closed.consts, [v.aval for v in jaxpr.constvars]),
        *operands,
        dim_var_values=context.dim_var_values,
        const_lowering=context.const_lowering,
        outer_traceback=xla_client.Traceback(),
    )
    context.set_tokens_out(tokens)
    return results


def written(context: Any, function: Callable[..., Any], *operands: Any) -> list[Any]:
    """Lowers a function of arrays in the context of a rule, faster than ``lower_fun`` does.

    JAX traces a function to a jaxpr, and lowers each equation of it as a function, one for all that
    are equal in the module. A native rule has few that are equal, and is lowered once. So here the
    trace itself lowers each equation, and there is no jaxpr. The equations have no ordered effects.
    """
    if context.platforms is not None:
        module = context.module_context.replace(platforms=context.platforms)
        context = context.replace(module_context=module)
    trace = _Writer(context)
    arrays = [
        _Written(trace, aval, value) for aval, value in zip(context.avals_in, operands, strict=True)
    ]
    with source_info_util.reset_name_stack(), core.set_current_trace(trace):
        return [*map(trace.read, jax.tree.leaves(function(*arrays)))]


def _of_one_type(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *values: operation(*values)


def _chosen(_: Any, which: Any, *cases: Any) -> Any:
    is_boolean = ir.IntegerType(which.type.element_type).width == 1
    return hlo.select(which, *cases[::-1]) if is_boolean and len(cases) <= _CASES else None


def _converted(kind: Any, value: Any) -> Any:
    are_floats = isinstance(kind.element_type, ir.FloatType) and isinstance(
        value.type.element_type, ir.FloatType
    )
    return hlo.convert(kind, value) if are_floats else None


def _is_bare(dtype: Any) -> bool:
    """Returns whether operations on real arrays of a dtype have neither metadata nor shardings."""
    is_real = isinstance(dtype, np.dtype) and dtype.kind != "c"
    return is_real and not _metadata.value and jax.sharding.get_abstract_mesh().empty


#: The number of cases that a truth value chooses from.
_CASES = 2
#: The operations that most equations of a rule are, which JAX's rules write in thrice the time, as
#: functions of the type of the result and of operands of its shape. One may return None.
_OPERATIONS: Mapping[Primitive, Callable[..., Any]] = {
    lax.add_p: _of_one_type(hlo.add),
    lax.and_p: _of_one_type(hlo.and_),
    lax.bitcast_convert_type_p: hlo.bitcast_convert,
    lax.broadcast_in_dim_p: _of_one_type(lambda value: value),
    lax.convert_element_type_p: _converted,
    lax.max_p: _of_one_type(hlo.maximum),
    lax.min_p: _of_one_type(hlo.minimum),
    lax.mul_p: _of_one_type(hlo.multiply),
    lax.neg_p: _of_one_type(hlo.negate),
    lax.or_p: _of_one_type(hlo.or_),
    lax.select_n_p: _chosen,
    lax.shift_left_p: _of_one_type(hlo.shift_left),
    lax.shift_right_arithmetic_p: _of_one_type(hlo.shift_right_arithmetic),
    lax.shift_right_logical_p: _of_one_type(hlo.shift_right_logical),
    lax.sub_p: _of_one_type(hlo.subtract),
    lax.xor_p: _of_one_type(hlo.xor),
}
#: The primitives whose results have another type than their operands.
_OF_ANOTHER_TYPE = (lax.bitcast_convert_type_p, lax.convert_element_type_p)


class _Written(core.Tracer[Any]):
    """An array of a function that is being lowered."""

    __slots__ = ("value",)

    def __init__(self, trace: _Writer, aval: Any, value: Any) -> None:
        super().__init__(trace, aval)
        self.value = value


class _Writer(core.Trace):
    """The trace of a function that lowers each equation where it is traced."""

    def __init__(self, context: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._context = context
        self._numbers: dict[Any, Any] = {}

    def read(self, array: Any) -> Any:
        """Returns the value of an array or a number."""
        if isinstance(array, _Written):
            return array.value
        constants = self._context.const_lowering
        return private_mlir.ir_constant(array, const_lowering=constants, aval=jax.typeof(array))

    def stage_value(self, val: Any) -> Any:
        return val

    def process_primitive(self, primitive: Primitive, arrays: Sequence[Any], params: Any, /) -> Any:
        avals = [*map(jax.typeof, arrays)]
        results, effects = private_partial_eval._cached_abstract_eval(  # noqa: SLF001  # no other
            primitive, *avals, **params
        )
        names = source_info_util.current_name_stack()
        if primitive in _OPERATIONS and not names.stack and _is_bare(results.dtype):
            value = self._of_alike(primitive, arrays, results)
            if value is not None:
                return _Written(self, results, value)
        equation = core.JaxprEqnContext()
        own = self._context.replace(
            primitive=primitive,
            avals_in=avals,
            avals_out=[*results] if primitive.multiple_results else [results],
            name_stack=self._context.name_stack + names,
            tokens_out=None,
            jaxpr_eqn_ctx=equation,
        )
        rules, default, _ = private_mlir._get_lowering_rules(  # noqa: SLF001  # no other
            own.module_context, primitive, equation
        )
        with _place(own, names):
            values = private_mlir._uncached_lowering(  # noqa: SLF001  # no other
                primitive, equation, effects, rules, default, own, *map(self.read, arrays), **params
            )
        made = [_Written(self, *each) for each in zip(own.avals_out, values, strict=True)]
        return made if primitive.multiple_results else made[0]

    def _of_alike(self, primitive: Primitive, arrays: Sequence[Any], result: Any) -> Any:
        """Returns the result of an operation on numbers and on arrays of its shape, or None."""
        element = mlir.dtype_to_ir_type(result.dtype)
        kind = ir.RankedTensorType.get(result.shape, element)
        values = []
        for array in arrays:
            if isinstance(array, _Written):
                if array.shape != result.shape:
                    return None
                values.append(array.value)
            elif np.ndim(array) or primitive in _OF_ANOTHER_TYPE:
                return None
            else:
                values.append(self._filled(kind, array))
        return _OPERATIONS[primitive](kind, *values)

    def _filled(self, kind: Any, number: Any) -> Any:
        """Returns an array of a number, which a function writes once: its seals have the same."""
        key = kind, np.asarray(number).tobytes()
        if key not in self._numbers:
            axes = mlir.dense_int_array([])
            self._numbers[key] = hlo.broadcast_in_dim(kind, self.read(number), axes)
        return self._numbers[key]

    def process_custom_jvp_call(
        self, primitive: Primitive, fun: Any, jvp: Any, arrays: Sequence[Any], /, **_: Any
    ) -> Any:
        del primitive, jvp
        with core.set_current_trace(self):
            return fun.call_wrapped(*arrays)

    def process_custom_vjp_call(
        self, primitive: Primitive, fun: Any, fwd: Any, bwd: Any, arrays: Sequence[Any], /, **_: Any
    ) -> Any:
        del fwd, bwd
        return self.process_custom_jvp_call(primitive, fun, None, arrays)


def _place(context: Any, names: Any) -> contextlib.AbstractContextManager[Any]:
    """Returns the location of an equation: the one around it, if no scope names the equation."""
    if not names.stack:
        return contextlib.nullcontext()
    place: contextlib.AbstractContextManager[Any] = private_mlir.source_info_to_location(
        context.module_context, context.primitive, context.name_stack, None
    )
    return place


def platforms(context: Any) -> tuple[str, ...]:
    """Returns the platforms that a lowering rule lowers for."""
    return tuple(context.platforms or context.module_context.platforms)


def assigned(context: Any) -> Sequence[Any]:
    """Returns the devices that a lowering rule lowers for; none if it is lowered for no device."""
    return getattr(context.module_context.axis_context, "device_assignment", None) or ()


def gpu(devices: Sequence[Any] = ()) -> tuple[str | None, str | None]:
    """Returns the compute capability and the kind of the GPU that a program is lowered for.

    Both are None if nothing tells: the program is lowered for no device, and no GPU has started.
    ``devices`` are those that it is lowered for, if they are known.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.abstract_device is not None:
        kind = mesh.abstract_device.device_kind
        return None, None if kind == "cpu" else kind
    if not devices and xla_bridge.backends_are_initialized():  # jax.devices would start one.
        names = xla_bridge.backends().keys() & {"cuda", "gpu"}
        devices = [each for name in names for each in jax.devices(name)]
    if not devices:
        return None, None
    return getattr(devices[0], "compute_capability", None), devices[0].device_kind


def primitives() -> Iterator[Primitive]:
    """Yields every primitive that has a lowering rule in JAX, each once.

    Raises:
        LookupError: This release of JAX keeps its rules elsewhere.
    """
    try:
        tables = [mlir._lowerings, *mlir._platform_specific_lowerings.values()]  # noqa: SLF001
        known = {primitive: None for table in tables for primitive in table}
    except (AttributeError, TypeError) as error:
        raise parts.changed("keeps lowering rules elsewhere") from error
    yield from known


def equations() -> list[Any]:
    """Returns the equations that this thread lowers now, the outermost first.

    JAX does not pass the equation to its rule, but the functions that call the rule have it as a
    local variable.
    """
    innermost_first: list[Any] = []
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001  # no other access
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("jax."):
            equation = frame.f_locals.get("eqn")
            if hasattr(equation, "source_info") and not any(
                equation is each for each in innermost_first
            ):
                innermost_first.append(equation)
        frame = frame.f_back
    return innermost_first[::-1]


def is_first(context: Any, name: str) -> bool:
    """Returns whether this is the first call with a name for the module that a rule lowers."""
    caches = context.module_context.lowering_cache
    is_new = name not in caches
    caches[name] = None
    return is_new


def mark_module(context: Any, name: str, value: str, *, unless: bool = False) -> None:
    """Gives the module of a lowering rule an attribute, which ``jax.export`` keeps.

    Its name has a prefix and a dot. ``unless`` is whether an existing value stays.
    """
    module = context.module_context.module.operation
    if unless and name in module.attributes:
        return
    module.attributes[name] = ir.StringAttr.get(value, module.context)


def mark_of_module(exported: Any, name: str) -> str | None:
    """Returns the value of an attribute of an exported program, or None."""
    with private_mlir.make_ir_context():
        attributes = exported.mlir_module(serialized=False).operation.attributes
        return ir.StringAttr(attributes[name]).value if name in attributes else None
