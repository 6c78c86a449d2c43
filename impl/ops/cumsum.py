"""The op ``cumsum``: cumulative sums along a dimension."""

from __future__ import annotations

import jax

from impl._core import eager
from impl._core.arguments import Array
from impl.ops._cumulative import total

_NAME = "cumsum"


@eager.compiled
def cumsum(input: Array, dim: int, *, dtype: jax.typing.DTypeLike | None = None) -> jax.Array:
    """Computes cumulative sums along one dimension.

    Args:
        input: Any shape and dtype.
        dim: The dimension along which elements are added.
        dtype: The dtype to which ``input`` is converted first. With None, integers and bools become
            int64 (int32 where x64 is off) and other dtypes stay. A conversion from complex to real
            numbers discards the imaginary part, with a warning.

    Returns:
        An array of the shape of ``input``. float16 and bfloat16 are added in float32 and rounded
        once.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``dtype`` is bool.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.cumsum``. The spec's rows state what the mode does, and the guarantee.
    """
    return total(_NAME, "add", input, dim, dtype)
