"""Measures cases: sides in turns, and a copy of the same number of bytes.

Sides run in turns in one process, so that a disturbance of the machine affects them alike. The copy
tells what the memory of the machine allows, at this size and at this time. pyperf and asv were
tried: they run the sides one after another in processes of their own (pyperf 2.11 all values of one
side, then all of the next), so that a ratio has the disturbances of two times.

For example, a case of a sum, in the least number of rounds::

    sides      {"plain JAX": Program, "ordered": Program}
    a round    plain JAX, ordered, copy
    ordered    5, 6, 7, 8, 9 ms: Times(median=7, low=6, high=8, least=5, rounds=5)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import impl
from conformance.benchmarks.measurements import Family, Measurement, Times
from conformance.benchmarks.torch_peer import RefusedError, Side, TorchPeer

#: The number of rounds of a case: between these numbers, as many as fit into the seconds of a case.
LEAST_ROUNDS = 5
MOST_ROUNDS = 50
SECONDS = 4.0
SECONDS_QUICK = 0.5
#: The side that copies as many bytes as the arguments and the result have.
COPY = "copy"
#: The number of bytes of the greatest copy. Beyond, the time is proportional.
_MOST_COPIED = 1 << 30
#: The part of the memory of a machine that the arrays of a case may take.
_PART_OF_MEMORY = 16
#: A context in which a side is compiled.
Scope: TypeAlias = Callable[[], contextlib.AbstractContextManager[Any]]
MODE_OFF: Scope = functools.partial(impl.deterministic, False)
MODE_ON: Scope = functools.partial(impl.deterministic, profile="complete")
PORTABLE: Scope = functools.partial(impl.deterministic, guarantee="portable")

_Items = TypeVar("_Items", Mapping[str, Any], Sequence[Any])


@dataclasses.dataclass(frozen=True)
class Program:
    """A side that runs a compiled JAX program, with its arguments on the device."""

    compiled: Any
    arguments: tuple[Any, ...]

    def __call__(self) -> object:
        return jax.block_until_ready(self.compiled(*self.arguments))

    @property
    def floor_bytes(self) -> int:
        """The bytes that any program moves: each argument once, and the result once."""
        memory = self.compiled.memory_analysis()
        return int(memory.argument_size_in_bytes + memory.output_size_in_bytes)

    @property
    def temporary_bytes(self) -> int:
        """The memory besides the arguments and the result."""
        return int(self.compiled.memory_analysis().temp_size_in_bytes)


@dataclasses.dataclass(frozen=True)
class Setting:
    """How the cases of a family are chosen.

    ``quick`` gives smaller and fewer cases. ``torch`` is PyTorch, if it is there, and ``memory``
    the bytes of the device.
    """

    quick: bool
    torch: TorchPeer | None
    memory: int

    def some(self, items: _Items, count: int = 1) -> _Items:
        """Returns the items, or the first ``count`` of them in a quick run."""
        if not self.quick:
            return items
        if isinstance(items, Mapping):
            return dict(itertools.islice(items.items(), count))  # type: ignore[return-value]
        return items[:count]

    def fits(self, moved: int) -> bool:
        """Returns whether a case fits whose arguments and results have this many bytes."""
        return moved <= self.memory // _PART_OF_MEMORY


@dataclasses.dataclass(frozen=True)
class Case:
    """A computation that several sides do.

    ``about`` describes it by column of the table. If ``few``, a run takes so long that a tenth of
    the rounds suffices. ``n`` is the size of a case that is a point of a curve.
    """

    about: Mapping[str, str]
    sides: Mapping[str, Side]
    few: bool = False
    n: int | None = None


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A family of cases.

    Attributes:
        title: The calls that it measures, in words.
        base: The side with which each side is compared.
        ours: The side that is deterministic. If it is a JAX program, its arguments and result are
            the floor of the bytes moved.
        cases: Yields the cases.
        remarks: Sentences that a reader of the figures has to know.
        devices: The number of devices of a CPU on which the cases are measured once more.
    """

    title: str
    base: str
    ours: str
    cases: Callable[[Setting], Iterator[Case]]
    remarks: tuple[str, ...] = ()
    devices: int = 1

    def measured(self, setting: Setting) -> Family:
        """Returns the measurements of its cases."""
        seconds = SECONDS_QUICK if setting.quick else SECONDS
        measurements = (measure(c, self.ours, seconds=seconds) for c in self.cases(setting))
        return Family(self.title, self.base, self.ours, self.remarks, tuple(measurements))


def compiled(function: Callable[..., Any], arrays: Sequence[Any], scope: Scope) -> Program:
    """Returns a side that runs a function of arrays, compiled inside a scope."""

    def program(*arrays: Any) -> Any:  # A new function: JAX would reuse the trace of another scope.
        return function(*arrays)

    with scope():
        return Program(jax.jit(program).lower(*arrays).compile(), tuple(arrays))


def compared(
    setting: Setting,
    about: Mapping[str, str],
    op: Callable[..., Any],
    arrays: Sequence[Any],
    *,
    libraries: tuple[Any, Callable[[Any], Any]],
    plain: tuple[str, Callable[..., Any] | None] | None = None,
    wrt: Sequence[int] = (),
    n: int | None = None,
) -> Iterator[Case]:
    """Yields a case of an op in JAX and in PyTorch and, if it is differentiated, of its gradient.

    The op takes the functions of either library, and arrays. ``libraries`` are our functions, and a
    function that gives PyTorch's from the module ``torch``. ``plain`` is the name and the function
    of plain JAX; None for the op with the mode off. ``wrt`` are the arrays to differentiate by,
    with the result as the cotangent.
    """
    ours, of_torch = libraries
    values = tuple(map(jnp.asarray, arrays))
    own: Callable[..., Any] = functools.partial(op, ours)
    functions = {"ordered": (own, MODE_ON)}
    if plain is not None:
        functions = {plain[0]: (plain[1] or own, MODE_OFF), **functions}
    forward: dict[str, Side] = {
        name: compiled(function, values, scope) for name, (function, scope) in functions.items()
    }
    backward: dict[str, Side] = {
        name: _gradient(function, values, wrt, scope)
        for name, (function, scope) in functions.items()
        if wrt
    }
    if setting.torch is not None:
        call = functools.partial(op, of_torch(setting.torch.torch))
        for_gradient = setting.torch.tensors(arrays, wrt)
        forward |= setting.torch.forward_sides(lambda: call(*for_gradient))
        if wrt:
            inputs = [for_gradient[position] for position in wrt]
            backward |= setting.torch.backward_sides(call(*for_gradient), inputs)
    if not wrt:
        yield Case(about, forward, n=n)
        return
    yield Case({**about, "direction": "forward"}, forward, n=n)
    yield Case({**about, "direction": "backward"}, backward, n=n)


def _gradient(
    function: Callable[..., Any], values: Sequence[Any], wrt: Sequence[int], scope: Scope
) -> Program:
    """Returns a side that computes the gradients of a function, whose residuals are arguments."""

    @jax.jit
    def program(*arrays: Any) -> Any:  # As in ``compiled``.
        return function(*arrays)

    def of_some(*some: Any) -> Any:
        every = list(values)
        for position, value in zip(wrt, some, strict=True):
            every[position] = value
        return program(*every)

    with scope():
        out, pullback = jax.vjp(of_some, *(values[position] for position in wrt))
        return compiled(lambda pullback, cotangent: pullback(cotangent), (pullback, out), scope)


def measure(case: Case, ours: str, *, seconds: float = SECONDS) -> Measurement:
    """Measures a case, whose side ``ours`` is deterministic.

    Rounds are run in a number of seconds, if there are enough of them.
    """
    program = case.sides[ours]
    sides = dict(case.sides)
    moved = program.floor_bytes if isinstance(program, Program) and not case.few else None
    if moved:
        sides[COPY] = _copy(min(moved, _MOST_COPIED))
    times, refused = _times(sides, seconds=seconds, few=case.few)
    copied = times.pop(COPY, None)
    scale = max(1.0, (moved or 0) / _MOST_COPIED)
    return Measurement(
        case=dict(case.about),
        sides=times,
        refused=refused,
        temporary_bytes=program.temporary_bytes if isinstance(program, Program) else None,
        floor_bytes=moved,
        copy_ms=None if copied is None else copied.median * scale,
        n=case.n,
    )


def _copy(moved: int) -> Program:
    """Returns a side that reads a half of the bytes and writes the other."""
    words = jnp.asarray(np.zeros(max(1, moved // 8), np.uint32))
    return compiled(lax.bitwise_not, (words,), contextlib.nullcontext)


def _times(
    sides: Mapping[str, Side], *, seconds: float, few: bool
) -> tuple[dict[str, Times], dict[str, str]]:
    """Returns the times of each side, and the message of each side that refuses the case."""
    running, refused = dict(sides), {}
    for name, side in sides.items():
        try:
            side()
        except RefusedError as error:
            refused[name] = str(error)
            del running[name]
    first = [_milliseconds(side) for side in running.values()]
    rounds = int(seconds * 1e3 / max(sum(first), 1e-6))
    rounds = 1 if few and rounds < LEAST_ROUNDS else max(LEAST_ROUNDS, min(rounds, MOST_ROUNDS))
    taken: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(rounds):
        for name, side in running.items():
            taken[name].append(_milliseconds(side))
    return {name: Times.of(each) for name, each in taken.items()}, refused


def _milliseconds(side: Side) -> float:
    """Runs a side once. A side that times itself returns the milliseconds that it took."""
    start = time.perf_counter()
    result = side()
    own = (time.perf_counter() - start) * 1e3
    return result if isinstance(result, float) else own
