"""The dtype in which ops add, which depends on the guarantee."""

from __future__ import annotations

import jax
import numpy as np

from impl._core.numerics import accumulator
from impl._mode import modes


def sum_dtype(dtype: jax.typing.DTypeLike) -> np.dtype:
    """Returns the dtype to which an op converts terms before one of JAX's primitives adds them.

    float16 and bfloat16 are added in float32, and the sum is rounded once. Under ``portable`` they
    are added as they are: the sum of the primitive is exact, and a conversion after it would round
    a second time.

    Args:
        dtype: The dtype of the terms.
    """
    return np.dtype(dtype) if modes.current().portable else accumulator(dtype)
