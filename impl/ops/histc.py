"""impl.histc."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import aligned
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.arithmetic import divide, multiply
from impl._primitives.scatter_accumulate import scatter_accumulate

_NAME = "histc"


def histc(input: Array, bins: int = 100, min: Any = 0, max: Any = 0) -> jax.Array:
    """Counts the elements in each of ``bins`` bins of equal width from ``min`` to ``max``.

    An element x from ``min`` to ``max`` is in bin ((x - min) * bins) / (max - min), cut off, and
    ``max`` is in the last one. Other elements, NaN among them, are not counted. Floats are
    computed with as written, each step rounded; float16 and bfloat16 in float32. The arithmetic
    of integers is exact.

    Args:
        input: Any shape, of floats or integers. (PyTorch counts integers on CUDA alone.)
        bins: How many.
        min: A number, of which the dtype of ``input`` keeps what it can hold.
        max: As ``min``. Where the two are equal the least and the greatest element take their
            place, and if these are equal too, or there is none, the range is 1 wider at each end.

    Returns:
        Shape [bins], of the dtype of ``input``. It has no gradient. Counts are exact and are
        rounded once to that dtype, also where sums of ones in it would not grow any more.

    Raises:
        NotImplementedError: ``input`` is of bool or complex numbers.
        RuntimeError: ``bins`` is not positive; ``min`` is above ``max``; the range is not finite;
            or the mode is on and the profile has no deterministic implementation for the device.
            Under ``jit``, where the range is not known, nothing is counted in such a range.
        TypeError: An argument is of the wrong type.

    Source: ``torch.histc``. What the mode does, and the guarantee, are in the spec's rows.
    """
    numbers = arguments.array(_NAME, "input", input)
    if arguments.dtype_kind(numbers.dtype) not in ("floating", "integer"):
        raise NotImplementedError(
            f"{_NAME}(): not implemented for {numbers.dtype} in argument 'input'; it takes floats "
            "and integers"
        )
    bins = arguments.integer(_NAME, "bins", bins)
    if bins <= 0:
        raise RuntimeError(f"{_NAME}(): bins must be > 0, but got {bins}")
    ends = [
        arguments.number_as(_NAME, name, value, numbers.dtype)
        for name, value in (("min", min), ("max", max))
    ]
    _check_range(input, numbers.dtype, min, max)
    decision = decide(_NAME, **arguments.facts(numbers))
    wide = _wide(numbers.dtype)
    flat = convert(jax.lax.stop_gradient(alert(numbers, decision)).reshape(-1), wide)
    low, high = _range(flat, *(convert(jax.lax.stop_gradient(end), wide) for end in ends))
    counted = (low < high) & (flat >= low) & (flat <= high)
    if jnp.issubdtype(wide, jnp.floating):
        counted &= jnp.isfinite(low) & jnp.isfinite(high)
        place = _place_of_float(flat, low, high, bins)
    else:
        place = _place_of_integer(flat, low, high, bins)
    counts = scatter_accumulate(
        jnp.zeros((1, bins, 1), jnp.int32),
        jnp.where(counted, jnp.minimum(place, bins - 1), bins)[None, :, None],
        jnp.ones((1, flat.size, 1), jnp.int32),
        decision=decision,
    )
    return convert(counts.reshape(bins).astype(wide), numbers.dtype)


def _wide(dtype: jax.typing.DTypeLike) -> np.dtype:
    """What is computed in: float32 and int32 for what is narrower."""
    dtype = np.dtype(dtype)
    return dtype if dtype.itemsize >= 4 else accumulator(dtype)


def _check_range(input: Any, dtype: jax.typing.DTypeLike, low: Any, high: Any) -> None:
    """Refuses a range that is known and is none.

    Raises:
        RuntimeError: It is not finite, or its ends are in the wrong order.
    """
    ends = [end for end in (arguments.known(low), arguments.known(high)) if end is not None]
    if len(ends) < 2:
        return
    least, most = (end.astype(dtype).astype(_wide(dtype)) for end in ends)
    if least == most:
        values = arguments.known(input)
        if values is None:
            return
        if values.size:
            least, most = values.min().astype(least.dtype), values.max().astype(least.dtype)
        if least == most:
            if not jnp.issubdtype(dtype, jnp.floating):
                return
            least, most = least - 1, most + 1
    if not (np.isfinite(least) and np.isfinite(most)):
        raise RuntimeError(
            f"{_NAME}(): range of [{least}, {most}] is not finite; pass finite 'min' and 'max', "
            "not both the same"
        )
    if not least < most:
        raise RuntimeError(
            f"{_NAME}(): max must be larger than min, but got a range of [{least}, {most}]"
        )


def _range(flat: jax.Array, low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The ends of the range, where equal ones stand for those of the data."""
    if flat.size:
        same = low == high
        low, high = jnp.where(same, flat.min(), low), jnp.where(same, flat.max(), high)
    same = low == high
    if jnp.issubdtype(flat.dtype, jnp.floating):
        return jnp.where(same, low - 1, low), jnp.where(same, high + 1, high)
    limits = jnp.iinfo(flat.dtype)
    least, most = (jnp.array(limit, flat.dtype) for limit in (limits.min, limits.max))
    down, up = ((same & within).astype(flat.dtype) for within in (low > least, high < most))
    return low - down, high + up


def _place_of_float(flat: jax.Array, low: jax.Array, high: jax.Array, bins: int) -> jax.Array:
    scaled = multiply(flat - low, jnp.asarray(bins, flat.dtype))
    place = divide(scaled, high - low)
    # No number where nothing is counted.
    return jnp.where(place >= 0, jnp.minimum(place, bins), 0).astype(jnp.int32)


def _place_of_integer(flat: jax.Array, low: jax.Array, high: jax.Array, bins: int) -> jax.Array:
    """(flat - low) * bins // (high - low), of which the product has twice the bits."""
    word = jnp.dtype(f"uint{8 * flat.dtype.itemsize}")
    bits = 8 * word.itemsize
    half = bits // 2
    mask = (1 << half) - 1
    # Modulo the word's size the differences are right.
    distance, width = (x.astype(word) - low.astype(word) for x in (flat, high))
    head, tail = distance >> half, distance & mask
    middle = head * (bins & mask) + (tail * (bins & mask) >> half)
    other = tail * (bins >> half) + (middle & mask)
    upper = head * (bins >> half) + (middle >> half) + (other >> half)
    lower = distance * bins
    place = _long_division(upper, lower, width)
    return jnp.minimum(place, bins).astype(jnp.int32)


def _long_division(upper: jax.Array, lower: jax.Array, divisor: jax.Array) -> jax.Array:
    """The quotient of a number of two words, where it fits one word."""
    upper, lower, divisor = aligned(upper, lower, divisor)
    last = 8 * lower.dtype.itemsize - 1

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        # Bits leave ``low`` on the left, and those of the quotient enter it on the right.
        rest, low = state
        over = (rest >> last) == 1
        rest = (rest << 1) | (low >> last)
        fits = over | (rest >= divisor)
        return jnp.where(fits, rest - divisor, rest), (low << 1) | fits.astype(low.dtype)

    # A loop, since the compiler takes minutes where the steps are written out.
    return jax.lax.fori_loop(0, last + 1, step, (upper, lower))[1]  # type: ignore[no-any-return]
