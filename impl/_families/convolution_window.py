"""The geometry of a convolution: the positions of the image that each tap of its window reads.

It depends on shapes and options only, so it is known when a program is traced.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import spec


@dataclasses.dataclass(frozen=True)
class ConvolutionWindow:
    """The geometry of a convolution; hashable, so that it can be a static parameter.

    Each tuple has an element for each spatial dimension. Tap ``t`` of the window at position ``o``
    of the result reads position ``o * stride + t * dilation - before`` of the image, or 0 if that
    is outside the image.

    Attributes:
        image: Sizes of the image, which the convolution reads.
        result: Sizes of the result.
        kernel: Number of taps of a window.
        stride: Distance between the beginnings of neighbouring windows.
        dilation: Distance between neighbouring taps.
        before: Padding before the image: the distance to the beginning of the first window.
        groups: Number of groups that channels are divided into.
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
    def padded_sizes(self) -> tuple[int, ...]:
        """Sizes of the image with the padding that windows read; no smaller than the image."""
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

    def taps_per_product(self, channels: int) -> int:
        """Returns how many taps one matrix product covers, for a number of channels in a group."""
        least = spec.load().orders["taps"].parameters["terms"]
        return min(len(self.taps), max(1, -(-least // max(channels, 1))))

    def tap_offset(self, tap: Any) -> list[Any]:
        """Returns the position that a tap of the first window reads in the padded image.

        Args:
            tap: The number of the tap in row-major order; it may be an array of JAX.
        """
        offset: list[Any] = []
        for size, dilation in zip(reversed(self.kernel), reversed(self.dilation), strict=True):
            offset.insert(0, tap % size * dilation)
            tap = tap // size
        return offset

    def by_steps(self, steps: Sequence[Any], within: Sequence[Any]) -> list[Any]:
        """Returns one value for each dimension of an image that is split into steps.

        A step is as long as the stride. A step of a single position has no dimension within. With
        strides (2, 1), ``by_steps([a, b], [c, d])`` is ``[a, c, b]``.

        Args:
            steps: The values of the dimensions that count steps, for each spatial dimension.
            within: The values of the dimensions within a step, for each spatial dimension.
        """
        triples = zip(steps, within, self.stride, strict=True)
        return [
            each for step, inner, s in triples for each in ((step, inner) if s > 1 else (step,))
        ]
