"""What samples of ops that make arrays share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import Array

#: A known value for each kind of number.
KNOWN: dict[str, tuple[Any, Any]] = {
    "floating": (np.float32, np.nan),
    "complex": (np.complex64, complex(np.nan, 0)),
    "integer": (np.int32, np.iinfo(np.int32).max),
    "bool": (np.bool_, True),
}


@contextlib.contextmanager
def setting(namespace: Any, value: bool) -> Iterator[None]:
    """Inside, ``fill_uninitialized_memory`` is ``value``."""
    settings = namespace.utils.deterministic
    before = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = value
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = before


def makers(
    call: Callable[..., Any], shape: tuple[int, ...], *, kinds: tuple[str, ...] = tuple(KNOWN)
) -> Iterator[Sample]:
    """Samples of an op that makes an array of ``shape`` for ``call(namespace, dtype)``.

    One for each kind of number, and one with the setting off.
    """
    for kind in kinds:
        yield _maker(kind, call, shape, kind, fill=True)
    yield _maker("setting_off", call, shape, "floating", fill=False)


def _maker(
    name: str, call: Callable[..., Any], shape: tuple[int, ...], kind: str, *, fill: bool
) -> Sample:
    dtype, value = KNOWN[kind]

    def made(namespace: Any, *arrays: Array) -> Any:
        with setting(namespace, fill):
            return call(namespace, dtype, *arrays)

    def accept(result: Array, *_: Array) -> None:
        # What is there is anyone's guess; what it is there for is not.
        np.testing.assert_equal((result.shape, result.dtype), (shape, np.dtype(dtype)))

    return Sample(
        name=name,
        facts={"fill_uninitialized_memory": fill},
        call=made,
        arrays=(),
        expected=lambda *_: np.zeros(shape, dtype),
        accept=accept,
        filled=lambda *_: np.full(shape, value, dtype),
    )
