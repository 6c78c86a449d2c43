"""resize: values, bits and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits

complete = pytest.mark.usefixtures("complete")


def test_sizes_are_given_as_in_torch():
    x = jnp.arange(6)
    for shape in ((), (0,), (2,), (2, 0, 3)):
        assert impl.resize(x, size=shape).shape == impl.resize(x, shape).shape == shape


SHAPES = [
    (old, new) for old in ((), (5,), (2, 3), (2, 0)) for new in ((), (0,), (4,), (3, 3), (1, 2, 2))
]


@complete
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "bool"])
def test_pytorch(deterministic_torch, dtype):
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.normal(size=old)).astype(dtype) for old, _ in SHAPES]
    results = jax.jit(
        lambda arrays: [impl.resize(x, new) for x, (_, new) in zip(arrays, SHAPES, strict=True)]
    )(arrays)
    for x, (old, new), got in zip(arrays, SHAPES, results, strict=True):
        want = deterministic_torch.from_numpy(x).clone().resize_(new).numpy()
        np.testing.assert_array_equal(got, want, err_msg=f"{old} to {new}")


@complete
@pytest.mark.usefixtures("lowering")
def test_elements_stay_in_row_major_order():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)).T
    want = np.concatenate([np.asarray(x).reshape(-1), [np.nan] * 6]).astype(np.float32)
    longer, shorter = jax.jit(lambda x: (impl.resize(x, 3, 4), impl.resize(x, 2, 2)))(x)
    assert_same_bits(longer, want.reshape(3, 4))
    assert_same_bits(shorter, want[:4].reshape(2, 2))


@complete
def test_transformations():
    x = jnp.arange(6.0).reshape(2, 3)
    rows = jax.vmap(lambda row: impl.resize(row, 5))(x)
    np.testing.assert_array_equal(rows, np.pad(x, ((0, 0), (0, 2)), constant_values=np.nan))
    gradient = jax.grad(lambda x: jnp.vdot(jnp.arange(1.0, 5.0), impl.resize(x, 8)[:4]))(x)
    np.testing.assert_array_equal(gradient, [[1, 2, 3], [4, 0, 0]])
    longer, tangent = jax.jvp(lambda x: impl.resize(x, 8), (x,), (x,))
    np.testing.assert_array_equal(tangent, [*range(6), 0, 0])
    assert np.isnan(longer[6:]).all()
