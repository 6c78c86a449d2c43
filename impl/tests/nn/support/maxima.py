"""References of max-pooling, and comparisons that its tests share."""

import itertools

import jax
import numpy as np

from impl.tests.nn.support.arrays import normal

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def with_ties(shape, dtype=np.float32):
    """Returns an array in which many elements are equal."""
    return np.random.default_rng(shape).integers(0, 6, shape).astype(dtype)


def pooled(x, windows):
    """Returns the maxima, their flat indices, and a gradient function.

    Args:
        x: Shape [..., *sizes].
        windows: For each dimension and each window, the indices that it reads; some may be outside
            the input.
    """
    sizes, lengths = x.shape[-len(windows) :], [len(of_dim) for of_dim in windows]
    lanes = x.reshape(-1, int(np.prod(sizes)))
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    out = np.full((len(lanes), int(np.prod(lengths))), lowest, x.dtype)
    indices = np.full(out.shape, -1)
    flat = np.arange(lanes.shape[1]).reshape(sizes)
    for o, window in enumerate(itertools.product(*windows)):
        inside = [
            [i for i in of_dim if 0 <= i < n] for of_dim, n in zip(window, sizes, strict=True)
        ]
        if all(inside):
            candidates = flat[np.ix_(*inside)].reshape(-1)
            # NumPy's argmax returns the first of several NaNs too.
            indices[:, o] = candidates[lanes[:, candidates].argmax(-1)]
            out[:, o] = np.take_along_axis(lanes, indices[:, o, None], -1)[:, 0]
    shape = (*x.shape[: -len(windows)], *lengths)

    def pullback(cotangent):
        gradient = np.zeros(lanes.shape)
        lane, window = np.nonzero(indices >= 0)
        terms = cotangent.reshape(indices.shape)[lane, window].astype(np.float64)
        np.add.at(gradient, (lane, indices[lane, window]), terms)
        return gradient.reshape(x.shape)

    return out.reshape(shape), indices.reshape(shape), pullback


def assert_as_references(calls, arrays, references):
    """Checks that each call of an array has the maxima, indices and gradient of its reference."""
    cotangents = [normal(out.shape, 1) for out, _, _ in references]

    # One program for all calls takes less time to compile than one program for each.
    @jax.jit
    def run(arrays, cotangents):
        results = []
        for x, cotangent, call in zip(arrays, cotangents, calls, strict=True):
            out, pullback, indices = jax.vjp(call, x, has_aux=True)
            results.append((out, indices, pullback(cotangent)[0]))
        return results

    for (out, indices, gradient), reference, cotangent, x in zip(
        run(arrays, cotangents), references, cotangents, arrays, strict=True
    ):
        assert out.dtype == x.dtype
        assert indices.dtype == np.int32
        np.testing.assert_array_equal(out, reference[0])
        np.testing.assert_array_equal(indices, reference[1])
        np.testing.assert_allclose(gradient, reference[2](cotangent), **CLOSE)
