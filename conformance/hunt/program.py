"""Programs as values: inputs, equations in their order, and results.

A variable is a number: the inputs come first, then the result of each equation. A program can be
changed piece by piece (``conformance.hunt.shrink``), and written as Python
(``conformance.hunt.source``)::

    Program(
        inputs=(Input((4,), "float32", data), Input((4,), "float32", data)),
        equations=(Equation("mul", (0, 1), {}), Equation("sum", (2,), {"axes": [0]})),
        outputs=(3,),
    )
    # c = lax.mul(a, b); d = jnp.sum(c, axis=(0,)); return (d,)
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: The dtypes that NumPy has only with ``ml_dtypes``, on which JAX depends.
_OTHER_DTYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


def dtype_of(name: str) -> np.dtype[Any]:
    """Returns the dtype of a name, such as ``bfloat16``."""
    return _OTHER_DTYPES.get(name) or np.dtype(name)


def packed(values: Array) -> list[Any]:
    """Returns an array as values of JSON."""
    return [values.dtype.name, list(values.shape), base64.b64encode(values.tobytes()).decode()]


def unpacked(raw: Sequence[Any]) -> Array:
    """Returns the array of ``packed``."""
    name, shape, data = raw
    return np.frombuffer(base64.b64decode(data), dtype_of(name)).reshape(shape)


@dataclasses.dataclass(frozen=True)
class Aval:
    """The type of a variable. If ``rows``, its first axis counts the rows that devices share."""

    shape: tuple[int, ...]
    dtype: str
    rows: bool = False

    def with_shape(self, *shape: int) -> Aval:
        """Returns the type with another shape."""
        return dataclasses.replace(self, shape=shape)

    def with_size(self, axis: int, size: int) -> Aval:
        """Returns the type with another size of one axis."""
        shape = list(self.shape)
        shape[axis] = size
        return self.with_shape(*shape)

    def with_dtype(self, dtype: str) -> Aval:
        """Returns the type with another dtype."""
        return dataclasses.replace(self, dtype=dtype)

    @property
    def axes(self) -> range:
        """The axes that a token may reduce, sort or shift: not the shared rows."""
        return range(int(self.rows), len(self.shape))

    @property
    def is_real(self) -> bool:
        """Whether derivatives exist with respect to it: it is a float, and not complex."""
        return "float" in self.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclasses.dataclass(frozen=True)
class Input:
    """An argument of a program; ``data`` has the bytes of its elements, in base64."""

    aval: Aval
    data: str

    @classmethod
    def of(cls, values: Array, *, rows: bool = False) -> Input:
        """Returns the argument with the values of an array."""
        data = base64.b64encode(values.tobytes()).decode()
        return cls(Aval(values.shape, values.dtype.name, rows), data)

    def values(self) -> Array:
        """Returns the array."""
        return unpacked((self.aval.dtype, self.aval.shape, self.data))


@dataclasses.dataclass(frozen=True)
class Equation:
    """An equation: its token, variables, parameters (values of JSON) and type."""

    token: str
    operands: tuple[int, ...]
    params: Mapping[str, Any]
    aval: Aval


@dataclasses.dataclass(frozen=True)
class Program:
    """A program, whose outputs are numbers of variables.

    The derivative is ``none``, ``reverse``, ``forward``, or ``mixed``: the forward derivative of
    the reverse one. Tangents and cotangents are the arguments after the first ``primals``, which
    the equations read.
    """

    inputs: tuple[Input, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[int, ...]
    derivative: str = "none"
    primals: int = 0

    def avals(self) -> list[Aval]:
        """Returns the type of each variable of the equations."""
        own = [each.aval for each in self.inputs[: self.primals]]
        return [*own, *(equation.aval for equation in self.equations)]

    @property
    def is_wide(self) -> bool:
        """Whether the program needs 64 bits."""
        avals = [*self.avals(), *(each.aval for each in self.inputs)]
        return any(aval.dtype in ("float64", "int64", "complex128") for aval in avals)

    @property
    def tokens(self) -> set[str]:
        """The tokens of the equations that a result depends on."""
        needed, tokens = set(self.outputs), set()
        for number, each in reversed([*enumerate(self.equations, self.primals)]):
            if number in needed:
                needed.update(each.operands)
                tokens.add(each.token)
        return tokens

    @property
    def has_rows(self) -> bool:
        """Whether devices of a ``shard_map`` can share the rows."""
        return any(each.aval.rows for each in self.inputs)

    @property
    def is_bundle(self) -> bool:
        """Whether each equation is a result, and reads arguments alone."""
        reads = [v for equation in self.equations for v in equation.operands]
        reads_arguments = all(v < self.primals for v in reads)
        has_all_results = len(self.outputs) == len(self.equations) > 1
        return reads_arguments and has_all_results and self.derivative == "none"

    def with_ordinary_values(self) -> Program:
        """Returns the program with 1 or -1 for the floats beyond a quarter to four.

        Zeros, infinities and NaN stay as they are.
        """
        inputs = tuple(
            Input.of(_ordinary(each.values()), rows=each.aval.rows) for each in self.inputs
        )
        return dataclasses.replace(self, inputs=inputs)


def _ordinary(values: Array) -> Array:
    if values.dtype.kind == "c":
        parts = values.reshape(-1).view(values.real.dtype)
        return _ordinary(parts).view(values.dtype).reshape(values.shape)
    if values.dtype.kind in "iub":
        return values
    wide = values.astype(np.float64)
    magnitude = np.abs(wide)
    beyond = (magnitude > 4) & np.isfinite(wide) | (magnitude < 1 / 4) & (wide != 0)
    return np.where(beyond, np.sign(wide), wide).astype(values.dtype)
