"""The parts of JAX that impl uses although JAX's documents do not promise that they stay.

Such a use is either one of the functions of this package or one of ``NAMES``. A test finds every
other one, and tests with each supported JAX that all of them still exist and do what impl needs.

``releases`` has every test of a release of JAX. ``lowering`` has the context of a lowering rule,
and ``rules`` the tables of rules; ``jaxprs`` writes equations; ``shardings`` reads and sets the
shardings of types; ``tags`` marks equations; ``watching`` sees the programs that JAX lowers and
calls; ``initializers`` has the draws of JAX's initializers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard, TypeVar

import jax
import numpy as np
from jax._src import array, config, core, util, xla_bridge

# The same as those of jax.extend.core, whose package imports Pallas.
from jax._src.core import Primitive as Primitive
from jax._src.core import jaxpr_as_fun as jaxpr_as_fun
from jax.interpreters import mlir, partial_eval

from impl._core.jax_internals import tags

#: Modules of JAX without documents, or documented in part: NAMES has each name used from them.
MODULES = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib")

#: The use of each name. JAX's tutorial on primitives has most of them.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "jax.core.ShapedArray": "the abstract value of a primitive without operands",
        "jax.core.Tracer": "to tell a traced value from a known one",
        "jax.interpreters.ad.Zero": "the symbolic zero of JVP and transpose rules",
        "jax.interpreters.ad.defbilinear": "the derivatives of a product",
        "jax.interpreters.ad.defjvp": "the derivatives of a primitive, one for each operand",
        "jax.interpreters.ad.deflinear2": "the derivatives of a linear primitive",
        "jax.interpreters.ad.instantiate_zeros": "to make an array of a symbolic zero",
        "jax.interpreters.ad.is_undefined_primal": "to find the operand to differentiate by",
        "jax.interpreters.ad.primitive_jvps": "to register a JVP rule",
        "jax.interpreters.ad.primitive_transposes": "to register a transpose rule",
        "jax.interpreters.batching.primitive_batchers": "to register a batching rule",
        "jax.interpreters.mlir.lower_fun": "to make a lowering rule of a function",
        "jax.interpreters.mlir.register_lowering": "to register a lowering rule for a platform",
        "jax.interpreters.xla.apply_primitive": "to evaluate a primitive outside of jit",
    }
)

#: The name of the primitives of products and convolutions. By this name, which JAX gives to a
#: wrapper of cuDNN's product, policies of ``jax.checkpoint`` such as ``dots_saveable`` know a
#: product that is not JAX's own; ``dots_with_no_batch_dims_saveable`` takes the first axis of its
#: first operand for the batch, as it is here.
PRODUCT = "scaled_matmul_wrapper"


_Cache = TypeVar("_Cache")

#: The type of a jaxpr with its constants.
ClosedJaxpr: Any = getattr(core, "ClosedJaxpr", core.Jaxpr)

#: The type of every array that is no tracer and no array of keys.
ARRAY = array.ArrayImpl


def _manual_axis_type(value: jax.Array) -> Any:
    # Inside shard_map, the types of arrays and keys have it; it is undocumented.
    return getattr(jax.typeof(value), "manual_axis_type", None)


def varying_axes(value: jax.Array) -> frozenset[str]:
    """Returns the names of the mesh axes of ``shard_map`` over which a value varies."""
    axes = _manual_axis_type(value)
    return frozenset() if axes is None else frozenset(axes.varying)


def varying_like(shape: jax.ShapeDtypeStruct, value: jax.Array) -> jax.ShapeDtypeStruct:
    """Returns the type of a kernel's output that varies over the same mesh axes as ``value``."""
    axes = _manual_axis_type(value)
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype, manual_axis_type=axes)


def type_of(like: Any, *axes: tuple[Any, int] | int, dtype: Any = None) -> Any:
    """Returns the type of a primitive's result, whose axes are sharded as those of its operands.

    A mesh with explicit axes shards types.

    Args:
        like: The type of an operand of the same number of axes.
        *axes: For each axis the type of an operand and the number of its axis that has the same
            length and sharding; or a length, for an axis that is not sharded.
        dtype: The dtype; None for that of ``like``.
    """
    shape = [axis if isinstance(axis, int) else axis[0].shape[axis[1]] for axis in axes]
    mesh = like.sharding.mesh
    if mesh.empty:
        return like.update(shape=tuple(shape), dtype=dtype, weak_type=False)
    used: set[str] = set()
    parts = []
    for axis in axes:
        part = None if isinstance(axis, int) else _parts(axis[0])[axis[1]]
        names = set(part if isinstance(part, tuple) else () if part is None else (part,))
        parts.append(None if names & used else part)
        used |= names
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*parts))
    return like.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=sharding)


def _parts(aval: Any) -> tuple[Any, ...]:
    """Returns the mesh axes that shard each axis of a type."""
    parts = tuple(aval.sharding.spec)
    return parts + (None,) * (len(aval.shape) - len(parts))


def shard_like(value: jax.Array, aval: Any) -> jax.Array:
    """Returns ``value`` with the sharding of a type. Types that have none change nothing."""
    if aval.sharding.mesh.empty or _parts(jax.typeof(value)) == _parts(aval):
        return value
    return jax.reshard(value, aval.sharding)  # type: ignore[no-any-return]


def default_matmul_precision() -> str | None:
    """Returns ``jax_default_matmul_precision`` as it is in this thread; None if it is not set."""
    value: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return value


def platforms() -> str | None:
    """Returns ``jax_platforms``: names of platforms between commas; None if it is not set."""
    value: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return value


def backend_has_started() -> bool:
    """Returns whether JAX has started a backend, when XLA reads its flags."""
    return bool(xla_bridge.backends_are_initialized())


def platforms_in_use() -> frozenset[str] | None:
    """Returns the names of the platforms that JAX has started, or is told to start.

    None if it has started none, and is free to choose. It starts none.
    """
    if backend_has_started():
        return frozenset(xla_bridge.backends())
    chosen = platforms()
    return frozenset(chosen.split(",")) if chosen else None


def settings() -> dict[str, object]:
    """Returns the value of every setting of ``jax.config`` in this thread, by name."""
    values: Mapping[str, object] = jax.config.values
    # An attribute, where JAX has one, knows of scopes such as jax.enable_x64; ``values`` does not.
    return {name: getattr(jax.config, name, value) for name, value in values.items()}


def unknown_option(error: jax.errors.JaxRuntimeError) -> str | None:
    """Returns the compiler option that jaxlib's error names as unknown; None for other errors."""
    match = re.search(r"No such compile option: '(\w+)'", str(error))
    return None if match is None else match[1]


def refuses_nested_options(error: ValueError) -> bool:
    """Returns whether an error is JAX's refusal of compiler options inside another trace."""
    return "`compiler_options` can only be passed to top-level" in str(error)


def is_tracing() -> bool:
    """Returns whether the caller is inside a program that JAX traces."""
    return not core.trace_state_clean()


def is_plain_call() -> bool:
    """Returns whether the caller is outside of every trace, and JAX looks for no NaN.

    ``jax_debug_nans`` looks at each result that is computed outside of a program.
    """
    # What core.trace_state_clean reads, without its four Python calls: an eager call asks this.
    trace = core.trace_state_strong_ref.value
    return (
        (trace is core.eval_trace or trace is None)
        and core.axis_env_state.value is core.top_axis_env
        and not (config.debug_nans.value or config.debug_infs.value)
    )


#: Returns every setting that JAX's traces depend on, user contexts included, as a hashable value.
trace_context: Callable[[], Any] = config.trace_context


def keeps_dtype(dtype: Any) -> bool:
    """Returns whether JAX has arrays of a dtype of NumPy, in this thread."""
    try:
        return bool(np.dtype(dtype).isnative and jax.dtypes.canonicalize_dtype(dtype) == dtype)
    except TypeError:
        return False


def frames(equation: Any) -> tuple[tuple[str, int, str], ...]:
    """Returns the file, line and function of each frame that made an equation, innermost first.

    The frames end at the function that JAX traced: those of its caller are not among them.
    """
    traceback = equation.source_info.traceback
    if traceback is None:
        return ()
    return tuple((f.file_name, f.line_num, f.function_name) for f in traceback.frames)


def scan_constants(parameters: Mapping[str, Any]) -> int:
    """Returns how many operands of a scan are the same in each iteration; they come first."""
    if "num_consts" in parameters:
        return int(parameters["num_consts"])
    return len(parameters["ft_in"].unpack()[0])  # jax 0.12 and later


def scan_carried(parameters: Mapping[str, Any]) -> int:
    """Returns how many operands of a scan are carried; they come after the constants."""
    if "num_carry" in parameters:
        return int(parameters["num_carry"])
    return len(parameters["ft_in"].unpack()[1])  # jax 0.12 and later


def evaluated(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the outputs of one equation of a jaxpr, inside a trace.

    Args:
        equation: The equation.
        operands: The values of its operands, literals included.
    """
    primitive = equation.primitive
    with equation.ctx.manager:
        outputs = primitive.bind(*operands, **primitive.get_bind_params(equation.params))
    return list(outputs) if primitive.multiple_results else [outputs]


def forgotten(cache: _Cache) -> _Cache:
    """Returns a cache of traces, which ``jax.clear_caches`` empties as it empties those of JAX.

    Its traces take memory too, and a measurement of a first call has to make them again.
    """
    util.register_cache(cache, "samebits")
    return cache


@forgotten
@functools.lru_cache(maxsize=256)
def _expanded(primitive: Any) -> Any:
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in primitive.in_avals_flat]
    with tags.tagging(None):  # The equations are kept, for other scopes too.
        return jax.make_jaxpr(primitive.expand)(*jax.tree.unflatten(primitive.in_tree, shapes))


def expanded(equation: Any) -> Any:
    """Returns the closed jaxpr of an equation that stands for several; None for any other.

    JAX 0.12 and later write some functions of ``jax.numpy`` as one such equation.
    """
    primitive = equation.params.get("_prim")
    return None if primitive is None else _expanded(primitive)


def without_dead_code(jaxpr: Any) -> Any:
    """Returns a jaxpr with the same inputs and outputs, without what no output needs.

    JAX does the same before it lowers a program.
    """
    live, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return live


def is_jitted(function: Any) -> TypeGuard[jax.stages.Wrapped]:
    """Returns whether ``jax.jit`` itself returned a function, and not a library's wrapper of it.

    Its ``__wrapped__`` then takes what the function takes.
    """
    return isinstance(function, _JITTED)


_JITTED = type(jax.jit(len))


def traced_options(traced: jax.stages.Traced) -> dict[str, Any]:
    """Returns the compiler options that ``jax.jit`` got, of a function that it traced."""
    return dict(traced._params.get("compiler_options_kvs", ()))  # noqa: SLF001  # No other access.


def enables_x64() -> bool:
    """Returns ``jax_enable_x64`` as it is in this thread."""
    value: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    return value


def exports(context: Any) -> bool:
    """Returns whether a lowering rule is called by ``jax.export``."""
    return bool(context.module_context.lowering_parameters.for_export)


def lowering_rules(primitive: Primitive) -> Mapping[str | None, tuple[Callable[..., Any], bool]]:
    """Returns JAX's own lowering rules of a primitive, and whether each is lowered inline.

    They are those of each platform that has one, and that of all others, for which the key is None.

    Raises:
        LookupError: This release of JAX keeps its rules elsewhere, or has none for the primitive.
    """
    try:
        tables: dict[str | None, Any] = {None: mlir._lowerings}  # noqa: SLF001
        tables.update(mlir._platform_specific_lowerings.items())  # noqa: SLF001
        entries = {name: table[primitive] for name, table in tables.items() if primitive in table}
        rules = {name: (entry.rule, entry.inline) for name, entry in entries.items()}
    except (AttributeError, TypeError) as error:
        raise LookupError(f"JAX {jax.__version__} keeps lowering rules elsewhere") from error
    if not rules or not all(callable(rule) for rule, _ in rules.values()):
        raise LookupError(f"JAX {jax.__version__} has no lowering rule of {primitive.name!r}")
    return rules
