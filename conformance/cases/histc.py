"""Samples of histc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import DTYPES, MANY, Array, kind, values
from conformance.suite.sample import Sample
from spec import oracles

_BINS = 7


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"histc": tuple(_histc())}


def _histc() -> Iterator[Sample]:
    """Yields a range that excludes some elements, for each dtype, and the range of the data."""
    for name, dtype in DTYPES.items():
        low, high = (-5, 9) if dtype is np.int32 else (-0.75, 1.1)
        data = values((MANY,), dtype)
        # A value at the edge of a bin shows a quotient that is off by one bit.
        data[: _BINS + 1] = (low + np.arange(_BINS + 1) * (high - low) / _BINS).astype(dtype)
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 1},
            call=lambda ns, x, low=low, high=high: ns.histc(x, _BINS, low, high),
            arrays=(data,),
            expected=lambda x, low=low, high=high: _counts(x, low, high),
            ordered=lambda x, low=low, high=high: _counts(x, low, high),
            choices={
                "forward": "Bins are found in float32; PyTorch's of bfloat16 have other edges."
            }
            if name == "narrow"
            else {},
        )
    numbers = values((2, 1200), np.float32)
    yield Sample(
        name="range_of_data",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x: ns.histc(x, _BINS),
        arrays=(numbers,),
        expected=lambda x: _counts(x.reshape(-1), x.min(), x.max()),
        ordered=lambda x: _counts(x.reshape(-1), x.min(), x.max()),
    )


def _counts(x: Array, low: float, high: float) -> Array:
    """Returns ones added, in the bins that the op's documentation states."""
    wide: Array = x.astype(np.float32) if x.dtype.kind != "i" else x.astype(np.int64)
    ends: Array = np.array([low, high]).astype(x.dtype).astype(wide.dtype)
    least, most = ends
    scaled = (wide - least) * wide.dtype.type(_BINS)
    quotient = scaled // (most - least) if wide.dtype.kind == "i" else scaled / (most - least)
    bin = np.minimum(np.trunc(quotient), _BINS - 1).astype(np.int64)
    bin = np.where((wide >= least) & (wide <= most), bin, -1)
    return oracles.source(np.zeros(_BINS, x.dtype), bin, np.ones_like(x))
