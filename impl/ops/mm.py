"""impl.mm."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._matmul import Left

_NAME = "mm"


def mm(input: Left, mat2: Array) -> jax.Array:
    """The product of two matrices.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise;
    float16 and bfloat16 are added up in float32 and rounded once.

    Args:
        input: Shape [m, k]; integers, floats or complex numbers. A ``jax.experimental.sparse.BCOO``
            or ``BCSR`` is taken too, whose elements are added up where several have one position.
        mat2: Shape [k, n], of the same dtype.

    Returns:
        Shape [m, n].

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; ``input`` is sparse and has dense dimensions or
            indices that are out of range (under ``jit`` they are dropped); or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mm``. What the mode does, and the guarantee, are in the spec's rows.
    """
    a, b = _matmul.left(_NAME, input), arguments.array(_NAME, "mat2", mat2)
    _matmul.check_matrices(_NAME, input=a, mat2=b)
    return _matmul.product(_NAME, a, b)
