"""The sides of a case: programs that compute the same, whose times are compared."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import jax

#: A function that runs a program once, and returns when the result is complete.
Side = Callable[[], object]
#: A context in which a side is compiled.
Scope = Callable[[], contextlib.AbstractContextManager[Any]]


class RefusedError(Exception):
    """A side refuses a case, as PyTorch's deterministic mode does on a GPU."""


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
        """The memory besides the arguments and the result."""
        return int(self.compiled.memory_analysis().temp_size_in_bytes)

    @property
    def peak_bytes(self) -> int:
        """The memory of the arguments, the result, and all between."""
        return self.floor_bytes + self.temporary_bytes


def run(compiled: Any, *arguments: Any) -> Program:
    """Returns a side that runs a compiled JAX program."""
    return Program(compiled, arguments)
