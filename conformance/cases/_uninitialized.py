"""Samples of ops that make arrays without initial values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conformance.cases._data import Array
from conformance.suite.sample import Sample

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
    call: Callable[..., Any], shape: tuple[int, ...], *, kinds: tuple[str, ...] = tuple(KNOWN)
) -> Iterator[Sample]:
    """Yields a sample for each kind of number, and one with the setting off.

    Args:
        call: Makes an array: ``call(namespace, dtype)``.
        shape: The shape of the array.
        kinds: The kinds of number.
    """
    for kind in kinds:
        yield _maker(kind, call, shape, kind, fill=True)
    yield _maker("setting_off", call, shape, "floating", fill=False)


def _maker(
    name: str, call: Callable[..., Any], shape: tuple[int, ...], kind: str, *, fill: bool
) -> Sample:
    dtype, value = KNOWN[kind]

    def call_with_setting(namespace: Any, *arrays: Array) -> Any:
        with setting(namespace, fill):
            return call(namespace, dtype, *arrays)

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
