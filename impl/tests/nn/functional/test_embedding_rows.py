"""Transformations of embedding and embedding_bag, which read rows by the same functions."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support.embeddings import FACTORS, INDEX, OFFSETS, WEIGHT
from impl.tests.support.bits import assert_all_same_bits

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


def weighted_sum(w, factors):
    return F.embedding_bag(INDEX, w, OFFSETS, mode="sum", per_sample_weights=factors, padding_idx=0)


#: Functions of float arrays, and their arguments.
OPS = {
    "embedding": (lambda w: F.embedding(INDEX, w, 1, 1.0, 2.0, True), (WEIGHT,)),
    "embedding_bag-sum": (weighted_sum, (WEIGHT, FACTORS)),
    "embedding_bag-mean": (
        lambda w: F.embedding_bag(INDEX, w, OFFSETS, 1.0, 2, True, padding_idx=0),
        (WEIGHT,),
    ),
    "embedding_bag-max": (
        lambda w: F.embedding_bag(INDEX, w, OFFSETS, 1.0, mode="max", padding_idx=0),
        (WEIGHT,),
    ),
}


def test_second_derivatives_of_a_weighted_sum_of_embedding_bag():
    # It is linear in each argument, so only the mixed second derivative is not zero.
    function, (w, factors) = OPS["embedding_bag-sum"]
    mixed = jax.jit(jax.jacfwd(jax.grad(lambda w, p: function(w, p).sum()), 1))(w, factors)
    want = np.zeros((5, 3, 10))
    for position, row in enumerate(INDEX):
        want[row, :, position] = row != 0
    np.testing.assert_array_equal(mixed, want)


@pytest.mark.parametrize("op", ["embedding", "embedding_bag-mean", "embedding_bag-max"])
def test_hessian_of_a_square(op):
    # The derivatives belong to a linear function J, so the Hessian of the square is J'J.
    function, _ = OPS[op]

    @jax.jit
    def run(w):
        hessian = jax.hessian(lambda w: (function(w) ** 2).sum() / 2)
        return jax.jacfwd(function)(w), hessian(w)

    jacobian, got = run(WEIGHT)
    jacobian = np.reshape(jacobian, (-1, WEIGHT.size))
    np.testing.assert_allclose(np.reshape(got, (WEIGHT.size, -1)), jacobian.T @ jacobian, atol=1e-6)
    assert np.any(jacobian)


def test_vmap_over_indices_and_offsets_has_the_bits_of_single_calls():
    index = np.random.default_rng(1).integers(0, 5, (3, 10))
    offsets = np.array([[0, 2, 5], [0, 0, 1], [0, 9, 10]])

    def call(index, offsets):
        return (
            F.embedding_bag(index, WEIGHT, offsets, mode="mean"),
            F.embedding_bag(index, WEIGHT, offsets, mode="max"),
            F.embedding(index, WEIGHT, 1, 1.0),
        )

    got = jax.jit(jax.vmap(call))(index, offsets)
    single = jax.jit(call)
    wanted = [single(i, o) for i, o in zip(index, offsets, strict=True)]
    assert_all_same_bits(got, [np.stack(parts) for parts in zip(*wanted, strict=True)])
