"""The forms of the table of operations as functions of their arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.adapters.base import resolve
from conformance.cases.table import Form, table


class Call:
    """A form of an op as a function of its arrays. Other attributes are the form's."""

    def __init__(self, op: str, form: Form) -> None:
        self.op = op
        self.form = form
        self._leaves, self._tree = jax.tree.flatten((form.arguments, form.options))
        #: The positions of the arrays among the leaves of the arguments.
        self._places = [i for i, leaf in enumerate(self._leaves) if is_array(leaf)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.form, name)

    @property
    def arrays(self) -> list[Any]:
        """The arrays of the arguments, in their order."""
        return [self._leaves[place] for place in self._places]

    def with_arrays(self, arrays: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Returns the positional arguments and the keywords, with other arrays."""
        leaves = list(self._leaves)
        for place, array in zip(self._places, arrays, strict=True):
            leaves[place] = array
        arguments: tuple[Sequence[Any], dict[str, Any]] = jax.tree.unflatten(self._tree, leaves)
        return arguments

    def run(self, namespace: Any, *arrays: Any) -> Any:
        """Calls the op of a namespace."""
        arguments, options = self.with_arrays(arrays)
        if self.form.call is not None:
            return self.form.call(namespace, *arguments, **options)
        return resolve(namespace, self.op)(*arguments, **options)

    def given(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Returns the positional arguments and the keywords that the op itself gets."""
        recorded: list[Any] = []
        self.run(_Recorder(recorded), *self.arrays)
        arguments: tuple[Sequence[Any], dict[str, Any]] = recorded[0]
        return arguments

    def outputs(self, *arrays: Any) -> list[Any]:
        """Calls the op of impl and returns all arrays of the result."""
        return jax.tree.leaves(self.run(impl, *arrays))

    @property
    def float_positions(self) -> list[int]:
        """The positions of the arrays of floats that a gradient is by."""
        inexact = (i for i, a in enumerate(self.arrays) if jnp.issubdtype(a.dtype, jnp.inexact))
        return list(inexact)[: self.form.traced]

    @property
    def floats(self) -> list[Any]:
        """The arrays of floats that a gradient is by."""
        return [self.arrays[position] for position in self.float_positions]

    def with_floats(self, floats: Sequence[Any], arrays: Sequence[Any] | None = None) -> list[Any]:
        """Returns the arrays, or other ones, with other floats."""
        replaced = dict(zip(self.float_positions, floats, strict=True))
        arrays = self.arrays if arrays is None else arrays
        return [replaced.get(i, array) for i, array in enumerate(arrays)]


class _Recorder:
    """A namespace of ops that records the arguments of a call instead of running the op."""

    def __init__(self, recorded: list[Any]) -> None:
        self._recorded = recorded

    def __getattr__(self, name: str) -> Any:
        if name.startswith("sparse_"):
            raise AttributeError(name)  # Its sparse arrays are JAX's.
        if name in ("nn", "functional", "sparse"):
            return self
        return lambda *arguments, **options: self._recorded.append((arguments, options))


def is_array(value: Any) -> bool:
    """Returns whether a value is an array of NumPy."""
    return isinstance(value, np.ndarray | np.generic)


@functools.cache
def calls(op: str) -> Sequence[Call]:
    """Returns the forms of an op as calls."""
    return [Call(op, form) for form in table()[op].forms()]


def first_call(op: str) -> Call:
    """Returns the first call of an op with a name; the last call if none has a name."""
    return next((call for call in calls(op) if call.name is not None), calls(op)[-1])
