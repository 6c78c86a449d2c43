"""The ops that make uninitialised arrays.

These are ``empty``, ``empty_like``, ``new_empty``, ``empty_strided``, ``new_empty_strided`` and
``empty_permuted``. A program that reads such an array by mistake may have other results in each
run. The mode therefore fills the array, by default with NaN or the greatest integer::

    empty(3)                   mode off: any values       mode on: [nan, nan, nan]
    empty(2, dtype="int32")                               [2147483647, 2147483647]
    empty(2, dtype="bool")                                [True, True]
    empty_strided((2,), (1,))                             [nan, nan]; strides are checked only
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import fill_value
from impl._core.shard_axes import aligned
from impl._mode import modes
from impl._mode.alert import alert
from impl._mode.decide import Decision, decide
from impl.ops._op import op
from impl.quantized import QuantizedArray


@op("torch.empty")
def empty(
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """Makes an array of uninitialised memory.

    With the mode on and ``utils.deterministic.fill_uninitialized_memory`` set, the array holds NaN
    (with an imaginary part of 0), the greatest integer, or True. Otherwise the values are
    arbitrary: on a GPU or a TPU the memory keeps its former contents, on a CPU JAX writes zeros,
    and inside ``jit`` XLA may choose other values.

    Args:
        *sizes: The shape, as ints or as one tuple or list of ints.
        size: The shape, as a keyword.
        dtype: Any dtype of numbers, or bool. None is JAX's default for floats: float32, or float64
            where x64 is on.
        **keywords: PyTorch's ``device``, ``layout``, ``memory_format``, ``out``, ``pin_memory``
            and ``requires_grad``, which must be None or False. The message of the error names the
            alternative in JAX.

    Returns:
        An array of the given shape and dtype.

    Raises:
        RuntimeError: A size is negative.
        TypeError: A keyword has a value that JAX does not support.
    """
    return _make("empty", arguments.sizes("empty", sizes, size), dtype, keywords)


@op("torch.empty_like")
def empty_like(
    input: Array, *, dtype: jax.typing.DTypeLike | None = None, **keywords: Any
) -> jax.Array:
    """Makes an array of uninitialised memory, of the shape of another array.

    Arguments, results and exceptions are as for ``empty``, but the array has the shape of ``input``
    and, with a ``dtype`` of None, its dtype.
    """
    input = arguments.array("empty_like", "input", input)
    return _make("empty_like", input.shape, input.dtype if dtype is None else dtype, keywords)


@op("torch.Tensor.new_empty")
def new_empty(
    input: Array,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """Makes an array of uninitialised memory, of the dtype of another array.

    Arguments, results and exceptions are as for ``empty``, but with a ``dtype`` of None the array
    has the dtype of ``input``.
    """
    input = arguments.array("new_empty", "input", input)
    shape = arguments.sizes("new_empty", sizes, size)
    return _make("new_empty", shape, input.dtype if dtype is None else dtype, keywords)


@op("torch.empty_strided")
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """Makes an array of uninitialised memory, for given strides.

    Arrays of JAX have no visible strides, so strides are checked and then ignored. Strides may let
    elements share memory in PyTorch; here each element has its own.

    Arguments, results and exceptions are as for ``empty``. ``size`` is a tuple or list of ints, and
    ``stride`` has as many ints, none of them negative; otherwise a RuntimeError is raised.
    """
    return _make("empty_strided", _strided("empty_strided", size, stride), dtype, keywords)


@op("torch.Tensor.new_empty_strided")
def new_empty_strided(
    input: Array,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """Makes an array of uninitialised memory, for given strides and of the dtype of another array.

    Arguments, results and exceptions are as for ``empty_strided``, but with a ``dtype`` of None the
    array has the dtype of ``input``.
    """
    input = arguments.array("new_empty_strided", "input", input)
    shape = _strided("new_empty_strided", size, stride)
    return _make("new_empty_strided", shape, input.dtype if dtype is None else dtype, keywords)


def _strided(function: str, size: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape of an array, after a check of its strides."""
    shape = arguments.sizes(function, (), size)
    steps = [*arguments.tuple_of_ints(function, "stride", stride)]
    if len(steps) != len(shape):
        raise RuntimeError(
            f"{function}(): dimensionality of sizes ({len(shape)}) must match dimensionality "
            f"of strides ({len(steps)})"
        )
    if any(step < 0 for step in steps):
        raise RuntimeError(
            f"{function}(): argument 'stride' must not be negative, got {steps} for sizes "
            f"{list(shape)}"
        )
    return shape


@op("torch.empty_permuted")
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """Makes an array of uninitialised memory, for a given order of dimensions in memory.

    XLA chooses the layout of an array, so the order is checked and then ignored.

    Arguments, results and exceptions are as for ``empty``. ``size`` is a tuple or list of ints, and
    ``physical_layout`` names each dimension once, from the outermost in memory to the innermost.

    Raises:
        RuntimeError: A size is negative, or ``physical_layout`` does not name each dimension once.
    """
    shape = arguments.sizes("empty_permuted", (), size)
    layout = arguments.tuple_of_ints("empty_permuted", "physical_layout", physical_layout)
    if len(layout) != len(shape):
        raise RuntimeError(
            "empty_permuted(): Number of dimensions in size does not match the length of the "
            f"physical_layout; i.e. len(size) = {len(shape)} is not equal to "
            f"len(physical_layout) = {len(layout)}"
        )
    for position, dim in enumerate(layout):
        if not 0 <= dim < len(shape):
            raise RuntimeError(
                f"empty_permuted(): Dimension out of range (expected to be between 0 and "
                f"{len(shape) - 1}, but got {dim} at index {position}); negative ones do not count "
                "from the end here"
            )
        if dim in layout[:position]:
            raise RuntimeError(
                f"empty_permuted(): Duplicate dim not allowed, got {dim} again at index {position}"
            )
    return _make("empty_permuted", shape, dtype, keywords)


@overload
def resize(
    input: Array, *sizes: int | Sequence[int], size: Sequence[int] | None = ..., **keywords: Any
) -> jax.Array: ...


@overload
def resize(
    input: QuantizedArray,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = ...,
    **keywords: Any,
) -> QuantizedArray: ...


@op("torch.Tensor.resize_")
def resize(
    input: Array | QuantizedArray,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    **keywords: Any,
) -> jax.Array | QuantizedArray:
    """Returns the elements of an array in another shape; drops the last ones or adds new ones.

    Elements stay in row-major order. The values of new elements are those described for ``empty``;
    in a quantized array they are the zero point, which represents 0. Gradients go to the elements
    that stay. (PyTorch changes the tensor itself, which may not require a gradient.)

    Args:
        input: Any shape and dtype, or a ``QuantizedArray``.
        *sizes: The shape, as ints or as one tuple or list of ints.
        size: The shape, as a keyword.
        **keywords: PyTorch's ``memory_format``, which must be None.

    Returns:
        An array of the given shape and of the dtype of ``input``; quantized if ``input`` is.

    Raises:
        RuntimeError: A size is negative.
        TypeError: A keyword has a value that JAX does not support.
    """
    codes = input.int_repr if isinstance(input, QuantizedArray) else input
    codes = arguments.array("resize", "input", codes)
    shape = arguments.sizes("resize", sizes, size)
    _unused("resize", keywords)
    decision = decide(
        "resize",
        quantized=isinstance(input, QuantizedArray),
        fill_uninitialized_memory=modes.fill_uninitialized_memory(),
    )
    if isinstance(input, QuantizedArray):
        point = input.zero_point.astype(codes.dtype)
        return dataclasses.replace(input, int_repr=_resized(codes, shape, decision, point))
    return _resized(codes, shape, decision, None)


def _resized(
    input: jax.Array, shape: tuple[int, ...], decision: Decision, tail: jax.Array | None
) -> jax.Array:
    flat = alert(input, decision).reshape(-1)
    count = math.prod(shape)
    if count <= flat.size:
        return flat[:count].reshape(shape)
    shortage = (count - flat.size,)
    if tail is None:
        new = _uninitialized(shortage, input.dtype, decision=decision)
    else:
        new = jnp.broadcast_to(tail, shortage)
    return jnp.concatenate(aligned(flat, new)).reshape(shape)


#: Keywords of PyTorch that have no meaning in JAX, with the alternative in JAX.
_ALTERNATIVES = {
    "device": "place the array with jax.device_put, or under jax.default_device",
    "layout": "arrays are strided; jax.experimental.sparse has sparse ones",
    "memory_format": "XLA chooses how an array lies in memory",
    "out": "arrays of JAX are not written to; use the returned array",
    "pin_memory": "use a sharding with the memory kind 'pinned_host'",
    "requires_grad": "what to differentiate by is an argument of jax.grad",
}


def _make(function: str, shape: tuple[int, ...], dtype: Any, keywords: dict[str, Any]) -> jax.Array:
    """Makes an array of uninitialised memory for the op ``function``."""
    _unused(function, keywords)
    dtype = _element_type(function, dtype)
    decision = decide(function, fill_uninitialized_memory=modes.fill_uninitialized_memory())
    return _uninitialized(shape, dtype, decision=decision)


def _unused(function: str, keywords: dict[str, Any]) -> None:
    """Accepts PyTorch's keywords that have no meaning in JAX, if they are None or False."""
    for name, value in keywords.items():
        if name not in _ALTERNATIVES:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if value is not None and value is not False:
            raise TypeError(
                f"{function}(): argument '{name}' must be None or False, got {value!r}: "
                f"{_ALTERNATIVES[name]}"
            )


def _element_type(function: str, dtype: Any) -> Any:
    """Returns ``dtype`` as JAX represents it, without x64 in 32 bits; None is the default float."""
    try:
        canonical = jax.dtypes.canonicalize_dtype(jnp.float_ if dtype is None else dtype)
        supported = jnp.issubdtype(canonical, jnp.number) or canonical == jnp.bool_
    except TypeError:
        supported = False
    if not supported:
        raise TypeError(
            f"{function}(): argument 'dtype' must be a dtype of numbers or bool, not {dtype!r}"
        )
    return canonical


def _uninitialized(
    shape: tuple[int, ...], dtype: jax.typing.DTypeLike, *, decision: Decision
) -> jax.Array:
    """Returns fresh memory, filled with the known value if ``decision`` says so.

    If not, JAX chooses the contents. On a GPU or a TPU ``jax.lax.empty`` leaves the memory as it
    was. On a CPU it returns zeros.
    """
    # The rows about fresh memory hold for every device.
    if decision.elsewhere.fill:
        return jnp.full(shape, fill_value(dtype), dtype)
    return jax.lax.empty(shape, dtype)  # type: ignore[no-any-return]
