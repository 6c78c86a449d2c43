"""mm, mv and bmm of dense operands; test_sparse.py tests sparse ones.

Tests: impl.ops._products.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO

import impl
from impl.tests.support.refusals import BadArgumentsUnlikeTorch, Call

pytestmark = pytest.mark.usefixtures("complete")
VARIABLE = "CUBLAS_WORKSPACE_CONFIG"


def test_a_product_of_bfloat16_is_rounded_once():
    # 256 plus one for each 32 terms, which a sum kept in bfloat16 would lose.
    ones = np.ones((1, 1024), jnp.bfloat16)
    terms = ones.T / np.asarray(32, jnp.bfloat16)
    terms[0] = 256
    assert impl.mm(ones, terms) == 288


def test_precision_is_the_callers_and_else_full():
    x = np.ones((2, 2), np.float32)
    assert "HIGHEST" in str(jax.make_jaxpr(impl.mm)(x, x))
    with jax.default_matmul_precision("tensorfloat32"):
        assert "precision=(Precision.HIGH, Precision.HIGH)" in str(jax.make_jaxpr(impl.mm)(x, x))


@pytest.mark.parametrize(
    ("setting", "raises"), [(None, True), (":0:0", True), (":4096:8", False), (":16:8", False)]
)
@pytest.mark.parametrize(
    ("op", "left", "right"),
    [("mm", (3, 5), (5, 4)), ("mv", (3, 5), (5,)), ("bmm", (2, 3, 5), (2, 5, 4))],
)
def test_the_rows_of_cublas_go_by_the_environment(op, left, right, setting, raises, monkeypatch):
    a, b = jnp.ones(left), jnp.ones(right)
    monkeypatch.delenv(VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(VARIABLE, setting)

    # A new function for each test: a traced function is not traced again for another environment.
    def product(a, b):
        return getattr(impl, op)(a, b)

    with impl.deterministic(profile="torch-1.10"):
        impl.testing.lower(product, a, b, platform="cpu")
        if raises:
            with pytest.raises(RuntimeError, match=f"^{op} does not have"):
                impl.testing.lower(product, a, b)
        else:
            impl.testing.lower(product, a, b)


# Bad arguments.

M, V, B = np.ones((2, 3), np.float32), np.ones(3, np.float32), np.ones((2, 2, 3), np.float32)
BOOL_ROW = np.ones((2, 3, 1), bool)
ZEROS = np.zeros((1, 2), np.int32)
DENSE_DIMENSION = BCOO((jnp.asarray(M[:1]), jnp.asarray(ZEROS[:, :1])), shape=(2, 3))
SPARSE = BCOO((jnp.asarray(V[:1]), jnp.asarray(ZEROS)), shape=(3, 2))
UNLIKE_TORCH: list[Call] = [
    ("mm", ([1.0], M), TypeError, "argument 'input' must be a jax.Array"),
    ("mm", (M, [1.0]), TypeError, "argument 'mat2' must be a jax.Array"),
    ("mm", (V, M), RuntimeError, "input must be a matrix, but got shape [3]; impl.mv mult"),
    ("mm", (M, M[None]), RuntimeError, "mat2 must be a matrix, but got shape [1, 2, 3]; impl."),
    ("mm", (M[None, None], M), RuntimeError, "impl.bmm multiplies batches of matrices, once"),
    ("mm", (M, V), RuntimeError, "mat2 must be a matrix, but got shape [3]"),
    ("mm", (M, M), RuntimeError, "cannot be multiplied (2x3 and 2x3)"),
    ("mm", (M, M.T.astype(int)), RuntimeError, "the same dtype, but got: float32 != int"),
    ("mm", (M > 0, M.T > 0), NotImplementedError, "not implemented for bool"),
    ("mm", (DENSE_DIMENSION, M.T), RuntimeError, "must have 0 dense dims, but has 1"),
    ("mm", (M, SPARSE), TypeError, "argument 'mat2' must be"),
    ("mv", ([1.0], V), TypeError, "argument 'input' must be"),
    ("mv", (M, 1.0), TypeError, "argument 'vec' must be"),
    ("mv", (V, V), RuntimeError, "but got shapes [3] and [3]"),
    ("mv", (M, M), RuntimeError, "but got shapes [2, 3] and [2, 3]"),
    ("mv", (M, V[:2]), RuntimeError, "size mismatch, got input (2x3), vec (2)"),
    ("mv", (M, V.astype(np.float16)), RuntimeError, "float32 != float16"),
    ("mv", (M > 0, V > 0), NotImplementedError, "not implemented for bool"),
    ("bmm", (None, B), TypeError, "argument 'input' must be"),
    ("bmm", (B, None), TypeError, "argument 'mat2' must be"),
    ("bmm", (M, B), RuntimeError, "input must have three dimensions, but got shape [2, 3]"),
    ("bmm", (B, M), RuntimeError, "mat2 must have three dimensions, but got shape [2, 3]"),
    ("bmm", (B, B), RuntimeError, "of mat2 to be: [2, 3] but got: [2, 2]"),
    ("bmm", (B, B[:1]), RuntimeError, "of mat2 to be: [2, 3] but got: [1, 2]"),
    ("bmm", (B, np.ones((2, 3, 1), np.complex64)), RuntimeError, "float32 != complex64"),
    ("bmm", (B > 0, BOOL_ROW), NotImplementedError, "not implemented for bool"),
]


class TestBadArguments(BadArgumentsUnlikeTorch):
    unlike_torch = UNLIKE_TORCH
