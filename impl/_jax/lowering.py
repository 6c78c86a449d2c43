"""The contexts of lowering rules, and the functions and marks that rules add to a module.

JAX caches lowered equations for each module, by the equation. An equation that has to be lowered in
another way here than elsewhere in the module (as JAX lowers it, with sizes of 64 bits, or by the
mode of a scope) needs caches of its own. A context with other caches makes them:

    lowering_cache of the module    {scatter-add f32[8]: ordered, "samebits_caches": (own, ...)}
    own                             {scatter-add f32[8]: JAX's own, "samebits_native": None}
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import config, linear_util, xla_bridge
from jax._src.core import Primitive
from jax._src.interpreters import mlir as private_mlir
from jax._src.lib import jax_mlir_ext, xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import func, hlo  # type: ignore[attr-defined]
from jax.interpreters import mlir, partial_eval

from impl._jax import (
    ClosedJaxpr,
    enables_x64,
    exports,
    jaxprs,
    parts,
    tags,
)
from impl._jax.releases import PINNED_LAYOUTS_ARE_PARTITIONED

#: The name of the primitive that ``native`` makes, which also marks the caches of its equations.
NATIVE = "samebits_native"
#: The other keys that this module adds to JAX's caches, whose own keys are equations.
_CACHES, _SCOPE = "samebits_caches", "samebits_scope"
_SHAPES, _SHARED = "samebits_shapes", "samebits_shared"


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
    return _with_caches(context, _CACHES, {NATIVE: None})


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
    marks = {NATIVE: None} if is_native(context) else {}
    return _with_caches(context, _SCOPE, marks).replace(dim_var_values=own)


def with_own_equations(context: Any) -> Any:
    """Returns the context of a lowering rule whose jaxprs get the tag of this thread.

    JAX lowers two equal equations without tags once for a module. Inside an equation with a tag
    they are lowered according to this tag, so each tag has caches of its own.
    """
    tag = tags.current()
    if tag is None:
        return context
    marks = {NATIVE: None} if is_native(context) else {}
    return _with_caches(context, (tags.NAME, tag), marks)


def _with_caches(context: Any, name: Hashable, marks: dict[str, None]) -> Any:
    """Returns the context with other caches, which the present caches store under a name."""
    module = context.module_context
    lowered, called = module.lowering_cache.setdefault(name, ({**marks}, {}))
    within = module.replace(lowering_cache=lowered, cached_primitive_lowerings=called)
    return context.replace(module_context=within)


_native_p = Primitive(NATIVE)
_native_p.multiple_results = True
_native_p.def_abstract_eval(lambda *_, jaxpr: jaxpr.out_avals)


def _lower_natively(context: Any, *operands: Any, jaxpr: Any) -> Any:
    return lower_equations(natively(context), jaxpr, *operands)


mlir.register_lowering(_native_p, _lower_natively)


def native(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose equations are lowered as JAX lowers them, in every context.

    Args:
        function: Takes arrays, and returns an array or a tree of arrays.
    """

    def run(*arrays: jax.Array) -> Any:
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*arrays)
        results = _native_p.bind(*arrays, jaxpr=jaxpr)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


def called(context: Any, name: str, rule: Callable[..., Any], *operands: Any) -> list[Any]:
    """Lowers a rule as a function of its own, which XLA calls and does not inline.

    XLA fuses nothing across the call, and optimises equal functions once. It partitions the
    function like the operations around the call. A program with symbolic sizes gets no such
    function, nor does an exported program where layouts have to be pinned: JAX cannot export a pin.

    Args:
        context: The context of the rule.
        name: The name of the function.
        rule: The rule, which takes the context and the operands, and returns an array for each
            result.
        operands: The operands, an array each.
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
    """Returns the context and the operands of a rule, broadcast to the shape of its result.

    Args:
        context: The context of the rule, without shardings.
        operands: The operands, whose shapes may differ.
    """
    shape = context.avals_out[0].shape
    avals = [aval.update(shape=shape) for aval in context.avals_in]
    axes = [[*range(len(shape) - aval.ndim, len(shape))] for aval in context.avals_in]
    whole = [
        operand
        if own.shape == shape
        else private_mlir.broadcast_in_dim(context, operand, aval, broadcast_dimensions=each)
        for operand, own, aval, each in zip(operands, context.avals_in, avals, axes, strict=True)
    ]
    return context.replace(avals_in=avals), whole


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
        dtypes = tuple(str(aval.dtype) for aval in (*context.avals_in, *context.avals_out))
        caches = context.module_context.lowering_cache
        kind = (_SHAPES, self._kind, dtypes)
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

    def is_call(self, context: Any) -> bool:  # noqa: ARG002  # as engines.Lowered has it
        """Returns False: a call of C++ states the layouts of its operands, so a rank."""
        return False

    def _of_one(self, context: Any, operands: Sequence[Any]) -> Any:
        """Returns a function with the rule's equations, and its values that have the shape.

        Returns None if types are not all that depends on the shape.
        """
        shape = context.avals_out[0].shape or (1,)  # Constants have the shape () too.
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


#: The primitives whose rules see what their operands are made of.
SEEING = frozenset({"dot_general", "reduce_sum"})
#: The dtypes of floats that a module can widen without a change of their values.
_NARROW = {"bf16": jnp.bfloat16, "f16": jnp.float16, "f32": jnp.float32}


def see_operands() -> None:
    """Has JAX call some rules with the operands of each equation.

    JAX lowers other equations as functions, one for all that are equal in a module, so their rules
    see parameters.
    """
    found = {primitive for primitive in primitives() if primitive.name in SEEING}
    private_mlir._uncacheable_primitives.update(found)  # noqa: SLF001  # no other


def seeing(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the rule of a primitive, which lowers equations with equal operands once.

    Operands are equal if the arrays that they are made of (``source``) are.

    Args:
        name: The name of the primitive. The rules of most primitives are returned as they are.
        rule: A rule of a primitive with one result.
    """
    return functools.partial(_shared, name, rule) if name in SEEING else rule


def _shared(
    name: str, rule: Callable[..., Any], context: Any, *operands: Any, **params: Any
) -> Any:
    if context.dim_var_values:
        return rule(context, *operands, **params)
    read = [source(operand) for operand in operands]
    arrays = [array for array, _ in read]
    made_of = tuple((str(array.type), tuple(axes)) for array, axes in read)
    caches = context.module_context.lowering_cache
    of, items = context.jaxpr_eqn_ctx, tuple(sorted(params.items()))
    key = (_SHARED, name, of, items, context.platforms, tuple(context.avals_in), made_of)
    if key not in caches:

        def build(*parameters: Any) -> Any:
            made = [
                _made(parameter, axes, operand.type)
                for parameter, (_, axes), operand in zip(parameters, read, operands, strict=True)
            ]
            return rule(context.replace(const_lowering={}), *made, **params)

        caches[key] = _detached(build, [array.type for array in arrays])
    return [*jax_mlir_ext.inlined_func_call(caches[key].operation, arrays)]


def source(value: Any) -> tuple[Any, list[int]]:
    """Returns the array that transposes and exact conversions of floats made a value of.

    Returns:
        The array, and the axis of it that each axis of the value is.
    """
    axes = [*range(value.type.rank)]
    while True:
        owner = value.owner
        name = getattr(owner, "name", "")  # The owner of a parameter is a block.
        if name == "stablehlo.transpose":
            order = [*ir.DenseI64ArrayAttr(owner.attributes["permutation"])]
            axes = [order[axis] for axis in axes]
        elif name != "stablehlo.convert" or not _widens(owner):
            return value, axes
        value = owner.operands[0]


def _widens(conversion: Any) -> bool:
    old, new = (str(each.type.element_type) for each in (conversion.operands[0], conversion.result))
    return old in _NARROW and new == "f32"


def _made(array: Any, axes: Sequence[int], kind: Any) -> Any:
    """Returns the value of a type that has the axes of an array in another order."""
    if [*axes] != sorted(axes):
        array = hlo.transpose(array, mlir.dense_int_array([*axes]))
    return array if array.type == kind else hlo.convert(kind, array)


def narrow_type(value: Any) -> jax.ShapeDtypeStruct:
    """Returns the type of a float of at most 32 bits."""
    return jax.ShapeDtypeStruct(value.type.shape, _NARROW[str(value.type.element_type)])


def _detached(build: Callable[..., Any], types: Sequence[Any]) -> Any:
    """Returns a function in no module, which returns what a function of its parameters returns."""
    made = func.FuncOp("shared", ir.FunctionType.get([*types], []), ip=False)  # type: ignore[arg-type]
    block = made.add_entry_block()  # type: ignore[attr-defined]  # of a decorator
    with ir.InsertionPoint(block):
        func.ReturnOp([*build(*block.arguments)])
    return made


def traced(function: Callable[..., Any], avals: Sequence[Any]) -> Any:
    """Returns the equations of a function, in a third of the time of ``jax.make_jaxpr``.

    Args:
        function: Takes arrays, and returns an array or a sequence of arrays.
        avals: Their types.
    """
    about = _debug_info(len(avals))
    flat = linear_util.wrap_init(lambda *own: jax.tree.leaves(function(*own)), debug_info=about)
    jaxpr, _, consts = partial_eval.trace_to_jaxpr_dynamic(flat, [*avals])
    return ClosedJaxpr(jaxpr, consts)


@functools.cache
def _debug_info(arity: int) -> Any:
    """Returns the names of the arguments of a function that this module traces."""
    return jax.api_util.debug_info("samebits", lambda *own: own, (None,) * arity, {})


def lower_equations(context: Any, closed: Any, *operands: Any) -> Any:
    """Lowers equations in the context of a rule, as ``lower_fun`` does after its trace.

    JAX lowers each equation as a function of its own, for equal ones in the module. A native rule
    has few that are equal, and is lowered once, so its equations need no such functions.
    """
    jaxpr = jaxprs.opened(closed)
    module = context.module_context
    if context.platforms is not None:
        module = module.replace(platforms=context.platforms)
    consts = private_mlir.ir_consts(closed.consts, [v.aval for v in jaxpr.constvars])
    if is_native(context) and not jaxpr.effects:
        return _lowered_in_place(context.replace(module_context=module), jaxpr, consts, operands)
    results, tokens = mlir.jaxpr_subcomp(
        module,
        jaxpr,
        context.name_stack,
        context.tokens_in,
        consts,
        *operands,
        dim_var_values=context.dim_var_values,
        const_lowering=context.const_lowering,
        outer_traceback=xla_client.Traceback(),
    )
    context.set_tokens_out(tokens)
    return results


def _lowered_in_place(
    context: Any, jaxpr: Any, consts: Sequence[Any], operands: Sequence[Any]
) -> list[Any]:
    """Lowers equations without effects where their results are used."""
    module, constants = context.module_context, context.const_lowering
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *operands), strict=True))

    def read(atom: Any) -> Any:
        if not jaxprs.is_literal(atom):
            return values[atom]
        return private_mlir.ir_constant(atom.val, const_lowering=constants, aval=atom.aval)

    for equation in jaxpr.eqns:
        primitive, source = equation.primitive, equation.source_info
        own = context.replace(
            primitive=primitive,
            avals_in=[atom.aval for atom in equation.invars],
            avals_out=[atom.aval for atom in equation.outvars],
            name_stack=context.name_stack + source.name_stack,
            tokens_out=None,
            jaxpr_eqn_ctx=equation.ctx,
        )
        platform_rules, default, _ = private_mlir._get_lowering_rules(  # noqa: SLF001
            module, primitive, equation.ctx
        )
        with equation.ctx.manager, _place(own, source):
            results = private_mlir._uncached_lowering(  # noqa: SLF001  # no other
                primitive,
                equation.ctx,
                equation.effects,
                platform_rules,
                default,
                own,
                *map(read, equation.invars),
                **equation.params,
            )
        values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _place(context: Any, source: Any) -> contextlib.AbstractContextManager[Any]:
    """Returns the location of an equation: the one around it, if no scope names the equation."""
    if not source.name_stack.stack:
        return contextlib.nullcontext()
    place: contextlib.AbstractContextManager[Any] = private_mlir.source_info_to_location(
        context.module_context, context.primitive, context.name_stack, source.traceback
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

    Args:
        devices: The devices that it is lowered for, if they are known.
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

    Args:
        context: The context of the rule.
        name: The name of the attribute, with a prefix and a dot.
        value: Its value.
        unless: Whether an existing value of the attribute stays.
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
