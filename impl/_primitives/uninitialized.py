"""Fresh memory: an array that nobody wrote to, or that holds a known value where the mode says so.

Without a known value JAX decides what is there: on a GPU or a TPU whatever the memory held before
(``jax.lax.empty``), on a CPU zeros, since JAX has no array there that it did not write to.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir, xla

from impl._core.numerics import fill_value
from impl._mode.decide import Decision
from impl._primitives._common import register_per_platform

fresh_p = Primitive("samebits_fresh")


def fresh(shape: tuple[int, ...], dtype: jax.typing.DTypeLike, *, decision: Decision) -> jax.Array:
    """An array that holds the known value of its dtype on the platforms that ``decision`` names."""
    return fresh_p.bind(  # type: ignore[no-any-return]  # a primitive is not typed
        shape=shape, dtype=jnp.dtype(dtype), decision=decision
    )


def _abstract_eval(*, shape: tuple[int, ...], dtype: Any, decision: Decision) -> Any:
    return jax.core.ShapedArray(shape, dtype)


def _lower(
    platform: str | None, context: Any, *, shape: tuple[int, ...], dtype: Any, decision: Decision
) -> Any:
    def make() -> jax.Array:
        if decision.on(platform or "other").fill:
            return jnp.full(shape, fill_value(dtype), dtype)
        return jax.lax.empty(shape, dtype)  # type: ignore[no-any-return]  # it is not typed

    return mlir.lower_fun(make, multiple_results=False)(context)


fresh_p.def_impl(lambda **params: xla.apply_primitive(fresh_p, **params))
fresh_p.def_abstract_eval(_abstract_eval)
register_per_platform(fresh_p, _lower)
