"""Lowering rules for JAX's own primitives under the guarantee ``portable``.

``spec/portable.toml`` has the class of each primitive. One that is exact is lowered as JAX lowers
it; one that has a rule takes a function of ``impl._exact``, or one of ``operations``; any
other is refused by name. With the mode off, or another guarantee, JAX's own rules are called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir

import spec
from impl._core import jax_internals
from impl._core.jax_internals import Primitive, lowering, rules, shardings
from impl._core.jax_internals.releases import PADDINGS_ARE_MERGED
from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._exact.elementary import complex_numbers
from impl._exact.sums import scatter
from impl._kernels.launch import Launch
from impl._lowerings import _partitioning
from impl._mode import emulation, modes
from impl._mode.decide import Decision
from impl._portable import entries, exported, functions, limits, moves, refusal, unknown
from impl._portable.device_sums import lower_sums
from impl._portable.operations import OPERATIONS, simplest
from impl._run_to_run import rules as _rules
from impl._run_to_run import schedule

#: What is lowered by another module: scatters in a fixed order, by ``rules``.
_ELSEWHERE = "sequences"
#: The class of primitives that are lowered as JAX lowers them for any platform.
_WRITTEN = "written"
#: The class of primitives that JAX lowers as others, which are left to JAX too.
_SELECTIONS = "selections"
#: The class of primitives whose equal elements keep their order.
_SORTS = "sorting"
#: Those whose names of axes are those of a mesh.
_NAMED = frozenset({"pmax", "pmin", "psum", "psum_invariant", "reduce_scatter"})

#: The primitive whose sums over devices are joined with those of each device.
_MAPPED = "shard_map"
#: The primitive that says how devices share an array.
_CONSTRAINED = "sharding_constraint"
#: Those whose results may have other lengths than their operands.
_WINDOWED = frozenset(
    {
        "pad",
        "reduce_window_max",
        "reduce_window_min",
        "reduce_window_sum",
        "select_and_gather_add",
        "select_and_scatter_add",
    }
)
#: Those that are faster where XLA does not partition them.
_PLACED = frozenset({"scatter-add", "scatter-sub"})

#: Paddings whose border XLA may take from another padding of the same array, in JAX before 0.12:
#: of two paddings of an array that devices share, it keeps one border and forgets the other number.
_BORDERED = frozenset(
    {"pad", "reduce_window_max", "reduce_window_min"} if PADDINGS_ARE_MERGED else ()
)

#: Exact ones that have a rule nevertheless.
_EXACT_WITH_RULES = frozenset({_MAPPED, _CONSTRAINED, *_BORDERED, *_WINDOWED, *moves.NAMES})

#: The classes whose steps go through the last axes. XLA may compute others where devices share
#: these: the values of decompositions were wrong over three axes of a mesh.
_WHOLE = frozenset({"eliminations", "rotations", "transforms"})

#: Those whose operands may be scalars, or of length 1 along axes where others are longer.
_ELEMENTWISE = frozenset({"add", "atan2", "div", "max", "min", "mul", "pow", "rem", "sub"})

#: What JAX and NumPy raise where a number is needed, and there is a symbolic size.
_NEEDS_SIZES = (jax.errors.InconclusiveDimensionOperation, TypeError)


def register() -> None:
    """Replaces each rule, whenever it was registered, by one that reads the mode."""
    rules.replace(_replacement)


def _replacement(
    primitive: Primitive, original: rules.Rule, anywhere: rules.Rule | None
) -> rules.Rule:
    """Returns the rule by which JAX lowers an equation in place of the one that it found."""
    if primitive.name in _WINDOWED:
        return functools.partial(_windowed, primitive, original, anywhere)
    return functools.partial(_lower, primitive, original, anywhere)


@functools.cache
def _is_fixed(name: str) -> bool:
    """Returns whether equations with a primitive of this name are lowered as JAX lowers them."""
    found = spec.load().class_of_primitive.get(name)
    is_exact = found is not None and found.answer == "exact" and found.dtypes is None
    return is_exact and name not in _EXACT_WITH_RULES


def _applies(context: Any) -> bool:
    """Returns whether a rule of this module decides how an equation is lowered."""
    if not _rules.switch.value or lowering.is_native(context):
        return False
    mode = modes.current()
    exported.mark(context, mode)
    return mode.portable


def _windowed(
    primitive: Primitive,
    original: rules.Rule,
    anywhere: rules.Rule | None,
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation whose results have other lengths; a device has the whole short axes."""
    rule = functools.partial(_lower, primitive, original, anywhere)
    if not (_applies(context) and moves.is_shared(context)):
        return rule(context, *operands, **params)
    whole = moves.whole_where_short(context, operands, context.avals_in)
    results = rule(context, *whole, **params)
    return moves.whole_where_short(context, results, context.avals_out)


def _lower(
    primitive: Primitive,
    original: rules.Rule,
    anywhere: rules.Rule | None,
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation as the class of its primitive says."""
    name = primitive.name
    if name == _MAPPED and _rules.switch.value and not lowering.is_native(context):
        params = lower_sums.with_joined_sums(params)
    if not _applies(context):
        return original(context, *operands, **params)
    refusal.of_platforms(context, warn_only=modes.current().warn_only)
    if name.startswith("samebits_") or isinstance(params.get("decision"), Decision):
        return _own(original, anywhere or original, context, *operands, **params)
    if unknown.is_unknown(primitive, original):
        found = unknown.portability(dtypes((*context.avals_in, *context.avals_out)))
        rule = unknown.rule(found, primitive, original, anywhere, context, params)
        return rule(context, *operands, **params)
    if name == _MAPPED or _is_fixed(name):
        return original(context, *operands, **params)
    if name == _CONSTRAINED and moves.is_shared(context):
        shape = context.avals_in[0].shape
        params["sharding"] = shardings.with_data_on_devices(params["sharding"], shape)
    if name in _BORDERED and _partitioning.is_partitioned(context):
        operands = (_with_own_border(context, operands[0]), *operands[1:])
    if name in moves.NAMES and moves.is_shared(context):
        return moves.lower(name, context, operands, params)
    found = class_of(name, (*context.avals_in, *context.avals_out), params)
    if name == exported.NAME and found is not None:
        found = exported.on_devices(context, found)
    if found is None or found.answer == "exact" or found.name == _ELSEWHERE:
        return original(context, *operands, **params)
    if found.answer == "rule":
        operands = tuple(entries.sealed(context, operands))
        try:
            rule = anywhere or original
            return _by_rule(found, name, original, rule, context, *operands, **params)
        except _NEEDS_SIZES:
            if not _has_unknown_sizes(context):
                raise
        found = refusal.of_unknown_sizes(found)
    refusal.emit(name, context.avals_in, found, warn_only=modes.current().warn_only)
    return original(context, *operands, **params)


def _by_rule(
    found: spec.Portability,
    name: str,
    original: Callable[..., Any],
    anywhere: Callable[..., Any],
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation of a class that has a rule."""
    if found.name == _SELECTIONS:
        return original(lowering.natively(context), *operands, **params)
    if found.name == _SORTS:
        return original(lowering.natively(context), *operands, **{**params, "is_stable": True})
    if found.name == _WRITTEN:
        return anywhere(context, *operands, **params)
    if found.name in _WHOLE and _partitioning.is_partitioned(context):
        return _of_whole(name, context, operands, params)
    if found.of_complex:
        return _of_complex(name, context, operands, params)
    return _computed(name, context, operands, params)


def _of_whole(name: str, context: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Lowers steps through the last axes, of which a device has the whole or nothing."""
    first = context.avals_in[0].ndim - len(params.get("fft_lengths", "mn"))

    def whole(values: Sequence[Any]) -> list[Any]:
        return [
            shardings.whole_along(context, value, range(first, value.type.rank)) for value in values
        ]

    return whole(_computed(name, context, whole(operands), params))


def _has_unknown_sizes(context: Any) -> bool:
    """Returns whether a rule is about arrays whose sizes an exported program leaves open."""
    shapes = (getattr(a, "shape", ()) for a in (*context.avals_in, *context.avals_out))
    return any(not isinstance(size, int) for shape in shapes for size in shape)


def _with_own_border(context: Any, operand: Any) -> Any:
    """Returns the operand of a padding as an array that no other padding has."""
    within = shardings.without_shardings(
        lowering.natively(context).replace(
            avals_in=context.avals_in[:1], avals_out=context.avals_in[:1]
        )
    )
    with shardings.no_mesh():
        (fenced,) = mlir.lower_fun(fence, multiple_results=False)(within, operand)
    return fenced


def _own(
    original: Callable[..., Any],
    anywhere: Callable[..., Any],
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation of this project.

    One whose row is portable is lowered as it is. Any other takes the lowering for any platform,
    whose own equations are portable or refused.
    """
    decision = params.get("decision")
    if isinstance(decision, Decision):
        rows = {decision.on(platform).row for platform in lowering.platforms(context)}
        kept = (r and spec.portable_answer(spec.load().row(r)) == "exact" for r in rows)
        if not all(kept):
            with _partitioning.exact_equations():
                return anywhere(context, *operands, **params)
    return original(lowering.natively(context), *operands, **params)


def _computed(name: str, context: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Lowers the portable function of a primitive, whose own equations are lowered by JAX."""
    name = simplest(name, context.avals_in[0].shape, params)
    platforms = lowering.platforms(context)
    flushes = arithmetic.are_kept_on(platforms)
    function: Callable[..., Any] = functools.partial(portable_function(name), **params)
    function = _of_one_shape(function) if name in _ELEMENTWISE else function
    if name in OPERATIONS:
        function = functools.partial(function, flushes=flushes)
    if not flushes and name == "div":
        function = _computed_once(function)
    is_partitioned = _partitioning.is_partitioned(context)
    function = functions.on_platforms(name, function, platforms, is_partitioned=is_partitioned)
    if name in _PLACED:
        function = _placed(function, context, params["dimension_numbers"], is_cpu=not flushes)
    rule = mlir.lower_fun(function, multiple_results=name in functions.SEVERAL)
    with arithmetic.wide(), arithmetic.where_subnormals(are_kept=flushes):
        within = lowering.natively(context)
        if name in _NAMED:
            return rule(within, *operands)
        with shardings.no_mesh():
            within = shardings.without_shardings(within)
            if flushes or name in OPERATIONS:
                return rule(within, *operands)
            # On a CPU, XLA would repeat the many cheap equations in each fusion that uses them.
            return lowering.called(within, f"portable_{name}", rule, *operands)


def _of_complex(name: str, context: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Lowers an operation on complex numbers."""
    function: Callable[..., Any] = functools.partial(complex_numbers.OPERATIONS[name], **params)
    function = _of_one_shape(function) if name in _ELEMENTWISE else function
    rule = mlir.lower_fun(function, multiple_results=False)
    with arithmetic.wide(), shardings.no_mesh():
        return rule(shardings.without_shardings(lowering.natively(context)), *operands)


def _of_one_shape(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns a function that repeats its operands to one shape, which the equation need not do."""

    def run(*operands: jax.Array, **params: Any) -> jax.Array:
        shape = lax.broadcast_shapes(*(operand.shape for operand in operands))
        axes = range(len(shape))
        return function(
            *(
                each
                if each.shape == shape
                else lax.broadcast_in_dim(each, shape, axes[len(shape) - each.ndim :])
                for each in operands
            ),
            **params,
        )

    return run


def _computed_once(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns a function whose result a CPU keeps in memory; XLA of jax 0.10 may not."""

    def run(*operands: jax.Array, **params: Any) -> jax.Array:
        return fence(function(*operands, **params))

    return run


def _placed(
    function: Callable[..., jax.Array], context: Any, numbers: Any, *, is_cpu: bool
) -> Callable[..., jax.Array]:
    """Returns the function of a scatter for its devices, or as a GPU runs it under a schedule."""
    stand_in = emulation.current()
    if stand_in is not None and stand_in.seed:
        has_kernels = stand_in.lowering == "kernel"
        launch = Launch(True, stand_in.seed, fill=modes.fills()) if has_kernels else None
        # The order of sorted indices is no longer known.
        atomics = functools.partial(
            function, place="device", launch=launch, indices_are_sorted=False
        )
        return functools.partial(schedule.under, stand_in.seed, atomics, numbers)
    place = _place(context, is_cpu=is_cpu)
    has_kernels = lowering.platforms(context) == ("cuda",) and not jax_internals.exports(context)
    return functools.partial(function, place=place, launch=Launch() if has_kernels else None)


def _place(context: Any, *, is_cpu: bool) -> scatter.Place:
    """Returns where a rule's equation is computed, as scatters need to know it."""
    if _partitioning.is_partitioned(context):
        return "anywhere"
    return "cpu" if is_cpu else "device"


def portable_function(name: str) -> Callable[..., Any]:
    """Returns the function of arrays that a primitive with a rule is lowered as.

    It takes the parameters of the equation as keywords, and has to be traced inside
    ``arithmetic.wide()``.

    Args:
        name: The name of the primitive.
    """
    found = OPERATIONS.get(name)
    return functions.function(name) if found is None else found


def class_of(
    name: str, avals: Sequence[Any], params: Mapping[str, Any] | None = None
) -> spec.Portability | None:
    """Returns the class that decides about an equation; None if no rule is about it.

    Args:
        name: The name of its primitive.
        avals: The types of its operands and results. If devices hold the terms of one, which JAX
            adds later in any order, the class is that of such sums.
        params: Its parameters; None for the class of its primitive.
    """
    is_left = any(map(shardings.is_unreduced, avals))
    found = spec.portability("unreduced_psum" if is_left else name, dtypes(avals))
    if found is None or params is None:
        return found
    if name == exported.NAME:
        return exported.portability(found, params)
    return limits.within(found, avals, params)


def dtypes(avals: Sequence[Any]) -> frozenset[str]:
    """Returns the names of the dtypes of arrays; keys and tokens have none that matter."""
    return frozenset(str(aval.dtype) for aval in avals if hasattr(aval, "dtype"))
