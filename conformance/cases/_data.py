"""Arrays for samples, and references that many samples share.

The arrays are the same in every run. Their values are random, so that another order of additions
changes bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

import spec
from conformance.cases.table import Call, Draw, Sample
from spec import oracles

Array = npt.NDArray[Any]
#: Maps an array, and the indices of a call, to the elements that the call reads or writes.
Reach: TypeAlias = Callable[..., Array]
#: Combines a flat array, the positions of elements, and the values to add or write there.
Write: TypeAlias = Callable[[Array, Array, Array], Array]

#: A fact of calls that promise nothing about their indices.
UNIQUE = {"unique_indices": False}
#: A dtype for each kind of number that ops add. Sums of bfloat16 are rounded once, at the end.
DTYPES: dict[str, Any] = {"floating": np.float32, "integer": np.int32, "narrow": bfloat16}


def rounded_once(name: str, *directions: spec.Direction) -> dict[spec.Direction, str]:
    """Returns ``Sample.choices`` of sums; the name of the sample begins with one of ``DTYPES``."""
    reason = "Sums are of float32, rounded once; PyTorch rounds to bfloat16 at each addition."
    return dict.fromkeys(directions, reason) if name.startswith("narrow") else {}


def updates(
    d: Draw, dtype: Any, lanes: tuple[int, ...], of_index: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Returns an input, indices along its first dimension, and a source."""
    x, source = d.values((d.few, *lanes), dtype), d.values((d.many, *lanes), dtype, 1)
    return x, d.indices((d.many, *of_index)), source


def places(shape: tuple[int, ...], index: Sequence[Array], reach: Reach) -> Array:
    """Returns the positions of the elements that a call reaches, in the flat array."""
    every = np.arange(math.prod(shape)).reshape(shape)
    return np.asarray(reach(every, *index)).reshape(-1)


def written(
    x: Array, index: Sequence[Array], source: Array, reach: Reach, write: Write = oracles.source
) -> Array:
    """Returns ``x`` with a source added to the elements that a call reaches, or written there."""
    flat = places(x.shape, index, reach)
    if not flat.size:
        return x  # JAX leaves out a scatter of no updates, so a -0 stays.
    return np.asarray(write(x.reshape(-1), flat, source.reshape(-1))).reshape(x.shape)


def one_of_the_writes(result: Any, x: Array, i: Array, s: Array) -> None:
    """Accepts, for each destination of ``x``, any of the contributions that ``i`` sends to it."""
    for row in range(len(x)):
        written = s[i == row] if np.any(i == row) else x[row : row + 1]
        value = np.asarray(result)[row]
        if not np.all(np.any(written == value, axis=0)):
            raise AssertionError(f"{value} at {row} is not one of the values written there")


def writing(
    name: str,
    call: Call,
    arrays: tuple[Array, ...],
    reach: Reach,
    write: Write = oracles.source,
    **options: Any,
) -> Sample:
    """Returns a sample of a call that adds or writes a source to elements of its input.

    The arrays are the input, the indices and the source. ``reach`` returns the elements of an array
    that the call reaches, and ``write`` combines them. The gradient by the source is the elements
    that a sum reaches. A write has no reference of this gradient, which depends on the write that
    the op chose.
    """

    def accept(result: Any, x: Array, *rest: Array) -> None:
        *index, source = rest
        flat = places(x.shape, index, reach)
        one_of_the_writes(np.asarray(result).reshape(-1), x.reshape(-1), flat, source.reshape(-1))

    fields: dict[str, Any] = {
        "ordered": lambda x, *rest: written(x, rest[:-1], rest[-1], reach, write),
        "ordered_gradient": lambda ct, x, *rest: reach(ct, *rest[:-1]),
        "accept": accept if write is oracles.last_write else None,
    }
    return Sample(name=name, call=call, arrays=arrays, **{**fields, **options})


def source_of(dtype: Any) -> int | None:
    """Returns the position of the source of three arrays, if it has a gradient."""
    return None if dtype is np.int32 else 2


def rows(x: Array, i: Array) -> Array:
    return np.asarray(x[i])


def lanes_of(x: Array, i: Array) -> Array:
    return np.take_along_axis(x, i, 0)
