"""The table of operations: for each op the calls that test it, with their right results.

The modules of ``conformance.cases`` hold the entries, one for each op::

    OpInfo("take", _take, lambda: [form(np.ones((2, 3)), np.array([5, 0])), ...])

``_take`` yields the samples, of which an oracle states the bits. A sample knows nothing about rows,
modes or profiles: ``conformance.suite.cells`` combines each sample with these. The forms are small
calls for unit tests.
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
from conformance.adapters import base

Array: TypeAlias = npt.NDArray[Any]
#: Takes a namespace of ops, then arrays.
Call: TypeAlias = Callable[..., Any]

#: The fact ``dtype`` of the kinds of NumPy. The kind of bfloat16 is not one of them.
_KINDS = {"i": "integer", "u": "integer", "b": "bool", "c": "complex"}


class Draw:
    """The sizes and the elements of samples, which are fixed; Hypothesis draws others.

    The elements are random, so that another order of additions changes bits.
    """

    #: Destinations, and contributions that fill blocks of a kernel or do not; and short axes.
    few, many, some, lanes, columns = 7, 2500, 40, 3, 2

    def sizes(self, usual: Sequence[int], *_: Any) -> tuple[int, ...]:
        """Returns further sizes; the least and the greatest ones limit others than the usual."""
        return tuple(usual)

    def values(self, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
        """Returns normally distributed numbers, or small integers for an integer dtype."""
        numbers = np.random.default_rng((seed, *shape)).normal(size=shape)
        return (numbers * (10 if np.dtype(dtype).kind == "i" else 1)).astype(dtype)

    def indices(self, shape: tuple[int, ...], size: int = few) -> Array:
        """Returns indices with many duplicates. None of them names the last destination."""
        return np.random.default_rng(shape).integers(0, size - 1, shape).astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """One call of an op.

    Attributes:
        name: Unique within the op.
        call: Calls the op: ``call(namespace, *arrays)``.
        arrays: The arrays to call it with.
        facts: The facts of the call, in the words of ``facts.toml``. The first array gives
            ``dtype`` and ``input_ndim`` where they are left out.
        ordered: Maps the arrays to the bits of the ordered path, by the oracle of its order. If the
            row has no order, to the bits under ``portable``. None if no oracle states the bits.
        expected: Maps the arrays to the result, by NumPy in float64. None for ``ordered``, whose
            bits are right up to rounding.
        wrt: The position of the array to differentiate with respect to. None if the call is not
            differentiated.
        ordered_gradient: As ``ordered``, from a cotangent and the arrays to the gradient.
        expected_gradient: As ``expected``, from a cotangent and the arrays to the gradient.
        accept: Judges a result where several are right: ``accept(result, *arrays)`` raises
            AssertionError. None compares with ``expected``.
        filled: Maps the arrays to the bits of the result where fresh memory holds a known value.
        choices: By direction, why the expected values are a choice of this project. The suite does
            not compare the values of other implementations with them. It still tests that their
            bits repeat and that their alerts are right.
    """

    name: str
    call: Call
    arrays: tuple[Array, ...]
    facts: spec.Facts = dataclasses.field(default_factory=dict)
    ordered: Callable[..., Any] | None = None
    expected: Callable[..., Any] | None = None
    wrt: int | None = None
    ordered_gradient: Callable[..., Any] | None = None
    expected_gradient: Callable[..., Any] | None = None
    accept: Callable[..., None] | None = None
    filled: Callable[..., Any] | None = None
    choices: Mapping[spec.Direction, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.arrays:
            kind = _KINDS.get(self.arrays[0].dtype.kind, "floating")
            facts = {"dtype": kind, "input_ndim": self.arrays[0].ndim, **self.facts}
            object.__setattr__(self, "facts", facts)

    @property
    def directions(self) -> tuple[spec.Direction, ...]:
        """The directions in which the suite tests the call."""
        return ("forward",) if self.wrt is None else ("forward", "backward")

    def function(self, namespace: Any, direction: spec.Direction) -> Callable[..., Any]:
        """Returns the call or its gradient, as a function of ``inputs(direction)``."""
        adapter = base.of(namespace)
        call = functools.partial(self.call, adapter.namespace)
        return call if direction == "forward" else adapter.gradient_function(call, self.wrt or 0)

    def inputs(self, direction: spec.Direction) -> tuple[Array, ...]:
        """Returns the arrays to call ``function(direction)`` with."""
        if direction == "forward":
            return self.arrays
        shape = np.shape(_right_result(self, "forward"))
        cotangent = np.random.default_rng(0).normal(size=shape)
        if self.facts.get("dtype") == "complex":
            cotangent = cotangent + 1j * cotangent[::-1]
        return (cotangent.astype(self.arrays[self.wrt or 0].dtype), *self.arrays)

    def judge(self, direction: spec.Direction, result: Any) -> None:
        """Compares a result with the expected one, up to rounding."""
        inputs = self.inputs(direction)
        if direction == "forward" and self.accept is not None:
            self.accept(result, *inputs)
            return
        right, dtype = _right_result(self, direction), np.asarray(result).dtype
        np.testing.assert_allclose(
            np.asarray(result).astype(np.complex128),
            np.asarray(right).astype(np.complex128),
            rtol=tolerance(dtype),
            atol=tolerance(dtype) * 10,
        )

    def oracle(self, direction: spec.Direction) -> Callable[..., Any] | None:
        """Returns the exact result of the ordered path as a function of ``inputs(direction)``."""
        return self.ordered if direction == "forward" else self.ordered_gradient


@functools.cache
def _right_result(sample: Sample, direction: spec.Direction) -> Any:
    """Returns the right result of a call up to rounding, which many cells ask for."""
    expected = sample.expected if direction == "forward" else sample.expected_gradient
    reference = expected or sample.oracle(direction)
    if reference is None:
        raise spec.SpecError(f"the sample {sample.name!r} has no reference for its {direction}")
    return reference(*sample.inputs(direction))


def tolerance(dtype: np.dtype[Any]) -> float:
    """Returns the rounding error of a few thousand additions in any order, relative to a term."""
    return 2e-2 if dtype.itemsize < 4 else 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Form:
    """A small call of an op: one of its shapes, dtypes or options, or a call that it refuses.

    Unit tests compare forms with PyTorch, which refuses the same calls. They test the forms with a
    name under transformations and in several programs. Two forms that run the same code need one
    name. PyTorch's OpInfo calls a form a sample input.

    Attributes:
        arguments: The positional arguments.
        options: The keywords.
        call: Calls the op, ``call(namespace, *arguments, **options)``. None for the op itself.
        name: Unique within the op. The first one may be empty.
        torch: Whether PyTorch has such a call with the same result.
        torch_gradient: Whether PyTorch has the same gradient.
        traced: The number of arrays of floats to differentiate by, from the first one on. None for
            all.
        smooth: Whether the derivative agrees with finite differences.
        twice: Whether the call can be differentiated twice.
        uses_values: Whether the result depends on the values of the arrays.
        same_bits: Whether every program gives the same bits. Otherwise the results agree up to
            rounding.
        batch: The positions of the arrays that may have a batch dimension. None for all.
    """

    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    call: Call | None = None
    name: str | None = None
    torch: bool = True
    torch_gradient: bool = True
    traced: int | None = None
    smooth: bool = True
    twice: bool = True
    uses_values: bool = True
    same_bits: bool = True
    batch: tuple[int, ...] | None = None

    def having(self, **fields: Any) -> Form:
        """Returns the form with other fields."""
        return dataclasses.replace(self, **fields)

    def named(self, name: str = "", **fields: Any) -> Form:
        """Returns the form with a name, and other fields."""
        return self.having(name=name, **fields)


def form(*arguments: Any, **options: Any) -> Form:
    """Returns the form of a call."""
    return Form(arguments, options)


@dataclasses.dataclass(frozen=True, eq=False)
class ErrorInput:
    """A call that an op refuses; PyTorch's OpInfo has the same name for it.

    Attributes:
        form: The call. Its attribute ``torch`` is whether PyTorch raises the same exception.
        error: The type of the exception.
        words: A part of the message: the argument, its value, or the values that it may have.
    """

    form: Form
    error: type[Exception]
    words: str


def refused(error: type[Exception], words: str, *arguments: Any, **options: Any) -> ErrorInput:
    """Returns a call that an op refuses as PyTorch does."""
    return ErrorInput(form(*arguments, **options), error, words)


@dataclasses.dataclass(frozen=True, eq=False)
class OpInfo:
    """The entry of an op in the table: the facts that its tests read.

    Attributes:
        op: Dotted name.
        samples: Yields the calls by which the suite tests the rows of the op, with arrays of the
            sizes that it is given.
        forms: Yields smaller calls, by which unit tests cover its shapes, dtypes and options.
        errors: Yields the calls that it refuses. Errors that follow from its signature, such as an
            argument of another type, need no entry.
        plain: The same call as the first form with a name in plain JAX, or the nearest:
            ``plain(jax, *arrays)``. None where JAX has no such function.
        wide: The number of forms that are tried in float64 too, from the first one on. Forms with
            arrays of int32 are tried in int64.
        tolerance: A factor of the allowed differences from PyTorch.
    """

    op: str
    samples: Callable[[Draw], Iterable[Sample]]
    forms: Callable[[], Iterable[Form]]
    errors: Callable[[], Iterable[ErrorInput]] = tuple
    plain: Call | None = None
    wide: int = 1
    tolerance: float = 1.0


def _entries() -> Iterator[tuple[str, OpInfo]]:
    """Yields each entry of the table, after the name of its module."""
    for module in pkgutil.iter_modules(cases.__path__, f"{cases.__name__}."):
        if module.name != __name__ and not module.name.rpartition(".")[2].startswith("_"):
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
    return tuple(table()[op].samples(Draw())) if op in table() else ()
