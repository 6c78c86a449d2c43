"""Uninitialized arrays, which the mode fills with a known value.

With the mode off, JAX chooses the contents. On a GPU or a TPU ``jax.lax.empty`` leaves the memory
as it was. On a CPU it returns zeros.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import mlir, xla

from impl._core.jax_internals import Primitive
from impl._core.numerics import fill_value
from impl._mode.decide import Decision
from impl._primitives._common import register_per_platform

uninitialized_p = Primitive("samebits_uninitialized")


def uninitialized(
    shape: tuple[int, ...], dtype: jax.typing.DTypeLike, *, decision: Decision
) -> jax.Array:
    """Returns fresh memory, filled with the known value if ``decision`` says so."""
    return uninitialized_p.bind(  # type: ignore[no-any-return]  # a primitive is not typed
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
        return jax.lax.empty(shape, dtype)  # type: ignore[no-any-return]

    return mlir.lower_fun(make, multiple_results=False)(context)


uninitialized_p.def_impl(lambda **params: xla.apply_primitive(uninitialized_p, **params))
uninitialized_p.def_abstract_eval(_abstract_eval)
register_per_platform(uninitialized_p, _lower)
