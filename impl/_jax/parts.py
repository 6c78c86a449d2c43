"""The undocumented parts of JAX that impl uses, and the error about a part that is missing.

JAX renames and removes such parts without notice. Without this module, ``import impl`` would end in
an ``ImportError`` or an ``AttributeError`` of one of many modules. ``check`` looks for all parts
before any of them is used, when this module is imported::

    ImportError: jax 0.14.0 has no jax._src.core.JaxprEqnContext, which impl needs for the context
    of an equation that gets a tag. This release supports jax>=0.10,<0.13: install one of these, or
    a newer release of samebits.

Parts that only some calls need are looked for when they are needed: ``changed`` makes the message
of their ``LookupError``. Examples are the function that finds lowering rules (``rules``), and the
classes that programs are watched by (``watching``).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

import jax

#: The supported releases, as in ``pyproject.toml``.
SUPPORTED = "jax>=0.10,<0.13"

#: Modules of JAX that are undocumented, or in part.
MODULES = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib")

#: The use of each name outside of this package. JAX's tutorial on primitives has most of them.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "jax.core.ShapedArray": "the abstract value of a primitive without operands",
        "jax.core.Tracer": "to tell a traced value from a known one",
        "jax.interpreters.ad.Zero": "the symbolic zero of JVP and transpose rules",
        "jax.interpreters.ad.is_undefined_primal": "to find the operand to differentiate by",
        "jax.interpreters.ad.primitive_jvps": "to register a JVP rule",
        "jax.interpreters.ad.primitive_transposes": "to register a transpose rule",
        "jax.interpreters.batching.primitive_batchers": "to register a batching rule",
        "jax.interpreters.mlir.lower_fun": "to make a lowering rule of a function",
        "jax.interpreters.mlir.register_lowering": "to register a lowering rule for a platform",
        "jax.interpreters.xla.apply_primitive": "to evaluate a primitive outside of jit",
    }
)

_MLIR = "jax._src.lib.mlir"
_SHARDY = f"{_MLIR}.dialects.sdy"
#: The use of each name inside of this package.
INSIDE: Mapping[str, str] = MappingProxyType(
    {
        "jax._src.array.ArrayImpl": "the type of arrays that are neither tracers nor keys",
        "jax._src.config._check_vma": "loops in shard_map whose types were checked before",
        "jax._src.config.debug_infs.value": "to run a plain call only without a search for infs",
        "jax._src.config.debug_nans.value": "to run a plain call only without a search for NaNs",
        "jax._src.config.trace_context": "the keys of caches of traces",
        "jax._src.config.xla_metadata_context_manager": "the tags of the equations of a scope",
        "jax._src.core.InternalMutableArrayEffect": "programs with mutable arrays",
        "jax._src.core.Jaxpr": "the type of a program",
        "jax._src.core.JaxprEqnContext": "the context of an equation that gets a tag",
        "jax._src.core.Literal": "to tell a literal from a variable",
        "jax._src.core.Primitive": "the class of a primitive",
        "jax._src.core.Trace": "functions that are lowered while they are traced",
        "jax._src.core.Tracer": "functions that are lowered while they are traced",
        "jax._src.core.Var": "a variable of a program",
        "jax._src.core.auto_insert_reshard": "parts of a cotangent that vary over other axes",
        "jax._src.core.axis_env_state.value": "to know whether a call is inside of vmap",
        "jax._src.core.eval_trace": "to know whether a call is inside of a trace",
        "jax._src.core.jaxpr_as_fun": "the function of a program",
        "jax._src.core.set_current_trace": "functions that are lowered while they are traced",
        "jax._src.core.top_axis_env": "to know whether a call is inside of vmap",
        "jax._src.core.trace_state_clean": "to know whether a call is inside of a trace",
        "jax._src.core.trace_state_strong_ref.value": "to know fast whether a call is traced",
        "jax._src.core.unmapped_aval": "the type of values that a scan stacks",
        "jax._src.custom_derivatives.linear_call_p": "linear functions under vmap",
        "jax._src.custom_partitioning._sharding_callbacks": "names of partitioned operations",
        "jax._src.interpreters.ad": "the accumulators of cotangents",
        "jax._src.interpreters.mlir._get_lowering_rules": "equations that a rule lowers",
        "jax._src.interpreters.mlir._uncached_lowering": "equations that a rule lowers",
        "jax._src.interpreters.mlir._uncacheable_primitives": "equations whose rules see operands",
        "jax._src.interpreters.mlir.broadcast_in_dim": "operands of one shape",
        "jax._src.interpreters.mlir.custom_call": "an array whose layout is pinned",
        "jax._src.interpreters.mlir.ir_constant": "the literals of equations that are lowered",
        "jax._src.interpreters.mlir.source_info_to_location": "the scopes of lowered equations",
        "jax._src.interpreters.mlir.ir_consts": "the constants of equations that are lowered",
        "jax._src.interpreters.mlir.lower_per_platform": "rules that see operands",
        "jax._src.interpreters.mlir.make_ir_context": "to read the mark of an exported program",
        "jax._src.interpreters.mlir.wrap_with_sharding_op": "the sharding of a lowered value",
        "jax._src.interpreters.pxla._discharge_refs": "programs with mutable arrays",
        "jax._src.interpreters.partial_eval._cached_abstract_eval": "the types of results",
        "jax._src.lax.parallel.psum_p": "the sum over devices that another sum becomes",
        "jax._src.lib._jax.config.unset": "to remove the last tag of a scope",
        f"{_MLIR}.dialects.func.CallOp": "calls that XLA does not inline",
        f"{_MLIR}.dialects.func.FuncOp": "functions that XLA does not inline",
        f"{_MLIR}.dialects.func.ReturnOp": "functions that XLA does not inline",
        **{
            f"{_MLIR}.dialects.hlo.{name}": "the operations that a rule writes"
            for name in (
                *("add", "and_", "bitcast_convert", "broadcast_in_dim", "convert", "maximum"),
                *("minimum", "multiply", "negate", "or_", "select", "shift_left"),
                *("shift_right_arithmetic", "shift_right_logical", "subtract", "transpose", "xor"),
            )
        },
        f"{_SHARDY}.DimensionShardingAttr": "constraints of Shardy",
        f"{_SHARDY}.MeshAttr": "constraints of Shardy",
        f"{_SHARDY}.PropagationBarrierOp": "constraints of Shardy",
        f"{_SHARDY}.ShardingConstraintOp": "constraints of Shardy",
        f"{_SHARDY}.TensorShardingAttr": "constraints of Shardy",
        f"{_MLIR}.ir.DenseI64ArrayAttr": "the order of the axes of a transpose",
        f"{_MLIR}.ir.DictAttr": "attributes of lowered operations",
        f"{_MLIR}.ir.FloatType": "to tell floats from integers",
        f"{_MLIR}.ir.FlatSymbolRefAttr": "calls that XLA does not inline",
        f"{_MLIR}.ir.FunctionType": "the type of a lowered function",
        f"{_MLIR}.ir.InsertionPoint": "functions of a module",
        f"{_MLIR}.ir.IntegerAttr": "attributes of lowered operations",
        f"{_MLIR}.ir.IntegerType": "sizes of 32 and 64 bits",
        f"{_MLIR}.ir.RankedTensorType": "sizes of 32 and 64 bits",
        f"{_MLIR}.ir.StringAttr": "the mark of a module",
        f"{_MLIR}.ir.TypeAttr": "the type of a lowered function",
        "jax._src.lib.jax_mlir_ext.inlined_func_call": "equations that get another shape",
        "jax._src.lib.xla_client.HloSharding": "XLA's own description of a sharding",
        "jax._src.lib.xla_client.Traceback": "the lines of lowered equations",
        "jax._src.source_info_util.current_name_stack": "the scopes of lowered equations",
        "jax._src.source_info_util.reset_name_stack": "the scopes of lowered equations",
        "jax._src.source_info_util.register_exclusion": "to keep lines of impl out of programs",
        "jax._src.state.types.RefEffect": "programs with mutable arrays",
        "jax._src.util.register_cache": "caches that jax.clear_caches empties",
        "jax._src.xla_bridge.backends": "the platforms that JAX has started",
        "jax._src.xla_bridge.backends_are_initialized": "to set flags before XLA reads them",
        "jax._src.xla_metadata_lib.update_metadata": "the tags of the equations of a scope",
        "jax.interpreters.ad.add_jaxvals": "the sum of two parts of a cotangent",
        "jax.interpreters.batching.defvectorized": "constraints under vmap",
        "jax.interpreters.mlir.dense_int_array": "operands that calls read through a transpose",
        "jax.interpreters.mlir.jaxpr_subcomp": "equations that a rule lowers",
        "jax.interpreters.mlir.dtype_to_ir_type": "the types of lowered operations",
        "jax.interpreters.partial_eval.dce_jaxpr": "programs without equations that nothing needs",
    }
)


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def check() -> None:
    """Looks for all parts of JAX that an import of impl needs.

    Raises:
        ImportError: This release of JAX lacks some of them.
    """
    missing = [name for name in (*NAMES, *INSIDE) if not _exists(name)]
    if missing:
        uses = {**NAMES, **INSIDE}
        each = "; ".join(f"{name}, which impl needs for {uses[name]}" for name in missing)
        raise ImportError(
            f"jax {jax.__version__} has no {each}. This release supports {SUPPORTED}: install one "
            "of these, or a newer release of samebits."
        )


def changed(does: str) -> LookupError:
    """Returns the error about a part that is missing, or is another one, where it is needed.

    Args:
        does: Continues the sentence about this release of JAX, as in "lowers programs elsewhere".
    """
    return LookupError(f"JAX {jax.__version__} {does} (this release supports {SUPPORTED})")


check()
