"""Samples of put."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    folded,
    indices,
    kind,
    one_of_the_writes,
    rounded_once,
    values,
)
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"put": tuple(_put())}


def _put() -> Iterator[Sample]:
    """Yields elements of two dimensions, added for each dtype and written for floats."""
    for name, dtype in DTYPES.items():
        yield _sample(f"{name}_added", kind(name), dtype, accumulate=True)
    yield _sample("written", "floating", np.float32, accumulate=False)


def _sample(name: str, dtype_fact: str, dtype: Any, *, accumulate: bool) -> Sample:
    differentiable = accumulate and dtype is not np.int32
    write = oracles.source if accumulate else oracles.last_write
    return Sample(
        name=name,
        facts={
            "dtype": dtype_fact,
            "input_ndim": 2,
            "accumulate": accumulate,
            "unique_indices": False,
        },
        call=lambda ns, x, i, s: ns.put(x, i, s, accumulate),
        arrays=(
            values((FEW, 3), dtype),
            indices((2, MANY), 2 * FEW) - FEW,  # Negative indices count from the end.
            values((MANY, 2), dtype, 1),
        ),
        expected=lambda x, i, s: _flat(folded if accumulate else write, x, i, s),
        ordered=lambda x, i, s: _flat(write, x, i, s),
        wrt=2 if differentiable else None,
        expected_gradient=lambda ct, x, i, s: _read(ct, i).astype(np.float64),
        ordered_gradient=lambda ct, x, i, s: _read(ct, i),
        choices=rounded_once("narrow" if dtype is DTYPES["narrow"] else name, "forward"),
        accept=None if accumulate else _accept,
    )


def _flat(write: Any, x: Array, i: Array, s: Array) -> Array:
    index = i.reshape(-1) % x.size
    return np.asarray(write(x.reshape(-1), index, s.reshape(-1))).reshape(x.shape)


def _read(ct: Array, i: Array) -> Array:
    return np.asarray(ct.reshape(-1)[i.reshape(-1)].reshape(-1, 2))


def _accept(result: Array, x: Array, i: Array, s: Array) -> None:
    one_of_the_writes(result.reshape(-1), x.reshape(-1), i.reshape(-1) % x.size, s.reshape(-1))
