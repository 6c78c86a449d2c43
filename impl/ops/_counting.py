"""The ops ``bincount`` and ``histc``, whose counts are sums by index.

``histc`` computes the bin of each element with stated arithmetic, so that every platform finds the
same bin. Counts are sums of integers, which are exact in every order.

For example::

    bincount([1, 3, 1, 0])                             [1, 2, 0, 1]
    bincount([1, 3, 1, 0], [0.5, 1., 2., 4.])          [4., 2.5, 0., 1.]
    histc([0., 0.5, 1., 1.5, 2., 3., nan], 4, 0, 2)    [1., 1., 1., 2.]: 2. is in the last bin
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager, numerics
from impl._core.arguments import Array
from impl._core.numerics import convert
from impl._core.shard_axes import aligned
from impl._mode.alert import alert
from impl._mode.decide import decide
from impl.ops._indexing import accumulate, counts
from impl.ops._op import op
from impl.ops._reductions import wide_dtype


@op("torch.bincount")
def bincount(
    input: Array, weights: Array | None = None, minlength: int = 0, *, length: int | None = None
) -> jax.Array:
    """Counts how often each number occurs, or adds up the weights of its occurrences.

    Args:
        input: Shape [n], integers that are not negative.
        weights: Shape [n], real numbers; or None to count.
        minlength: The least length of the result.
        length: The exact length of the result; numbers of ``length`` and above are dropped. It is
            needed under ``jit``, where the largest number is not known.

    Returns:
        An array of shape [max(minlength, largest number + 1)], or [``length``]. Without
        ``weights`` it has the default integer dtype. With ``weights`` of float32 it is float32;
        with other weights it is float64, or float32 where x64 is off.

    Raises:
        NotImplementedError: ``input`` is not of integers.
        RuntimeError: ``input`` is not 1-d or has a negative number; ``weights`` and ``input``
            differ in shape; or ``minlength`` is negative or above ``length``.
        TypeError: ``weights`` are complex, or ``length`` is missing under ``jit``.
    """
    numbers = arguments.array("bincount", "input", input)
    arguments.check_kind("bincount", numbers.dtype, "integer", name="input")
    if numbers.ndim != 1:
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, but got shape "
            f"{list(numbers.shape)}"
        )
    minlength = arguments.integer("bincount", "minlength", minlength)
    if minlength < 0:
        raise RuntimeError(f"bincount(): minlength should be >= 0, but got {minlength}")
    size = _bincount_length(input, minlength, length)
    amounts = _amounts(weights, numbers)
    decision = decide("bincount", **arguments.facts(amounts, weights=weights is not None))
    out = accumulate(
        jnp.zeros((1, size, 1), amounts.dtype),
        _bincount_bins(input, numbers, size)[None, :, None],
        alert(amounts, decision)[None, :, None],
    )
    return out.reshape(size)


def _bincount_length(input: Any, minlength: int, length: int | None) -> int:
    if length is not None:
        length = arguments.integer("bincount", "length", length)
        if length < minlength:
            raise RuntimeError(
                f"bincount(): length must not be below minlength, but got {length} and {minlength}"
            )
        eager.when_known(_check_values, input)
        return length
    values = arguments.known(input)
    if values is None:
        raise TypeError(
            "bincount(): the length of the result depends on the values of 'input', which are not "
            "known under jit, or where other processes have a part of it; pass length=, as for "
            "jax.numpy.bincount"
        )
    _check_values(values)
    return max(minlength, int(values.max()) + 1 if values.size else 0)


def _check_values(values: np.ndarray[Any, Any]) -> None:
    if values.size and values.min() < 0:
        position = int(np.argmin(values))
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, but got "
            f"{values[position]} at position {position}"
        )


def _bincount_bins(input: Any, numbers: jax.Array, size: int) -> jax.Array:
    if not isinstance(input, np.ndarray) or input.dtype == numbers.dtype:
        return numbers
    # JAX narrows the numbers to 32 bits. A wide number must not become another number that way.
    return jnp.asarray(np.where(input < size, input, size))


def _amounts(weights: Any, numbers: jax.Array) -> jax.Array:
    if weights is None:
        return jnp.ones(numbers.shape, jnp.result_type(int))
    amounts = arguments.array("bincount", "weights", weights)
    if amounts.shape != numbers.shape:
        raise RuntimeError(
            f"bincount(): weights should be 1-d and have the same length as input, but got shapes "
            f"{list(amounts.shape)} and {list(numbers.shape)}"
        )
    if jnp.issubdtype(amounts.dtype, jnp.complexfloating):
        raise TypeError(
            f"bincount(): argument 'weights' must be real, not {amounts.dtype}; pass its .real"
        )
    return amounts if amounts.dtype == jnp.float32 else amounts.astype(jnp.result_type(float))


@op("torch.histc")
def histc(input: Array, bins: int = 100, min: Any = 0, max: Any = 0) -> jax.Array:
    """Counts the elements in each of ``bins`` bins of equal width from ``min`` to ``max``.

    An element x from ``min`` to ``max`` is in bin ((x - min) * bins) / (max - min), truncated;
    ``max`` is in the last bin. Other elements and NaN are not counted. For floats each operation
    of the formula is rounded, float16 and bfloat16 in float32. For integers the formula is exact.

    Args:
        input: Any shape, of floats or integers. (PyTorch counts integers on CUDA only.)
        bins: The number of bins.
        min: The lower end of the range, a number; it is converted to the dtype of ``input``.
        max: The upper end of the range, as ``min``. If the two are equal, the range is the range
            of the elements. If this is a single number too, or ``input`` is empty, the range is
            widened by 1 at each end.

    Returns:
        An array of shape [bins], of the dtype of ``input``. It has no gradient. Counts are exact
        integers that are rounded once to the dtype of ``input``.

    Raises:
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: ``bins`` is not positive; ``min`` is above ``max``; or the range is not
            finite. Under ``jit``, where the range is not known, such a range counts nothing.
    """
    numbers = arguments.array("histc", "input", input)
    arguments.check_kind("histc", numbers.dtype, "floating", "integer", name="input")
    bins = arguments.integer("histc", "bins", bins)
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    ends = [
        arguments.number_as("histc", name, value, numbers.dtype)
        for name, value in (("min", min), ("max", max))
    ]
    _check_range(input, numbers.dtype, min, max)
    decision = decide("histc", **arguments.facts(numbers))
    wide = wide_dtype(numbers.dtype)
    flat, *ends = (
        convert(jax.lax.stop_gradient(value), wide)
        for value in (alert(numbers, decision).reshape(-1), *ends)
    )
    # Ends that are known to differ need no pass over the elements.
    low, high = ends if _are_apart(numbers.dtype, min, max) else _range(flat, *ends)
    counted = (low < high) & (flat >= low) & (flat <= high)
    if jnp.issubdtype(wide, jnp.floating):
        counted &= jnp.isfinite(low) & jnp.isfinite(high)
        positions = _bins_of_floats(flat, low, high, bins, counted)
    else:
        positions = _bins_of_integers(flat, low, high, bins)
    positions = jnp.where(counted, jnp.minimum(positions, bins - 1), bins)
    return convert(counts(bins, positions[None, :, None]).reshape(bins).astype(wide), numbers.dtype)


def _check_range(input: Any, dtype: jax.typing.DTypeLike, low: Any, high: Any) -> None:
    """Refuses an invalid range, if it is known."""
    ends = [end for end in (arguments.known(low), arguments.known(high)) if end is not None]
    if len(ends) < 2:
        return
    least, most = (end.astype(dtype).astype(wide_dtype(dtype)) for end in ends)
    if least == most:
        eager.when_known(functools.partial(_check_range_of, number=least), input)
    else:
        _check_ends(least, most)


def _check_range_of(values: np.ndarray[Any, Any], *, number: Any) -> None:
    """Refuses the range of the elements, or of a number if there are no elements."""
    least = values.min().astype(number.dtype) if values.size else number
    most = values.max().astype(number.dtype) if values.size else number
    if least == most:
        if not jnp.issubdtype(values.dtype, jnp.floating):
            return
        least, most = least - 1, most + 1
    _check_ends(least, most)


def _check_ends(least: Any, most: Any) -> None:
    if not (np.isfinite(least) and np.isfinite(most)):
        raise RuntimeError(
            f"histc(): range of [{least}, {most}] is not finite; pass finite 'min' and 'max', "
            "not both the same"
        )
    if not least < most:
        raise RuntimeError(
            f"histc(): max must be larger than min, but got a range of [{least}, {most}]"
        )


def _are_apart(dtype: jax.typing.DTypeLike, low: Any, high: Any) -> bool:
    """Returns whether the ends of the range are known, and differ."""
    ends = [arguments.known(end) for end in (low, high)]
    least, most = (None if end is None else end.astype(dtype) for end in ends)
    return least is not None and most is not None and bool(least != most)


def _range(flat: jax.Array, low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the ends of the range; equal ends mean the range of the elements."""
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


def _bins_of_floats(
    flat: jax.Array, low: jax.Array, high: jax.Array, bins: int, counted: jax.Array
) -> jax.Array:
    width = jnp.where(counted, high - low, 1)
    # The device's own division is not the nearest float on a GPU: an edge would be in another bin.
    quotient = numerics.quotient((flat - low) * bins, width)
    # An element outside the range may have a quotient that no integer holds. It is not counted.
    return jnp.where(quotient >= 0, jnp.minimum(quotient, bins), 0).astype(jnp.int32)


def _bins_of_integers(flat: jax.Array, low: jax.Array, high: jax.Array, bins: int) -> jax.Array:
    """Returns (flat - low) * bins // (high - low), with a product of twice the bits."""
    word = jnp.dtype(f"uint{8 * flat.dtype.itemsize}")
    bits = 8 * word.itemsize
    half = bits // 2
    mask = (1 << half) - 1
    # The differences fit an unsigned word, although differences of signed words may overflow.
    distance, width = (x.astype(word) - low.astype(word) for x in (flat, high))
    head, tail = distance >> half, distance & mask
    middle = head * (bins & mask) + (tail * (bins & mask) >> half)
    other = tail * (bins >> half) + (middle & mask)
    upper = head * (bins >> half) + (middle >> half) + (other >> half)
    lower = distance * bins
    quotient = _long_division(upper, lower, width)
    return jnp.minimum(quotient, bins).astype(jnp.int32)


def _long_division(upper: jax.Array, lower: jax.Array, divisor: jax.Array) -> jax.Array:
    """Divides a number of two words, by schoolbook division; the quotient must fit one word."""
    upper, lower, divisor = aligned(upper, lower, divisor)
    last = 8 * lower.dtype.itemsize - 1

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        # The bits of the dividend leave ``low`` on the left; the bits of the quotient enter it on
        # the right.
        remainder, low = state
        carry = (remainder >> last) == 1
        remainder = (remainder << 1) | (low >> last)
        fits = carry | (remainder >= divisor)
        return jnp.where(fits, remainder - divisor, remainder), (low << 1) | fits.astype(low.dtype)

    # This is a loop because XLA takes minutes to compile the unrolled steps.
    return jax.lax.fori_loop(0, last + 1, step, (upper, lower))[1]  # type: ignore[no-any-return]
