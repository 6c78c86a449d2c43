"""Transformations of an op: derivatives, checkpoints, loops, and indices that are constants."""

import numpy as np

from conformance.tests.every_op.calls import parametrize_by_primitives
from conformance.tests.every_op.programs import (
    SCALES,
    assert_agree,
    assert_close,
    at_floats,
    plain,
    transformed,
)

STEP = np.float32(1 / 128)


@parametrize_by_primitives(lambda call: bool(call.floats))
def test_transformations(call):
    # One test for all of them: a worker that runs one alone would compile the program again.
    results = transformed(call)
    outputs, gradient = plain(call)(*call.arrays)
    assert_agree(call, results["outputs"], outputs, "outputs")
    assert_agree(call, results["gradient"], gradient, "gradient")
    assert_agree(call, results["checkpoint"], gradient, "gradient of a checkpoint")
    assert_loop(call, results)
    assert_jvp_and_vjp_are_transposes(results)
    if call.smooth:
        assert_finite_differences(call, results)


def assert_loop(call, results):
    for step, scale in enumerate(SCALES):
        scaled = [array * np.float32(scale) for array in call.floats]
        outputs, gradient = at_floats(call, scaled)
        assert_agree(call, [out[step] for out in results["loop outputs"]], outputs, "a loop")
        # The derivative with respect to the scale.
        want = sum(np.vdot(g, array) for g, array in zip(gradient, call.floats, strict=True))
        assert_close(results["loop gradient"][step], want, "gradient of a loop", 1e-4)


def assert_jvp_and_vjp_are_transposes(results):
    def dot(arrays, others):
        # Uninitialised memory is NaN.
        return sum(np.nansum(a * b) for a, b in zip(arrays, others, strict=True))

    forward = dot(results["smooth outputs"], results["derivative"])
    backward = dot(results["gradient"], results["tangents"])
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-4)


def assert_finite_differences(call, results):
    def at(step):
        moved = [
            array + step * tangent
            for array, tangent in zip(call.floats, results["tangents"], strict=True)
        ]
        outputs, gradient = at_floats(call, moved)
        return [out for out in outputs if out.dtype == np.float32], gradient

    (above, gradient_above), (below, gradient_below) = at(STEP), at(-STEP)
    for got, high, low in zip(results["derivative"], above, below, strict=True):
        assert np.any(got)
        assert_close(got, (high - low) / (2 * STEP), "derivative", 0.02)
    if call.twice:
        second = zip(results["second derivative"], gradient_above, gradient_below, strict=True)
        for got, high, low in second:
            assert_close(got, (high - low) / (2 * STEP), "second derivative", 0.02)
