"""Samples of conv_transpose1d, conv_transpose2d and conv_transpose3d."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cases import _convolution
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        f"nn.functional.conv_transpose{dims}d": tuple(_convolution.samples(dims, transposed=True))
        for dims in (1, 2, 3)
    }
