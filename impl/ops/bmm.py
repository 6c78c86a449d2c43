"""impl.bmm."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._matmul import Left

_NAME = "bmm"


def bmm(input: Left, mat2: Array) -> jax.Array:
    """Products of matrices, one for each of a batch.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise;
    float16 and bfloat16 are added up in float32 and rounded once.

    Args:
        input: Shape [b, m, k]; integers, floats or complex numbers. A
            ``jax.experimental.sparse.BCOO`` or ``BCSR`` is taken too, whose elements are added up
            where several have one position.
        mat2: Shape [b, k, n], of the same dtype.

    Returns:
        Shape [b, m, n].

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; ``input`` is sparse and has dense dimensions or
            indices that are out of range (under ``jit`` they are dropped); or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.bmm``. What the mode does, and the guarantee, are in the spec's rows.
    """
    a, b = _matmul.left(_NAME, input), arguments.array(_NAME, "mat2", mat2)
    for name, operand in (("input", a), ("mat2", b)):
        if operand.ndim != 3:
            raise RuntimeError(
                f"{_NAME}(): {name} must have three dimensions, but got shape {list(operand.shape)}"
            )
    wanted = [a.shape[0], a.shape[2]]
    if list(b.shape[:2]) != wanted:
        raise RuntimeError(
            f"{_NAME}(): Expected size for first two dimensions of mat2 to be: {wanted} but got: "
            f"{list(b.shape[:2])}"
        )
    _matmul.check_dtypes(_NAME, a, "mat2", b)
    return _matmul.product(_NAME, a, b)
