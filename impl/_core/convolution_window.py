"""Which positions of an image the taps of a convolution read, known before anything runs."""

from __future__ import annotations

import dataclasses
import itertools
import math

import spec


@dataclasses.dataclass(frozen=True)
class ConvolutionWindow:
    """The geometry of a convolution; hashable, so that it can be a static parameter.

    Each of the tuples has an element per spatial dimension. Tap ``t`` of the window at position
    ``o`` of the result reads position ``o * stride + t * dilation - before`` of the image, or 0
    where that is outside.

    Attributes:
        image: Sizes of what is read.
        result: Sizes of what the convolution gives.
        kernel: How many taps a window has.
        stride: How far apart windows begin.
        dilation: How far apart taps are.
        before: How far before the image the first window begins.
        groups: Into how many groups channels are divided.
    """

    image: tuple[int, ...]
    result: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    groups: int

    @property
    def taps(self) -> tuple[tuple[int, ...], ...]:
        """Positions in the kernel, in row-major order."""
        return tuple(itertools.product(*map(range, self.kernel)))

    @property
    def positions(self) -> int:
        """Number of elements of a channel of the result."""
        return math.prod(self.result)

    @property
    def reach(self) -> tuple[int, ...]:
        """Sizes of the image with all that windows read around it, if that is no smaller."""
        return tuple(
            max((o - 1) * s + (k - 1) * d + 1, n + p)
            for o, s, k, d, n, p in zip(
                self.result,
                self.stride,
                self.kernel,
                self.dilation,
                self.image,
                self.before,
                strict=True,
            )
        )

    def at_once(self, channels: int) -> int:
        """How many taps are one matrix product, where a tap has so many channels in a group."""
        least = spec.load().orders["taps"].parameters["terms"]
        return min(len(self.taps), max(1, -(-least // max(channels, 1))))
