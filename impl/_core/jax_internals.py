"""The parts of JAX that impl uses although JAX's documents do not promise that they stay.

Such a use is either one of the functions of this module or one of ``NAMES``. A test finds every
other one, and tests with each supported JAX that all of them still exist and do what impl needs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax

#: Modules of JAX without documents, or documented in part: NAMES has each name used from them.
MODULES = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib")

#: The use of each name. JAX's tutorial on primitives has most of them.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "jax.core.ShapedArray": "the abstract value of a primitive without operands",
        "jax.core.Tracer": "to tell a traced value from a known one",
        "jax.extend.core.Primitive": "to define a primitive",
        "jax.interpreters.ad.Zero": "the symbolic zero of JVP and transpose rules",
        "jax.interpreters.ad.defbilinear": "the derivatives of a product",
        "jax.interpreters.ad.defjvp": "the derivatives of a primitive, one for each operand",
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


def default_matmul_precision() -> str | None:
    """Returns ``jax_default_matmul_precision`` as it is in this thread; None if it is not set."""
    value: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return value


def platforms() -> str | None:
    """Returns ``jax_platforms``: names of platforms between commas; None if it is not set."""
    value: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return value


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


@functools.lru_cache(maxsize=256)
def _expanded(primitive: Any) -> Any:
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in primitive.in_avals_flat]
    return jax.make_jaxpr(primitive.expand)(*jax.tree.unflatten(primitive.in_tree, shapes))


def expanded(equation: Any) -> Any:
    """Returns the closed jaxpr of an equation that stands for several; None for any other.

    JAX 0.12 and later write some functions of ``jax.numpy`` as one such equation.
    """
    primitive = equation.params.get("_prim")
    return None if primitive is None else _expanded(primitive)


def traced_options(traced: jax.stages.Traced) -> dict[str, Any]:
    """Returns the compiler options that ``jax.jit`` got, of a function that it traced."""
    return dict(traced._params.get("compiler_options_kvs", ()))  # noqa: SLF001  # No other access.
