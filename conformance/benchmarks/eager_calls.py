"""Small calls of every public op, and of the nearest function of plain JAX.

They are the first calls with a name in the table of operations. Their arrays are so small that the
computation takes no time: a benchmark of these calls measures the work of Python and of JAX around
it. For ``index_copy``,

    Call("index_copy", ours, plain, arrays)

``ours`` is ``impl.index_copy(x, 0, i, s)`` and ``plain`` is ``x.at[i].set(s)``, of 69 numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import impl
from conformance.adapters.base import resolve
from conformance.cases import _calls
from conformance.cases.table import table


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an op.

    Attributes:
        op: The name of the op.
        ours: The call; it takes the arrays.
        plain: The same function of plain JAX, or the nearest; None where JAX has no such function.
        arrays: The arrays.
    """

    op: str
    ours: Callable[..., Any]
    plain: Callable[..., Any] | None
    arrays: tuple[Any, ...]


def calls() -> Iterator[Call]:
    """Yields a call of every public op."""
    for op, entry in table().items():
        call = _calls.first_call(op)
        plain = entry.plain and functools.partial(entry.plain, jax)
        yield Call(op, _ours(call), plain, tuple(map(jnp.asarray, call.arrays)))


def _ours(call: _calls.Call) -> Callable[..., Any]:
    """Returns a call as a function of its arrays, with little work around it."""
    function, arguments, options = resolve(impl, call.op), *call.with_arrays(call.arrays)
    positions = [i for i, each in enumerate(arguments) if _calls.is_array(each)]
    if call.form.call is not None or len(positions) < len(call.arrays):
        return functools.partial(call.run, impl)

    def ours(*arrays: Any) -> Any:
        given = list(arguments)
        for position, array in zip(positions, arrays):  # noqa: B905  # it would take time
            given[position] = array
        return function(*given, **options)

    return ours
