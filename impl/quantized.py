"""Quantized arrays: integers, called codes, that stand for floats by a scale and a zero point.

All public names are also in ``impl``. With a scale of 0.5 and a zero point of 10, the code 15
stands for ``(15 - 10) * 0.5``::

    q = quantize_per_tensor(jnp.asarray([0.0, 1.0, 2.5]), 0.5, 10, quint8)
    q.int_repr        # [10, 12, 15], uint8
    dequantize(q)     # [0.0, 1.0, 2.5]

Attributes:
    quint8 (str): The dtype of codes from 0 to 255.
    qint8 (str): The dtype of codes from -128 to 127.
    qint32 (str): The dtype of codes from ``-2**31`` to ``2**31 - 1``.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import fence, product, quotient

__all__ = [
    "QuantizedArray",
    "QuantizedDtype",
    "dequantize",
    "qint8",
    "qint32",
    "quantize_per_tensor",
    "quint8",
]

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
    """An array of codes: a code q stands for the float ``(q - zero_point) * scale``.

    ``quantize_per_tensor`` makes one. It is a pytree of three arrays, so ``jit`` and ``vmap`` take
    it.

    Attributes:
        int_repr: The codes, of any shape: uint8, int8 or int32 for the three values of ``dtype``.
        scale: float32, 0-d.
        zero_point: The code of 0: int32, 0-d.
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
    """Converts floats to the nearest codes; floats outside the range get its first or last code.

    A code is ``input * (1 / scale) + zero_point``, rounded to nearest, halfway cases to the even
    code. 1 / scale is rounded to float32. With 8 bits, the product and the sum are rounded once
    together; with 32 bits, each is rounded. NaN gets the greatest code of 8 bits, or the least of
    32 bits.

    Args:
        input: float32, any shape.
        scale: A float, or a 0-d array of floats; converted to float32.
        zero_point: An int, or a 0-d array of integers, within the range of ``dtype``. Under ``jit``
            its range is not checked.
        dtype: ``impl.quint8``, ``impl.qint8`` or ``impl.qint32``.

    Returns:
        The codes, of the shape of ``input``, with ``scale`` and ``zero_point``. They have no
        gradient.

    Raises:
        RuntimeError: ``input`` has another dtype, ``dtype`` is another string, or ``zero_point`` is
            out of range.
        TypeError: An argument is of the wrong type.

    Source: ``torch.quantize_per_tensor``, for one tensor.
    """
    name = "quantize_per_tensor"
    values = arguments.array(name, "input", input)
    _check_floats(name, "input", values)
    arguments.choice(name, "dtype", dtype, get_args(QuantizedDtype))
    known_scale = _parameter(name, "scale", scale, "floating")
    point = _parameter(name, "zero_point", zero_point, "integer")
    limits = np.iinfo(_STORED[dtype])
    if not isinstance(point, jax.Array) and not limits.min <= point <= limits.max:
        raise RuntimeError(
            f"{name}(): argument 'zero_point' must be from {limits.min} to {limits.max} for "
            f"{dtype}, got {point}"
        )
    like = QuantizedArray(
        int_repr=jnp.zeros((), _STORED[dtype]),
        scale=jnp.asarray(known_scale, jnp.float32),
        zero_point=jnp.asarray(point, jnp.int32),
        dtype=dtype,
    )
    return dataclasses.replace(like, int_repr=codes(values, like))


def dequantize(input: QuantizedArray | Array) -> jax.Array:
    """Returns the floats that codes stand for.

    Args:
        input: A ``QuantizedArray``, or an array of any dtype, which is converted to float32.

    Returns:
        float32, of the shape of ``input``: ``(code - zero_point) * scale``. The difference wraps
        around at 32 bits, as in PyTorch.

    Raises:
        TypeError: ``input`` is neither.

    Source: ``torch.dequantize``.
    """
    if not isinstance(input, QuantizedArray):
        return arguments.array("dequantize", "input", input).astype(jnp.float32)
    steps = (input.int_repr.astype(jnp.int32) - input.zero_point).astype(jnp.float32)
    return steps * input.scale


def codes(values: jax.Array, like: QuantizedArray) -> jax.Array:
    """Returns the codes of float32 ``values`` in the scale and dtype of ``like``."""
    values, scale, point = map(jax.lax.stop_gradient, (values, like.scale, like.zero_point))
    stored = _STORED[like.dtype]
    # Without the fences, XLA may simplify the rounding errors below to 0 if these are constants.
    inverse = fence(quotient(jnp.ones_like(scale), scale))
    zero = fence(point.astype(jnp.float32))
    scaled = product(values, inverse)
    shifted = scaled + zero
    if stored.itemsize == 1:
        other = shifted - scaled
        of_sum = (scaled - (shifted - other)) + (zero - other)  # Knuth's two-sum
        error = _error_of_product(values, inverse, scaled) + of_sum
        # The error is NaN or infinite if the product or a factor is: then it has no correction.
        shifted = jnp.where(jnp.isfinite(error), shifted + error, shifted)
    whole = jax.lax.round(shifted, jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    low, high = int(np.iinfo(stored).min), int(np.iinfo(stored).max)
    # float32 cannot represent the greatest int32, so values out of range are not converted.
    inside = jnp.where((whole > low) & (whole < high), whole, 0).astype(jnp.int32)
    out = jnp.where(whole >= high, high, jnp.where(whole <= low, low, inside))
    return jnp.where(jnp.isnan(whole), high if stored.itemsize == 1 else low, out).astype(stored)


def _error_of_product(a: jax.Array, b: jax.Array, ab: jax.Array) -> jax.Array:
    """Returns ``a * b - ab``, where ab is the rounded product: products of halves are exact.

    Dekker's product (Dekker, "A floating-point technique for extending the available precision",
    Numerische Mathematik 18, 1971, 224-242), with halves that are cut off and not rounded.
    """

    def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        word = jax.lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFFF000)
        upper = jax.lax.bitcast_convert_type(word, jnp.float32)
        return upper, x - upper

    (a1, a0), (b1, b0) = halves(a), halves(b)
    return ((a1 * b1 - ab) + a1 * b0 + a0 * b1) + a0 * b0


def _check_floats(function: str, name: str, values: jax.Array) -> None:
    if values.dtype != jnp.float32:
        raise RuntimeError(
            f"{function}(): argument '{name}' must be of float32, got {values.dtype}; convert it"
        )


def to_be_written(function: str, values: Any, into: QuantizedArray) -> jax.Array:
    """Returns the codes of floats that an op writes into a quantized array."""
    if isinstance(values, QuantizedArray):
        raise RuntimeError(  # noqa: TRY004  # PyTorch's choice
            f"{function}(): argument 'values' must not be quantized where 'input' is; pass floats"
        )
    floats = arguments.array(function, "values", values)
    _check_floats(function, "values", floats)
    return codes(floats, into)


def _parameter(function: str, name: str, value: Any, kind: str) -> Any:
    """Returns a number, or a 0-d array whose value is not known yet."""
    types = (int, float, np.number) if kind == "floating" else (int, np.integer)
    if isinstance(value, types) and not isinstance(value, bool | np.complexfloating):
        return value
    is_0d = isinstance(value, jax.Array | np.ndarray) and value.ndim == 0
    if is_0d and arguments.dtype_kind(value.dtype) in (kind, "integer"):
        known = arguments.known(value)
        return value if known is None else known.item()
    taken = f"a {'float' if kind == 'floating' else 'int'} or an array of one without dimensions"
    raise arguments.wrong_type(function, name, taken, value)
