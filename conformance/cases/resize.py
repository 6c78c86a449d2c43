"""Calls of resize."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import Array, values
from conformance.cases._fresh import KNOWN, setting

_OLD, _NEW = (2, 3), (3, 4)


def samples() -> Iterator[Sample]:
    """Arrays that grow, of each kind of number; a quantized one that grows."""
    for kind, (dtype, _) in KNOWN.items():
        yield _grown(kind, kind, values(_OLD, np.float32).astype(dtype), fill=True)
    yield _grown("setting_off", "floating", values(_OLD, np.float32), fill=False)
    yield Sample(
        name="quantized",
        facts={"quantized": True, "fill_uninitialized_memory": True},
        call=_codes,
        arrays=(np.arange(6, dtype=np.float32).reshape(_OLD),),
        expected=lambda x: _longer(x.reshape(-1) * 2 + 7, 7),
        own={"forward": "New elements are zero; PyTorch leaves what is in memory."},
    )


def _codes(namespace: Any, x: Array) -> Any:
    quantized = namespace.quantize_per_tensor(x, 0.5, 7, namespace.quint8)
    return namespace.resize(quantized, _NEW).int_repr


def _longer(flat: Array, value: Any) -> Array:
    tail = np.full(np.prod(_NEW) - flat.size, value, flat.dtype)
    return np.concatenate([flat, tail]).reshape(_NEW)


def _grown(name: str, kind: str, array: Array, *, fill: bool) -> Sample:
    def call(namespace: Any, x: Array) -> Any:
        with setting(namespace, fill):
            return namespace.resize(x, _NEW)

    def accept(result: Array, x: Array) -> None:
        np.testing.assert_equal((result.shape, result.dtype), (_NEW, x.dtype))
        np.testing.assert_array_equal(result.reshape(-1)[: x.size], x.reshape(-1))

    return Sample(
        name=name,
        facts={"quantized": False, "fill_uninitialized_memory": fill},
        call=call,
        arrays=(array,),
        expected=lambda x: _longer(x.reshape(-1), 0),
        accept=accept,
        filled=lambda x: _longer(x.reshape(-1), KNOWN[kind][1]),
    )
