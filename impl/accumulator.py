"""Exact sums of trees of arrays over several programs, processes and checkpoints.

A gradient that is added up over micro-batches is rounded in each step, so its bits depend on how
the batch was cut. An ``Accumulator`` holds the exact sum of all terms instead, and rounds it once::

    total = impl.Accumulator.like(params)
    for batch in batches:
        total = total.add(jax.grad(loss), params, batch)    # 24 bytes for each element
    gradient = total.value()                                # the same bits, however batches are cut

The technique is the double-double arithmetic of Dekker (1971, doi:10.1007/BF01397083) with a bound
of what it drops; ``impl._exact.unrounded`` has it. Inside one jitted ``scan`` no accumulator is
needed: the guarantee ``portable`` joins the sums that a ``scan`` carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._exact.unrounded import states
from impl._exact.unrounded.operations import DTYPES
from impl._portable.carried_sums import functions, steps

__all__ = ["Accumulator"]


class Accumulator:
    """An exact sum of trees of arrays. ``Accumulator.like`` makes an empty one.

    It is a pytree of arrays of uint32 and one int32, of 24 bytes for each element: an argument and
    a result of ``jax.jit``, a carry of ``jax.lax.scan``, a leaf of a checkpoint. It has no
    derivative. No method changes it: each one returns another. ``a + b`` is the sum of all terms of
    two accumulators of one tree; any order gives the same value.

    Args:
        sums: A tree of states: for each leaf an array of uint32, of shape ``[6, *shape]``.
        level: An int32 below 0; from 0 on, the part of the terms that is counted again.
        dtypes: The names of the leaves' dtypes.
    """

    def __init__(self, sums: Any, level: Any, dtypes: Sequence[str]) -> None:
        """Makes an accumulator of states; ``like`` makes an empty one."""
        self._sums, self._level, self._dtypes = sums, level, tuple(dtypes)

    @classmethod
    def like(cls, tree: Any) -> Accumulator:
        """Returns an empty sum of trees with the shapes and dtypes of a tree.

        Args:
            tree: Arrays, or ``jax.ShapeDtypeStruct``, of float16, bfloat16 or float32.

        Raises:
            TypeError: A leaf has another dtype.
        """
        return cls._empty(tree, steps.PLAIN)

    @classmethod
    def _empty(cls, tree: Any, level: Any) -> Accumulator:
        leaves, treedef = jax.tree.flatten(tree)
        dtypes = [str(jnp.dtype(getattr(leaf, "dtype", type(leaf)))) for leaf in leaves]
        for leaf, dtype in zip(leaves, dtypes, strict=True):
            if dtype not in DTYPES:
                raise TypeError(
                    f"Accumulator.like: got a leaf of {dtype}{[*np.shape(leaf)]}; allowed are "
                    f"{', '.join(sorted(DTYPES))}"
                )
        sums = [states.zeros(leaf.shape) for leaf in leaves]
        return cls(jax.tree.unflatten(treedef, sums), jnp.int32(level), dtypes)

    def add(self, function: Callable[..., Any], *args: Any) -> Accumulator:
        """Returns the sum with what ``function(*args)`` computes, without rounding its last sums.

        The last operations of a gradient add products, elements or updates of a scatter, along the
        batch. Their terms are added to this sum; moves of elements, such as a transposition, and
        additions may follow. If another operation follows, such as a division, its rounded result
        is added. So divide the value of the sum, and not each part. A value with two gradients, as
        a tied weight, gets the exact sum of both.

        Args:
            function: Returns a tree of the structure, shapes and dtypes of the sum.
            *args: Its arguments.

        Raises:
            TypeError: The function returns another tree.
        """
        leaves, treedef = jax.tree.flatten(self._sums)
        # NumPy would compute with its own arrays, and round.
        args = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, args)
        found = functions.Function.of(lambda: function(*args))
        got = [(each.shape, str(each.dtype)) for each in found.results]
        own = [(each.shape[1:], dtype) for each, dtype in zip(leaves, self._dtypes, strict=True)]
        if found.tree != treedef or got != own:
            raise TypeError(
                f"Accumulator.add: the function returns {_shown(found.tree, got)}; the sum has "
                f"{_shown(treedef, own)}"
            )
        after = found.added(self._level, leaves)
        return Accumulator(jax.tree.unflatten(treedef, after), self._level, self._dtypes)

    def __add__(self, other: Accumulator) -> Accumulator:
        """Returns the sum of all terms of two sums. Any order gives the same value.

        Raises:
            TypeError: The sums are of different trees.
        """
        if not isinstance(other, Accumulator):
            return NotImplemented
        mine, others = self._described(), other._described()
        if mine != others:
            raise TypeError(f"Accumulator.__add__: got sums of {mine} and of {others}")
        sums = jax.tree.map(lambda a, b: steps.bind("merged", a, b)[0], self._sums, other._sums)
        return Accumulator(sums, self._level, self._dtypes)

    def value(self, *, again: Callable[[Accumulator], Accumulator] | None = None) -> Any:
        """Returns the sum, rounded once: to the nearest float, of two to the even one.

        Whether the sum is above a tie may depend on bits that 24 bytes do not hold: of random terms
        this happens once for some 2**30 elements. Then the terms have to be counted again.

        Args:
            again: Takes an empty accumulator, adds all terms of this sum to it, in any order, and
                returns it. It is called only if an element is in doubt, and then some 50 times.

        Returns:
            The tree. Inside ``jax.jit``, an element in doubt is a NaN.

        Raises:
            ArithmeticError: An element is in doubt, and ``again`` is missing or added other terms.
            TypeError: ``again`` was given inside ``jax.jit``.
        """
        leaves, treedef = jax.tree.flatten(self._sums)
        words = [
            steps.bind("rounded", leaf, dtype=dtype)[0]
            for leaf, dtype in zip(leaves, self._dtypes, strict=True)
        ]
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if is_traced and again is not None:
            raise TypeError("Accumulator.value: `again` cannot be called inside jax.jit")
        if not is_traced and again is not None and self._doubts(words):
            words = self._counted_again(again)
        doubts = [] if is_traced else self._doubts(words)
        if doubts:
            raise ArithmeticError(
                f"Accumulator.value: {', '.join(doubts)} in doubt: the terms have to be counted "
                "again. Pass `again=`, a function that adds all terms to an empty accumulator."
            )
        values = [
            steps.bind("values", each, dtype=dtype)[0]
            for each, dtype in zip(words, self._dtypes, strict=True)
        ]
        return jax.tree.unflatten(treedef, values)

    def _doubts(self, words: Sequence[jax.Array]) -> list[str]:
        """Returns, for each leaf with elements in doubt, their number and its path."""
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(self._sums)]
        counts = [int((np.asarray(each) == steps.IN_DOUBT).sum()) for each in words]
        pairs = zip(paths, counts, strict=True)
        return [f"{count} elements of {path or 'the sum'}" for path, count in pairs if count]

    def _counted_again(self, again: Callable[[Accumulator], Accumulator]) -> list[jax.Array]:
        """Returns the words of the sums, whose terms are counted again, level by level."""
        last = states.MOST_LEVELS - 1
        leaves, treedef = jax.tree.flatten(self._sums)
        pairs = [*zip(leaves, self._dtypes, strict=True)]
        shapes = [jax.ShapeDtypeStruct(leaf.shape[1:], dtype) for leaf, dtype in pairs]
        tree = jax.tree.unflatten(treedef, shapes)
        counts = [states.no_counts(each.shape) for each in shapes]
        found = self
        for level in range(steps.PLAIN, last + 1):
            if level >= 0:
                found = again(Accumulator._empty(tree, level))
            if _kind(found) != (self._described(), level):
                raise TypeError("Accumulator.value: `again` returned another accumulator")
            for i, leaf in enumerate(jax.tree.leaves(found)[:-1]):
                options = {"dtype": self._dtypes[i], "last": last}
                (counts[i],) = steps.bind("counted", jnp.int32(level), counts[i], leaf, **options)
        return [
            steps.bind("words", each, dtype=dtype)[0]
            for each, dtype in zip(counts, self._dtypes, strict=True)
        ]

    def _described(self) -> str:
        leaves, treedef = jax.tree.flatten(self._sums)
        kinds = [(each.shape[1:], dtype) for each, dtype in zip(leaves, self._dtypes, strict=True)]
        return _shown(treedef, kinds)

    def __repr__(self) -> str:
        """Returns the shapes and dtypes of the sum."""
        return f"Accumulator({self._described()})"


def _kind(accumulator: Accumulator) -> tuple[str, int]:
    """Returns what an accumulator adds up, and the level that it counts."""
    return accumulator._described(), int(accumulator._level)  # noqa: SLF001


def _shown(treedef: Any, kinds: Sequence[tuple[Sequence[int], str]]) -> str:
    return str(jax.tree.unflatten(treedef, [f"{dtype}{[*shape]}" for shape, dtype in kinds]))


def _flattened(accumulator: Accumulator) -> tuple[list[Any], tuple[str, ...]]:
    keys = jax.tree_util.GetAttrKey
    children = [
        (keys("sums"), accumulator._sums),  # noqa: SLF001
        (keys("level"), accumulator._level),  # noqa: SLF001
    ]
    return children, accumulator._dtypes  # noqa: SLF001


def _unflattened(dtypes: tuple[str, ...], children: Any) -> Accumulator:
    sums, level = children
    return Accumulator(sums, level, dtypes)


jax.tree_util.register_pytree_with_keys(Accumulator, _flattened, _unflattened)
