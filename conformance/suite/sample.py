"""The table of operations: for each op the calls that test it, with their right results.

The modules of ``conformance.cases`` hold the entries, one for each op. A sample knows nothing about
rows, modes or profiles. ``conformance.suite.cells`` combines each sample with these.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import spec
from conformance import cases
from conformance.adapters import loading

Array: TypeAlias = npt.NDArray[Any]
#: Takes a namespace of ops, then arrays.
Call: TypeAlias = Callable[..., Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """One call of an op.

    Attributes:
        name: Unique within the op.
        facts: The facts of the call, in the words of ``facts.toml``.
        call: Calls the op: ``call(namespace, *arrays)``.
        arrays: The arrays to call it with.
        expected: Maps the arrays to the result, by NumPy in float64.
        ordered: Maps the arrays to the bits of the ordered path, by the oracle of its order. If the
            row has no order, to the bits under ``portable``.
        wrt: The position of the array to differentiate with respect to. None if the call is not
            differentiated.
        expected_gradient: As ``expected``, from a cotangent and the arrays to the gradient.
        ordered_gradient: As ``ordered``, from a cotangent and the arrays to the gradient.
        accept: Judges a result where several are right: ``accept(result, *arrays)`` raises
            AssertionError. None compares with ``expected``.
        filled: Maps the arrays to the bits of the result where fresh memory holds a known value.
        choices: By direction, why the expected values are a choice of this project. The suite does
            not compare the values of other implementations with them. It still tests that their
            bits repeat and that their alerts are right.
    """

    name: str
    facts: spec.Facts
    call: Call
    arrays: tuple[Array, ...]
    expected: Callable[..., Any]
    ordered: Callable[..., Any] | None = None
    wrt: int | None = None
    expected_gradient: Callable[..., Any] | None = None
    ordered_gradient: Callable[..., Any] | None = None
    accept: Callable[..., None] | None = None
    filled: Callable[..., Any] | None = None
    choices: Mapping[spec.Direction, str] = dataclasses.field(default_factory=dict)

    @property
    def directions(self) -> tuple[spec.Direction, ...]:
        """The directions in which the suite tests the call."""
        return ("forward",) if self.wrt is None else ("forward", "backward")

    def function(self, namespace: Any, direction: spec.Direction) -> Callable[..., Any]:
        """Returns the call or its gradient, as a function of ``inputs(direction)``.

        Args:
            namespace: An adapter, or a namespace of ops of JAX arrays.
            direction: ``forward`` for the call, ``backward`` for its gradient.
        """
        adapter = loading.of(namespace)
        call = functools.partial(self.call, adapter.namespace)
        return call if direction == "forward" else adapter.gradient_function(call, self.wrt or 0)

    def inputs(self, direction: spec.Direction) -> tuple[Array, ...]:
        """Returns the arrays to call ``function(direction)`` with."""
        if direction == "forward":
            return self.arrays
        result = np.asarray(self.expected(*self.arrays))
        cotangent = np.random.default_rng(0).normal(size=result.shape)
        if self.facts.get("dtype") == "complex":
            cotangent = cotangent + 1j * cotangent[::-1]
        return (cotangent.astype(self.arrays[self.wrt or 0].dtype), *self.arrays)

    def judge(self, direction: spec.Direction, result: Any) -> None:
        """Compares a result with the expected one, up to rounding.

        Raises:
            AssertionError: The result is wrong.
        """
        inputs = self.inputs(direction)
        if direction == "forward" and self.accept is not None:
            self.accept(result, *inputs)
            return
        reference = self.expected if direction == "forward" else self.expected_gradient
        if reference is None:
            raise spec.SpecError(f"the sample {self.name!r} has no reference for its {direction}")
        np.testing.assert_allclose(
            np.asarray(result).astype(np.complex128),
            np.asarray(reference(*inputs)).astype(np.complex128),
            rtol=tolerance(np.asarray(result).dtype),
            atol=tolerance(np.asarray(result).dtype) * 10,
        )

    def oracle(self, direction: spec.Direction) -> Callable[..., Any] | None:
        """Returns the exact result of the ordered path as a function of ``inputs(direction)``."""
        return self.ordered if direction == "forward" else self.ordered_gradient


def tolerance(dtype: np.dtype[Any]) -> float:
    """Returns the rounding error of a few thousand additions in any order, relative to a term."""
    return 2e-2 if dtype.itemsize < 4 else 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class OpInfo:
    """What the tests know about an op: its entry in the table.

    Attributes:
        op: Dotted name.
        samples: Yields the calls by which the suite tests the rows of the op.
    """

    op: str
    samples: Callable[[], Iterable[Sample]]


def _entries() -> Iterator[tuple[str, OpInfo]]:
    """Yields each entry of the table, after the name of its module."""
    for module in pkgutil.iter_modules(cases.__path__, f"{cases.__name__}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            for entry in importlib.import_module(module.name).OPS:
                yield module.name, entry


@functools.cache
def table() -> Mapping[str, OpInfo]:
    """Returns the entry of each op."""
    return {entry.op: entry for _, entry in _entries()}


def module_of(op: str) -> str | None:
    """Returns the name of the module that has the entry of an op, or None."""
    return next((module for module, entry in _entries() if entry.op == op), None)


@functools.cache
def samples(op: str) -> Sequence[Sample]:
    """Returns the samples of an op. An op without an entry in the table has none."""
    return tuple(table()[op].samples()) if op in table() else ()
