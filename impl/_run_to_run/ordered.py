"""The ordered computation of JAX's scatters, by the core primitives of this package."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import spec
from impl._core.jax_internals import Primitive
from impl._families.reductions import ReductionName
from impl._mode import emulation
from impl._mode.decide import Action, Decision
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl._primitives.scatter_assign import scatter_assign
from impl._run_to_run import flat_scatter, pool_gradient


def compute(primitive: Primitive, row: str, *operands: jax.Array, **params: Any) -> jax.Array:
    """Computes what an equation of JAX does, in the order that its row states.

    Args:
        primitive: One of ``impl._core.native_scatter.replaced_primitives``.
        row: Id of the row.
        *operands: The operands of the equation.
        **params: The parameters of the equation.
    """
    if primitive is lax.select_and_scatter_add_p:
        return pool_gradient.select_and_scatter_add(*operands, **params)
    operand, indices, updates = operands
    numbers, mode = params["dimension_numbers"], params["mode"]
    if jnp.issubdtype(operand.dtype, jax.dtypes.extended):
        return _scatter_of_keys(primitive, row, operand, indices, updates, params)
    flat = flat_scatter.flatten(operand, indices, updates, dimension_numbers=numbers, mode=mode)
    decision = _always_ordered(row)
    if primitive is lax.scatter_p:
        out = scatter_assign(flat.operand, flat.indices, flat.updates, decision=decision)
    else:
        subtracts = primitive is lax.scatter_sub_p
        by: ReductionName = "mul" if primitive is lax.scatter_mul_p else "add"
        contributions = -flat.updates if subtracts else flat.updates
        out = scatter_accumulate(
            flat.operand, flat.indices, contributions, decision=decision, by=by
        )
    return flat.restore(out)


def _always_ordered(row: str) -> Decision:
    ordered = Action(path="ordered", row=row)
    return Decision(
        actions=tuple((platform, ordered) for platform in spec.load().platforms),
        elsewhere=ordered,
        emulation=emulation.current(),
    )


def _scatter_of_keys(
    primitive: Primitive,
    row: str,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    params: dict[str, Any],
) -> jax.Array:
    """Scatters the words of random keys, which are one more dimension of the windows."""
    words, of_updates = jax.random.key_data(operand), jax.random.key_data(updates)
    numbers = params["dimension_numbers"]
    added = tuple(range(updates.ndim, of_updates.ndim))
    numbers = numbers._replace(update_window_dims=(*numbers.update_window_dims, *added))
    out = compute(
        primitive, row, words, indices, of_updates, **{**params, "dimension_numbers": numbers}
    )
    keys: jax.Array = jax.random.wrap_key_data(out, impl=jax.random.key_impl(operand))
    return keys
