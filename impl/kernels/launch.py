"""How kernels are launched, and what interpret mode cannot do by itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl.manual_axes import aligned

#: The largest number of elements that 32-bit offsets reach; beyond it the XLA lowering serves.
MAX_ELEMENTS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a kernel runs.

    Attributes:
        interpret: Whether Pallas interprets it, on any device.
        seed: With ``interpret``, permutes the order of programs and of atomic updates.
    """

    interpret: bool = False
    seed: int | None = None

    def __call__(
        self,
        kernel: Callable[..., None],
        grid: Sequence[int],
        out: jax.ShapeDtypeStruct,
        *args: jax.Array,
        name: str,
        aliases: Mapping[int, int] | None = None,
        num_warps: int = 4,
    ) -> jax.Array:
        """Runs ``kernel`` over ``grid``; ``name`` is how lowered IR shows it."""
        args = tuple(aligned(*args))
        axes = getattr(jax.typeof(args[0]), "mat", None)
        return pl.pallas_call(  # type: ignore[no-any-return]  # a tree of outputs: here one
            kernel,
            grid=tuple(grid),
            out_shape=jax.ShapeDtypeStruct(out.shape, out.dtype, manual_axis_type=axes),
            input_output_aliases=dict(aliases or {}),
            interpret=self.interpret,
            name=name,
            compiler_params=plt.CompilerParams(num_warps=num_warps),
        )(*args)

    def program_id(self, axis: int, size: int) -> jax.Array:
        """The program's id along ``axis`` of a grid that is ``size`` long there."""
        # Without the conversion the interpreter's ids follow the default integer width.
        own = pl.program_id(axis).astype(jnp.int32)
        return self._permuted(own, size, salt=axis)

    def atomic_add(self, ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
        """Adds each value to its element of a flat ref, in no stated order.

        In interpret mode ``plt.atomic_add`` loses an update when an offset occurs twice in one
        vector and refuses masks, so there the updates are applied one by one.
        """
        if not self.interpret:
            plt.atomic_add(ref, (offsets,), values, mask=mask)
            return
        count = offsets.shape[0]
        safe = jnp.where(mask, offsets, 0)

        def update(step: jax.Array, _: None) -> None:
            lane = self._permuted(step, count, salt=3)
            old = ref[safe[lane]]
            ref[safe[lane]] = jnp.where(mask[lane], old + values[lane], old)

        jax.lax.fori_loop(0, count, update, None)

    def store_any(self, ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
        """Stores values at offsets of a flat ref; of several for one offset, any may stay."""
        if not self.interpret:
            plt.store(ref.at[offsets], values, mask=mask)
            return
        count = offsets.shape[0]
        safe = jnp.where(mask, offsets, 0)

        def update(step: jax.Array, _: None) -> None:
            lane = self._permuted(step, count, salt=3)
            ref[safe[lane]] = jnp.where(mask[lane], values[lane], ref[safe[lane]])

        jax.lax.fori_loop(0, count, update, None)

    def _permuted(self, i: jax.Array, size: int, *, salt: int) -> jax.Array:
        """An affine map of ``range(size)`` onto itself, by the seed; it needs no operand."""
        if self.seed is None or size < 2:
            return i
        factor, shift = affine(self.seed, size, salt)
        return (i * factor % size + shift) % size


def affine(seed: int, size: int, salt: int = 0) -> tuple[int, int]:
    """Factor and shift of a permutation ``i -> (factor * i % size + shift) % size``."""
    rng = np.random.default_rng((seed, size, salt))
    shift = int(rng.integers(size))
    # Small enough that every product and sum stays within 32 bits.
    limit = max(2, min(size, MAX_ELEMENTS // size))
    factors = (f for f in rng.integers(1, limit, 64).tolist() if math.gcd(f, size) == 1)
    return next(factors, 1), shift
