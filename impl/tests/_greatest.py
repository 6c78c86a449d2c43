"""References for maxima over windows, in the plainest way, and the tests that both kinds share."""

import itertools

import jax
import numpy as np

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def array(shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def equals(shape, dtype=np.float32):
    """Elements of which many are equal."""
    return np.random.default_rng(shape).integers(0, 6, shape).astype(dtype)


def pooled(x, windows):
    """The maxima, their flat positions, and a function to the gradient.

    Args:
        x: Shape [..., *sizes].
        windows: For each dimension and each window the positions that it has, within or not; or
            for each lane of ``x`` such a list, as a function of its number.
    """
    of_lane = windows if callable(windows) else lambda _: windows
    dims, lengths = len(of_lane(0)), [len(along) for along in of_lane(0)]
    lanes = x.reshape(int(np.prod(x.shape[:-dims])), *x.shape[-dims:])
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    out = np.full((len(lanes), int(np.prod(lengths))), lowest, x.dtype)
    places = np.full(out.shape, -1)
    for lane, element in enumerate(lanes):
        numbers = np.arange(element.size).reshape(element.shape)
        for o, window in enumerate(itertools.product(*of_lane(lane))):
            within = [
                [i for i in w if 0 <= i < n] for w, n in zip(window, element.shape, strict=True)
            ]
            inside = numbers[np.ix_(*within)].reshape(-1) if all(within) else []
            if len(inside):
                # Of several NaNs, NumPy too takes the first.
                places[lane, o] = inside[np.argmax(element.reshape(-1)[inside])]
                out[lane, o] = element.reshape(-1)[places[lane, o]]
    shape = (*x.shape[:-dims], *lengths)

    def pullback(ct):
        gradient = np.zeros((len(lanes), int(np.prod(x.shape[-dims:]))))
        for row, at, terms in zip(gradient, places, ct.reshape(places.shape), strict=True):
            np.add.at(row, at[at >= 0], terms[at >= 0].astype(np.float64))
        return gradient.reshape(x.shape)

    return out.reshape(shape), places.reshape(shape), pullback


def assert_right(calls, arrays, wanted):
    """Each call of an array gives the maxima, where they are, and the gradient that are wanted."""
    cotangents = [array(out.shape, 1) for out, _, _ in wanted]

    # One program for all: compiling each takes longer.
    @jax.jit
    def run(arrays, cotangents):
        results = []
        for x, ct, call in zip(arrays, cotangents, calls, strict=True):
            out, pullback, places = jax.vjp(call, x, has_aux=True)
            results.append((out, places, pullback(ct)[0]))
        return results

    results = run(arrays, cotangents)
    for got, want, ct, x in zip(results, wanted, cotangents, arrays, strict=True):
        assert got[0].dtype == x.dtype
        assert got[1].dtype == np.int32
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])
        np.testing.assert_allclose(got[2], want[2](ct), **CLOSE)


def assert_pytorch_has(torch, op, given, x, wanted):
    """PyTorch's op gives what the reference does."""
    tensor = torch.tensor(x, requires_grad=True)
    out, places = op(tensor, *given, return_indices=True)
    np.testing.assert_array_equal(out.detach(), wanted[0])
    np.testing.assert_array_equal(places, wanted[1])
    ct = array(out.shape, 1)
    gradient = torch.autograd.grad(out, tensor, torch.tensor(ct))[0]
    np.testing.assert_allclose(gradient, wanted[2](ct), **CLOSE)
