"""The op ``mv``: the product of a matrix, dense or sparse, and a vector."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops import _matmul
from impl.ops._matmul import Left

_NAME = "mv"


@_matmul.compiled
def mv(input: Left, vec: Array) -> jax.Array:
    """Multiplies a matrix and a vector.

    Products of float32 have full precision, unless ``jax_default_matmul_precision`` is set. float16
    and bfloat16 are added in float32 and rounded once.

    Args:
        input: Shape [m, k], of integers, floats or complex numbers; an array, or a
            ``jax.experimental.sparse.BCOO`` or ``BCSR``. Several elements that a sparse operand
            stores at one position are added up.
        vec: Shape [k], of the same dtype.

    Returns:
        An array of shape [m], of the dtype of ``input``.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; a sparse ``input`` has a dense dimension or an
            index that is out of range (under ``jit`` such an element is dropped); or the mode is
            on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mv``. The spec's rows state what the mode does, and the guarantee.
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
    return _matmul.product(_NAME, a, b[:, None], **_matmul.library_facts(a))[:, 0]
