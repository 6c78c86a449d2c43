"""Samples of resize."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import Array, values
from conformance.cases._uninitialized import KNOWN, setting
from conformance.suite.sample import Sample

_OLD_SIZE, _NEW_SIZE = (2, 3), (3, 4)


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"resize": tuple(_resize())}


def _resize() -> Iterator[Sample]:
    """Yields arrays that grow: one for each kind of number, and a quantized one."""
    for kind, (dtype, _) in KNOWN.items():
        yield _grown(kind, kind, values(_OLD_SIZE, np.float32).astype(dtype), fill=True)
    yield _grown("setting_off", "floating", values(_OLD_SIZE, np.float32), fill=False)
    yield Sample(
        name="quantized",
        facts={"quantized": True, "fill_uninitialized_memory": True},
        call=_codes,
        arrays=(np.arange(6, dtype=np.float32).reshape(_OLD_SIZE),),
        expected=lambda x: _extended(x.reshape(-1) * 2 + 7, 7),
        choices={"forward": "New elements are zero; PyTorch leaves the bytes in memory."},
    )


def _codes(namespace: Any, x: Array) -> Any:
    quantized = namespace.quantize_per_tensor(x, 0.5, 7, namespace.quint8)
    return namespace.resize(quantized, _NEW_SIZE).int_repr


def _extended(flat: Array, value: Any) -> Array:
    tail = np.full(np.prod(_NEW_SIZE) - flat.size, value, flat.dtype)
    return np.concatenate([flat, tail]).reshape(_NEW_SIZE)


def _grown(name: str, kind: str, array: Array, *, fill: bool) -> Sample:
    def call(namespace: Any, x: Array) -> Any:
        with setting(namespace, fill):
            return namespace.resize(x, _NEW_SIZE)

    def accept(result: Array, x: Array) -> None:
        np.testing.assert_equal((result.shape, result.dtype), (_NEW_SIZE, x.dtype))
        np.testing.assert_array_equal(result.reshape(-1)[: x.size], x.reshape(-1))

    return Sample(
        name=name,
        facts={"quantized": False, "fill_uninitialized_memory": fill},
        call=call,
        arrays=(array,),
        expected=lambda x: _extended(x.reshape(-1), 0),
        accept=accept,
        filled=lambda x: _extended(x.reshape(-1), KNOWN[kind][1]),
    )
