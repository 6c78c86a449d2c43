"""index_put: the meaning of indices, bits, gradients, and indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._expressions import MASK, ONE, A, B, C, as_torch, expressions, label
from impl.tests.ops._indices import IN_RANGE, INDEX, NO_INDEX, SIZE, WRAPPED, M, V, X, at, ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from impl.tests.support.references import written

complete = pytest.mark.usefixtures("complete")
both_kinds = pytest.mark.parametrize("accumulate", [False, True], ids=["write", "add"])

#: Indices of index_put, and the same for NumPy.
WRITES = [
    ((C % 2,), (C % 2,)),
    ([A, C[:2]], (A, C[:2])),
    ((None, C), (slice(None), C)),
    ((A, None, C[:2]), (A, slice(None), C[:2])),
    ((None, B, A), (slice(None), B, A)),
    ((None, B, None, A), (slice(None), B, slice(None), A)),
    ((ONE,), (ONE,)),
    ((A, None, ONE), (A, slice(None), ONE)),
    ((None, MASK), (slice(None), MASK)),
    ((None, None, None, np.array([1, 0, 0, 1, 0], np.uint8)), (..., [0, 3])),
    ((X > 50,), (X > 50,)),
    ((NO_INDEX,), (NO_INDEX,)),
    ((A, A, A, A), (A, A, A, A)),
]


def assert_writes(writes, accumulate):
    """Requires the result of one write after the other, for values of several shapes."""
    calls, wanted = {}, {}
    for indices, expression in writes:
        positions = np.arange(X.size).reshape(X.shape)[expression]
        rng = np.random.default_rng(0)
        for shape in {positions.shape, positions.shape[-1:], ()}:
            values = rng.integers(-9, 9, shape).astype(np.float32)
            name = f"{label(indices)}, values of shape {shape}"
            calls[name] = lambda x, v, i=indices: impl.index_put(x, i, v, accumulate), X, values
            broadcast = np.broadcast_to(values, positions.shape)
            want = written(X.reshape(-1), positions, broadcast, accumulate=accumulate)
            wanted[name] = want.reshape(X.shape)
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


@complete
@both_kinds
def test_values(accumulate):
    assert_writes(WRITES, accumulate)


@complete
def test_torch_puts_alike(torch):
    parts, rng = [A, B % 2, ONE, np.array([1, 0]), None], np.random.default_rng(0)
    calls, wanted = {}, {}
    for number, indices in enumerate(expressions(parts, 14, seed=2, longest=4)):
        if all(index is None for index in indices):
            continue
        # Only PyTorch's own operator takes None.
        tensors = [as_torch(torch, index) for index in indices]
        shape = torch.ops.aten.index(torch.from_numpy(X), tensors).shape
        values = rng.integers(-9, 9, shape).astype(np.float32)
        accumulate = bool(number % 2)
        arguments = (torch.from_numpy(X), tensors, torch.from_numpy(values), accumulate)
        calls[str(indices)] = (
            lambda x, v, i=indices, a=accumulate: impl.index_put(x, i, v, a),
            X,
            values,
        )
        wanted[str(indices)] = torch.ops.aten.index_put(*arguments).numpy()
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


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


# Bits, gradients, and facts.


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (
            lambda: impl.index_put(np.ones(3), (np.arange(3) > 0,), np.ones(2), True),
            {"unique_indices": True, "accumulate": True},
        ),
        (
            lambda: impl.index_put(np.ones(3), (np.arange(2),), np.ones(2)),
            {"unique_indices": False, "accumulate": False},
        ),
    ],
)
def test_facts(call, facts):
    with impl.testing.questions() as asked:
        call()
    assert len(asked) == 1
    assert {name: asked[0].facts[name] for name in facts} == facts


# Indices that are out of range.


def test_a_shape_that_depends_on_values_is_refused_under_jit():
    put = jax.jit(
        lambda x, m, v, accumulate: impl.index_put(x, (m,), v, accumulate), static_argnums=3
    )
    for values, accumulate in [(ones(1), True), (ones(3), False)]:
        with pytest.raises(TypeError, match=r"'indices\[0\]' is a mask .* not known under jit"):
            put(V, V > 0, values, accumulate)
    with pytest.raises(IndexError, match="mask"):
        put(V, ones(4, dtype=bool), ones(1), False)
    with pytest.raises(RuntimeError, match="indexed shape"):
        put(V, V > 0, ones(1, 1), False)


@pytest.mark.usefixtures("path")
def test_writes_out_of_range_are_dropped():
    x = np.full((SIZE, 2), 100, np.float32)
    numbers = np.arange(1, 2 * len(INDEX) + 1, dtype=np.float32).reshape(-1, 2)

    @jax.jit
    def writes(x, i, s):
        column = jnp.arange(2)
        results = []
        # The path decides which of several writes stays, so all of them write one value.
        for accumulate, values in ((True, s), (False, jnp.full_like(s, 7))):
            results.append(
                [
                    impl.index_put(x, (i,), values, accumulate),
                    impl.index_put(x.T, (None, i), values.T, accumulate).T,
                    impl.index_put(x, (i[:, None], column), values, accumulate),
                ]
            )
        return results

    added, constant = writes(x, INDEX, numbers)
    want = x.copy()
    np.add.at(want, WRAPPED[IN_RANGE], numbers[IN_RANGE])
    for out in added:
        assert_same_bits(out, want)
    want = x.copy()
    want[WRAPPED[IN_RANGE]] = 7
    for out in constant:
        assert_same_bits(out, want)


def test_two_indices_out_of_range_do_not_make_one_in_range():
    # Flattened without a check, (1, -4) of [3, 3] would be (0, 0), and (0, 3) would be (1, 0).
    pairs = np.array([[1, -4], [0, 3], [3, 0], [-4, 1], [2, 2]])
    got = jax.jit(lambda x, i, j: impl.index_put(x, (i, j), ones(1)))(np.zeros((3, 3)), *pairs.T)
    assert np.argwhere(got).tolist() == [[2, 2]]


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    got = jax.jit(lambda x, i: impl.index_put(x, (i,), ones(2, 2), accumulate=True))(
        M[:0], at(0, -1)
    )
    assert got.shape == (0, 2)
