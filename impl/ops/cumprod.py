"""The op ``cumprod``: cumulative products along a dimension."""

from __future__ import annotations

import jax

from impl._core import eager
from impl._core.arguments import Array
from impl.ops._cumulative import total

_NAME = "cumprod"


@eager.compiled
def cumprod(input: Array, dim: int, *, dtype: jax.typing.DTypeLike | None = None) -> jax.Array:
    """Computes cumulative products along one dimension.

    Args:
        input: Any shape and dtype.
        dim: The dimension along which elements are multiplied.
        dtype: The dtype to which ``input`` is converted first. With None, integers and bools become
            int64 (int32 where x64 is off) and other dtypes stay. A conversion from complex to real
            numbers discards the imaginary part, with a warning.

    Returns:
        An array of the shape of ``input``. float16 and bfloat16 are multiplied in float32 and
        rounded once. If the product of one block of a long row overflows and another block's is 0,
        the products after both are NaN.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``dtype`` is bool.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.cumprod``. The spec's rows state what the mode does, and the guarantee.
    """
    return total(_NAME, "mul", input, dim, dtype)
