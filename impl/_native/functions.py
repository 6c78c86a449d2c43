"""Elementary functions, element by element, as calls of the engine ``native``.

``programs.json`` has the steps of each function, which the call interprets (``src/functions.h``)::

    "tanh float32": {"steps": [...], "constants": [...], "registers": 10, "results": [3]}

A function of float64 can have a quick program too, which computes the ends of an interval, rounded.
Where they are one number, this is the result::

    "tanh float64 quick": {"steps": [...], "constants": [...], "registers": 20, "results": [3, 4]}
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._native.call import computed
from impl._native.operation import Call, Elementwise, longs

#: The programs; ``python -m conformance.lab.elementary.programs`` writes them.
PROGRAMS = pathlib.Path(__file__).with_name("programs.json")
#: The most steps of all elements, but of float64, whose functions XLA compiles for seconds. The
#: engine interprets them at a third of the speed of code that XLA compiles in ten times the time,
#: so such a call is at most 20 microseconds slower. Programs of one float32 are compiled
#: (``CMakeLists.txt``).
_MOST_WORK, _MOST_COMPILED = 200_000, 600_000


@dataclasses.dataclass(frozen=True)
class Program:
    """The attributes of a call of ``samebits_function``.

    Attributes:
        steps: The words of the steps.
        constants: The bits of the constants.
        registers: The number of registers.
        results: The register of the results, or the registers of the two ends.
    """

    steps: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    registers: int = 0
    results: tuple[int, ...] = ()

    def attributes(self, prefix: str = "") -> dict[str, Any]:
        """Returns the attributes with a prefix before their names."""
        words = {field: longs(getattr(self, field)) for field in ("steps", "constants", "results")}
        words["constants"] = words["constants"].view(np.float64)
        every = {**words, "registers": np.int64(self.registers)}
        return {f"{prefix}{field}": value for field, value in every.items()}


@functools.cache
def programs() -> Mapping[str, Program]:
    """Returns the programs by their keys."""
    known = json.loads(PROGRAMS.read_text("utf-8"))
    return {name: Program(**fields) for name, fields in known.items()}


def key(name: str, dtypes: Iterable[Any]) -> str:
    """Returns the key of the program of a primitive, for operands of some dtypes."""
    return " ".join([name, *(np.dtype(dtype).name for dtype in dtypes)])


@dataclasses.dataclass(frozen=True)
class Function(Elementwise):
    """A function of arrays.

    Attributes:
        key: The key of its program.
    """

    key: str

    def call(self, *operands: Any) -> Call:
        quick = programs().get(f"{self.key} quick", Program())
        attributes = programs()[self.key].attributes() | quick.attributes("quick_")
        result = jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
        return Call("samebits_function", result, attributes)


def call(name: str, *operands: jax.Array, **_: object) -> jax.Array | None:
    """Returns an elementary function of arrays; None if there is no call of the primitive.

    The arrays have one shape, and the first one has the dtype of the result.
    """
    if not has_call(name, operands):
        return None
    dtypes = _dtypes(operands)
    whole = [lax.convert_element_type(*each) for each in zip(operands, dtypes, strict=True)]
    return computed(Function(len(whole), whole[0].ndim, key(name, dtypes)), whole)


def has_call(name: str, operands: Sequence[Any]) -> bool:
    """Returns whether there is a call for a primitive, and for arrays or types of arrays."""
    x, *more = operands
    has_sizes = all(isinstance(size, int) for size in x.shape)
    program = programs().get(key(name, _dtypes(operands)))
    if not has_sizes or program is None or any(each.shape != x.shape for each in more):
        return False
    most = _MOST_WORK if more or x.dtype != np.float32 else _MOST_COMPILED
    return bool(x.dtype == np.float64 or x.size * len(program.steps) <= most)


def _dtypes(operands: Sequence[Any]) -> list[Any]:
    """Returns the dtypes in which a call takes operands: of integers, it takes int32 and int64."""
    return [
        np.dtype(np.int32 if np.can_cast(each.dtype, np.int32) else np.int64)
        if jnp.issubdtype(each.dtype, jnp.integer) and each.dtype != np.uint64
        else each.dtype
        for each in operands
    ]
