"""A case of a benchmark: what is computed, and the sides that compute it."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from conformance.benchmarks.torch_peer import TorchPeer

_Items = TypeVar("_Items", Mapping[str, Any], Sequence[Any])

#: A function that runs a program once, and returns when the result is complete.
Side = Callable[[], object]

#: The part of the memory of a machine that the arrays of a case may take.
_PART_OF_MEMORY = 16


class RefusedError(Exception):
    """A side refuses a case, as PyTorch's deterministic mode does on a GPU."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """How the cases of a family are chosen.

    Attributes:
        times: The factor of the sizes.
        quick: Whether a family gives its smaller and fewer cases.
        torch: PyTorch; None without it.
        memory: The bytes of memory of the device.
    """

    times: int
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
class Program:
    """A side that runs a compiled JAX program.

    Attributes:
        compiled: The program.
        arguments: Its arguments, on the device.
    """

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
        """The memory beside the arguments and the result."""
        return int(self.compiled.memory_analysis().temp_size_in_bytes)

    @property
    def peak_bytes(self) -> int:
        """The memory of the arguments, the result, and all between."""
        return self.floor_bytes + self.temporary_bytes


@dataclasses.dataclass(frozen=True)
class Case:
    """A computation that several sides do.

    Attributes:
        about: The description of the case, by column of the table.
        sides: The sides, by name.
        ours: The name of the side whose arguments and result are the floor of the bytes moved.
        few: Whether a run takes so long that a tenth of the rounds suffices.
        n: The size of a case that is one of several sizes, for a curve; None otherwise.
    """

    about: Mapping[str, str]
    sides: Mapping[str, Side]
    ours: str
    few: bool = False
    n: int | None = None

    @property
    def program(self) -> Program | None:
        """The program of the side that is ours; None if that side runs no single program."""
        side = self.sides[self.ours]
        return side if isinstance(side, Program) else None


def run(compiled: Any, *arguments: Any) -> Program:
    """Returns a side that runs a compiled JAX program."""
    return Program(compiled, arguments)


def device() -> jax.Device:
    """Returns the device that JAX computes on, also while a program is traced."""
    with jax.ensure_compile_time_eval():
        (chosen,) = jnp.zeros(()).devices()
    return chosen


def on_cpu() -> bool:
    """Returns whether JAX computes on a CPU. The benchmarks ask nothing else about the device."""
    is_cpu: bool = device().platform == "cpu"
    return is_cpu


def threads() -> int:
    """Returns the number of threads that JAX uses on a CPU."""
    return len(os.sched_getaffinity(0))


def memory_of_device() -> int:
    """Returns the bytes of memory of the device."""
    if on_cpu():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(device().memory_stats()["bytes_limit"])
