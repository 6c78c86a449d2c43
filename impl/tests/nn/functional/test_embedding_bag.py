"""embedding_bag, and the arguments of lookups of rows.

Tests: impl.nn.functional._embeddings.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.nn.functional import _embeddings
from impl.tests.nn.support.arrays import normal
from impl.tests.nn.support.embeddings import IN_RANGE, INDEX, OUT_OF_RANGE, WEIGHT
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
MODES = ("sum", "mean", "max")
PAIRS = INDEX.reshape(5, 2)
EMPTY = np.zeros(0, np.int64)
OFFSETS = np.array([0, 0, 3, 7, 10])


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_gradient_is_divided_by_the_frequency_of_a_row(mode):
    # PyTorch's CPU kernel divides by counts of other rows, so it is not a reference here.
    @jax.jit
    def run(w, cotangent):
        calls = [
            lambda w, scaled=scaled: F.embedding_bag(INDEX, w, OFFSETS, None, 2, scaled, mode)
            for scaled in (True, False)
        ]
        return [jax.vjp(call, w)[1](cotangent)[0] for call in calls]

    got, gradient = run(WEIGHT, normal((5, 3), 1))
    want = gradient / np.maximum(np.bincount(INDEX, minlength=5), 1)[:, None]
    np.testing.assert_allclose(got, want, **CLOSE)


@pytest.mark.parametrize("mode", MODES)
def test_empty_bags(mode):
    def bags(index, offsets=None, w=WEIGHT, last=False):
        return F.embedding_bag(index, w, offsets, mode=mode, include_last_offset=last)

    @jax.jit
    def run(w):
        return (
            bags(EMPTY, np.array([0, 0]), w),
            bags(EMPTY, np.array([0]), w[:0]),
            bags(np.zeros((2, 0), int), w=w),
            bags(EMPTY, EMPTY, w),
            bags(np.zeros((0, 3), int), w=w),
            bags(INDEX, np.array([0]), w, last=True),
            bags(PAIRS, w=w[:, :0]),
            jax.grad(lambda w: bags(EMPTY, np.array([0, 0]), w).sum())(w),
        )

    *results, gradient = run(WEIGHT)
    assert [got.shape for got in results] == [
        (2, 3),
        (1, 3),
        (2, 3),
        (0, 3),
        (0, 3),
        (0, 3),
        (5, 0),
    ]
    assert not any(np.any(got) for got in results)
    assert not np.any(gradient)


def test_maxima_of_equal_elements_and_nan():
    table = np.array([[1, -0.0], [np.nan, 0.0], [2, -np.inf], [2, -np.inf]], np.float32)

    run = jax.jit(lambda index: F.embedding_bag(index, table, mode="max")[0])

    def greatest(*index):
        return run(np.array([index]))

    # The first of equal elements is the maximum, with its sign. NaN is greater than every number.
    assert_same_bits(greatest(2, 0, 3), np.array([2, -0.0], np.float32))
    assert np.signbit(greatest(0, 1)).tolist()[1] is True
    assert np.signbit(greatest(1, 0)).tolist()[1] is False
    for order in itertools.permutations([0, 1, 2]):
        assert np.isnan(greatest(*order)[0])
    assert greatest(3, 2)[1] == -np.inf


@pytest.mark.usefixtures("path")
def test_the_first_of_equal_elements_has_the_gradient():
    table = np.array([[1, 5], [1, 5], [1, np.nan], [0, np.nan]], np.float32)
    index = np.array([[3, 2, 1, 0]])
    gradient = jax.jit(jax.grad(lambda w: F.embedding_bag(index, w, mode="max").sum()))
    assert gradient(table).tolist() == [[0, 0], [0, 0], [1, 0], [0, 1]]


@pytest.mark.usefixtures("path")
def test_a_bag_with_a_row_out_of_range_is_nan_under_jit():
    pairs = OUT_OF_RANGE.reshape(5, 2)
    in_range = IN_RANGE.reshape(5, 2).all(1)

    @jax.jit
    def run(index, w, cotangent):
        rows = []
        for mode in MODES:
            out, pullback = jax.vjp(lambda w, m=mode: F.embedding_bag(index, w, mode=m), w)
            rows.append((out, pullback(cotangent)[0]))
        return rows

    results = run(pairs, WEIGHT, np.ones((5, 3), np.float32))
    for out, gradient in results:
        assert np.isnan(np.asarray(out)).all(1).tolist() == (~in_range).tolist()
        assert np.all(np.isfinite(gradient))
    assert results[0][1][:, 0].tolist() == [1, 1, 0, 2, 0]


@pytest.mark.usefixtures("path")
def test_elements_in_no_bag_have_no_effect():
    # Elements before the first offset, after the last one, and of the padding are NaN or infinite.
    w = WEIGHT.copy()
    w[4], w[2] = np.nan, np.inf
    index = np.array([4, 2, 0, 1, 2, 3, 4, 2])
    factors = np.array([np.inf, np.nan, 2, 2, np.nan, 2, np.inf, np.nan], np.float32)

    @jax.jit
    def run(index, w, offsets, factors, cotangent):
        rows = []
        for mode in MODES:

            def call(w, factors, mode=mode):
                return F.embedding_bag(
                    index,
                    w,
                    offsets,
                    mode=mode,
                    per_sample_weights=factors if mode == "sum" else None,
                    include_last_offset=True,
                    padding_idx=2,
                )

            out, pullback = jax.vjp(call, w, factors)
            rows.append((out, *pullback(cotangent)))
        return rows

    cotangent = np.full((2, 3), 3, np.float32)
    results = run(index, w, np.array([2, 5, 6]), factors, cotangent)
    for mode, result in zip(MODES, results, strict=True):
        out, of_w, of_factors = map(np.asarray, result)
        scale = 2 if mode == "sum" else 1
        total = WEIGHT[:2].sum(0)
        first = {"sum": total * 2, "mean": total * 0.5, "max": WEIGHT[:2].max(0)}[mode]
        np.testing.assert_allclose(out, np.stack([first, WEIGHT[3] * scale]), rtol=1e-6)
        assert not np.any(of_w[[2, 4]])
        np.testing.assert_allclose(of_w[:2].sum(0), {"sum": 12, "mean": 3, "max": 3}[mode])
        assert of_w[3].tolist() == [3 * scale] * 3
        assert not np.any(of_factors[[0, 1, 4, 6, 7]])


def test_known_offsets_are_checked_under_jit():
    with pytest.raises(RuntimeError, match="must ascend"):
        jax.jit(lambda w: F.embedding_bag(INDEX, w, np.array([0, 3, 2])))(WEIGHT)


def test_unknown_offsets_give_the_bits_of_known_offsets():
    offsets = jnp.array([0, 3, 3, 8])
    known = jax.jit(lambda w: F.embedding_bag(INDEX, w, offsets))(WEIGHT)
    unknown = jax.jit(lambda o: F.embedding_bag(INDEX, WEIGHT, o))(offsets)
    assert_same_bits(unknown, known)


def test_an_index_of_64_bits_is_checked_before_it_is_narrowed():
    with pytest.raises(RuntimeError, match="index 4294967297"):
        F.embedding_bag(np.array([[2**32 + 1, 1]]), WEIGHT)


#: The exceptions of impl. Another exception, or another beginning of the message, is a fault.
REFUSALS = (NotImplementedError, RuntimeError, TypeError, ValueError)


def gradient(index, weight, offsets, factors, options):
    """Returns the shapes of the result and of the gradients, without running the program."""

    def loss(weight, factors):
        out = F.embedding_bag(index, weight, offsets, per_sample_weights=factors, **options)
        return out.astype(jnp.float32).sum(), out

    arguments = (0,) if factors is None else (0, 1)
    return jax.eval_shape(jax.grad(loss, arguments, has_aux=True), weight, factors)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_every_call_has_a_result_or_an_error_of_its_own(mode):
    # Imported here, since the import takes a second.
    from hypothesis import given, settings  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415

    sizes = st.sampled_from([0, 1, 3])
    numbers = st.sampled_from([0, 1, -1, 2.5, float("inf"), float("-inf"), float("nan")])

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(data=st.data())
    def check(data):
        draw = data.draw
        rows, width, n = draw(sizes), draw(sizes), draw(sizes)
        bags = draw(st.none() | sizes)
        shape = (n,) if bags is None else (bags, n)
        dtypes = st.sampled_from([np.int32, np.int64, np.uint8])
        low, high = draw(st.sampled_from([(0, max(rows, 1)), (-2, rows + 2)]))
        seed = draw(st.integers(0, 9))
        index = np.random.default_rng(seed).integers(low, high, shape).astype(draw(dtypes))
        starts = draw(st.lists(st.integers(0, n), max_size=3))
        has_offsets = (bags is None) is not draw(st.sampled_from([False] * 9 + [True]))
        offsets = np.array(sorted([0, *starts])[draw(st.integers(0, 1)) :], draw(dtypes))
        factors = np.ones(shape, np.float32) if draw(st.booleans()) and mode == "sum" else None
        options = {
            "mode": mode,
            "max_norm": draw(st.none() | numbers),
            "norm_type": draw(numbers),
            "scale_grad_by_freq": draw(st.booleans()) and mode != "max",
            "sparse": draw(st.booleans()) and mode != "max",
            "include_last_offset": draw(st.booleans()),
            "padding_idx": draw(st.none() | st.integers(-rows - 1, rows)),
        }
        weight = np.ones((rows, width), np.float32)
        with impl.deterministic(draw(st.booleans()), profile="complete"):
            try:
                gradients, out = gradient(
                    index, weight, offsets if has_offsets else None, factors, options
                )
            except REFUSALS as error:
                assert str(error).startswith("embedding_bag(): ")  # noqa: PT017
                return
        count = len(offsets) - options["include_last_offset"] if bags is None else bags
        assert out.shape == (count, width)
        assert gradients[0].shape == weight.shape

    check()


ONE, PAIR = np.array([0]), np.array([[0, 1]])
SHORT = np.zeros(1, np.int16)
REALS = np.zeros(1, np.float32)

#: Positional arguments, options, exception, fragment of the message
BAD: list[Call] = [
    ((np.array([0, 5]), WEIGHT, ONE), RuntimeError, "index 5 is out of bounds"),
    ((np.array([[-1]]), WEIGHT), RuntimeError, "5 rows, at position [0, 0]"),
    ((REALS, WEIGHT, ONE), RuntimeError, "for input but got: float32"),
    ((ONE, WEIGHT, REALS), RuntimeError, "for offsets but got: float32"),
    ((SHORT, WEIGHT, SHORT), RuntimeError, "for input but got: int16"),
    ((SHORT[None], WEIGHT), RuntimeError, "for input but got: int16"),
    ((ONE, WEIGHT[0], ONE), ValueError, "weight has to be 2-D"),
    ((ONE, WEIGHT.astype(int), ONE), RuntimeError, "floats, but got int32"),
    ((PAIR, WEIGHT, ONE), ValueError, "offsets has to be None"),
    ((ONE, WEIGHT), ValueError, "1D array but got None"),
    ((ONE, WEIGHT, PAIR), ValueError, "1D array, but got shape [1, 2]"),
    ((np.array(0), WEIGHT), ValueError, "1D or 2D, but got shape []"),
    ((PAIR[None], WEIGHT), ValueError, "got shape [1, 1, 2]"),
    ((ONE, WEIGHT, np.array([1])), RuntimeError, "offsets[0] has to be 0"),
    ((ONE, WEIGHT, np.array([0, 2])), RuntimeError, "input's length 1 but got"),
    ((ONE, WEIGHT, EMPTY), {"include_last_offset": True}, RuntimeError, "at least 1"),
    ((PAIR, WEIGHT), {"mode": "min"}, ValueError, "but got 'min'"),
    ((PAIR, WEIGHT), {"mode": 1}, ValueError, "one of sum, mean or max"),
    ((PAIR, WEIGHT), {"mode": "max", "sparse": True}, ValueError, "sparse weights"),
    (
        (PAIR, WEIGHT),
        {"mode": "max", "scale_grad_by_freq": True},
        ValueError,
        "scaling the gradient",
    ),
    (
        (PAIR, WEIGHT),
        {"mode": "sum", "per_sample_weights": REALS},
        ValueError,
        "per_sample_weights ([1]) must have the same shape as the input ([1, 2])",
    ),
    (
        (ONE, WEIGHT, ONE),
        {"mode": "sum", "per_sample_weights": np.ones(1, np.float16)},
        RuntimeError,
        "got float16 and float32",
    ),
    (
        (ONE, WEIGHT, ONE),
        {"mode": "mean", "per_sample_weights": REALS},
        NotImplementedError,
        "only supported for mode='sum', but got mode='mean'",
    ),
    ((PAIR, WEIGHT), {"padding_idx": 5}, RuntimeError, "-5 through 4, but got 5"),
    ((PAIR, WEIGHT), {"padding_idx": 1.0}, TypeError, "'padding_idx' must be int"),
    ((PAIR, WEIGHT), {"sparse": 0}, TypeError, "'sparse' must be bool, not int"),
    ((ONE, WEIGHT, ONE), {"include_last_offset": 1}, TypeError, "must be bool"),
]
#: Arguments for which PyTorch has another exception, or whose exception depends on the mode.
OWN: list[Call] = [
    ((ONE, WEIGHT, SHORT.view(np.uint16)), RuntimeError, "got: uint16"),
    ((ONE, WEIGHT, [0]), TypeError, "'offsets' must be"),
    (([0], WEIGHT, ONE), TypeError, "'input' must be"),
    ((INDEX, WEIGHT, np.array([0, 3, 2])), RuntimeError, "got 2 after 3"),
    ((INDEX, WEIGHT, np.array([0, -1])), RuntimeError, "must ascend"),
    ((PAIR, WEIGHT, None, 1.0, True), TypeError, "'norm_type' must be float"),
]


class TestBadArguments(BadArgumentsOfFunctional):
    op = "embedding_bag"
    calls = BAD
    unlike_torch = OWN


def test_a_narrow_dtype_beside_a_wide_one_is_taken_as_in_pytorch(torch):
    for narrow in ("uint8", "int8", "int16", "bool"):
        for dtypes in ((narrow, "int32"), ("int64", narrow)):
            index = np.array([1, 0, 1]).astype(dtypes[0])
            offsets = np.array([0, 1]).astype(dtypes[1])
            got = F.embedding_bag(index, WEIGHT, offsets, mode="sum")
            tensors = map(torch.from_numpy, (index, WEIGHT, offsets))
            want = torch.nn.functional.embedding_bag(*tensors, mode="sum")
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


ROWS = np.array([[3, 4], [0.3, 0.4], [0, 0]], np.float32)


@pytest.mark.parametrize(
    ("padding_idx", "rows", "result"), [(None, 3, None), (-1, 3, 2), (1, 3, 1), (0, 0, None)]
)
def test_the_padding_row_counts_from_the_front(padding_idx, rows, result):
    row = _embeddings.padding_row("op", padding_idx, rows, AssertionError, empty=True)
    assert row == result


def test_a_padding_row_that_does_not_exist():
    with pytest.raises(AssertionError, match="-3 through 2, but got 3"):
        _embeddings.padding_row("op", 3, 3, AssertionError)
    with pytest.raises(RuntimeError, match="but got 0"):
        _embeddings.padding_row("op", 0, 0, RuntimeError)


@pytest.mark.parametrize("norm_type", [0, 1, 2, 3.5, np.inf, -np.inf])
def test_rows_are_scaled_to_the_greatest_norm(norm_type):
    rows = _embeddings.read_rows(
        jnp.asarray(ROWS),
        jnp.array([0, 1, 2, 0]),
        1.0,
        norm_type,
    )
    norms = np.linalg.norm(ROWS.astype(float), norm_type, axis=1)
    expected = [row / norm if norm > 1 else row for row, norm in zip(ROWS, norms, strict=True)]
    np.testing.assert_allclose(rows, np.array(expected)[[0, 1, 2, 0]], rtol=1e-6)


def test_frequencies_are_at_least_one():
    counts = _embeddings.frequencies(jnp.array([1, 1, 2, 1]), 4)
    assert counts.tolist() == [1, 3, 1, 1]


def test_the_facts_of_a_lookup():
    facts = _embeddings.lookup_facts("op", jnp.zeros((2, 2), int), jnp.asarray(ROWS), 1.0, 2.5)
    assert facts == {"dtype": "floating", "input_ndim": 2, "max_norm": True, "power_norm": True}
    with pytest.raises(TypeError, match="'norm_type' must be float, not bool"):
        _embeddings.lookup_facts("op", jnp.zeros(2, int), jnp.asarray(ROWS), None, True)
    with pytest.raises(RuntimeError, match="'max_norm' needs a weight of floats"):
        _embeddings.lookup_facts("op", jnp.zeros(2, int), jnp.zeros((2, 2), int), 1.0, 2)
