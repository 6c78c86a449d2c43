"""The op ``mm``: the product of two matrices, the left one dense or sparse."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._matmul import Left

_NAME = "mm"


@_matmul.compiled
def mm(input: Left, mat2: Array) -> jax.Array:
    """Multiplies two matrices.

    Products of float32 have full precision, unless ``jax_default_matmul_precision`` is set. float16
    and bfloat16 are added in float32 and rounded once.

    Args:
        input: Shape [m, k], of integers, floats or complex numbers; an array, or a
            ``jax.experimental.sparse.BCOO`` or ``BCSR``. Several elements that a sparse operand
            stores at one position are added up.
        mat2: Shape [k, n], of the same dtype.

    Returns:
        An array of shape [m, n], of the dtype of ``input``.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; a sparse ``input`` has a dense dimension or an
            index that is out of range (under ``jit`` such an element is dropped); or the mode is
            on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mm``. The spec's rows state what the mode does, and the guarantee.
    """
    a, b = _matmul.left(_NAME, input), arguments.array(_NAME, "mat2", mat2)
    _matmul.check_matrices(_NAME, input=a, mat2=b)
    return _matmul.product(_NAME, a, b, **_matmul.library_facts(a))
