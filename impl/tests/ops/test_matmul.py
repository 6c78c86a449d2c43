"""mm, mv and bmm of dense operands; test_sparse.py tests sparse ones.

Tests: impl.ops._products.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

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
