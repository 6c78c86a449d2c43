"""getitem and index_put: the meaning of subscripts, also of traced ones, and their facts.

Tests: impl.ops._subscripts, impl.ops._indexing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import IN_RANGE, INDEX, SIZE, WRAPPED, V
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together

complete = pytest.mark.usefixtures("complete")

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
A, B, C = np.array([0, 1]), np.array([[0], [1], [-1]]), np.array([1, 1, -2, 0])
MASK = np.random.default_rng(0).random((3, 4)) < 0.5


@complete
def test_subscripts_that_are_no_tuples_of_numpy():
    cases = [
        # A list of anything but numbers is a tuple.
        ([A, C[:2]], X[A, C[:2]]),
        ([None, A], X[None, A]),
        ([[0, 1], [1, 2]], X[[0, 1], [1, 2]]),
        ([slice(None), 0], X[:, 0]),
        # uint8 is a mask.
        ((slice(None), np.array([0, 1, 1], np.uint8)), X[:, [1, 2]]),
        (np.uint8(1), X[1]),
        (np.array(1, np.uint8), X[None]),
        # Further ellipses stand for nothing.
        ((..., A, ...), X[..., A]),
        ((0, ..., 1, ...), X[0, ..., 1]),
        (range(2), X),
    ]
    results = jax.jit(lambda x: [impl.getitem(x, subscript) for subscript, _ in cases])(X)
    for (subscript, want), got in zip(cases, results, strict=True):
        assert_same_bits(got, want, str(subscript))


@complete
@pytest.mark.parametrize("dim", [None, 1])
def test_one_value_by_a_traced_mask(dim):
    # PyTorch allows any mask. Here the number of elements that it selects must not matter.
    mask, indices = (X > 50, lambda m: (m,)) if dim is None else (MASK, lambda m: (None, m))
    put = lambda x, m, v: impl.index_put(x, indices(m), v)  # noqa: E731
    want = X.copy()
    want[mask if dim is None else (slice(None), mask)] = -1
    results = run_together(
        {
            "bool": (put, X, mask, np.float32(-1)),
            "uint8": (put, X, mask.astype(np.uint8), np.array([-1], np.float32)),
            "gradient": (
                lambda x, m, v: jax.grad(lambda x, v: put(x, m, v).sum(), (0, 1))(x, v),
                X,
                mask,
                np.float32(2),
            ),
        }
    )
    assert_same_bits(results["bool"], want)
    assert_same_bits(results["uint8"], want)
    of_input, of_value = results["gradient"]
    np.testing.assert_array_equal(of_input, want != -1)
    assert of_value == (want == -1).sum()


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: impl.getitem(V, np.arange(2)), {"index_is_list": True, "unique_indices": False}),
        (lambda: impl.getitem(V, [np.arange(2)]), {"index_is_list": True}),
        (lambda: impl.getitem(V, [0, 2]), {"index_is_list": True}),
        (lambda: impl.getitem(V, True), {"index_is_list": True}),
        (lambda: impl.getitem(V, np.array(1)), {"index_is_list": False}),
        (lambda: impl.getitem(V, (slice(2), None)), {"index_is_list": False}),
        (lambda: impl.getitem(V, np.arange(3) > 0), {"unique_indices": True}),
        (lambda: impl.getitem(np.ones((2, 3)), (np.arange(2), 0)), {"unique_indices": False}),
        (
            lambda: jax.eval_shape(lambda i: impl.getitem(V, i), -1),
            {"index_is_list": False, "unique_indices": True},
        ),
        (
            lambda: impl.index_put(V, (np.arange(3) > 0,), np.ones(2, np.float32), True),
            {"unique_indices": True, "accumulate": True},
        ),
        (
            lambda: impl.index_put(V, (np.arange(2),), np.ones(2, np.float32)),
            {"unique_indices": False, "accumulate": False},
        ),
        (
            lambda: impl.put(V, np.arange(2), np.ones(2, np.float32), unique_indices=True),
            {"unique_indices": True, "accumulate": False},
        ),
    ],
)
def test_facts(call, facts):
    with impl.testing.questions() as asked:
        call()
    assert len(asked) == 1
    assert {name: asked[0].facts[name] for name in facts} == facts


def test_a_shape_that_depends_on_values_is_refused_under_jit():
    masked = jax.jit(impl.getitem)
    with pytest.raises(TypeError, match=r"mask whose values are not known under jit.*nonzero"):
        masked(V, V > 0)
    with pytest.raises(TypeError, match="not known under jit"):
        masked(V, np.array(True))
    with pytest.raises(TypeError, match="parts must be ints that are known"):
        jax.jit(lambda x, i: impl.getitem(x, slice(i, None)))(V, 1)
    put = jax.jit(
        lambda x, m, v, accumulate: impl.index_put(x, (m,), v, accumulate), static_argnums=3
    )
    for count, accumulate in [(1, True), (3, False)]:
        with pytest.raises(TypeError, match=r"'indices\[0\]' is a mask .* not known under jit"):
            put(V, V > 0, V[:count], accumulate)
    with pytest.raises(IndexError, match="mask"):
        put(V, np.ones(4, bool), V[:1], False)
    with pytest.raises(RuntimeError, match="indexed shape"):
        put(V, V > 0, V[:1, None], False)


@pytest.mark.parametrize(
    "call",
    [
        impl.take,
        lambda x, i: impl.getitem(x, (i, i)),
        lambda x, i: impl.put(x, i, x[0, :2])[0, :2],
        lambda x, i: impl.index_put(x, (i, i), x[0, :2])[0, :2],
    ],
    ids=["take", "getitem", "put", "index_put"],
)
def test_more_elements_than_an_index_counts(call):
    big = jax.ShapeDtypeStruct((2**16, 2**16), np.int8)
    index = jax.ShapeDtypeStruct((2,), np.int32)
    with pytest.raises(NotImplementedError, match="cannot count 4294967296 elements"):
        jax.eval_shape(call, big, index)
    with jax.enable_x64(True):
        assert jax.eval_shape(call, big, index).shape == (2,)
    # An index of rows counts rows, not elements.
    assert jax.eval_shape(impl.getitem, big, index).shape == (2, 2**16)


def test_traced_ints():
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    for index, in_range, wrapped in zip(INDEX, IN_RANGE, WRAPPED, strict=True):
        want = x[:, wrapped] if in_range else np.full(2, np.nan)
        np.testing.assert_array_equal(read(x, index), want)
    np.testing.assert_array_equal(read(x, np.int8(-2)), x[:, -2])
    with pytest.raises(IndexError, match="of uint32"):
        read(x, np.uint32(1))
    listed = jax.jit(lambda x, i: impl.getitem(x, (slice(None), [i, 1, -i])))
    np.testing.assert_array_equal(listed(x, 2), x[:, [2, 1, -2]])
    np.testing.assert_array_equal(jax.jit(lambda x, i: impl.getitem(x, [i, i]))(x, 1), x[1, 1])


def test_two_indices_out_of_range_do_not_make_one_in_range():
    # Flattened without a check, (1, -4) of [3, 3] would be (0, 0), and (0, 3) would be (1, 0).
    pairs = np.array([[1, -4], [0, 3], [3, 0], [-4, 1], [2, 2]])

    @jax.jit
    def calls(x, i, j):
        return impl.getitem(x + 1, (i, j)), impl.index_put(x, (i, j), jnp.ones(1))

    read, written = calls(np.zeros((3, 3), np.float32), *pairs.T)
    assert np.isnan(read).tolist() == [True, True, True, True, False]
    assert np.argwhere(written).tolist() == [[2, 2]]
