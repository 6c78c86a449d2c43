"""getitem: the meaning of expressions, bits of its gradient, and bad arguments.

Tests: impl.ops._subscripts, impl.ops._indexing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.ops import _indexing, _subscripts
from impl.tests.ops._expressions import MASK, ONE, PARTS, A, B, C, as_torch, expressions, label
from impl.tests.ops._indices import (
    IN_RANGE,
    INDEX,
    NO_INDEX,
    SIZE,
    WIDE,
    WRAPPED,
    V,
    X,
    assert_reads_out_of_range_are_filled,
    at,
    ones,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together

complete = pytest.mark.usefixtures("complete")

#: Expressions that NumPy reads as PyTorch does.
AS_NUMPY = [
    1,
    -1,
    np.int64(1),
    ONE,
    slice(None),
    slice(5, 9),
    slice(-2, None),
    slice(1, 0),
    (),
    ...,
    None,
    (0, 1, 2, 3),
    (..., 1),
    (slice(None, None, 2), None, -1, ..., slice(1, None, 3)),
    True,
    False,
    (slice(None), True),
    np.True_,
    np.array(False),
    A,
    C.astype(np.int32) % 2,
    [1, 0, 1],
    [],
    range(2),
    NO_INDEX,
    (A, C[:2]),
    (slice(None), B, A),
    (slice(None), B, slice(None), A),
    (slice(None), C[:2], slice(2), None, A),
    (A, ..., A),
    (..., C, 1),
    (0, A, A),
    ([0, 1], slice(None), [[1], [2]]),
    (slice(None), (0, 2)),
    (slice(None), [True, False, True]),
    (slice(None), MASK),
    (slice(None), MASK, np.array([1])),
    (..., X[0, 0] % 3 > 1),
    (True, A),
    np.ones((2, 3, 4, 5), bool),
    X > 50,
]

#: Expressions that NumPy reads in another way, each with the result of PyTorch.
NOT_AS_NUMPY = [
    # A list of anything but numbers is a tuple.
    ([A, C[:2]], X[A, C[:2]]),
    ([None, A], X[None, A]),
    ([[0, 1], [1, 2]], X[[0, 1], [1, 2]]),
    ([slice(None), 0], X[:, 0]),
    # PyTorch applies the ints first. Then it decides where the dimensions of arrays go.
    ((0, slice(None), C), X[0][:, C]),
    ((ONE, slice(None), C), X[1][:, C]),
    ((A, 0, slice(None), A), X[:, 0][A, :, A]),
    ((slice(None), 0, C), X[:, 0][:, C]),
    # uint8 is a mask.
    ((slice(None), np.array([0, 1, 1], np.uint8)), X[:, [1, 2]]),
    (np.uint8(1), X[1]),
    (np.array(1, np.uint8), X[None]),
    # Further ellipses stand for nothing.
    ((..., A, ...), X[..., A]),
    ((0, ..., 1, ...), X[0, ..., 1]),
]


@complete
def test_expressions_as_numpy_reads_them():
    results = jax.jit(lambda x: [impl.getitem(x, expression) for expression in AS_NUMPY])(X)
    for expression, got in zip(AS_NUMPY, results, strict=True):
        assert_same_bits(got, X[expression], label(expression))


@complete
def test_expressions_as_numpy_does_not_read_them():
    results = jax.jit(lambda x: [impl.getitem(x, expression) for expression, _ in NOT_AS_NUMPY])(X)
    for (expression, want), got in zip(NOT_AS_NUMPY, results, strict=True):
        assert_same_bits(got, want, label(expression))


@complete
def test_torch_reads_expressions_alike(torch):
    tensor, valid, wrong = torch.from_numpy(X), {}, 0
    for expression in expressions(PARTS, 50, seed=0):
        if sum(part is ... for part in expression) > 1:
            continue  # PyTorch takes only some of these.
        try:
            want = tensor[tuple(as_torch(torch, part) for part in expression)].numpy()
        except IndexError:
            wrong += 1
            with pytest.raises(IndexError):
                impl.getitem(X, expression)
            continue
        valid[str(expression)] = expression, want
    results = jax.jit(lambda x: [impl.getitem(x, expression) for expression, _ in valid.values()])(
        X
    )
    for name, got in zip(valid, results, strict=True):
        assert_same_bits(got, valid[name][1], name)
    assert len(valid) > 30
    assert wrong > 2


def split(expression):
    """Returns the arrays of an expression, and a function that replaces them by others."""
    arrays = [part for part in expression if isinstance(part, np.ndarray)]

    def rebuild(others):
        rest = iter(others)
        return tuple(next(rest) if isinstance(p, np.ndarray) else p for p in expression)

    return arrays, rebuild


@complete
def test_traced_arrays_read_the_same_and_gradients_add_up():
    rng, calls, wanted, traced = np.random.default_rng(0), {}, {}, 0
    numbers = np.arange(X.size).reshape(X.shape)
    for expression in expressions([p for p in PARTS if p is not ...], 14, seed=1, longest=4):
        arrays, rebuild = split(expression)
        try:
            # The position of each element that is read.
            flat = np.asarray(impl.getitem(numbers, expression))
        except IndexError:
            continue
        traced += bool(arrays)

        def both(x, arrays, weight, rebuild=rebuild):
            out, pullback = jax.vjp(lambda x: impl.getitem(x, rebuild(arrays)), x)
            return out, pullback(weight)[0]

        weight = rng.integers(-9, 9, flat.shape).astype(np.float32)
        gradient = np.zeros(X.size, np.float32)
        np.add.at(gradient, flat, weight)
        calls[str(expression)] = both, X, arrays, weight
        wanted[str(expression)] = X.reshape(-1)[flat], gradient.reshape(X.shape)
    for name, (out, gradient) in run_together(calls).items():
        np.testing.assert_array_equal(out, wanted[name][0], err_msg=name)
        np.testing.assert_array_equal(gradient, wanted[name][1], err_msg=name)
    assert traced > 5


# Bits of the gradient, and facts.


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: impl.getitem(np.ones(3), np.arange(2)), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), [np.arange(2)]), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), [0, 2]), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), True), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), np.array(1)), {"index_is_list": False}),
        (lambda: impl.getitem(np.ones(3), (slice(2), None)), {"index_is_list": False}),
        (lambda: impl.getitem(np.ones(3), np.arange(2)), {"unique_indices": False}),
        (lambda: impl.getitem(np.ones(3), np.arange(3) > 0), {"unique_indices": True}),
        (lambda: impl.getitem(np.ones((2, 3)), (np.arange(2), 0)), {"unique_indices": False}),
    ],
)
def test_facts(call, facts):
    with impl.testing.questions() as asked:
        call()
    assert len(asked) == 1
    assert {name: asked[0].facts[name] for name in facts} == facts


def test_known_indices_are_checked_under_jit_too():
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.getitem(x, at(3)))(V)
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        jax.jit(lambda x: impl.getitem(x, -4))(V)


def test_a_shape_that_depends_on_values_is_refused_under_jit():
    masked = jax.jit(impl.getitem)
    with pytest.raises(TypeError, match=r"mask whose values are not known under jit.*nonzero"):
        masked(V, V > 0)
    with pytest.raises(TypeError, match="not known under jit"):
        masked(V, np.array(True))
    with pytest.raises(TypeError, match="parts must be ints that are known"):
        jax.jit(lambda x, i: impl.getitem(x, slice(i, None)))(V, 1)


def test_more_elements_than_an_index_counts():
    big = jax.ShapeDtypeStruct((2**16, 2**16), np.int8)
    index = jax.ShapeDtypeStruct((2,), np.int32)
    call = lambda x, i: impl.getitem(x, (i, i))  # noqa: E731
    with pytest.raises(NotImplementedError, match="cannot count 4294967296 elements"):
        jax.eval_shape(call, big, index)
    with jax.enable_x64(True):
        assert jax.eval_shape(call, big, index).shape == (2,)
    # An index of rows counts rows, not elements.
    assert jax.eval_shape(impl.getitem, big, index).shape == (2, 2**16)


@pytest.mark.usefixtures("path")
def test_reads_out_of_range_give_the_fill_value_and_no_gradient():
    # The same rows by every kind of expression.
    assert_reads_out_of_range_are_filled(
        [
            impl.getitem,
            lambda x, index: impl.getitem(x.T, (slice(None), index)).T,
            lambda x, index: impl.getitem(x, (index[:, None], jnp.arange(2))),
            lambda x, index: impl.getitem(x, (index[:, None], slice(None), None))[:, 0, :, 0],
        ]
    )


def test_a_traced_int_reads_as_an_array_does():
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    for index, in_range, wrapped in zip(INDEX, IN_RANGE, WRAPPED, strict=True):
        want = x[:, wrapped] if in_range else np.full(2, np.nan)
        np.testing.assert_array_equal(read(x, index), want)


def test_traced_ints_of_other_dtypes_and_in_lists():
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    np.testing.assert_array_equal(read(x, np.int8(-2)), x[:, -2])
    with pytest.raises(IndexError, match="of uint32"):
        read(x, np.uint32(1))
    listed = jax.jit(lambda x, i: impl.getitem(x, (slice(None), [i, 1, -i])))
    np.testing.assert_array_equal(listed(x, 2), x[:, [2, 1, -2]])
    np.testing.assert_array_equal(jax.jit(lambda x, i: impl.getitem(x, [i, i]))(x, 1), x[1, 1])


def test_two_indices_out_of_range_do_not_make_one_in_range():
    # Flattened without a check, (1, -4) of [3, 3] would be (0, 0), and (0, 3) would be (1, 0).
    pairs = np.array([[1, -4], [0, 3], [3, 0], [-4, 1], [2, 2]])
    got = jax.jit(lambda x, i, j: impl.getitem(x, (i, j)))(ones(3, 3), *pairs.T)
    assert np.isnan(got).tolist() == [True, True, True, True, False]


def test_a_wide_index_is_not_narrowed_first():
    @jax.jit
    def reads(x, i):
        return impl.getitem(x, i), impl.getitem(x[:, None], (i, i * 0))

    with jax.enable_x64(True):
        for got in reads(np.zeros(3), WIDE):
            assert np.isnan(got).tolist() == [True, False, True, True]
    with pytest.raises(IndexError, match="index 4294967297 is out of bounds"):
        impl.getitem(V, WIDE)


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    assert np.isnan(jax.jit(impl.getitem)(V[:0], at(0, -1))).tolist() == [True, True]


def test_a_traced_number_is_an_index_that_is_unique():
    def function(i):
        expression = _subscripts.subscript("op", X.shape, (slice(None), i))
        assert (expression.has_arrays, expression.unique) == (False, True)
        return i

    jax.eval_shape(function, -1)


def test_one_array_for_each_leading_dimension():
    index, unique = _subscripts.arrays_alone("op", X.shape, [None, np.array([0, 2, -1])])
    assert (index.axes, index.result_shape, unique) == ((1,), (2, 3, 4, 5), False)
    np.testing.assert_array_equal(index.unfold(index.fold(jnp.asarray(X))), X)
    values = jnp.ones((1, 5))
    assert index.spread(values).shape == (2, 3, 20)


def test_a_traced_index_out_of_range_points_past_the_end():
    def flat(i):
        entries = [_indexing.AxisIndex(0, i), _indexing.AxisIndex(1, jnp.array([1]))]
        return _indexing.flat_index("op", (2, 3), entries).flat

    assert jax.jit(flat)(np.array([0, -1, 5])).reshape(-1).tolist() == [1, 4, 6]
