"""Elementary functions, element by element, as calls of the engine ``native``.

``programs.json`` has the steps of each function, which the call interprets (``src/functions.h``)::

    "tanh float32": {"steps": [...], "constants": [...], "registers": 10, "result": 3}
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._native.call import computed
from impl._native.operation import Call, Elementwise, longs, takes

#: The programs; ``python -m conformance.lab.elementary.programs`` writes them.
PROGRAMS = pathlib.Path(__file__).with_name("programs.json")
#: The most steps of all elements. The engine interprets them at a third of the speed of code that
#: XLA compiles in ten times the time, so such a call is at most 20 microseconds slower.
_MOST_WORK = 200_000


@dataclasses.dataclass(frozen=True)
class Program:
    """The attributes of a call of ``samebits_function``.

    Attributes:
        steps: The words of the steps.
        constants: The bits of the constants.
        registers: The number of registers.
        result: The register of the results.
    """

    steps: tuple[int, ...]
    constants: tuple[int, ...]
    registers: int
    result: int


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
        program = programs()[self.key]
        attributes = {
            "steps": longs(program.steps),
            "constants": longs(program.constants).view(np.float64),
            "registers": np.int64(program.registers),
            "result": np.int64(program.result),
        }
        result = jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
        return Call("samebits_function", result, attributes)


def call(name: str, *operands: jax.Array, **_: object) -> jax.Array | None:
    """Returns an elementary function of arrays; None if there is no call.

    Args:
        name: The name of the primitive.
        *operands: The arrays, all of one shape. The first one has the dtype of the result.
    """
    x, *more = operands
    if not takes([x], x.dtype) or any(each.shape != x.shape for each in more):
        return None
    for number, each in enumerate(more):
        if jnp.issubdtype(each.dtype, jnp.integer) and each.dtype != np.uint64:
            # The call takes int32 and int64.
            is_short = np.can_cast(each.dtype, np.int32)
            more[number] = lax.convert_element_type(each, np.int32 if is_short else np.int64)
    operands = (x, *more)
    own = key(name, [each.dtype for each in operands])
    program = programs().get(own)
    if program is None or x.size * len(program.steps) > _MOST_WORK:
        return None
    return computed(Function(len(operands), x.ndim, own), operands)
