"""Exact sums of trees of arrays over several programs, processes and checkpoints.

A gradient that is added up over micro-batches is rounded in each step, so its bits depend on how
the batch was cut. An ``Accumulator`` holds the exact sum of all terms instead, and rounds it once::

    total = impl.Accumulator.like(params)
    for batch in batches:
        total = total.add(jax.grad(loss), params, batch)    # 24 bytes for each element
    gradient = total.value()                                # the same bits, however batches are cut

These are the bits of ``jax.jit(jax.grad(loss))`` for one batch of all, and of a ``scan`` over them.
The technique is the double-double arithmetic of Dekker (1971, doi:10.1007/BF01397083) with a bound
of what it drops; ``impl._exact.unrounded`` has it. Inside one jitted ``scan`` no accumulator is
needed: the guarantee ``portable`` joins the sums that a ``scan`` carries.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._exact.unrounded import states
from impl._exact.unrounded.operations import DTYPES
from impl._portable.carried_sums import functions, steps
from impl._portable.carried_sums.functions import Form, Function, Leaf
from impl._portable.carried_sums.lower import with_start
from impl._reading import source

__all__ = ["Accumulator"]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["sums", "level"], meta_fields=["tree", "forms"]
)
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Accumulator:
    """An exact sum of trees of arrays. ``Accumulator.like`` makes an empty one.

    Its value is what the function that is added computes of all parts as of one: each product of
    matrices, sum, convolution or scatter that adds last gets its terms of all parts and is rounded
    once, and what follows them is done once.

    It is a pytree of arrays of uint32 and one int32: an argument and a result of ``jax.jit``, a
    carry of ``jax.lax.scan``, a leaf of a checkpoint. It has no derivative. No method changes it:
    each one returns another. ``a + b`` is the sum of all terms of two accumulators of one tree; any
    order gives the same value.

    Args:
        sums: A tree of states: for each leaf an array of uint32 of shape ``[6, *shape]``, or a list
            of several.
        level: An int32 below 0; from 0 on, the part of the terms that is counted again.
        tree: The structure of the tree.
        forms: The functions of rounded sums that give each leaf.
    """

    sums: Any
    level: Any
    tree: Any
    forms: tuple[tuple[Form, ...], ...]

    @classmethod
    def like(cls, tree: Any, function: Callable[..., Any] | None = None, *args: Any) -> Accumulator:
        """Returns an empty sum of trees with the shapes and dtypes of a tree.

        Args:
            tree: Arrays, or ``jax.ShapeDtypeStruct``, of float16, bfloat16, float32 or float64.
            function: The function that will be added. It is traced, and not run. The sum has its
                states from the start, as a carry of ``jax.lax.scan`` or a branch of
                ``jax.lax.cond`` needs it. Without it, the first ``add`` may add states, so that a
                jitted step is compiled twice.
            *args: Its arguments.

        Raises:
            TypeError: A leaf has another dtype, or the function returns another tree.
        """
        leaves, treedef = jax.tree.flatten(tree)
        dtypes = [str(jnp.dtype(getattr(leaf, "dtype", type(leaf)))) for leaf in leaves]
        for leaf, dtype in zip(leaves, dtypes, strict=True):
            if dtype not in DTYPES:
                raise TypeError(
                    f"Accumulator.like: got a leaf of {dtype}{[*np.shape(leaf)]}; allowed are "
                    f"{', '.join(sorted(DTYPES))}"
                )
        empty = cls._empty(treedef, [[Form.plain(leaf)] for leaf in leaves], steps.PLAIN)
        if function is None:
            return empty
        outputs = empty._traced(function, args).outputs  # noqa: SLF001
        return cls._empty(treedef, [[each.form] for each in outputs], steps.PLAIN)

    @classmethod
    def _empty(cls, tree: Any, forms: Sequence[Sequence[Form]], level: Any) -> Accumulator:
        leaves = [{form: form.empty() for form in own} for own in forms]
        return cls._of(tree, leaves, jnp.int32(level))

    @classmethod
    def _of(cls, tree: Any, leaves: Sequence[Leaf], level: Any) -> Accumulator:
        """Returns the accumulator of the states of some leaves, in one order of their forms."""
        forms = [tuple(sorted(leaf, key=lambda form: form.text)) for leaf in leaves]
        pairs = zip(leaves, forms, strict=True)
        arrays = [[each for form in own for each in leaf[form]] for leaf, own in pairs]
        sums = [own[0] if len(own) == 1 else own for own in arrays]
        return cls(jax.tree.unflatten(tree, sums), level, tree, tuple(forms))

    def _leaves(self) -> list[Leaf]:
        """Returns the states of each leaf, by their forms."""
        states = iter(jax.tree.leaves(self.sums))
        return [{form: [next(states) for _ in form.kinds] for form in own} for own in self.forms]

    @property
    def _results(self) -> list[jax.ShapeDtypeStruct]:
        return [forms[0].result for forms in self.forms]

    @property
    def _dtypes(self) -> list[str]:
        return [str(k.dtype) for own in self.forms for form in own for k in form.kinds]

    def _traced(self, function: Callable[..., Any], args: Any) -> Function:
        """Returns a function of some arguments, which gives the tree of this sum."""
        # NumPy would compute with its own arrays, and round.
        args = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, args)
        found = Function.of(lambda: function(*args))
        got, own = [each.form.result for each in found.outputs], self._results
        if (found.tree, got) != (self.tree, own):
            raise TypeError(
                f"Accumulator.add: the function returns {_shown(found.tree, got)}; the sum has "
                f"{_shown(self.tree, own)}"
            )
        return found

    def add(self, function: Callable[..., Any], *args: Any) -> Accumulator:
        """Returns the sum with what ``function(*args)`` computes, without rounding its last sums.

        The last operations of a gradient add products, elements or updates of a scatter, along the
        batch. A state of 24 bytes for each element holds their terms. These may follow, and are
        done once, by ``value``: moves of elements, such as a transposition; conversions; sums of
        such sums, as for a tied weight, each of which has a state; products with constants, and
        divisions by them, as of a mean. If anything else follows, such as a division by a number of
        tokens that each part has, its rounded result is added, and a warning says so.

        Args:
            function: Returns a tree of the structure, shapes and dtypes of the sum.
            *args: Its arguments.

        Raises:
            TypeError: The function returns another tree.

        Warns:
            UserWarning: Each part rounds a sum.
        """
        found = self._traced(function, args)
        rounded = found.rounded()
        if rounded:
            paths = jax.tree.leaves_with_path(jax.tree.unflatten(self.tree, self._results))
            names = [jax.tree_util.keystr(paths[i][0]) or "the sum" for i, _ in rounded]
            equation = rounded[0][1]
            warnings.warn(
                f"Accumulator.add: each part rounds {', '.join(names)}: the sum goes into "
                f"{equation.primitive} at {source.lines(equation).shown[0]} with a value that may "
                "differ between parts. Return both operands instead, and do this once, with their "
                "values.",
                UserWarning,
                stacklevel=2,
            )
        return self._of(self.tree, found.added(self.level, self._leaves()), self.level)

    def __add__(self, other: Accumulator) -> Accumulator:
        """Returns the sum of all terms of two sums. Any order gives the same value.

        Raises:
            TypeError: The sums are of different trees.
        """
        if not isinstance(other, Accumulator):
            return NotImplemented
        if (self.tree, self._results) != (other.tree, other._results):
            mine, others = (_shown(a.tree, a._results) for a in (self, other))  # noqa: SLF001
            raise TypeError(f"Accumulator.__add__: got sums of {mine} and of {others}")
        leaves = [*map(functions.merged, self._leaves(), other._leaves())]
        return self._of(self.tree, leaves, self.level)

    def value(self, *, again: Callable[[Accumulator], Accumulator] | None = None) -> Any:
        """Returns the value of the sums, each rounded once: to the nearest float, ties to even.

        Whether the sum is above a tie may depend on bits that 24 bytes do not hold: of random terms
        this happens once for some 2**30 elements. Then the terms have to be counted again.

        Args:
            again: Takes an empty accumulator, adds all terms of this sum to it, in any order, and
                returns it. It is called only if an element is in doubt, and then up to 9 times, or
                66 times for float64.

        Returns:
            The tree. Inside ``jax.jit``, an element in doubt is a NaN.

        Raises:
            ArithmeticError: An element is in doubt, and ``again`` is missing or added other terms.
            TypeError: ``again`` was given inside ``jax.jit``.
        """
        leaves, dtypes = jax.tree.leaves(self.sums), self._dtypes
        words = steps.of_each("rounded", leaves, dtypes)
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
        sums = iter(steps.of_each("values", words, dtypes))
        values = [
            functools.reduce(with_start, [f.value([next(sums) for _ in f.kinds]) for f in own])
            for own in self.forms
        ]
        return jax.tree.unflatten(self.tree, values)

    def _doubts(self, words: Sequence[jax.Array]) -> list[str]:
        """Returns, for each leaf with elements in doubt, their number and its path."""
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(self.sums)]
        counts = [int((np.asarray(each) == steps.IN_DOUBT).sum()) for each in words]
        pairs = zip(paths, counts, strict=True)
        return [f"{count} elements of {path or 'the sum'}" for path, count in pairs if count]

    def _counted_again(self, again: Callable[[Accumulator], Accumulator]) -> list[jax.Array]:
        """Returns the words of the sums, whose terms are counted again, level by level."""
        dtypes, leaves = self._dtypes, jax.tree.leaves(self.sums)
        counts = [states.no_counts(leaf.shape[1:]) for leaf in leaves]
        found, words = self, list[jax.Array]()
        for level in range(steps.PLAIN, max(map(states.levels, dtypes))):
            if level >= 0:
                found = again(self._empty(self.tree, self.forms, level))
            if (found.tree, found.forms, int(found.level)) != (self.tree, self.forms, level):
                raise TypeError("Accumulator.value: `again` returned another accumulator")
            for i, leaf in enumerate(jax.tree.leaves(found)[:-1]):
                (counts[i],) = steps.bind(
                    "counted", jnp.int32(level), counts[i], leaf, dtype=dtypes[i]
                )
            words = steps.of_each("words", counts, dtypes)
            if level >= 0 and not self._doubts(words):
                break
        return words

    def __repr__(self) -> str:
        """Returns the shapes and dtypes of the sum."""
        return f"Accumulator({_shown(self.tree, self._results)})"


def _shown(tree: Any, kinds: Sequence[Any]) -> str:
    return str(jax.tree.unflatten(tree, [*map(functions.shown, kinds)]))
