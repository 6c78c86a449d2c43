"""How kernels are launched, and what interpret mode cannot do by itself."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl._core import jax_internals, numerics
from impl._core.reductions import Reduction
from impl._core.shard_axes import aligned
from impl._mode.emulation import Seed

#: The largest number of elements that 32-bit offsets reach, with room for the last program's lanes
#: beyond them; for more the XLA lowering serves.
MAX_ELEMENTS = 2**31 - 2**10
#: Among how many factors a seed chooses, beside the shift.
_FACTORS = 4
#: That seed, as the kernel being traced has read it.
_reading: ContextVar[jax.Array | None] = ContextVar("_reading", default=None)


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a kernel runs.

    Attributes:
        interpret: Whether Pallas interprets it, on any device.
        seed: With ``interpret``, permutes the order of programs and of atomic updates; 0 keeps it.
            A ``Seed`` is one more operand of the kernel.
        fill: With ``interpret``, whether a result starts as the known value of fresh memory, or
            else as zeros. What a kernel leaves unwritten makes the two differ.
    """

    interpret: bool = False
    seed: int | Seed | None = None
    fill: bool = True

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
        aliases = dict(aliases or {})
        if self.interpret and not aliases:
            kernel, args, aliases = self._onto_fresh(kernel, out, args)
        if isinstance(self.seed, Seed):
            kernel, args, aliases = _seeded(self.seed, kernel, args, aliases)
        args = tuple(aligned(*args))
        return pl.pallas_call(  # type: ignore[no-any-return]  # a tree of outputs: here one
            kernel,
            grid=tuple(grid),
            out_shape=jax_internals.varying_like(out, args[0]),
            input_output_aliases=aliases,
            interpret=self.interpret,
            name=name,
            compiler_params=plt.CompilerParams(num_warps=num_warps),
        )(*args)

    def _onto_fresh(
        self, kernel: Callable[..., None], out: jax.ShapeDtypeStruct, args: tuple[jax.Array, ...]
    ) -> tuple[Callable[..., None], tuple[jax.Array, ...], dict[int, int]]:
        """``kernel`` with one more operand, which its result is written over, and the aliases."""
        value = numerics.fill_value(out.dtype) if self.fill else 0
        count = len(args)

        def over(*refs: Any) -> None:
            kernel(*refs[:count], *refs[count + 1 :])

        return over, (*args, jnp.full(out.shape, value, out.dtype)), {count: 0}

    def program_id(self, axis: int, size: int) -> jax.Array:
        """The program's id along ``axis`` of a grid that is ``size`` long there."""
        # Without the conversion the interpreter's ids follow the default integer width.
        own = pl.program_id(axis).astype(jnp.int32)
        return self._permuted(own, size, salt=axis)

    def atomic(
        self, ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array, reduction: Reduction
    ) -> None:
        """Adds or multiplies each float into its element of a flat ref, in no stated order.

        In interpret mode Triton's atomics lose an update when an offset occurs twice in one
        vector and refuse masks, so there the updates are applied one by one.
        """
        if self.interpret:
            self._one_by_one(ref, offsets, values, mask, reduction.combine)
        elif reduction.name == "mul":
            _atomic_mul(ref, offsets, values, mask)
        else:
            plt.atomic_add(ref, (offsets,), values, mask=mask)

    def product(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """``a * b`` of float32 or float64, rounded before a sum takes it up.

        A multiplication with its rounding written out is never contracted.
        """
        if self.interpret:
            return numerics.product(a, b)
        letter, bits = ("f", 32) if a.dtype.itemsize == 4 else ("d", 64)
        (out,) = plt.elementwise_inline_asm(
            f"mul.rn.f{bits} $0, $1, $2;",
            args=(a, b),
            constraints=f"={letter},{letter},{letter}",
            pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct(a.shape, a.dtype)],
        )
        return out

    def sum(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """``a + b`` of float32 or float64, not taken for a step of the sum or product that b is."""
        if self.interpret:
            return a + b
        letter, bits = ("f", 32) if a.dtype.itemsize == 4 else ("d", 64)
        (out,) = plt.elementwise_inline_asm(
            f"add.rn.f{bits} $0, $1, $2;",
            args=(a, b),
            constraints=f"={letter},{letter},{letter}",
            pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct(a.shape, a.dtype)],
        )
        return out

    def store_any(self, ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
        """Stores values at offsets of a flat ref; of several for one offset, any may stay."""
        if self.interpret:
            self._one_by_one(ref, offsets, values, mask, lambda _, new: new)
        else:
            plt.store(ref.at[offsets], values, mask=mask)

    def _one_by_one(
        self,
        ref: Any,
        offsets: jax.Array,
        values: jax.Array,
        mask: jax.Array,
        combine: Callable[[jax.Array, jax.Array], jax.Array],
    ) -> None:
        count = offsets.shape[0]
        safe = jnp.where(mask, offsets, 0)

        def update(step: jax.Array, _: None) -> None:
            lane = self._permuted(step, count, salt=3)
            old = ref[safe[lane]]
            ref[safe[lane]] = jnp.where(mask[lane], combine(old, values[lane]), old)

        jax.lax.fori_loop(0, count, update, None)

    def _permuted(self, i: jax.Array, size: int, *, salt: int) -> jax.Array:
        """An affine map of ``range(size)`` onto itself, by the seed."""
        if self.seed is None or size < 2:
            return i
        # Every product and sum stays within 32 bits.
        seed = self.seed if not isinstance(self.seed, Seed) else _as_read()
        factor = _pick(seed % _FACTORS, _factors(size, salt))
        shift = (seed & 0x7FFF) * (0x9E37 + 2 * salt) % size
        return (i * factor % size + shift) % size


def _seeded(
    seed: Seed,
    kernel: Callable[..., None],
    args: tuple[jax.Array, ...],
    aliases: Mapping[int, int],
) -> tuple[Callable[..., None], tuple[jax.Array, ...], dict[int, int]]:
    """``kernel`` with the seed as its first operand, read when it runs, and the aliases."""
    shape = jax.ShapeDtypeStruct((1,), np.int32)
    value = jax.pure_callback(lambda: np.full(1, seed.value, np.int32), shape)

    def permuted(seed_ref: Any, *refs: Any) -> None:
        token = _reading.set(seed_ref[0])
        try:
            kernel(*refs)
        finally:
            _reading.reset(token)

    return permuted, (value, *args), {place + 1: out for place, out in aliases.items()}


def _atomic_mul(ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
    """Multiplication by atomic exchange, since there is no atomic for it.

    A lane takes what it finds and leaves 1, multiplies, and exchanges the product back. What it
    then takes is 1 unless another lane came between; else it goes on with that.
    """

    def holding(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.max(state[1].astype(jnp.int32)) > 0

    def settle(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        held, alive = state
        one = jnp.ones_like(held)
        product = held * plt.atomic_xchg(ref, (offsets,), one, mask=alive)
        left = plt.atomic_xchg(ref, (offsets,), product, mask=alive)
        return left, alive & (left != one)

    jax.lax.while_loop(holding, settle, (values, mask))


def _as_read() -> jax.Array:
    """The seed that the kernel being traced has read."""
    seed = _reading.get()
    if seed is None:
        raise RuntimeError("a seed that is read at run time is known inside kernels alone")
    return seed


def _pick(which: int | jax.Array, values: Sequence[int]) -> int | jax.Array:
    if isinstance(which, int):
        return values[which]
    return jax.lax.select_n(which, *map(jnp.int32, values))


@functools.cache
def _factors(size: int, salt: int) -> tuple[int, ...]:
    """Numbers that share no divisor with ``size``, the first of which is 1."""
    limit = max(2, min(size, MAX_ELEMENTS // size))
    drawn = np.random.default_rng((size, salt)).integers(1, limit, 64).tolist()
    found = dict.fromkeys(number for number in drawn if number > 1 and math.gcd(number, size) == 1)
    return (1, *found, *[1] * _FACTORS)[:_FACTORS]
