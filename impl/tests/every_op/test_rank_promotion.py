"""Calls that no sample covers, under the setting that refuses operands of two ranks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

F = impl.nn.functional
X = np.ones((2, 3, 4, 5), np.float32)
INDEX = np.zeros(3, np.int32)
SEQUENCES = np.ones((4, 2, 3), np.float32)
STATE = np.ones((1, 2, 2), np.float32)
WEIGHTS = [np.ones((6, 3), np.float32), np.ones((6, 2), np.float32)]
LOGS = np.full((5, 2, 4), -1.5, np.float32)

#: A function and its arrays, by name. The fixture of this folder turns the setting on.
CALLS = {
    "arrays of indices of two ranks": (
        lambda x, i, j: impl.getitem(x, (i[:, None], j)),
        (X[0, 0], INDEX, INDEX),
    ),
    "bicubic samples by the grid": (
        lambda grid, x: F.grid_sample(x, grid, mode="bicubic", align_corners=True),
        (X[..., :2], X),
    ),
    "sequences of several lengths": (
        lambda x, h, *weights: impl.nn.gru(
            x, h, weights, False, 1, 0.0, False, False, False, lengths=[4, 2]
        )[0],
        (SEQUENCES, STATE, *WEIGHTS),
    ),
    "targets one after another": (
        F.ctc_loss,
        (LOGS, np.array([1, 2, 3]), np.array([5, 4]), np.array([2, 1])),
    ),
    "maxima of bags": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="max", padding_idx=0, max_norm=1.0),
        (X[0, 0], INDEX, np.array([0, 1])),
    ),
    "an area of unequal windows": (lambda x: F.interpolate(x, (3, 3), mode="area"), (X,)),
    "antialiasing": (lambda x: F.interpolate(x, (3, 3), mode="bicubic", antialias=True), (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_and_its_gradient_are_traced(name):
    function, (x, *others) = CALLS[name]
    jax.eval_shape(jax.grad(lambda *arrays: jnp.sum(function(*arrays))), x, *others)
