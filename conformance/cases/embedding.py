"""Samples of embedding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import spec
from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    folded,
    indices,
    kind,
    rounded_once,
    values,
)
from conformance.cases._embedding_rows import bounded, bounded_in_order
from conformance.suite.sample import Sample
from spec import oracles

#: A row so wide that the order of the additions to its norm changes bits.
_WIDTH = 1500


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.embedding": tuple(_embedding())}


def _embedding() -> Iterator[Sample]:
    """Yields each dtype; gradients divided by counts, with a padding row; and bounded norms."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts=_facts(kind(name)),
            call=lambda ns, i, w: ns.nn.functional.embedding(i, w),
            arrays=(indices((MANY,)), values((FEW, 3), dtype)),
            expected=lambda i, w: w[i],
            ordered=lambda i, w: w[i],
            wrt=None if dtype is np.int32 else 1,
            expected_gradient=lambda ct, i, w: folded(np.zeros(w.shape), i, ct),
            ordered_gradient=lambda ct, i, w: oracles.source(np.zeros_like(w), i, ct),
            choices=rounded_once(name, "backward"),
        )
    yield Sample(
        name="divided",
        facts={**_facts(), "input_ndim": 2},
        call=lambda ns, i, w: ns.nn.functional.embedding(
            i, w, padding_idx=-5, scale_grad_by_freq=True
        ),
        arrays=(indices((50, 50)), values((FEW, 3), np.float32)),
        expected=lambda i, w: w[i],
        ordered=lambda i, w: w[i],
        wrt=1,
        expected_gradient=lambda ct, i, w: _divided(ct, i, np.zeros(w.shape), folded),
        ordered_gradient=lambda ct, i, w: _divided(ct, i, np.zeros_like(w), oracles.source),
    )
    for name, order in (("bounded", 2), ("bounded_powers", 3)):
        yield Sample(
            name=name,
            facts={**_facts(), "max_norm": True, "power_norm": order == 3},
            call=lambda ns, i, w, order=order: ns.nn.functional.embedding(i, w, None, 38, order),
            arrays=(indices((9,)), values((FEW, _WIDTH), np.float32)),
            expected=lambda i, w, order=order: bounded(w, 38, order)[i],
            ordered=(lambda i, w: bounded_in_order(w, 38)[i]) if order == 2 else None,
        )


def _facts(dtype: str = "floating") -> dict[str, spec.FactValue]:
    return {"dtype": dtype, "input_ndim": 1, "max_norm": False, "power_norm": False}


def _divided(ct: Array, i: Array, zero: Array, add: Any) -> Array:
    out = add(zero, i.reshape(-1), ct.reshape(-1, ct.shape[-1]))
    count = np.maximum(np.bincount(i.reshape(-1), minlength=FEW), 1)
    out = out / count[:, None].astype(zero.dtype)
    out[-5] = 0
    return np.asarray(out)
