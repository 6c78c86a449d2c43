"""Bad sparse operands: PyTorch's exception types, and what is out of range under jit."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO, BCSR

import impl
from impl.tests._support import assert_same_bits

pytestmark = pytest.mark.usefixtures("complete")


def coo(places, shape=(2, 3), dtype=np.float32):
    batch = np.shape(places)[:-1]
    return BCOO((jnp.ones(batch, dtype), jnp.asarray(places)), shape=shape)


def csr(columns, starts, shape=(2, 3)):
    return BCSR(
        (jnp.ones(np.shape(columns)), jnp.asarray(columns), jnp.asarray(starts)), shape=shape
    )


D = np.ones((3, 4), np.float32)
COO, CSR = coo([[0, 2], [1, 0]]), csr([2, 0], [0, 1, 2])
HYBRID = BCOO((jnp.ones((1, 3)), jnp.zeros((1, 1), int)), shape=(2, 3))
MANY = coo([[[0, 2]], [[1, 0]]], (2, 2, 3))
BAD = [
    ("sparse.mm", (D.T, D), TypeError, "argument 'mat1' must be a jax.experimental.sparse.BCOO"),
    ("sparse.mm", ([1.0], D), TypeError, "or BCSR, not list; mm takes what is dense"),
    ("sparse.mm", (COO, [1.0]), TypeError, "argument 'mat2' must be a jax.Array"),
    ("sparse.mm", (COO, COO), TypeError, "argument 'mat2' must be a jax.Array"),
    ("sparse.mm", (COO, D[0]), RuntimeError, "mat2 must be a matrix, but got shape [4]"),
    ("sparse.mm", (MANY, D), RuntimeError, "mat1 must be a matrix, but got shape [2, 2, 3]"),
    ("sparse.mm", (COO, D.T), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4"),
    ("sparse.mm", (CSR, D.astype(np.float16)), RuntimeError, "expected mat1 and mat2 to have"),
    ("sparse.mm", (COO, D.astype(int)), RuntimeError, "float32 != int"),
    ("sparse.mm", (coo([[0, 0]], dtype=bool), D > 0), NotImplementedError, "not implemented for b"),
    ("sparse.mm", (HYBRID, D), RuntimeError, "mat1 must have 0 dense dims, but has 1"),
    ("mv", (HYBRID, D[:, 0]), RuntimeError, "input must have 0 dense dims, but has 1"),
    ("mv", (CSR, D[:2, 0]), RuntimeError, "size mismatch, got input (2x3), vec (2)"),
    ("mm", (CSR, D.T), RuntimeError, "input and mat2 shapes cannot be multiplied (2x3 and 4x3)"),
    ("bmm", (COO, D[None]), RuntimeError, "input must have three dimensions, but got shape [2, 3]"),
    ("bmm", (MANY, D[None]), RuntimeError, "of mat2 to be: [2, 3] but got: [1, 3]"),
    (
        "mm",
        (coo([[0, 0], [1, -1]]), D),
        RuntimeError,
        "with size 3, at position [1, 1] of the indices of 'input'; allowed are 0 to 2, and 3 for",
    ),
    ("sparse.mm", (coo([[3, 0]]), D), RuntimeError, "index 3 is out of bounds for dimension 0"),
    ("mv", (csr([4, 0], [0, 1, 2]), D[:, 0]), RuntimeError, "index 4 is out of bounds for dim"),
    ("mm", (csr([-1, 0], [0, 1, 2]), D), RuntimeError, "index -1 is out of bounds for dimension 1"),
    ("mm", (csr([0, 0], [1, 1, 2]), D), RuntimeError, "the indptr of 'input' must start with 0"),
    ("mm", (csr([0, 0], [0, 2, 1]), D), RuntimeError, "never fall, and end with at most"),
    ("mm", (csr([0, 0], [0, 1, 3]), D), RuntimeError, "elements, 2, but got [0, 1, 3]"),
    (
        "bmm",
        (coo([[[0, 2]], [[1, 5]]], (2, 2, 3)), np.ones((2, 3, 1), np.float32)),
        RuntimeError,
        "index 5 is out of bounds for dimension 2 with size 3, at position [1, 0, 1]",
    ),
]


def op(name):
    return impl.sparse.mm if name == "sparse.mm" else getattr(impl, name)


@pytest.mark.parametrize(("name", "arguments", "error", "said"), BAD)
def test_bad_arguments(name, arguments, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        op(name)(*arguments)
    assert str(caught.value).startswith(f"{name}(): ")


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize(
    "bad",
    [
        coo([[1, 0], [-1, 0], [0, -1], [5, 0], [0, 7], [1, 1]]),
        coo([[1, 0], [-2, 2], [-2, -3], [2, 3], [2**31 - 1, 0], [1, 1]]),
        csr([-1, 0, 1, -3, 3, 99], [0, 1, 3, 6], (3, 3)),
    ],
)
def test_what_is_out_of_range_is_dropped_under_jit(bad):
    # Not even read: what it would read or wrap around to is no number.
    dense = np.array([[1, 2], [3, 4], [np.nan, np.nan]], np.float32)

    @jax.jit
    def both(own, dense):
        def product(data, dense):
            return impl.sparse.mm(type(bad)((data, *own._bufs[1:]), shape=bad.shape), dense)

        out, pullback = jax.vjp(product, own.data, dense)
        return out, *pullback(jnp.ones_like(out))

    out, of_data, of_dense = both(bad, dense)
    want = np.zeros((bad.shape[0], 2), np.float32)
    want[1] = 4, 6
    assert_same_bits(out, want)
    kept = np.isin(np.arange(6), [0, 5] if isinstance(bad, BCOO) else [1, 2])
    assert_same_bits(of_data, np.where(kept, [3] + [3, 7] * 2 + [7], 0).astype(np.float32))
    assert_same_bits(of_dense, np.array([[1, 1], [1, 1], [0, 0]], np.float32))


def test_starts_out_of_range_under_jit_do_no_harm():
    sparse = csr([0, 1], [-5, 1, 9])
    out = jax.jit(impl.mm)(sparse, D)
    assert out.shape == (2, 4)
    assert float(out.max()) <= 2
