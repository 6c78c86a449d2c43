"""The op ``sparse.mm``: the product of a sparse matrix and a dense one."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _products
from impl.ops._op import op
from impl.ops._products import Sparse

_NAME = "sparse.mm"


@op("torch.sparse.mm")
def mm(mat1: Sparse, mat2: Array) -> jax.Array:
    """Multiplies a sparse matrix and a dense one.

    float16 and bfloat16 are added in float32 and rounded once.

    Args:
        mat1: A ``jax.experimental.sparse.BCOO`` or ``BCSR`` of shape [m, k], of integers, floats or
            complex numbers. Several elements stored at one position are added up. Under ``jit``,
            where indices are not known, an element whose index is out of range is dropped.
        mat2: Shape [k, n], of the same dtype.

    Returns:
        An array of shape [m, n], of the dtype of ``mat1``.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; or ``mat1`` has a dense dimension or an index
            that is out of range.
        TypeError: ``mat2`` is sparse.
    """
    a, b = _products.sparse_operand(_NAME, "mat1", mat1), arguments.array(_NAME, "mat2", mat2)
    _products.check_matrices(_NAME, mat1=a, mat2=b)
    return _products.product(_NAME, a, b)
