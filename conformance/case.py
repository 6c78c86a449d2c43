"""What a case of an op is: calls to try, and what is right for each."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import spec
from conformance import implementation

Array: TypeAlias = npt.NDArray[Any]
#: Takes a namespace of ops, then arrays.
Call: TypeAlias = Callable[..., Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """One call of an op.

    Attributes:
        name: Unique within the op.
        facts: What this call is, in the words of ``facts.toml``.
        call: Calls the op: ``call(namespace, *arrays)``.
        arrays: The arrays to call it with.
        expected: From the arrays to the result, by NumPy in float64.
        ordered: From the arrays to the bits of the ordered path, by the oracle of its order.
        wrt: Position of the array to differentiate by; None if there is none.
        expected_pullback: As ``expected``, from a cotangent and the arrays to the gradient.
        ordered_pullback: As ``ordered``, from a cotangent and the arrays to the gradient.
        accept: Judges a result where several are right: ``accept(result, *arrays)`` raises
            AssertionError. None compares with ``expected``.
        filled: From the arrays to the bits where fresh memory holds a known value.
        own: By direction, why what is right here is right of this project alone: others are not
            judged by it. What they repeat and what they say is tried all the same.
    """

    name: str
    facts: spec.Facts
    call: Call
    arrays: tuple[Array, ...]
    expected: Callable[..., Any]
    ordered: Callable[..., Any] | None = None
    wrt: int | None = None
    expected_pullback: Callable[..., Any] | None = None
    ordered_pullback: Callable[..., Any] | None = None
    accept: Callable[..., None] | None = None
    filled: Callable[..., Any] | None = None
    own: Mapping[spec.Direction, str] = dataclasses.field(default_factory=dict)

    @property
    def directions(self) -> tuple[spec.Direction, ...]:
        """The directions in which the call can be tried."""
        return ("forward",) if self.wrt is None else ("forward", "backward")

    def function(self, namespace: Any, direction: spec.Direction) -> Callable[..., Any]:
        """The call, or its pullback, as a function of ``inputs(direction)``.

        Args:
            namespace: An implementation, or a namespace of ops of JAX arrays.
            direction: Which of the two.
        """
        tried = implementation.of(namespace)
        call = functools.partial(self.call, tried.namespace)
        return call if direction == "forward" else tried.pullback(call, self.wrt or 0)

    def inputs(self, direction: spec.Direction) -> tuple[Array, ...]:
        """The arrays to call ``function(direction)`` with."""
        if direction == "forward":
            return self.arrays
        result = np.asarray(self.expected(*self.arrays))
        cotangent = np.random.default_rng(0).normal(size=result.shape)
        if self.facts.get("dtype") == "complex":
            cotangent = cotangent + 1j * cotangent[::-1]
        return (cotangent.astype(self.arrays[self.wrt or 0].dtype), *self.arrays)

    def judge(self, direction: spec.Direction, result: Any) -> None:
        """Compares a result with what is right up to rounding.

        Raises:
            AssertionError: It is not.
        """
        inputs = self.inputs(direction)
        if direction == "forward" and self.accept is not None:
            self.accept(result, *inputs)
            return
        right = self.expected if direction == "forward" else self.expected_pullback
        if right is None:
            raise spec.SpecError(f"the sample {self.name!r} has no reference for its {direction}")
        np.testing.assert_allclose(
            np.asarray(result).astype(np.complex128),
            np.asarray(right(*inputs)).astype(np.complex128),
            rtol=tolerance(np.asarray(result).dtype),
            atol=tolerance(np.asarray(result).dtype) * 10,
        )

    def oracle(self, direction: spec.Direction) -> Callable[..., Any] | None:
        """The exact result of the ordered path, as a function of ``inputs(direction)``."""
        return self.ordered if direction == "forward" else self.ordered_pullback


def tolerance(dtype: np.dtype[Any]) -> float:
    """What a few thousand additions in any order may lose, relative to one term."""
    return 2e-2 if dtype.itemsize < 4 else 1e-4


@functools.cache
def samples(op: str) -> Sequence[Sample]:
    """The samples of an op, from the module of ``conformance.cases`` that has its name.

    An op without such a module has none.
    """
    name = f"conformance.cases.{op}"
    if not exists(name):
        return ()
    module: ModuleType = importlib.import_module(name)
    return tuple(module.samples())


def exists(name: str) -> bool:
    """Whether there is a module of this name."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
