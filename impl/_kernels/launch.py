"""The calls that a kernel makes: launching, instance numbers, loads, stores and atomics.

Compiled for a GPU, each call goes to the backend. Interpreted on a CPU, kernels run under a
schedule: a seed permutes the order of their instances and of their atomic updates, so that a test
without a GPU can find a result that depends on the order. Four atomic additions to one element::

    values      [1e8, 1., -1e8, 1.] in float32
    seed 0      lanes 0, 1, 2, 3      ((1e8 + 1.) + -1e8) + 1. = 1.
    seed 1      lanes 1, 0, 3, 2      ((1. + 1e8) + 1.) + -1e8 = 0.
    seed 2      lanes 2, 3, 0, 1      ((-1e8 + 1.) + 1e8) + 1. = 1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl import _jax
from impl._core import numerics
from impl._core.shard_axes import aligned
from impl._kernels import triton as backend
from impl._mode.emulation import Seed

#: The largest number of elements of an array that a kernel takes. Its offsets have 32 bits, and
#: the lanes of the last instance may go beyond the end. Larger arrays take operations of XLA.
MAX_ELEMENTS = 2**31 - 2**10
#: The number of factors that a seed chooses from; it also chooses a shift.
_FACTORS = 4
#: The value of a ``Seed`` that the kernel being traced has read.
_seed_value: ContextVar[jax.Array | None] = ContextVar("_seed_value", default=None)
#: The operations by which a scatter combines the contributions to one destination.
ReductionName: TypeAlias = Literal["add", "mul", "min", "max"]


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A commutative operation with an identity; on floats its result depends on the order.

    Attributes:
        name: The name; ``jax.numpy.ndarray.at[...]`` has a method of this name.
        combine: The operation on two arrays.
        identity: Returns, for a dtype, the number that leaves every value its bits when combined
            with it.
    """

    name: ReductionName
    combine: Callable[[jax.Array, jax.Array], jax.Array]
    identity: Callable[[jax.typing.DTypeLike], float | int]


ADD = Reduction("add", lambda a, b: a + b, numerics.identity)
MUL = Reduction("mul", lambda a, b: a * b, lambda _: 1)


@dataclasses.dataclass(frozen=True)
class Launch:
    """The settings that kernels run with, and the operations that a kernel may use.

    Attributes:
        interpret: Whether Pallas interprets kernels, which any device can do.
        seed: With ``interpret``, permutes the order of instances and of atomic updates; 0 keeps it.
            A ``Seed`` becomes one more operand of the kernel.
    """

    interpret: bool = False
    seed: int | Seed | None = None

    def __call__(
        self,
        kernel: Callable[..., None],
        grid: Sequence[int],
        out: Sequence[jax.ShapeDtypeStruct],
        *args: jax.Array,
        name: str,
        aliases: Mapping[int, int],
    ) -> Sequence[jax.Array]:
        """Runs a kernel, named ``name`` in the lowered program, over a grid of instances.

        The kernel takes a reference for each argument, then one for each result. ``aliases`` maps
        the position of an operand to the position of the result over it.
        """
        if isinstance(self.seed, Seed):
            kernel, args, aliases = _with_seed_operand(self.seed, kernel, args, aliases)
        args = tuple(aligned(*args))
        results: Sequence[jax.Array] = backend.run(
            kernel,
            grid,
            tuple(_jax.varying_like(one, args[0]) for one in out),
            args,
            name=name,
            aliases=aliases,
            interpret=self.interpret,
        )
        return results

    def program_id(self, axis: int, size: int) -> jax.Array:
        """Returns the instance's index along ``axis`` of the grid, which has length ``size``."""
        return self._permuted(backend.program_id(axis), size, salt=axis)

    def load(self, view: Any, *, mask: jax.Array | None = None, other: Any = None) -> jax.Array:
        """Loads the elements of ``view``, a ``ref.at[index]``, and ``other`` where not ``mask``."""
        return backend.load(view, mask=mask, other=other)

    def store_some(self, ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array) -> None:
        """Stores values at offsets into a flat ref where ``mask``; there no offset occurs twice."""
        if self.interpret:
            # An interpreted store writes the old value where the mask is false, perhaps over a new
            # value at the same offset.
            offsets = jnp.where(mask, offsets, ref.shape[0])
        backend.store(ref.at[offsets], values, mask=mask)

    def atomic(
        self, ref: Any, offsets: jax.Array, values: jax.Array, mask: jax.Array, reduction: Reduction
    ) -> None:
        """Adds or multiplies floats into elements of a flat ref, in no stated order.

        In interpret mode Pallas' atomics lose an update where an offset occurs twice in one vector
        (https://github.com/jax-ml/jax/issues/24117), and they refuse masks. An interpreted kernel
        therefore applies one update after another.
        """
        if self.interpret:
            self._update_in_sequence(ref, offsets, values, mask, reduction.combine)
        elif reduction.name == "mul":
            backend.atomic_multiply(ref, offsets, values, mask)
        else:
            backend.atomic_add(ref, offsets, values, mask)

    def _update_in_sequence(
        self,
        ref: Any,
        offsets: jax.Array,
        values: jax.Array,
        mask: jax.Array,
        combine: Callable[[jax.Array, jax.Array], jax.Array],
    ) -> None:
        offsets, values, mask = (each.reshape(-1) for each in (offsets, values, mask))
        count = offsets.shape[0]
        safe_offsets = jnp.where(mask, offsets, 0)

        def update(step: jax.Array, _: None) -> None:
            lane = self._permuted(step, count, salt=3)
            old = ref[safe_offsets[lane]]
            ref[safe_offsets[lane]] = jnp.where(mask[lane], combine(old, values[lane]), old)

        jax.lax.fori_loop(0, count, update, None)

    def _permuted(self, index: jax.Array, size: int, *, salt: int) -> jax.Array:
        """Maps ``range(size)`` onto itself by an affine map that the seed chooses."""
        if self.seed is None or size < 2:
            return index
        seed = _read_seed() if isinstance(self.seed, Seed) else self.seed
        return permuted_index(index, size, seed, salt)


def scheduled(seed: int | Seed, size: int, salt: int) -> jax.Array:
    """Returns the numbers below ``size`` in the order that a seed picks, outside of a kernel.

    The seed is an int, or a ``Seed``, which is read when the program runs. ``salt`` gives several
    axes different orders.
    """
    value: Any = seed
    if not isinstance(seed, int):
        kind = jax.ShapeDtypeStruct((), np.int32)
        value = jax.pure_callback(lambda: np.int32(seed.value), kind)
    numbers = jnp.arange(size, dtype=jnp.int32)
    return jnp.asarray(permuted_index(numbers, size, value, salt))


def permuted_index(index: jax.Array, size: int, seed: int | jax.Array, salt: int) -> jax.Array:
    """Maps ``range(size)`` onto itself by an affine map; the seed 0 maps each number to itself."""
    # Every product and sum stays within 32 bits.
    factor = _choose(seed % _FACTORS, _factors(size, salt))
    shift = (seed & 0x7FFF) * (0x9E37 + 2 * salt) % max(size, 1)
    return (index * factor % max(size, 1) + shift) % max(size, 1)


def _with_seed_operand(
    seed: Seed, kernel: Callable[..., None], args: tuple[jax.Array, ...], aliases: Mapping[int, int]
) -> tuple[Callable[..., None], tuple[jax.Array, ...], dict[int, int]]:
    """Makes the seed the first operand, read when the program runs."""
    shape = jax.ShapeDtypeStruct((1,), np.int32)
    value = jax.pure_callback(lambda: np.full(1, seed.value, np.int32), shape)

    def permuted(seed_ref: Any, *refs: Any) -> None:
        token = _seed_value.set(seed_ref[0])
        try:
            kernel(*refs)
        finally:
            _seed_value.reset(token)

    return permuted, (value, *args), {position + 1: out for position, out in aliases.items()}


def _read_seed() -> jax.Array:
    """Returns the value of the ``Seed`` that the kernel being traced has read."""
    seed = _seed_value.get()
    if seed is None:
        raise RuntimeError("a seed that is read at run time is known only inside a kernel")
    return seed


def _choose(number: int | jax.Array, values: Sequence[int]) -> int | jax.Array:
    if isinstance(number, int):
        return values[number]
    return jax.lax.select_n(number, *map(jnp.int32, values))


@functools.cache
def _factors(size: int, salt: int) -> tuple[int, ...]:
    """Returns numbers that share no divisor with ``size``; the first is 1."""
    limit = max(2, min(size, MAX_ELEMENTS // size))
    numbers = np.random.default_rng((size, salt)).integers(1, limit, 64).tolist()
    coprime = dict.fromkeys(n for n in numbers if n > 1 and math.gcd(n, size) == 1)
    return (1, *coprime, *[1] * _FACTORS)[:_FACTORS]
