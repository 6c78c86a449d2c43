"""impl.cumsum."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl import checks
from impl.checks import Array
from impl.decide import decide
from impl.layout import three_axes
from impl.primitives.alert import alert
from impl.primitives.scan import scan

_NAME = "cumsum"


def cumsum(input: Array, dim: int, *, dtype: jax.typing.DTypeLike | None = None) -> jax.Array:
    """Running sums along one dimension.

    Args:
        input: Any shape and dtype.
        dim: The dimension to add along.
        dtype: What to convert to first. None means that integers and bools become int64 (int32
            where x64 is off) and other dtypes stay.

    Returns:
        Shape of ``input``. float16 and bfloat16 are added in float32 and rounded once.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.cumsum``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = checks.array(_NAME, "input", input)
    dim = checks.dimension(dim, input.ndim, _NAME)
    if dtype is None:
        exact = checks.dtype_kind(input.dtype) in ("integer", "bool")
        dtype = jnp.result_type(int) if exact else input.dtype
    values = input.astype(dtype)
    decision = decide(_NAME, **checks.facts(values))
    out = scan(three_axes(alert(values, decision), dim), decision=decision)
    return out.reshape(input.shape)
