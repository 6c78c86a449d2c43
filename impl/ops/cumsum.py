"""impl.cumsum."""

from __future__ import annotations

import jax

from impl._core.arguments import Array
from impl.ops._cumulative import total

_NAME = "cumsum"


def cumsum(input: Array, dim: int, *, dtype: jax.typing.DTypeLike | None = None) -> jax.Array:
    """Running sums along one dimension.

    Args:
        input: Any shape and dtype.
        dim: The dimension to add along.
        dtype: What to convert to first. None means that integers and bools become int64 (int32
            where x64 is off) and other dtypes stay. From complex to real numbers the imaginary
            part is discarded, with a warning.

    Returns:
        Shape of ``input``. float16 and bfloat16 are added in float32 and rounded once.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``dtype`` is bool.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.cumsum``. What the mode does, and the guarantee, are in the spec's rows.
    """
    return total(_NAME, "add", input, dim, dtype)
