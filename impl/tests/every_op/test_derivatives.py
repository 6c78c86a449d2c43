"""Derivatives: JVP and VJP belong together, and agree with finite differences, twice."""

import numpy as np

from impl.tests.every_op.programs import assert_close, at_floats, transformed
from impl.tests.every_op.public_ops import parametrize_samples

STEP = np.float32(1 / 128)


@parametrize_samples(lambda sample: sample.transformed and bool(sample.floats))
def test_jvp_and_vjp_are_transposes(sample):
    results = transformed(sample)

    def dot(arrays, others):
        # Uninitialised memory is NaN.
        return sum(np.nansum(a * b) for a, b in zip(arrays, others, strict=True))

    forward = dot(results["smooth outputs"], results["derivative"])
    backward = dot(results["gradient"], results["tangents"])
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-4)


@parametrize_samples(lambda s: s.transformed and bool(s.floats) and s.smooth)
def test_finite_differences(sample):
    results = transformed(sample)

    def at(step):
        moved = [
            array + step * tangent
            for array, tangent in zip(sample.floats, results["tangents"], strict=True)
        ]
        outputs, gradient = at_floats(sample, moved)
        return [np.asarray(out) for out in outputs if out.dtype == np.float32], gradient

    (above, gradient_above), (below, gradient_below) = at(STEP), at(-STEP)
    for got, high, low in zip(results["derivative"], above, below, strict=True):
        assert np.any(got)
        assert_close(got, (high - low) / (2 * STEP), "derivative", 0.02)
    if sample.twice:
        second = zip(results["second derivative"], gradient_above, gradient_below, strict=True)
        for got, high, low in second:
            assert_close(got, (high - low) / (2 * STEP), "second derivative", 0.02)
