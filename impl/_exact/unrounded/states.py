"""States of sums: the exact sum of all terms so far, as three float64, to which more can be added.

An element of a state is ``high + low``, within ``slack``. TwoSum (Knuth, *The Art of Computer
Programming* 2, section 4.2.2) adds to both without error, as in double-double arithmetic (Dekker
1971, doi:10.1007/BF01397083). The slack also bounds the bits that do not fit
into 106 bits. If it is 0, as for terms of few bits, the sum is exact, and so are ties::

    terms             2**24, 1, 2**-30                 of three programs
    state             high = 2**24 + 1 + 2**-30, low = 0, slack = 0
    rounded           2**24 + 2, though 2**24 + 1 is halfway between two float32
    a slack of 2**-29 2**24 or 2**24 + 2: in doubt

Elements in doubt are counted again (``impl._exact.unrounded.operations``): for one *level* after
the other, the highest first, a state has the exact sum of the parts of all terms at this level, an
integer in units of the level. Its slack bounds the sum of all lower levels. A *total* adds these
states, and an element is decided once the lower levels cannot change how it is rounded
(``folded``).

Outside of ``arithmetic.wide()``, a state is an array of uint32: for each word an array of the upper
halves, then an array of the lower ones. So a loop of a program without 64 bits can carry it::

    shape of the sums    [5, 7]
    shape of a state     [6, 5, 7], which has 24 bytes for each sum
    shape of counts      [10, 5, 7]: the words of rounded sums, and their totals

*Products.* Each factor is split into a part of few bits and the rest, as in the splitting of Ozaki,
Ogita, Oishi and Rump 2012 (doi:10.1007/s11075-011-9478-1). A row of the left factor and a column
of the right factor have a unit each, a power of two. So a product of two parts is exact, in any
order in which a library adds, and the rests are smaller by the bits of a part::

    left = a + b, right = c + d     K = 1024 terms, and 21 bits for a and c
    a c                             at most 53 bits: exact
    a d + b right                   2**-21 times as great, with the error K 2**-53 of a plain sum
    slack                           K 2**-73 norm(left) norm(right), or 0 if b and d are 0

*Sums.* A part has 52 bits less the logarithm of the number of terms, so there are two parts, which
are added exactly. The slack is the rest of terms that are 2**-60 times the greatest one.

*float64.* Factors have three parts of few bits before the rest, and terms have four. A term that is
far below the range of all counts as 0 and as a slack; one that is far above it, or an
infinite sum of finite terms, makes the slack infinite, which leaves all to the second count.

*Levels.* A level has 64 bits of the sum. Its terms are digits of 16 bits of each term, or products
of two digits: integers, which float64 adds exactly. Digits that all terms lack take no time.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import in_any_order
from impl._core.shard_axes import Devices, vary_like
from impl._exact import arithmetic
from impl._exact.nearest import exact_sum, interval
from impl._native import states as native
from impl._native.scope import or_native

#: The float64 of a state, and of a total, of which the last one is an exponent; the halves of each.
WORDS, TOTAL_WORDS = 3, 4
HALVES = 2
#: The bound of the relative error of ``slack`` itself, a sum of many slacks.
_SAFE = 1 + 2.0**-10


def packed(words: Sequence[jax.Array]) -> jax.Array:
    """Returns float64 of one shape as one array of uint32, with a new first axis."""
    halves = lax.bitcast_convert_type(jnp.stack(words), np.uint32)
    upper_first = jnp.moveaxis(lax.rev(halves, (halves.ndim - 1,)), -1, 1)
    return lax.reshape(upper_first, (HALVES * len(words), *words[0].shape))


def unpacked(state: jax.Array) -> list[jax.Array]:
    """Returns the float64 of a state or a total."""
    pairs = lax.reshape(state, (state.shape[0] // HALVES, HALVES, *state.shape[1:]))
    halves = jnp.moveaxis(lax.rev(pairs, (1,)), 1, -1)
    return list(lax.bitcast_convert_type(halves, np.float64))


def sums_of(state: jax.core.ShapedArray) -> int:
    """Returns the number of sums of a state, from its type."""
    return int(state.size) // (HALVES * WORDS)


def zeros(shape: Sequence[int]) -> jax.Array:
    """Returns the state of empty sums."""
    return lax.full((HALVES * WORDS, *shape), 0, np.uint32)


@or_native(native.merged)
def merged(state: jax.Array, other: jax.Array) -> jax.Array:
    """Returns the state of all terms of two states."""
    return with_parts(state, *unpacked(other))


def with_parts(state: jax.Array, high: jax.Array, low: jax.Array, slack: jax.Array) -> jax.Array:
    """Returns the state of all terms of a state, and of sums ``high + low`` within ``slack``."""
    own_high, own_low, own_slack = unpacked(state)
    are_finite = lax.bitwise_and(lax.is_finite(own_high), lax.is_finite(high))
    high, rest = arithmetic.two_sum(own_high, high)
    own_low, lost = arithmetic.two_sum(own_low, rest)
    low, more_lost = arithmetic.two_sum(own_low, low)
    lost = lax.add(lax.abs(lost), lax.abs(more_lost))
    slack = lax.add(lax.add(own_slack, slack), lost)
    # The error of a sum that is not finite is a NaN, and counts as 0: unless it is beyond float64.
    is_finite, zero = lax.is_finite(high), lax.full_like(high, 0)
    high = lax.select(lax.bitwise_and(are_finite, lax.bitwise_not(is_finite)), zero, high)
    of_special = lax.select(are_finite, lax.full_like(high, np.inf), zero)
    low, slack = lax.select(is_finite, low, zero), lax.select(is_finite, slack, of_special)
    return packed([high, low, slack])


def rounded(state: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the words of sums rounded to a dtype, or ``interval.IN_DOUBT``.

    A zero is +0.
    """
    high, low, slack = unpacked(state)
    wider = lax.add(
        lax.mul(slack, lax.full_like(slack, _SAFE)),
        lax.mul(lax.abs(low), lax.full_like(low, 2 * interval.ROUNDING)),
    )
    is_exact = lax.eq(slack, lax.full_like(slack, 0))
    wider = lax.select(is_exact, lax.full_like(wider, 0), wider)

    def end(low: jax.Array) -> jax.Array:
        near, rest = arithmetic.two_sum(high, low)
        near = near if arithmetic.is_long(dtype) else arithmetic.to_odd(near, rest)
        # The sum of an infinity has no rest.
        return arithmetic.narrow(lax.select(lax.is_finite(high), near, high), dtype)

    least, greatest = end(lax.sub(low, wider)), end(lax.add(low, wider))
    raw = interval.word_of(interval.positive_zero(least))
    is_open = lax.bitwise_or(lax.lt(least, greatest), lax.ne(slack, slack))
    if arithmetic.is_long(dtype):
        for each in (high, least):
            is_open = lax.bitwise_or(is_open, is_small(each))
    return lax.select(is_open, lax.full_like(raw, interval.IN_DOUBT), raw)


def is_small(value: jax.Array) -> jax.Array:
    """Returns where XLA may take parts of a float64 for 0, or round it at another position."""
    size = lax.abs(value)
    is_below = lax.lt(size, lax.full_like(size, 2.0 ** _ELEMENTS[0]))
    return lax.bitwise_and(is_below, lax.gt(size, lax.full_like(size, 0)))


def folded(
    total: Sequence[jax.Array], state: jax.Array, unit: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """Returns a total with the state of one more level, and which sums are decided by it.

    A total has ``a + b + c`` in units of 2**frame, where ``a`` is the nearest float64, and ``b`` of
    the rest. Its frame goes down with the levels while it is short. Then ``b`` and ``c`` can only
    be far below it if the levels between are 0, so ``c`` takes part by its sign alone, in units of
    the level. Until ``c`` exceeds all lower levels, it is an integer of few units, and exact.

    Args:
        total: The total of higher levels.
        state: The state of the level, in its units.
        unit: The exponent of the unit, int32, shape [].
    """
    a, b, c, frame = total
    high, low, rests = unpacked(state)
    like, zero = functools.partial(lax.full_like, a), lax.full_like(a, 0)
    frame = lax.convert_element_type(frame, np.int32)
    before = unit + _LEVEL - frame
    reach = arithmetic.power_of_two(lax.clamp(np.int32(_FLOOR), before, np.int32(_FRAME)))
    moves = lax.le(lax.abs(a), lax.mul(reach, like(2.0**_SHORT_TOTAL)))
    up = lax.select(moves, _FRAME - before, lax.full_like(before, 0))
    frame = frame - up
    factor = arithmetic.power_of_two(lax.clamp(np.int32(-_MOST_UP), up, np.int32(_MOST_UP)))
    a, b, c = (lax.mul(each, factor) for each in (a, b, c))
    is_tail = lax.lt(lax.abs(b), like(2.0**_TAIL))
    b, c = lax.select(is_tail, zero, b), lax.select(is_tail, lax.add(b, c), c)
    position = lax.max(unit - frame, lax.full_like(frame, _FLOOR))
    deeper = lax.min(position + frame - unit, lax.full_like(frame, _LEVEL))
    scale = arithmetic.power_of_two(position)
    low, high = (lax.mul(each, scale) for each in (low, high))

    def add(number: jax.Array, parts: Sequence[jax.Array]) -> list[jax.Array]:
        # Grow-Expansion (Shewchuk 1997) by both, and then passes that leave three parts.
        rest = lax.select(jnp.broadcast_to(lax.eq(number, 1), high.shape), high, parts[0])
        errors = []
        for part in parts[1:]:
            rest, error = arithmetic.two_sum(rest, part)
            errors.append(error)
        return [*errors, rest]

    c = lax.mul(c, arithmetic.power_of_two(deeper))
    _, _, c, b, a = lax.fori_loop(0, 5, add, [zero, low, c, b, a])
    # More rests than ``c`` has exact integers leave a sum in doubt.
    a = lax.select(lax.le(rests, like(2.0**_MOST_RESTS)), a, like(np.nan))
    is_closed = lax.bitwise_or(lax.eq(rests, zero), lax.gt(lax.abs(c), lax.mul(rests, scale)))
    frame = lax.convert_element_type(frame, np.float64)
    return [a, b, c, frame], lax.bitwise_and(is_closed, lax.eq(a, a))


@or_native(native.counted)
def counted(
    level: jax.Array, counts: jax.Array, state: jax.Array, *, dtype: jax.typing.DTypeLike
) -> jax.Array:
    """Returns words of rounded sums, and totals, after one more count of all terms.

    Args:
        level: The level that was counted, int32, shape []. The first count is of plain states, at a
            level below 0: it decides the words of most elements.
        counts: The counts so far (``no_counts``).
        state: The states of the count.
        dtype: float16, bfloat16, float32 or float64.
    """
    words, (_, *total) = words_of(counts, dtype), unpacked(counts)

    def plain() -> tuple[jax.Array, list[jax.Array]]:
        return rounded(state, dtype), [lax.full_like(each, 0) for each in total]

    def at_level() -> tuple[jax.Array, list[jax.Array]]:
        more, is_closed = folded(total, state, unit_of(level, arithmetic.is_long(dtype)))
        a, b, c, frame = more
        frame = lax.convert_element_type(frame, np.int32)
        value = interval.positive_zero(exact_sum.Words(a, b, c, frame).rounded(dtype))
        asked = lax.bitwise_and(is_closed, interval.is_doubt(words))
        return lax.select(asked, interval.word_of(value), words), more

    after, total = lax.cond(lax.lt(level, np.int32(0)), plain, at_level)
    bits = lax.convert_element_type(after, np.int64)
    return packed([lax.bitcast_convert_type(bits, np.float64), *total])


def no_counts(shape: Sequence[int]) -> jax.Array:
    """Returns the counts of no terms: for each sum a word, and a total of four float64.

    They are uint32, of shape ``[10, *shape]``.
    """
    return lax.full((HALVES * (1 + TOTAL_WORDS), *shape), 0, np.uint32)


def words_of(counts: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the words of counts of sums of a dtype."""
    bits = lax.bitcast_convert_type(unpacked(counts[:HALVES])[0], np.int64)
    return lax.convert_element_type(bits, interval.word_type(dtype))


def values(words: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the floats of words. An element that is still in doubt is a NaN."""
    return lax.bitcast_convert_type(words, jnp.dtype(dtype))


def is_any_in_doubt(words: jax.Array) -> jax.Array:
    """Returns whether an element is in doubt."""
    return lax.reduce_or(interval.is_doubt(words), tuple(range(words.ndim)))


#: Sums ``high + low``, within ``slack``.
Parts: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
#: The level of a plain state. Levels from 0 on are counted for elements in doubt.
PLAIN = -1
#: The bits of a level.
_LEVEL = 64
#: The exponents of a power of two above all products of two terms, and of their last bits: of
#: floats of at most 32 bits, and of float64.
_ENDS = (256, -2 * 149), (2048, -2 * 1074)
#: The bits of float64, and the bits of a float32.
_BITS, _SHORT = 53, 24
#: The exponent of the unit of zeros.
_LEAST = -960
#: Of ``folded``: the exponent of a level's unit in a frame that moves, the least exponent, the bits
#: of a total that moves its frame, and the exponent below which ``b`` is a tail.
_FRAME, _FLOOR, _SHORT_TOTAL, _TAIL = 500, -900, 200, -600
#: The greatest exponent by which a frame moves a total that is not 0, and a total of rests.
_MOST_UP, _MOST_RESTS = 1000, 50
#: The exponents between which float64 has products of parts, and parts.
_FACTORS, _ELEMENTS = (-400, 450), (-900, 900)


def levels(dtype: jax.typing.DTypeLike) -> int:
    """Returns how many levels terms of sums of a dtype have."""
    top, last = _ENDS[arithmetic.is_long(dtype)]
    return math.ceil((top - last) / _LEVEL)


def unit_of(level: jax.Array, is_long: bool) -> jax.Array:
    """Returns the exponent of the unit of a level, of float64 or of shorter floats."""
    return lax.sub(np.int32(_ENDS[is_long][0] - _LEVEL), lax.mul(level, np.int32(_LEVEL)))


def _width(count: int, factors: int) -> int:
    """Returns the bits of a part, such that sums of a number of products of parts are exact."""
    whole = (_BITS - 1 if factors == 1 else _BITS) - math.ceil(math.log2(max(count, 1)))
    return max(1, min(_SHORT if factors > 1 else whole, whole // factors))


def _split(value: jax.Array, top: jax.Array, width: int) -> tuple[jax.Array, jax.Array]:
    """Returns the multiple of a unit, of ``width`` bits, and the rest, of finite float64.

    ``top`` is the greatest magnitude of those with one unit, of a shape that broadcasts.
    """
    exponent = arithmetic.exponent_above(top)
    exponent = lax.max(exponent, lax.full_like(exponent, _LEAST))
    exponent = lax.min(exponent, lax.full_like(exponent, -_LEAST))
    exponent = lax.sub(exponent, lax.full_like(exponent, width))
    unit, inverse = (arithmetic.power_of_two(each) for each in (exponent, lax.neg(exponent)))
    unit, inverse = (jnp.broadcast_to(each, value.shape) for each in (unit, inverse))
    multiple = lax.mul(arithmetic.nearest_integer(lax.mul(value, inverse)), unit)
    return multiple, lax.sub(value, multiple)


@dataclasses.dataclass(frozen=True)
class _Terms:
    """How an operation adds its terms.

    Attributes:
        count: The greatest number of terms of a sum, on all devices.
        devices: The devices that share the sums.
        is_long: Whether the operands are float64.
    """

    count: int
    devices: Devices
    is_long: bool

    #: The sums, of a level and operands.
    _plain: ClassVar[Callable[..., Parts]]
    #: The sums of digits, of the index of a digit, the position and the width of all, and operands.
    _digits: ClassVar[Callable[..., jax.Array]]
    #: The first index, how many there are, and a bound of lower levels, of a unit and a width.
    _span: ClassVar[Callable[..., tuple[jax.Array, ...]]]

    @property
    def _top(self) -> int:
        """The exponent of a power of two above all terms of a factor."""
        return _ENDS[self.is_long][0] // 2

    def parts(self, level: jax.Array, *operands: jax.Array) -> Parts:
        """Returns the sums of float64, or one level of them.

        The level is ``PLAIN`` or a level, int32, shape [].
        """
        with in_any_order():
            is_plain = lax.lt(level, lax.full_like(level, 0))
            parts: Parts = lax.cond(is_plain, self._plain, self.at, level, *operands)
        return parts

    def at(self, level: jax.Array, *operands: jax.Array) -> Parts:
        """Returns one level of the sums, in its units, with a bound of all lower ones."""
        width = 16 if self.count <= 1 << 22 else 8
        unit = unit_of(level, self.is_long)
        first, number, below = self._span(unit, width, [*map(self._ends, operands)])

        def add(index: jax.Array, parts: Parts) -> Parts:
            step, own = lax.div(index, number), lax.rem(index, number)
            digits = self._digits(first + own, unit + width * step, width, *operands)
            sums = self.devices.sum(arithmetic.seal(digits))
            scale = arithmetic.power_of_two(width * step)
            return _with(lax.mul(sums, exact_sum.full(scale, sums)), *parts)

        sums = jax.eval_shape(functools.partial(self._digits, unit, unit, width), *operands)
        zero = vary_like(lax.full(sums.shape, 0, np.float64), *operands)
        # The first level has the carry of its terms too.
        steps = _LEVEL // width + lax.convert_element_type(lax.eq(level, np.int32(0)), np.int32)
        high, low, lost = lax.fori_loop(np.int32(0), number * steps, add, (zero, zero, zero))
        return high, low, lax.add(lost, exact_sum.full(below, lost))

    def _ends(self, operand: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns an exponent above all magnitudes, and the one of their last bits, int32."""
        size = lax.abs(arithmetic.finite_or_zero(operand))
        others = lax.select(lax.gt(size, lax.full_like(size, 0)), size, lax.full_like(size, np.inf))
        most = self.devices.max(jnp.max(size, initial=0))
        least = lax.neg(self.devices.max(lax.neg(jnp.min(others, initial=np.inf))))
        bits = _BITS if self.is_long else _SHORT
        return arithmetic.exponent_above(most), arithmetic.exponent_above(least) - bits

    def _digit(self, value: jax.Array, position: jax.Array, width: int) -> jax.Array:
        """Returns the digits of float64 in units of 2**position."""
        ends = _ENDS[self.is_long][1] // 2 - width, self._top + width
        position = lax.clamp(np.int32(ends[0]), position, np.int32(ends[1]))
        return exact_sum.part(
            arithmetic.finite_or_zero(value), position, width, are_far=self.is_long
        )


@dataclasses.dataclass(frozen=True)
class Products(_Terms):
    """How an operation adds products of two factors.

    Attributes:
        multiply: Returns the sums of products of float64 factors, on this device.
        left_axes: The axes of the left factor whose elements share a unit.
        right_axes: The axes of the right factor whose elements share a unit.
        outer: Takes an array of the left factor's other axes and an array of the right factor's,
            and returns their products in the shape of the result.
    """

    multiply: Callable[[jax.Array, jax.Array], jax.Array]
    left_axes: Sequence[int]
    right_axes: Sequence[int]
    outer: Callable[[jax.Array, jax.Array], jax.Array]

    def _plain(self, _: jax.Array, left: jax.Array, right: jax.Array) -> Parts:
        if not self.is_long:
            return self._by_slices(left, right, 1)
        kinds = (lax.select(lax.is_finite(each), lax.sign(each), each) for each in (left, right))
        special = self.devices.sum(self.multiply(*kinds))
        sides = (left, self.left_axes), (right, self.right_axes)
        (left, right), far = zip(*(_near(each, *_FACTORS) for each, _ in sides), strict=True)
        left, right = map(arithmetic.finite_or_zero, (left, right))
        of_left, of_right = (
            self._norm(each, axes) for each, (_, axes) in zip(far, sides, strict=True)
        )
        high, low, slack = self._by_slices(left, right, 3)
        norm = lax.add(self._norm(left, self.left_axes), of_left)
        for pair in ((of_left, self._norm(right, self.right_axes)), (norm, of_right)):
            slack = lax.add(slack, self.outer(*pair))
        return lax.select(lax.is_finite(special), high, special), low, slack

    def _by_slices(self, left: jax.Array, right: jax.Array, number: int) -> Parts:
        """Returns the sums by a number of parts of each factor, and its rest."""
        factors = ((left, tuple(self.left_axes)), (right, tuple(self.right_axes)))
        tops = [self.devices.max(_greatest(value, axes)) for value, axes in factors]
        are_finite = lax.is_finite(lax.max(*(jnp.max(top) for top in tops)))
        width = _width(self.count, 2)
        cut = []
        for (value, _axes), top in zip(factors, tops, strict=True):
            slices, rests = [], [value]
            for i in range(number):
                down = lax.full_like(top, 2.0 ** (-width * i))
                multiple, rest = _split(rests[-1], lax.mul(top, down), width)
                # The rest of an infinity has no unit: the left factor is one rest then.
                slices.append(_if(are_finite, multiple))
                rests.append(_if(are_finite, rest))
            cut.append((slices, rests))
        (lefts, (*_, rest)), (rights, others) = cut
        lefts.append(lax.select(jnp.broadcast_to(are_finite, left.shape), rest, left))
        exact = [
            self.devices.sum(self.multiply(lefts[i], rights[position - i]))
            for position in range(number)
            for i in range(position + 1)
        ]
        pairs = [(each, others[number - i]) for i, each in enumerate(lefts)]
        smaller = self.devices.sum(
            functools.reduce(lax.add, (self.multiply(*pair) for pair in pairs))
        )
        norms = (
            self.outer(self._norm(x, self.left_axes), self._norm(y, self.right_axes))
            for x, y in pairs
        )
        relative = interval.of_chain(self.count + self.devices.number + 3 + number)
        # A state expects infinities in the first part. There are no exact products then.
        high = lax.select(jnp.broadcast_to(are_finite, smaller.shape), exact[0], smaller)
        slack = functools.reduce(lax.add, norms)
        parts = high, _if(are_finite, smaller), lax.mul(slack, lax.full_like(slack, relative))
        for more in exact[1:]:
            parts = _with(more, *parts)
        return parts

    def _norm(self, value: jax.Array, axes: Sequence[int]) -> jax.Array:
        return lax.sqrt(self.devices.sum(lax.reduce_sum(lax.mul(value, value), tuple(axes))))

    def _span(self, unit: jax.Array, width: int, ends: Any) -> tuple[jax.Array, ...]:
        top, log = self._top, width.bit_length() - 1
        firsts, lasts = (
            [-((end - top) >> log) for end in each] for each in zip(*ends, strict=True)
        )
        pairs = zip(firsts, lasts, strict=True)
        number = functools.reduce(lax.min, (last - first + 1 for first, last in pairs))
        number = lax.max(number, np.int32(0))
        is_last = sum(lasts) <= (2 * top - unit) >> log
        bound = number.astype(np.float64) * (self.count * 2.0 ** (width - 1))
        return firsts[0], lasts[0] - firsts[0] + 1, lax.select(is_last, np.float64(0), bound)

    def _digits(
        self, index: jax.Array, position: jax.Array, width: int, left: jax.Array, right: jax.Array
    ) -> jax.Array:
        of_left = self._top - width * index
        digits = self._digit(left, of_left, width), self._digit(right, position - of_left, width)
        return self.multiply(*digits)


@dataclasses.dataclass(frozen=True)
class Elements(_Terms):
    """How an operation adds elements of arrays.

    Attributes:
        add: Takes arrays of float64, and returns the sums of their elements, on this device.
    """

    add: Callable[..., jax.Array]

    def _plain(self, _: jax.Array, *operands: jax.Array) -> Parts:
        far: Sequence[jax.Array] = ()
        if self.is_long:
            operands, far = zip(*(_near(each, *_ELEMENTS) for each in operands), strict=True)
        sizes = [lax.abs(arithmetic.finite_or_zero(each)) for each in operands if each.size]
        top = self.devices.max(jnp.max(jnp.stack([*map(jnp.max, sizes)])))
        width = _width(self.count, 1)
        sums, rests = [], [*operands]
        for number in range(4 if self.is_long else 2):
            down = arithmetic.power_of_two(lax.full((), -number * width, np.int32))
            pairs = [
                _split(arithmetic.finite_or_zero(each), lax.mul(top, down), width) for each in rests
            ]
            # The first sum has the infinities and NaNs.
            firsts = [
                lax.select(lax.is_finite(each), multiple, each)
                for each, (multiple, _rest) in zip(rests, pairs, strict=True)
            ]
            sums.append(self.devices.sum(self.add(*firsts)))
            rests = [rest for _multiple, rest in pairs]
        lost = self.devices.sum(
            functools.reduce(lax.add, (jnp.sum(lax.abs(rest)) for rest in (*rests, *far)))
        )
        zero = lax.full_like(sums[0], 0)
        parts = sums[0], zero, jnp.broadcast_to(lost, zero.shape)
        for more in sums[1:]:
            parts = _with(more, *parts)
        return parts

    def _span(self, unit: jax.Array, _: int, ends: Any) -> tuple[jax.Array, ...]:
        last = functools.reduce(lax.min, (each for _, each in ends))
        below = lax.select(last >= unit, np.float64(0), np.float64(self.count))
        return jnp.int32(0), jnp.int32(1), below

    def _digits(
        self, _: jax.Array, position: jax.Array, width: int, *operands: jax.Array
    ) -> jax.Array:
        return self.add(*(self._digit(each, position, width) for each in operands))


def _near(value: jax.Array, least: int, most: int) -> tuple[jax.Array, jax.Array]:
    """Returns float64 without those that are far from 1, and bounds of what each lacks."""
    size, zero = lax.abs(value), lax.full_like(value, 0)
    is_small = lax.lt(size, lax.full_like(value, 2.0**least))
    is_great = lax.bitwise_and(lax.gt(size, lax.full_like(value, 2.0**most)), lax.is_finite(value))
    bound = lax.select(
        lax.bitwise_and(is_small, lax.gt(size, zero)), lax.full_like(value, 2.0**least), zero
    )
    bound = lax.select(is_great, lax.full_like(value, np.inf), bound)
    return lax.select(lax.bitwise_or(is_small, is_great), zero, value), bound


def _with(more: jax.Array, high: jax.Array, low: jax.Array, slack: jax.Array) -> Parts:
    """Returns sums with one more float64 each."""
    high, rest = arithmetic.two_sum(high, more)
    low, lost = arithmetic.two_sum(low, rest)
    return high, low, lax.add(slack, lax.abs(lost))


def _greatest(value: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns the greatest magnitude along axes, which keep the length 1."""
    return lax.expand_dims(lax.reduce_max(lax.abs(value), tuple(axes)), tuple(axes))


def _if(chosen: jax.Array, value: jax.Array) -> jax.Array:
    """Returns a value, or zeros unless a scalar is true."""
    return lax.select(jnp.broadcast_to(chosen, value.shape), value, lax.full_like(value, 0))
