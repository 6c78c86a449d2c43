"""A sample: a small call of an op, to which the tests of this folder apply transformations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """A call of an op.

    Attributes:
        call: The call, ``call(namespace, *arrays)``; the namespace is ``impl`` or ``torch``.
        arrays: The arrays of the call. Derivatives are taken by the arrays of floats.
        variant: A name that tells apart the samples of one op.
        torch: The call of PyTorch, ``torch(torch, *tensors)``, if it is another one.
        like_torch: Whether PyTorch has such a call with the same result.
        gradient_like_torch: Whether PyTorch has the same gradient.
        smooth: Whether the derivative agrees with finite differences.
        twice: Whether the op can be differentiated twice.
        uses_values: Whether the result depends on the values of the arrays.
        same_bits: Whether every program gives the same bits. Otherwise the results agree up to
            rounding.
        batch: The positions of the arrays that may have a batch dimension; None for all.
        transformed: Whether the call is tested under transformations. A call that runs the code
            of another one, for example for another number of dimensions, is tested without.
    """

    call: Callable[..., Any]
    arrays: tuple[Any, ...] = ()
    variant: str = ""
    torch: Callable[..., Any] | None = None
    like_torch: bool = True
    gradient_like_torch: bool = True
    smooth: bool = True
    twice: bool = True
    uses_values: bool = True
    same_bits: bool = True
    batch: tuple[int, ...] | None = None
    transformed: bool = True

    @property
    def float_positions(self) -> list[int]:
        """The positions of the arrays of floats."""
        dtypes = [array.dtype for array in self.arrays]
        return [i for i, dtype in enumerate(dtypes) if jnp.issubdtype(dtype, jnp.floating)]

    @property
    def floats(self) -> list[np.ndarray]:
        """The arrays of floats."""
        return [self.arrays[position] for position in self.float_positions]

    def outputs(self, *arrays: Any) -> list[jax.Array]:
        """Calls the op of impl and returns all arrays of the result."""
        return jax.tree.leaves(self.call(impl, *arrays))


def apart(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns numbers that differ by 1/16 at least, so that a small step keeps their order."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count)
    return (order / 16 + 0.5).astype(np.float32).reshape(shape)
