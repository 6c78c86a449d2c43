"""Transformations of an op: derivatives, checkpoints, loops, and indices that are constants.

One program per op computes them all. The tests are in one file, so that a worker that runs them in
a row compiles it once.
"""

import numpy as np

from impl.tests.every_op.programs import (
    SCALES,
    assert_agree,
    assert_close,
    at_floats,
    plain,
    transformed,
)
from impl.tests.every_op.public_ops import parametrize_by_primitives

STEP = np.float32(1 / 128)

differentiable = parametrize_by_primitives(
    lambda sample: sample.transformed and bool(sample.floats)
)


@differentiable
def test_constant_indices(sample):
    outputs, gradient = plain(sample)(*sample.arrays)
    results = transformed(sample)
    assert_agree(sample, results["outputs"], outputs, "outputs")
    assert_agree(sample, results["gradient"], gradient, "gradient")


@differentiable
def test_checkpoint(sample):
    results = transformed(sample)
    assert_agree(sample, results["checkpoint"], plain(sample)(*sample.arrays)[1], "gradient")


@differentiable
def test_the_body_of_a_loop(sample):
    results = transformed(sample)
    for step, scale in enumerate(SCALES):
        scaled = [array * np.float32(scale) for array in sample.floats]
        outputs, gradient = at_floats(sample, scaled)
        assert_agree(sample, [out[step] for out in results["loop outputs"]], outputs, "outputs")
        # The derivative with respect to the scale.
        want = sum(np.vdot(g, array) for g, array in zip(gradient, sample.floats, strict=True))
        assert_close(results["loop gradient"][step], want, "gradient", 1e-4)


@differentiable
def test_jvp_and_vjp_are_transposes(sample):
    results = transformed(sample)

    def dot(arrays, others):
        # Uninitialised memory is NaN.
        return sum(np.nansum(a * b) for a, b in zip(arrays, others, strict=True))

    forward = dot(results["smooth outputs"], results["derivative"])
    backward = dot(results["gradient"], results["tangents"])
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-4)


@parametrize_by_primitives(lambda s: s.transformed and bool(s.floats) and s.smooth)
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
