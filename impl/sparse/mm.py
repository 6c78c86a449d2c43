"""impl.sparse.mm."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._sparse import Sparse

_NAME = "sparse.mm"


def mm(mat1: Sparse, mat2: Array) -> jax.Array:
    """The product of a sparse matrix and a dense one.

    float16 and bfloat16 are added up in float32 and rounded once.

    Args:
        mat1: A ``jax.experimental.sparse.BCOO`` or ``BCSR`` of shape [m, k]; integers, floats or
            complex numbers. Elements of one position are added up. Under ``jit``, where their
            values are not known, indices that are out of range are dropped.
        mat2: Shape [k, n], of the same dtype.

    Returns:
        Shape [m, n].

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; ``mat1`` has dense dimensions or indices that are
            out of range; or the mode is on and the profile has no deterministic implementation for
            the device.
        TypeError: An argument is of the wrong type, or ``mat2`` is sparse.

    Source: ``torch.sparse.mm``. What the mode does, and the guarantee, are in the spec's rows.
    """
    a, b = _matmul.sparse(_NAME, "mat1", mat1), arguments.array(_NAME, "mat2", mat2)
    _matmul.check_matrices(_NAME, mat1=a, mat2=b)
    return _matmul.product(_NAME, a, b)
