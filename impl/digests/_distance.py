"""The distance of two arrays in units in the last place (ulp), from their bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Distance:
    """How far apart two arrays are.

    Attributes:
        elements: The number of elements of each array.
        differing: The number of elements whose bits differ.
        ulp: The largest distance of two elements: for floating-point numbers the number of steps
            from one to the other along all numbers of the dtype, 0 for 0.0 and -0.0; for integers
            their difference. None if the dtype has no such distance, or if each pair has a NaN.
        nan: The number of differing pairs with a NaN, which ``ulp`` leaves out.
        first: The index of the first element that differs.
        values: This element in both arrays.
        largest: The index of the element with the largest distance; None if ``ulp`` is None.
    """

    elements: int
    differing: int
    ulp: int | None
    nan: int
    first: tuple[int, ...]
    values: tuple[str, str]
    largest: tuple[int, ...] | None

    def text(self) -> str:
        """Returns the distance as a sentence."""
        index = ", ".join(map(str, self.first))
        words = f"{self.differing} of {self.elements} elements differ"
        if self.ulp is not None:
            words += f", by at most {self.ulp} ulp"
        if self.nan:
            words += f", {self.nan} of them NaN"
        return f"{words}; the first is [{index}]: {self.values[0]} and {self.values[1]}"


def distance(type_: str, first: bytes, second: bytes) -> Distance | None:
    """Returns the distance of two arrays of one type; None for PRNG keys and other types.

    Args:
        type_: Their type, as ``float32[3,4]``.
        first: The bytes of one array.
        second: The bytes of the other.
    """
    name, _, sizes = type_.removesuffix("]").rpartition("[")
    shape = tuple(int(size) for size in sizes.split(",") if size)
    try:
        dtype = jnp.dtype(name)
    except TypeError:
        return None
    pair = [
        np.frombuffer(data, dtype.newbyteorder("<") if _is_wide(dtype) else dtype)
        for data in (first, second)
    ]
    rows = [np.frombuffer(data, np.uint8).reshape(len(pair[0]), -1) for data in (first, second)]
    differing = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    if not len(differing):
        return None
    one, other = (values[differing] for values in pair)
    steps, valid = _steps(one, other)
    largest = int(np.argmax(np.where(valid, steps, 0))) if valid.any() else None

    def index(position: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(differing[position], shape))

    return Distance(
        len(pair[0]),
        len(differing),
        None if largest is None else int(steps[largest]),
        int(np.sum(_is_nan(one) | _is_nan(other))),
        index(0),
        (str(one[0]), str(other[0])),
        None if largest is None else index(largest),
    )


def _is_wide(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iufc" and dtype.itemsize > 1


def _steps(one: Any, other: Any) -> tuple[Any, Any]:
    """Returns the distances, uint64, and which of them are valid."""
    if jnp.issubdtype(one.dtype, jnp.complexfloating):
        parts = [_steps(getattr(one, part), getattr(other, part)) for part in ("real", "imag")]
        (real, first), (imaginary, second) = parts
        return np.maximum(real, imaginary), first & second
    ranks = [_rank(values) for values in (one, other)]
    valid = ~(_is_nan(one) | _is_nan(other))
    low, high = np.minimum(*ranks), np.maximum(*ranks)
    # The difference of two int64 may need 64 bits, which the arithmetic of uint64 gives.
    return high.astype(np.uint64) - low.astype(np.uint64), valid


def _rank(values: Any) -> Any:
    """Returns the rank of each number among all numbers of its dtype, in order."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)
    width = values.dtype.itemsize * 8
    bits = np.ascontiguousarray(values).view(f"i{width // 8}").astype(np.int64)
    magnitude = bits & np.int64((1 << (width - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


def _is_nan(values: Any) -> Any:
    if jnp.issubdtype(values.dtype, jnp.integer) or values.dtype == bool:
        return np.zeros(values.shape, bool)
    wide = np.complex128 if jnp.issubdtype(values.dtype, jnp.complexfloating) else np.float64
    return np.isnan(values.astype(wide))
