"""Powers of floats, element by element, as a call of the engine ``native``."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.jax_internals.shardings import Names
from impl._native.call import computed
from impl._native.operation import Operation, names, takes


@dataclasses.dataclass(frozen=True)
class Power(Operation):
    """The powers of an array of bases, and of an array of exponents of its shape.

    Attributes:
        rank: The number of axes of each array.
    """

    rank: int

    @property
    def result(self) -> Names:  # type: ignore[override]
        return names(self.rank)

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (self.result, self.result)

    def nearest(self, *operands: jax.Array) -> jax.Array:
        x, y = operands
        result: jax.Array = jax.ffi.ffi_call(
            "samebits_pow", jax.ShapeDtypeStruct(x.shape, x.dtype)
        )(x, y)
        return result


def pow(x: jax.Array, y: jax.Array, **_: object) -> jax.Array | None:
    """Returns ``x`` to the power of ``y``, rounded once; None if there is no call.

    Args:
        x: Any shape.
        y: The same shape; the same dtype, or integers.
    """
    if not takes([x], x.dtype) or x.shape != y.shape:
        return None
    if jnp.issubdtype(y.dtype, jnp.integer):
        if y.dtype == np.uint64:  # It has integers beyond int64.
            return None
        # The call takes int32 and int64.
        is_short = np.can_cast(y.dtype, np.int32)
        y = lax.convert_element_type(y, np.int32 if is_short else np.int64)
    elif y.dtype != x.dtype:
        return None
    if x.size == 0:
        return x
    return computed(Power(x.ndim), [x, y])
