"""impl.mv."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._matmul import Left

_NAME = "mv"


def mv(input: Left, vec: Array) -> jax.Array:
    """The product of a matrix and a vector.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise;
    float16 and bfloat16 are added up in float32 and rounded once.

    Args:
        input: Shape [m, k]; integers, floats or complex numbers. A ``jax.experimental.sparse.BCOO``
            or ``BCSR`` is taken too, whose elements are added up where several have one position.
        vec: Shape [k], of the same dtype.

    Returns:
        Shape [m].

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; ``input`` is sparse and has dense dimensions or
            indices that are out of range (under ``jit`` they are dropped); or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mv``. What the mode does, and the guarantee, are in the spec's rows.
    """
    a, b = _matmul.left(_NAME, input), arguments.array(_NAME, "vec", vec)
    if (a.ndim, b.ndim) != (2, 1):
        raise RuntimeError(
            f"{_NAME}(): input must be a matrix and vec a vector, but got shapes {list(a.shape)} "
            f"and {list(b.shape)}"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{_NAME}(): size mismatch, got input ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
        )
    _matmul.check_dtypes(_NAME, a, "vec", b)
    return _matmul.product(_NAME, a, b[:, None])[:, 0]
