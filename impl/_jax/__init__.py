"""The parts of JAX that impl uses although JAX's documentation does not promise to keep them.

Such a use is either in a function of this package or one of ``parts.NAMES``. A test finds every
other use, and tests with each supported JAX that all of these names still exist and do what impl
needs. ``parts`` looks for them when this package is imported.

================  ================================================================================
Module            Parts of JAX
================  ================================================================================
this one          types, settings, traces, caches, the parameters of equations
``parts``         the names of all parts, and the error about one that is missing
``releases``      every test of the release of JAX
``jaxprs``        jaxprs that impl rewrites
``lowering``      the contexts of lowering rules, and modules
``repeated``      functions that equations share, and what operands are made of
``rules``         the tables of lowering rules
``shardings``     shardings of types, of lowering rules and of XLA
``partitions``    the names of partitioned operations, for the cache on disk
``tags``          metadata that JAX keeps with each equation
``watching``      the programs that JAX lowers, compiles and calls
``initializers``  the draws of JAX's initializers
``cotangents``    the sums of a derivative's parts
``linear``        linear functions with a transpose of their own, under ``vmap``
================  ================================================================================
"""

from __future__ import annotations

# It looks for all parts before the imports below would fail, with an error that says more.
from impl._jax import parts

# isort: split

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

import jax
import numpy as np
from jax._src import array, config, core, util, xla_bridge

# jax.extend.core has the same names, but its package imports Pallas.
from jax._src.core import Primitive as Primitive
from jax._src.core import jaxpr_as_fun as jaxpr_as_fun
from jax.interpreters import mlir, partial_eval

from impl._jax import tags

_Cache = TypeVar("_Cache")

#: The type of a jaxpr with its constants.
ClosedJaxpr: Any = getattr(core, "ClosedJaxpr", core.Jaxpr)

#: The type of every array that is neither a tracer nor an array of keys.
ARRAY = array.ArrayImpl


def _manual_axis_type(value: jax.Array) -> Any:
    # Inside shard_map, the types of arrays and keys have this undocumented attribute.
    return getattr(jax.typeof(value), "manual_axis_type", None)


def varying_axes(value: jax.Array) -> frozenset[str]:
    """Returns the names of the mesh axes of ``shard_map`` over which a value varies."""
    axes = _manual_axis_type(value)
    return frozenset() if axes is None else frozenset(axes.varying)


def varying_like(shape: jax.ShapeDtypeStruct, value: jax.Array) -> jax.ShapeDtypeStruct:
    """Returns the type of a kernel's output that varies over the same mesh axes as ``value``."""
    axes = _manual_axis_type(value)
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype, manual_axis_type=axes)


def _parts(aval: Any) -> tuple[Any, ...]:
    """Returns the mesh axes that shard each axis of a type."""
    parts = tuple(aval.sharding.spec)
    return parts + (None,) * (len(aval.shape) - len(parts))


def shard_like(value: jax.Array, aval: Any) -> jax.Array:
    """Returns ``value`` with the sharding of a type, if the type has one."""
    if aval.sharding.mesh.empty or _parts(jax.typeof(value)) == _parts(aval):
        return value
    return jax.reshard(value, aval.sharding)  # type: ignore[no-any-return]


def default_matmul_precision() -> str | None:
    """Returns ``jax_default_matmul_precision`` in this thread; None if it is not set."""
    value: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return value


def platforms() -> str | None:
    """Returns ``jax_platforms``: names of platforms, separated by commas; None if it is not set."""
    value: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return value


def backend_has_started() -> bool:
    """Returns whether JAX has started a backend. XLA reads its flags at that time."""
    return bool(xla_bridge.backends_are_initialized())


def platforms_in_use() -> frozenset[str] | None:
    """Returns the names of the platforms that JAX has started, or is configured to start.

    Returns None if JAX has started no platform and is free to choose. This starts no platform.
    """
    if backend_has_started():
        return frozenset(xla_bridge.backends())
    chosen = platforms()
    return frozenset(chosen.split(",")) if chosen else None


def settings() -> dict[str, object]:
    """Returns the value of every setting of ``jax.config`` in this thread, by name."""
    values: Mapping[str, object] = jax.config.values
    # An attribute of the config reflects scopes such as jax.enable_x64; ``values`` does not.
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
    """Returns whether the caller is outside of every trace, and JAX does not search for NaNs.

    ``jax_debug_nans`` inspects each result that is computed outside of a program.
    """
    # Each eager call asks this. It reads the state that core.trace_state_clean reads by four calls
    # of Python.
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

    The frames end at the function that JAX traced; its callers are not included.
    """
    traceback = equation.source_info.traceback
    if traceback is None:
        return ()
    return tuple((f.file_name, f.line_num, f.function_name) for f in traceback.frames)


def evaluated(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the outputs of an equation for operands, literals included, inside a trace."""
    primitive = equation.primitive
    with equation.ctx.manager:
        outputs = primitive.bind(*operands, **primitive.get_bind_params(equation.params))
    return list(outputs) if primitive.multiple_results else [outputs]


def forgotten(cache: _Cache) -> _Cache:
    """Registers a cache of traces, so that ``jax.clear_caches`` empties it like JAX's own caches.

    Its traces take memory too, and a measurement of a first call has to make them again.
    """
    util.register_cache(cache, "samebits")
    return cache


@forgotten
@functools.lru_cache(maxsize=256)
def _expanded(primitive: Any) -> Any:
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in primitive.in_avals_flat]
    with tags.tagging(None):  # Other scopes read these cached equations too.
        return jax.make_jaxpr(primitive.expand)(*jax.tree.unflatten(primitive.in_tree, shapes))


def expanded(equation: Any) -> Any:
    """Returns the closed jaxpr of an equation that stands for several; None for any other.

    JAX 0.12 and later write some functions of ``jax.numpy`` as one such equation.
    """
    primitive = equation.params.get("_prim")
    return None if primitive is None else _expanded(primitive)


def without_dead_code(jaxpr: Any) -> Any:
    """Returns a jaxpr with the same inputs and outputs, without equations that no output needs.

    JAX does the same before it lowers a program.
    """
    live, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return live


def is_jitted(function: Any) -> TypeGuard[jax.stages.Wrapped]:
    """Returns whether ``jax.jit`` itself returned a function, and not a library's wrapper of it.

    If so, the function's ``__wrapped__`` takes the same arguments.
    """
    return isinstance(function, _JITTED)


_JITTED = type(jax.jit(len))


def traced_options(traced: jax.stages.Traced) -> dict[str, Any]:
    """Returns the compiler options that ``jax.jit`` got for a traced function."""
    return dict(traced._params.get("compiler_options_kvs", ()))  # noqa: SLF001  # No other access.


def traced_shardings(traced: jax.stages.Traced) -> list[Any]:
    """Returns the sharding of each input of a traced function, or another object for none.

    ``jax.jit`` may have got another sharding than an argument has.
    """
    given, types = traced._params["in_shardings"], traced._meta_tys_flat  # noqa: SLF001  # As above.
    pairs = zip(given, (each.sharding for each in types), strict=False)
    return [own if isinstance(own, jax.sharding.Sharding) else other for own, other in pairs]


def enables_x64() -> bool:
    """Returns ``jax_enable_x64`` in this thread."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def exports(context: Any) -> bool:
    """Returns whether a lowering rule is called by ``jax.export``."""
    return bool(context.module_context.lowering_parameters.for_export)


def lowering_rules(primitive: Primitive) -> Mapping[str | None, tuple[Callable[..., Any], bool]]:
    """Returns JAX's own lowering rules of a primitive, and whether each is lowered inline.

    The keys are the platforms with a rule of their own, and None for the rule of all others.

    Raises:
        LookupError: This release of JAX keeps its rules elsewhere, or has none for the primitive.
    """
    try:
        tables: dict[str | None, Any] = {None: mlir._lowerings}  # noqa: SLF001
        tables.update(mlir._platform_specific_lowerings.items())  # noqa: SLF001
        entries = {name: table[primitive] for name, table in tables.items() if primitive in table}
        rules = {name: (entry.rule, entry.inline) for name, entry in entries.items()}
    except (AttributeError, TypeError) as error:
        raise parts.changed("keeps lowering rules elsewhere") from error
    if not rules or not all(callable(rule) for rule, _ in rules.values()):
        raise parts.changed(f"has no lowering rule of {primitive.name!r}")
    return rules
