"""Samples of conv1d, conv2d and conv3d."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cases import _convolution
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        f"nn.functional.conv{dims}d": tuple(_convolution.samples(dims, transposed=False))
        for dims in (1, 2, 3)
    }
