"""The op ``logcumsumexp``: logarithms of cumulative sums of exponentials."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl.ops._cumulative import along

_NAME = "logcumsumexp"


@eager.compiled
def logcumsumexp(input: Array, dim: int) -> jax.Array:
    """Computes logarithms of cumulative sums of exponentials along one dimension.

    Args:
        input: Any shape, floats or complex numbers.
        dim: The dimension along which exponentials are added.

    Returns:
        An array of the shape and dtype of ``input``. float16 and bfloat16 are computed in float32
        and rounded once. Imaginary parts are not reduced to [-pi, pi].

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is of integers or bools.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.logcumsumexp``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    if arguments.dtype_kind(input.dtype) in ("integer", "bool"):
        raise NotImplementedError(
            f"{_NAME}(): not implemented for {input.dtype}; it takes floats and complex numbers"
        )
    return along(input, "logaddexp", dim, decide(_NAME, **arguments.facts(input)))
