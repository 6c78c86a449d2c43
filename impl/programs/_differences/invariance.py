"""``impl.testing.assert_invariant``: the batch, the future and padding change no result.

The program runs with its arguments, and with each ``Change`` of them. The bits of corresponding
elements are compared. These are the changes of a batch of six rows ``a`` to ``f``, and the rows of
the results that are compared:

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

A failure reads for example::

    normalized is not invariant in its batch, with the mode off: its output differs for the first 3
    of 6 rows alone (12 of 12 elements differ, by at most 1203 ulp; the first is [0, 0]: 0.1483 and
    0.1321)

    train.py:8: lax.reduce_sum is the first equation whose elements have other bits.
      operands: f32[3,4]
      differs: 0: f32[4]
      compared: the outputs of each equation that can round or race

``resized`` finds the equation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._mode import compilation, modes
from impl._reading.tracing import check_values, is_array
from impl._run_to_run.rules import in_words
from impl.digests._comparison import distance_of
from impl.programs._differences.resized import first_change

Leaves: TypeAlias = list[Any]
#: The axis of each leaf of the arguments; None for a leaf that stays as it is.
Axes: TypeAlias = Sequence[int | None]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

#: The numbers that lengthen arrays of floats: a mask has to hide small and great ones.
_GARBAGE = (37.0, 1e4)
#: The factor of rows of floats that must not matter.
_FACTOR = 100

_NAME = "assert_invariant"


class _Same:
    """The default of the axes of results: the axis of the arguments."""

    def __repr__(self) -> str:
        return "the axis of the arguments"


SAME = _Same()


def assert_invariant(
    function: Callable[..., Any],
    *args: Any,
    batch: Any = None,
    time: Any = None,
    pad: Any = None,
    fill: Any = None,
    out_batch: Any = SAME,
    out_time: Any = SAME,
) -> None:
    """Raises unless the results of a program stay the same, bit for bit, however its work is cut.

    It holds for the mode of the calling thread. ``batch``, ``time`` and ``pad`` name axes of the
    arguments as ``in_axes`` of ``jax.vmap`` does: an int for all arrays, or a tuple with an int,
    None or a tree of these for each argument. Each of the three is tested by itself. ::

        impl.testing.assert_invariant(logits, weights, tokens, batch=(None, 0), time=(None, 1))
        impl.testing.assert_invariant(loss, weights, tokens, mask, pad=(None, 1, 1))

    Args:
        function: The program; the result of ``jax.jit`` or ``impl.jit`` as well. Its results are a
            tree of arrays.
        *args: Its arguments. Each row is an example, so use different rows.
        batch: The axis of the examples. The program gets some of them, each alone, in another
            order, and with other examples. An example must have the same results in each.
        time: The axis of the positions. The program gets prefixes, and another future. The results
            of a position must not depend on later ones.
        pad: The axis of elements that a mask or a length hides. The program gets longer arrays. A
            result with more elements is compared up to its length without padding; a gradient or a
            loss is compared as a whole. Give the mask among the arguments, and its axis in ``pad``,
            or give the length, with None.
        fill: The numbers that ``pad`` adds to each array, in the form of ``pad``. None, the
            default, adds 37.0 and 1e4 to floats, False to bools, so that a mask hides the padding,
            and the greatest element to integers, so that an index is valid.
        out_batch: The axis of the examples in the results, as ``out_axes`` of ``jax.vmap``; by
            default the axis in the arguments. None stands for a result of all examples, such as a
            gradient, which must only not change with their order.
        out_time: The axis of the positions in the results, or None for a result that is not
            compared.

    Raises:
        AssertionError: A result has other bits. The message names the change, the first element,
            and the first equation whose elements have other bits.
        ValueError: No axis is given, or an axis does not fit the arguments.
        TypeError: ``function`` cannot be called, an axis is not an int, or an argument at an axis
            is not an array with values.
    """
    __tracebackhide__ = True  # pytest shows the caller's line.
    arguments.check_callable(_NAME, "function", function)
    if batch is None and time is None and pad is None:
        raise ValueError(
            f"{_NAME}(): none of the arguments 'batch', 'time' and 'pad' names an axis; pass one, "
            "such as batch=0, or batch=(None, 0) if only the second argument has the axis"
        )
    if fill is not None and pad is None:
        raise ValueError(f"{_NAME}(): argument 'fill' needs 'pad', the axis that it lengthens")
    check_values(_NAME, args)
    program = Runs(function, args)
    for name, axes, out, least in (
        ("batch", batch, out_batch, 2),
        ("time", time, out_time, 2),
        ("pad", pad, None, 1),
    ):
        if axes is not None:
            of_leaves, size = _axes_of(name, axes, program, least)
            results = None if name == "pad" else _results_axes(name, out, axes)
            made = _changes(name, program, of_leaves, size, fill=fill, out=results)
            _compare(program, name, size, results, made)


class Runs:
    """A program whose arguments are a list of leaves."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function, self.args = function, args
        self.name = getattr(function, "__name__", type(function).__name__)
        paths, self._tree = jax.tree_util.tree_flatten_with_path(args)
        self.names = [f"args{jax.tree_util.keystr(path)}" for path, _ in paths]
        self.leaves: Leaves = [leaf for _, leaf in paths]
        is_jitted = isinstance(function, jax.stages.Wrapped | compilation.Jitted)
        self._run = self._given if is_jitted else jax.jit(self._given)

    def with_leaves(self, leaves: Leaves) -> tuple[Any, ...]:
        """Returns the arguments with other leaves."""
        args: tuple[Any, ...] = jax.tree.unflatten(self._tree, leaves)
        return args

    def run(self, leaves: Leaves) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the results by path, with other leaves; the program may donate or change them."""
        arrays = [leaf.copy() if is_array(leaf) else None for leaf in leaves]
        outputs = self._run(arrays)
        return dict(zip(filter(None, self._paths), map(_values, outputs), strict=True))

    def tree_of(self, results: dict[str, Any]) -> Any:
        """Returns the tree of the results of a run, with None for a result without bits."""
        return jax.tree.unflatten(self._outputs, [results.get(path) for path in self._paths])

    def _given(self, arrays: list[Any]) -> list[Any]:
        pairs = zip(arrays, self.leaves, strict=True)
        leaves = [own if array is None else array for array, own in pairs]
        outputs = self.function(*self.with_leaves(leaves))
        found, self._outputs = jax.tree_util.tree_flatten_with_path(outputs)
        self._paths = [f"output{jax.tree_util.keystr(k)}" * is_array(leaf) for k, leaf in found]
        return [leaf for _, leaf in found if is_array(leaf)]


def _values(leaf: Any) -> np.ndarray[Any, Any]:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(whole(jax.random.key_data(leaf) if is_key else leaf))


def whole(array: Any) -> Any:
    """Returns an array, or all its values if other processes have a part: each has to call this."""
    if getattr(array, "is_fully_addressable", True):
        return array
    from jax.experimental import multihost_utils  # noqa: PLC0415  # Few programs need it.

    return multihost_utils.process_allgather(array, tiled=True)


def _broadcast(prefix: Any, tree: Any) -> list[Any]:
    """Returns the entry of a prefix of a tree for each leaf; raises ValueError for another tree."""
    entries: list[Any] = []

    def extend(entry: Any, part: Any) -> None:
        entries.extend([entry] * len(jax.tree.leaves(part)))

    prefix = tuple(prefix) if isinstance(prefix, list) and isinstance(tree, tuple) else prefix
    jax.tree.map(extend, prefix, tree, is_leaf=lambda entry: entry is None)
    return entries


def _of_leaves(name: str, entries: Any, program: Runs) -> list[Any]:
    try:
        return _broadcast(entries, program.args)
    except ValueError as error:
        count = len(program.args)
        raise ValueError(
            f"{_NAME}(): argument {name!r} got {entries!r}, which does not fit the {count} "
            "arguments of the function. Pass one entry for all, or a tuple with an entry, None or "
            "a tree of these for each argument"
        ) from error


def _axes_of(name: str, entries: Any, program: Runs, least: int) -> tuple[Axes, int]:
    """Returns the axis of each leaf of the arguments, counted from 0, and its size."""
    axes: list[int | None] = []
    sizes: dict[int, str] = {}
    given = _of_leaves(name, entries, program)
    for entry, leaf, where in zip(given, program.leaves, program.names, strict=True):
        if entry is not None and (isinstance(entry, bool) or not isinstance(entry, int)):
            raise TypeError(
                f"{_NAME}(): argument {name!r} must have an int or None for each argument of the "
                f"function, and has {entry!r} for {where}"
            )
        if entry is not None and not is_array(leaf):
            raise TypeError(
                f"{_NAME}(): argument {name!r} names an axis of {where}, which is "
                f"{type(leaf).__name__}, not an array. Pass None for it"
            )
        if entry is not None and not -leaf.ndim <= entry < leaf.ndim:
            raise ValueError(
                f"{_NAME}(): argument {name!r} names axis {entry} of {where}, whose shape is "
                f"{leaf.shape}. Pass an axis that it has, or None"
            )
        axes.append(None if entry is None else entry % leaf.ndim)
        if entry is not None:
            sizes.setdefault(leaf.shape[entry], f"{where} has {leaf.shape[entry]}")
    if len(sizes) > 1:
        raise ValueError(
            f"{_NAME}(): argument {name!r} names axes of different sizes: "
            f"{', '.join(sizes.values())}. Pass None for arguments without this axis"
        )
    if not sizes or min(sizes) < least:
        got = f"an axis of size {min(sizes)}" if sizes else "no axis"
        raise ValueError(
            f"{_NAME}(): argument {name!r} names {got}; an axis of at least {least} is needed"
        )
    return axes, min(sizes)


def _results_axes(name: str, out: Any, axes: Any) -> Any:
    """Returns the axes of the results, by default the one axis of the arguments."""
    if out is not SAME:
        return out
    named = set(jax.tree.leaves(axes))
    if len(named) == 1:
        return named.pop()
    raise ValueError(
        f"{_NAME}(): argument {name!r} names several axes, {sorted(named)}; pass 'out_{name}', the "
        "axis in the results"
    )


def _changes(
    name: str, program: Runs, axes: Axes, size: int, *, fill: Any, out: Any
) -> Iterator[Change]:
    if name == "pad":
        return of_padding(program.leaves, axes, size, _of_leaves("fill", fill, program))
    if name == "time":
        return of_time(program.leaves, axes, size)
    parts = of_batch if jax.tree.leaves(out) else of_order
    return parts(program.leaves, axes, size)


def _compare(program: Runs, name: str, size: int, out: Any, made: Iterator[Change]) -> None:
    """Raises if a result has other bits after one of the changes."""
    __tracebackhide__ = True
    plain = program.run(program.leaves)
    tree = program.tree_of(plain)
    try:
        axes = [None] * len(plain) if name == "pad" else _broadcast(out, tree)
    except ValueError as error:
        raise ValueError(
            f"{_NAME}(): argument 'out_{name}' got {out!r}, which does not fit the results: "
            f"{jax.tree.structure(tree)}. Pass one entry for all, or a tree of these"
        ) from error
    for change in made:
        rows = zip(plain.items(), program.run(change.leaves).values(), axes, strict=True)
        for number, ((where, want), got, axis) in enumerate(rows):
            if name == "pad":
                pair = _cropped(got, want), want
            elif axis is None and (name == "time" or not change.is_order):
                continue
            else:
                _check_axis(program, name, where, want, axis, size)
                pair = _taken(got, change.got, axis), _taken(want, change.want, axis)
            fault = _fault(*pair)
            if fault:
                found = _first_change(program, number, change)
                raise AssertionError(
                    f"{_subject(program, name)}: its {where} differs for {change.label} ({fault})"
                    f"{found}"
                )


def _check_axis(
    program: Runs, name: str, where: str, want: Any, axis: int | None, size: int
) -> None:
    if axis is None or (-want.ndim <= axis < want.ndim and want.shape[axis] == size):
        return
    rows, remedy = _NOUNS[name], _REMEDIES[name]
    raise AssertionError(
        f"{_subject(program, name)}: its {where} has the shape {want.shape}, in which axis {axis} "
        f"is not the {size} {rows} of the arguments. {remedy}"
    )


_NOUNS = {"batch": "examples", "time": "positions"}
_REMEDIES = {
    "batch": (
        "A sum or a gradient depends on all examples: return a row for each, or pass "
        "out_batch=None, which only changes the order of the examples"
    ),
    "time": "Pass out_time, the axis of the positions in the results, or None to leave it out",
}
_SUBJECTS = {
    "batch": "is not invariant in its batch",
    "time": "is not causal",
    "pad": "is not invariant under padding",
}


_NO_EQUATION = """

Each equation that can round has the same elements. Either the index of a row chooses among them, as
in a dropout, or the difference is gone when the results of each equation are kept."""


def _subject(program: Runs, name: str) -> str:
    return f"{program.name} {_SUBJECTS[name]}, with {in_words(modes.current())}"


def _taken(array: Any, indices: Any, axis: int | None) -> Any:
    return array if indices is None or axis is None else np.take(array, indices, axis)


def _cropped(array: Any, like: Any) -> Any:
    """Returns the part of an array that has the shape of another one, if it is as large."""
    larger = array.ndim == like.ndim and all(
        a >= b for a, b in zip(array.shape, like.shape, strict=True)
    )
    return array[tuple(map(slice, like.shape))] if larger else array


def _fault(got: Any, want: Any) -> str:
    """Returns how far apart two results are, or nothing."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} and not {want.dtype}{list(want.shape)}"
    distance = distance_of(got, want)
    return "" if distance is None else distance.text()


def _first_change(program: Runs, number: int, change: Change) -> str:
    """Returns what ``first_change`` finds, after two line breaks."""
    sides = program.with_leaves(change.smaller), program.with_leaves(change.larger)
    try:
        difference = first_change(program.function, number, *sides)
    except Exception as error:  # noqa: BLE001  # The failure itself must be shown.
        return f"\n\n(The first equation could not be found: {error})"
    if difference is None:
        return _NO_EQUATION
    return f"\n\n{difference}"


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

    ``fill`` has the number to pad each leaf with; None for the numbers of its dtype.
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
