"""impl.mm."""

from __future__ import annotations

import jax

from impl import checks
from impl.checks import Array
from impl.ops import _products
from impl.ops._products import Left

_NAME = "mm"


def mm(input: Left, mat2: Array) -> jax.Array:
    """The product of two matrices.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise;
    float16 and bfloat16 are added up in float32 and rounded once.

    Args:
        input: Shape [m, k]; integers, floats or complex numbers. A ``jax.experimental.sparse.BCOO``
            is taken too.
        mat2: Shape [k, n], of the same dtype.

    Returns:
        Shape [m, n].

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mm``. What the mode does, and the guarantee, are in the spec's rows.
    """
    a, b = _products.left(_NAME, input), checks.array(_NAME, "mat2", mat2)
    for name, operand in (("input", a), ("mat2", b)):
        if operand.ndim != 2:
            raise RuntimeError(
                f"{_NAME}(): {name} must be a matrix, but got shape {list(operand.shape)}"
            )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{_NAME}(): input and mat2 shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    _products.check_dtypes(_NAME, a, "mat2", b)
    return _products.product(_NAME, a, b)
