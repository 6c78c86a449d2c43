"""Samples of logcumsumexp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import SOME, Array, values
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"logcumsumexp": tuple(_logcumsumexp())}


def _logcumsumexp() -> Iterator[Sample]:
    """Yields columns of real and of complex numbers."""
    real = values((SOME, 2), np.float32) * 5
    real[3, 1] = -np.inf
    turned = real[::-1] + 1j * real.clip(-3, 3) / 3
    for name, x in {"floating": real, "complex": turned.astype(np.complex64)}.items():
        yield Sample(
            name=name,
            facts={"dtype": name, "input_ndim": 2},
            call=lambda ns, x: ns.logcumsumexp(x, 0),
            arrays=(x,),
            expected=_expected,
            wrt=0 if name == "floating" else None,  # the complex gradient compiles slowly
            expected_gradient=_expected_gradient,
        )


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _expected(x: Array) -> Array:
    return np.asarray(np.log(np.cumsum(np.exp(_wide(x)), 0)))


def _expected_gradient(ct: Array, x: Array) -> Array:
    shares = _wide(ct) / np.cumsum(np.exp(_wide(x)), 0)
    return np.asarray(np.exp(_wide(x)) * np.cumsum(shares[::-1], 0)[::-1])
