"""The op ``bmm``: products of a batch of matrices, the left ones dense or sparse."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._matmul import Left

_NAME = "bmm"


@_matmul.compiled
def bmm(input: Left, mat2: Array) -> jax.Array:
    """Multiplies the matrices of two batches, pair by pair.

    Products of float32 have full precision, unless ``jax_default_matmul_precision`` is set. float16
    and bfloat16 are added in float32 and rounded once.

    Args:
        input: Shape [b, m, k], of integers, floats or complex numbers; an array, or a
            ``jax.experimental.sparse.BCOO`` or ``BCSR``. Several elements that a sparse operand
            stores at one position are added up.
        mat2: Shape [b, k, n], of the same dtype.

    Returns:
        An array of shape [b, m, n], of the dtype of ``input``.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; a sparse ``input`` has a dense dimension or an
            index that is out of range (under ``jit`` such an element is dropped); or the mode is
            on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.bmm``. The spec's rows state what the mode does, and the guarantee.
    """
    a, b = _matmul.left(_NAME, input), arguments.array(_NAME, "mat2", mat2)
    for name, operand in (("input", a), ("mat2", b)):
        if operand.ndim != 3:
            raise RuntimeError(
                f"{_NAME}(): {name} must have three dimensions, but got shape {list(operand.shape)}"
            )
    expected = [a.shape[0], a.shape[2]]
    if list(b.shape[:2]) != expected:
        raise RuntimeError(
            f"{_NAME}(): Expected size for first two dimensions of mat2 to be: {expected} but got: "
            f"{list(b.shape[:2])}"
        )
    _matmul.check_dtypes(_NAME, a, "mat2", b)
    return _matmul.product(_NAME, a, b, **_matmul.library_facts(a))
