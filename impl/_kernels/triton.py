"""The Triton backend of Pallas: the one module that calls Triton.

``impl._kernels.launch`` calls the functions of this module, and the kernels call ``launch``. A
backend for other hardware is one more module with these functions. JAX deprecates the Triton
backend since 0.11.0, so operations of XLA stand for every kernel without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._kernels import pallas as pl


def run(
    kernel: Callable[..., None],
    grid: Sequence[int],
    out: tuple[jax.ShapeDtypeStruct, ...],
    args: Sequence[jax.Array],
    *,
    name: str,
    aliases: Mapping[int, int],
    interpret: bool,
) -> Any:
    """Runs ``kernel`` once for each index of ``grid``."""
    return pl.pallas_call(
        kernel,
        grid=tuple(grid),
        out_shape=out,
        input_output_aliases=dict(aliases),
        interpret=interpret,
        name=name,
        compiler_params=pl.triton.CompilerParams(num_warps=4),
    )(*args)


def program_id(axis: int) -> jax.Array:
    """Returns the index of the running instance along an axis of the grid."""
    # Without the conversion the dtype in interpret mode is the default integer dtype.
    return pl.program_id(axis).astype(jnp.int32)


def load(view: Any, *, mask: jax.Array | None = None, other: Any = None) -> jax.Array:
    """Loads the elements of ``view``, a ``ref.at[index]``, and ``other`` where not ``mask``."""
    return pl.triton.load(view, mask=mask, other=other)


def store(view: Any, values: jax.Array, *, mask: jax.Array | None = None) -> None:
    """Stores values to ``view``, a ``ref.at[index]``, where ``mask``."""
    pl.triton.store(view, values, mask=mask)


def atomic_add(ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
    """Adds each float atomically to the element at its offset into a flat ref.

    It takes no integers: before jax 0.12 Pallas lowers an atomic on a vector of integers to one on
    floats.
    """
    pl.triton.atomic_add(ref, (offsets,), values, mask=mask)


def atomic_multiply(ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
    """Multiplies each float atomically into the element at its offset into a flat ref.

    Triton has no atomic multiplication, so it is made of atomic exchanges. A lane exchanges the
    element for 1, multiplies, and exchanges the element for the product. The second exchange
    returns 1, unless another lane stored a product in between. In that case the lane continues with
    the product that the exchange returned.
    """

    def any_lane_is_active(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.max(state[1].astype(jnp.int32)) > 0

    def exchange(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        factor, active = state
        one = jnp.ones_like(factor)
        product = factor * pl.triton.atomic_xchg(ref, (offsets,), one, mask=active)
        returned = pl.triton.atomic_xchg(ref, (offsets,), product, mask=active)
        return returned, active & (returned != one)

    jax.lax.while_loop(any_lane_is_active, exchange, (values, mask))
