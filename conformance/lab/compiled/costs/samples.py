"""Every op of the suite at the sizes of its first sample, so that none goes uncounted."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp

import impl
from conformance.lab.compiled.costs.case import CostCase
from conformance.suite.cells import ops_with_samples
from conformance.suite.sample import samples


def cases() -> Iterator[CostCase]:
    """Yields the first sample of each op, in each direction."""
    for op in ops_with_samples():
        for sample in samples(op)[:1]:
            for direction in sample.directions:
                yield CostCase(
                    f"sample-{op}-{direction}",
                    op,
                    direction,
                    sample.function(impl, direction),
                    tuple(
                        jax.ShapeDtypeStruct(array.shape, jnp.dtype(array.dtype))
                        for array in sample.inputs(direction)
                    ),
                )
