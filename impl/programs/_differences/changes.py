"""Changes of the arguments of a program, and the elements of its results that must stay equal.

``impl.testing.assert_invariant`` runs a program with each of them. These are the changes of a batch
of six rows ``a`` to ``f``, and the rows of the results that are compared:

===========================  ===============  ==========================  ========================
change                       rows             rows of the changed run     rows of the plain run
===========================  ===============  ==========================  ========================
the first 3 rows alone       ``a b c``        all                         0, 1, 2
row 0 alone, row 5 alone     ``a``            all                         0
the rows in another order    ``d a f e b c``  all                         3, 0, 5, 4, 1, 2
other rows after 3 of them   ``a b c F E D``  0, 1, 2                     0, 1, 2
===========================  ===============  ==========================  ========================

``F`` is ``f``, 100 times as great if it is of floats. Along the time there are prefixes and another
future, and padding adds elements that a mask or a length has to hide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Leaves: TypeAlias = list[Any]
#: The axis of each leaf of the arguments; None for a leaf that stays as it is.
Axes: TypeAlias = Sequence[int | None]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

#: The numbers that lengthen arrays of floats: a mask has to hide small and great ones.
_GARBAGE = (37.0, 1e4)
#: The factor of rows of floats that must not matter.
_FACTOR = 100


@dataclasses.dataclass(frozen=True)
class Change:
    """Other arguments of a program, and the elements of its results that must stay equal.

    Attributes:
        label: The change, in words.
        leaves: The changed arguments.
        got: The indices of the elements to compare, along the axis of the results; None for all.
        want: The indices of these elements in the results of the plain arguments; None for all.
        smaller: The arguments of a run that computes these elements, and nothing else.
        larger: The arguments of a run that computes them too.
        is_order: Whether all elements are the same, and only their order is another one.
    """

    label: str
    leaves: Leaves
    got: Indices | None
    want: Indices | None
    smaller: Leaves
    larger: Leaves
    is_order: bool = False


def of_order(leaves: Leaves, axes: Axes, size: int) -> Iterator[Change]:
    """Yields another order of the rows of a batch."""
    order = np.random.default_rng(0).permutation(size)
    if np.array_equal(order, np.arange(size)):
        order = order[::-1]
    permuted = _mapped(leaves, axes, lambda leaf, axis: jnp.take(leaf, order, axis))
    label = "the rows in another order"
    yield Change(label, permuted, None, order, leaves, permuted, is_order=True)


def of_batch(leaves: Leaves, axes: Axes, size: int) -> Iterator[Change]:
    """Yields parts of a batch, another order of its rows, and other rows in it."""
    half = np.arange((size + 1) // 2)
    yield _part(leaves, axes, half, f"the first {len(half)} of {size} rows alone")
    for row in (0, size - 1):
        yield _part(leaves, axes, np.array([row]), f"row {row} of {size} alone")
    yield from of_order(leaves, axes, size)
    yield _disturbed(leaves, axes, half, f"other rows after the first {len(half)}")


def of_time(leaves: Leaves, axes: Axes, size: int) -> Iterator[Change]:
    """Yields prefixes, and another future after the longest of them but one."""
    middle = (size + 1) // 2
    for count in dict.fromkeys((middle, 1, size - 1)):
        label = f"the first {count} of {size} positions alone"
        yield _part(leaves, axes, np.arange(count), label)
    yield _disturbed(leaves, axes, np.arange(middle), f"other positions after the first {middle}")


def of_padding(leaves: Leaves, axes: Axes, size: int, fill: Sequence[Any]) -> Iterator[Change]:
    """Yields arguments that are longer along an axis.

    Args:
        leaves: The arguments.
        axes: Their axes.
        size: The length without padding.
        fill: The number to pad each leaf with; None for the numbers of its dtype.
    """
    for more, garbage in ((size + 3, _GARBAGE[0]), (size + 3, _GARBAGE[1]), (1, _GARBAGE[0])):
        longer = [
            leaf if axis is None else _padded(leaf, axis, more, garbage if own is None else own)
            for leaf, axis, own in zip(leaves, axes, fill, strict=True)
        ]
        label = f"{more} more elements of padding (floats {garbage:g})"
        yield Change(label, longer, None, None, leaves, longer)


def _mapped(leaves: Leaves, axes: Axes, change: Callable[[Any, int], Any]) -> Leaves:
    pairs = zip(leaves, axes, strict=True)
    return [leaf if axis is None else change(leaf, axis) for leaf, axis in pairs]


def _part(leaves: Leaves, axes: Axes, rows: Indices, label: str) -> Change:
    part = _mapped(leaves, axes, lambda leaf, axis: jnp.take(leaf, rows, axis))
    return Change(label, part, None, rows, part, leaves)


def _disturbed(leaves: Leaves, axes: Axes, rows: Indices, label: str) -> Change:
    """Returns arguments that begin with these rows, and go on with other rows."""

    def change(leaf: Any, axis: int) -> jax.Array:
        rest = jnp.take(leaf, np.arange(leaf.shape[axis])[: len(rows) - 1 : -1], axis)
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            rest = rest * jnp.asarray(_FACTOR, leaf.dtype)
        return jnp.concatenate([jnp.take(leaf, rows, axis), rest], axis)

    other = _mapped(leaves, axes, change)
    return Change(label, other, rows, rows, _part(leaves, axes, rows, label).leaves, other)


def _padded(leaf: Any, axis: int, more: int, fill: Any) -> jax.Array:
    """Returns an array with ``more`` elements at the end of an axis.

    A number that a float gets is ``fill``. A bool, as of a mask, is False unless ``fill`` is a
    bool, and an integer is the greatest of the array, which is a valid index, unless ``fill`` is
    one.
    """
    leaf = jnp.asarray(leaf)  # Without x64, an array of NumPy may have a dtype that JAX has not.
    shape = (*leaf.shape[:axis], more, *leaf.shape[axis + 1 :])
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        last = jnp.take(leaf, np.full(more, leaf.shape[axis] - 1), axis)
        return jnp.concatenate([leaf, last], axis)
    if leaf.dtype == bool:
        fill = fill is True
    elif jnp.issubdtype(leaf.dtype, jnp.integer) and not isinstance(fill, int):
        fill = jnp.max(leaf)
    return jnp.concatenate([leaf, jnp.full(shape, fill, leaf.dtype)], axis)
