"""Samples of ops that make arrays without initial values."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from conformance.cases._data import Array
from conformance.cases._forms import THREE, unlike_torch
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused

#: For each kind of number, a dtype and the value that fills fresh memory.
KNOWN: dict[str, tuple[Any, Any]] = {
    "floating": (np.float32, np.nan),
    "complex": (np.complex64, complex(np.nan, 0)),
    "integer": (np.int32, np.iinfo(np.int32).max),
    "bool": (np.bool_, True),
}


@contextlib.contextmanager
def setting(namespace: Any, value: bool) -> Iterator[None]:
    """Sets ``fill_uninitialized_memory`` while a scope is open."""
    settings = namespace.utils.deterministic
    value_before = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = value
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = value_before


def makers(
    call: Callable[..., Any], usual: tuple[int, ...], kinds: tuple[str, ...], d: Draw
) -> Iterator[Sample]:
    """Yields a sample of ``call(namespace, dtype)`` for each kind, and one with the setting off."""
    shape = d.sizes(usual)
    for kind in kinds:
        yield _maker(kind, call, shape, kind, fill=True)
    yield _maker("setting_off", call, shape, "floating", fill=False)


def _maker(
    name: str, call: Callable[..., Any], shape: tuple[int, ...], kind: str, *, fill: bool
) -> Sample:
    dtype, value = KNOWN[kind]

    def call_with_setting(namespace: Any) -> Any:
        with setting(namespace, fill):
            return call(namespace, dtype, *shape)

    def accept(result: Array, *_: Array) -> None:
        # Uninitialised memory may hold any value, but the array has a known shape and dtype.
        np.testing.assert_equal((result.shape, result.dtype), (shape, np.dtype(dtype)))

    return Sample(
        name=name,
        facts={"fill_uninitialized_memory": fill},
        call=call_with_setting,
        arrays=(),
        expected=lambda *_: np.zeros(shape, dtype),
        accept=accept,
        filled=lambda *_: np.full(shape, value, dtype),
    )


def _resize(d: Draw) -> Iterator[Sample]:
    """Yields arrays that grow: one for each kind of number, and a quantized one."""
    old, new = d.sizes((2, 3)), d.sizes((3, 4))
    for kind, (dtype, _) in KNOWN.items():
        yield _grown(kind, kind, d.values(old, np.float32).astype(dtype), new, fill=True)
    yield _grown("setting_off", "floating", d.values(old, np.float32), new, fill=False)
    yield Sample(
        name="quantized",
        facts={"quantized": True, "fill_uninitialized_memory": True},
        call=lambda ns, x: ns.resize(ns.quantize_per_tensor(x, 0.5, 7, ns.quint8), new).int_repr,
        arrays=(np.arange(math.prod(old), dtype=np.float32).reshape(old),),
        expected=lambda x: _extended(x.reshape(-1) * 2 + 7, 7, new),
        choices={"forward": "New elements are zero; PyTorch leaves the bytes in memory."},
    )


def _extended(flat: Array, value: Any, size: tuple[int, ...]) -> Array:
    count = math.prod(size)
    tail = np.full(max(count - flat.size, 0), value, flat.dtype)
    return np.concatenate([flat[:count], tail]).reshape(size)


def _grown(name: str, kind: str, array: Array, size: tuple[int, ...], *, fill: bool) -> Sample:
    def call(namespace: Any, x: Array) -> Any:
        with setting(namespace, fill):
            return namespace.resize(x, size)

    def accept(result: Array, x: Array) -> None:
        np.testing.assert_equal((result.shape, result.dtype), (size, x.dtype))
        both = min(result.size, x.size)
        np.testing.assert_array_equal(result.reshape(-1)[:both], x.reshape(-1)[:both])

    return Sample(
        name=name,
        facts={"quantized": False, "fill_uninitialized_memory": fill},
        call=call,
        arrays=(array,),
        expected=lambda x: _extended(x.reshape(-1), 0, size),
        accept=accept,
        filled=lambda x: _extended(x.reshape(-1), KNOWN[kind][1], size),
    )


# PyTorch takes some of these calls, and has other overloads.


def _errors_of_sizes(*arguments: Any) -> Iterator[ErrorInput]:
    """Yields calls of sizes, which come after the arguments as they are or as a tuple."""
    must_be = "argument 'size' must be tuple of ints"
    yield refused(TypeError, "takes argument 'size' once", *arguments)
    yield refused(TypeError, "takes argument 'size' once", *arguments, 2, size=(2,))
    yield refused(TypeError, f"{must_be}, not float", *arguments, 2.5)
    yield refused(TypeError, f"{must_be}, not bool", *arguments, True)
    yield refused(TypeError, f"{must_be}, not str", *arguments, "a")
    yield refused(TypeError, f"{must_be}, not NoneType", *arguments, None)
    yield refused(TypeError, "argument 'size[0]' must be int, not tuple", *arguments, (2,), (3,))
    yield refused(TypeError, "argument 'size[1]' must be int, not float", *arguments, 2, 3.0)
    negative = "negative dimension -1 in argument 'size': [-1]"
    yield refused(RuntimeError, negative, *arguments, -1)
    negative = "negative dimension -3 in argument 'size': [2, -3]"
    yield refused(RuntimeError, negative, *arguments, (2, -3))


def _errors_of_keywords(*arguments: Any) -> Iterator[ErrorInput]:
    on_device = "'device' must be None or False, got 'cuda': place the array with jax.device_put"
    yield refused(TypeError, on_device, *arguments, device="cuda")
    gradient = "'requires_grad' must be None or False, got True: what to differentiate by is an"
    yield refused(TypeError, gradient, *arguments, requires_grad=True)
    for dtype in (object, "M8[s]"):
        yield refused(TypeError, "'dtype' must be a dtype of numbers", *arguments, dtype=dtype)
    yield refused(TypeError, "unexpected keyword argument 'colour'", *arguments, colour=1)


def _errors_of_formats(*arguments: Any) -> Iterator[ErrorInput]:
    yield refused(TypeError, "'memory_format'", *arguments, memory_format="channels_last")


def _errors_of_strides(*arguments: Any) -> Iterator[ErrorInput]:
    stride = "argument 'stride[0]' must be int"
    yield refused(TypeError, stride, *arguments, (2,), (1.0,))
    differing = "sizes (2) must match dimensionality of strides (1)"
    yield refused(RuntimeError, differing, *arguments, (2, 3), (1,))
    yield refused(RuntimeError, "'stride' must not be negative", *arguments, (2, 3), (-1, 2))
    yield refused(RuntimeError, "negative dimension -3", *arguments, (2, -3), (1, 1))


def _errors_of_layouts() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "len(size) = 2 is not equal to", (2, 3), (0,))
    twice = "Duplicate dim not allowed, got 0 again at index 1"
    yield refused(RuntimeError, twice, (2, 3), (0, 0))
    yield refused(RuntimeError, "between 0 and 1, but got 2 at index 1", (2, 3), (0, 2))
    yield refused(RuntimeError, "but got -1 at index 1", (2, 3), (0, -1))


def _maker_info(
    op: str,
    call: Callable[..., Any],
    small: Form,
    errors: Callable[..., Iterable[ErrorInput]],
    shape: tuple[int, ...] = (3, 5),
    kinds: tuple[str, ...] = ("floating", "integer"),
) -> OpInfo:
    # PyTorch fills memory in its mode only.
    fresh = small.named(torch=False, smooth=False, uses_values=False)
    leading = tuple(each for each in small.arguments if isinstance(each, np.ndarray))
    return OpInfo(
        op,
        functools.partial(makers, call, shape, kinds),
        lambda: [fresh],
        lambda: unlike_torch(*errors(*leading), *_errors_of_keywords(*small.arguments)),
        lambda jax, *_: jax.numpy.empty((2, 3)),
    )


OPS = (
    _maker_info(
        "empty",
        lambda ns, dtype, *size: ns.empty(*size, dtype=dtype),
        form(2, 3),
        _errors_of_sizes,
        kinds=tuple(KNOWN),
    ),
    _maker_info(
        "empty_like",
        lambda ns, dtype, *size: ns.empty_like(np.zeros(size, dtype)),
        form(THREE),
        _errors_of_formats,
    ),
    # The second dimension from the end varies fastest in memory.
    _maker_info(
        "empty_permuted",
        lambda ns, dtype, *size: ns.empty_permuted(size, (0, 2, 1), dtype=dtype),
        form((2, 3), (1, 0)),
        _errors_of_layouts,
        (2, 3, 5),
    ),
    # Columns are contiguous.
    _maker_info(
        "empty_strided",
        lambda ns, dtype, n, m: ns.empty_strided((n, m), (1, n), dtype=dtype),
        form((2, 3), (1, 2)),
        _errors_of_strides,
    ),
    # The dtype comes from an array of another shape.
    _maker_info(
        "new_empty",
        lambda ns, dtype, *size: ns.new_empty(np.zeros((2,), dtype), size),
        form(THREE, 2, 3),
        _errors_of_sizes,
    ),
    _maker_info(
        "new_empty_strided",
        lambda ns, dtype, n, m: ns.new_empty_strided(np.zeros((2,), dtype), (n, m), (1, n)),
        form(THREE, (2, 3), (1, 2)),
        _errors_of_strides,
    ),
    OpInfo(
        "resize",
        _resize,
        lambda: [
            # PyTorch resizes no tensor that it differentiates by.
            form(THREE, (2, 3)).named(torch_gradient=False),
            # New elements are NaN, and PyTorch fills memory in its mode only.
            form(THREE, 2, 8).named("longer", torch=False, smooth=False),
        ],
        lambda: unlike_torch(*_errors_of_sizes(THREE), *_errors_of_formats(THREE, 2)),
        lambda jax, x: jax.numpy.resize(x, (2, 3)),
    ),
)
