"""Quantized arrays: integers that stand for floats, by one scale and one zero point."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import fence, product
from impl._primitives.arithmetic import divide, multiply

QuantizedDtype: TypeAlias = Literal["quint8", "qint8", "qint32"]

quint8: Final = "quint8"
qint8: Final = "qint8"
qint32: Final = "qint32"

_STORED: dict[str, np.dtype[Any]] = {
    "quint8": np.dtype(np.uint8),
    "qint8": np.dtype(np.int8),
    "qint32": np.dtype(np.int32),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QuantizedArray:
    """An array whose element of code q stands for ``(q - zero_point) * scale``.

    A pytree: its three arrays go through ``jit`` and ``vmap``. Made by ``quantize_per_tensor``.

    Attributes:
        int_repr: The codes: uint8, int8 or int32, as ``dtype`` says.
        scale: float32, of no dimensions.
        zero_point: The code of 0: int32, of no dimensions.
        dtype: "quint8", "qint8" or "qint32".
    """

    int_repr: jax.Array
    scale: jax.Array
    zero_point: jax.Array
    dtype: QuantizedDtype = dataclasses.field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.int_repr.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.int_repr.ndim


def quantize_per_tensor(
    input: Array, scale: Any, zero_point: Any, dtype: QuantizedDtype
) -> QuantizedArray:
    """Rounds floats to the nearest codes; what is beyond the last code gets that one.

    A code is ``input * (1 / scale) + zero_point``, rounded to nearest and, halfway, to the even
    code. 1 / scale is rounded to float32. For 8 bits the product and the sum are rounded once
    together, for 32 bits each. NaN gets the greatest code of 8 bits, and the least of 32.

    Args:
        input: float32, any shape.
        scale: A float, or a floating-point array of no dimensions; kept as float32.
        zero_point: An int, or an integer array of no dimensions, within the range of ``dtype``.
            Under ``jit`` it is taken as it is.
        dtype: ``impl.quint8``, ``impl.qint8`` or ``impl.qint32``.

    Returns:
        The codes in the shape of ``input``, with ``scale`` and ``zero_point``. It has no gradient.

    Raises:
        RuntimeError: ``input`` is of another dtype; ``dtype`` is none of these; or ``zero_point``
            is out of its range.
        TypeError: An argument is of the wrong type.

    Source: ``torch.quantize_per_tensor``, for one tensor.
    """
    name = "quantize_per_tensor"
    values = arguments.array(name, "input", input)
    _check_floats(name, "input", values)
    arguments.choice(name, "dtype", dtype, get_args(QuantizedDtype))
    by = _parameter(name, "scale", scale, "floating")
    point = _parameter(name, "zero_point", zero_point, "integer")
    limits = np.iinfo(_STORED[dtype])
    if not isinstance(point, jax.Array) and not limits.min <= point <= limits.max:
        raise RuntimeError(
            f"{name}(): argument 'zero_point' must be from {limits.min} to {limits.max} for "
            f"{dtype}, got {point}"
        )
    like = QuantizedArray(
        int_repr=jnp.zeros((), _STORED[dtype]),
        scale=jnp.asarray(by, jnp.float32),
        zero_point=jnp.asarray(point, jnp.int32),
        dtype=dtype,
    )
    return dataclasses.replace(like, int_repr=codes(values, like))


def dequantize(input: QuantizedArray | Array) -> jax.Array:
    """The floats that codes stand for.

    Args:
        input: A ``QuantizedArray``, or an array, which is converted to float32.

    Returns:
        float32, in the shape of ``input``: ``(code - zero_point) * scale``, where the difference
        wraps around at 32 bits as it does in PyTorch.

    Raises:
        TypeError: ``input`` is neither.

    Source: ``torch.dequantize``.
    """
    if not isinstance(input, QuantizedArray):
        return arguments.array("dequantize", "input", input).astype(jnp.float32)
    steps = (input.int_repr.astype(jnp.int32) - input.zero_point).astype(jnp.float32)
    return multiply(steps, jnp.broadcast_to(input.scale, steps.shape))


def codes(values: jax.Array, like: QuantizedArray) -> jax.Array:
    """The codes of floats in a quantized array that there is."""
    values, by, point = map(jax.lax.stop_gradient, (values, like.scale, like.zero_point))
    stored = _STORED[like.dtype]
    # XLA may fold constants that are added and taken away again: the errors below are such.
    inverse, zero = fence(divide(jnp.ones_like(by), by)), fence(point.astype(jnp.float32))
    scaled = product(values, inverse)
    place = scaled + zero
    if stored.itemsize == 1:
        error = _error_of_product(values, inverse, scaled) + _error_of_sum(scaled, zero, place)
        # Not a number where the product is infinite or its factors are: there is nothing to mend.
        place = jnp.where(jnp.isfinite(error), place + error, place)
    whole = jax.lax.round(place, jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    low, high = int(np.iinfo(stored).min), int(np.iinfo(stored).max)
    # The greatest of 32 bits is no float32; those at and beyond the next one are told apart.
    inside = jnp.where((whole > low) & (whole < high), whole, 0).astype(jnp.int32)
    out = jnp.where(whole >= high, high, jnp.where(whole <= low, low, inside))
    return jnp.where(jnp.isnan(whole), high if stored.itemsize == 1 else low, out).astype(stored)


def _error_of_product(a: jax.Array, b: jax.Array, ab: jax.Array) -> jax.Array:
    """``a * b - ab``, where ab is the rounded product, by halves whose products are exact."""

    def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        word = jax.lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFFF000)
        upper = jax.lax.bitcast_convert_type(word, jnp.float32)
        return upper, x - upper

    (a1, a0), (b1, b0) = halves(a), halves(b)
    return ((a1 * b1 - ab) + a1 * b0 + a0 * b1) + a0 * b0


def _error_of_sum(a: jax.Array, b: jax.Array, total: jax.Array) -> jax.Array:
    """``a + b - total``, where total is the rounded sum."""
    other = total - a
    return (a - (total - other)) + (b - other)


def _check_floats(function: str, name: str, values: jax.Array) -> None:
    if values.dtype != jnp.float32:
        raise RuntimeError(
            f"{function}(): argument '{name}' must be of float32, got {values.dtype}; convert it"
        )


def to_be_written(function: str, values: Any, into: QuantizedArray) -> jax.Array:
    """The codes of floats that are to be written into a quantized array.

    Raises:
        RuntimeError: They are quantized themselves, or of another dtype than float32.
        TypeError: They are no array.
    """
    if isinstance(values, QuantizedArray):
        raise RuntimeError(  # noqa: TRY004  # PyTorch's choice
            f"{function}(): argument 'values' must not be quantized where 'input' is; pass floats"
        )
    floats = arguments.array(function, "values", values)
    _check_floats(function, "values", floats)
    return codes(floats, into)


def _parameter(function: str, name: str, value: Any, kind: str) -> Any:
    """A number, or an array of no dimensions whose value is not known."""
    types = (int, float, np.number) if kind == "floating" else (int, np.integer)
    if isinstance(value, types) and not isinstance(value, bool | np.complexfloating):
        return value
    of_one = isinstance(value, jax.Array | np.ndarray) and value.ndim == 0
    if of_one and arguments.dtype_kind(value.dtype) in (kind, "integer"):
        known = arguments.known(value)
        return value if known is None else known.item()
    raise TypeError(
        f"{function}(): argument '{name}' must be a {'float' if kind == 'floating' else 'int'} or "
        f"an array of one without dimensions, not {type(value).__name__}"
    )
