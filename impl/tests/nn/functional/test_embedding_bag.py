"""embedding_bag; ``test_embedding_rows`` has its transformations."""

import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests._support import assert_same_bits, spread
from impl.tests.nn.support.arrays import normal
from impl.tests.nn.support.embeddings import (
    FACTORS,
    IN_RANGE,
    INDEX,
    OUT_OF_RANGE,
    WEIGHT,
    embedding_bag,
)
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
MODES = ("sum", "mean", "max")
PAIRS = INDEX.reshape(5, 2)
EMPTY = np.zeros(0, np.int64)
OFFSETS = np.array([0, 0, 3, 7, 10])
#: With ``include_last``, the last bag ends before the input does.
ENDS = np.array([0, 2, 2, 8])
CALLS = [
    {
        "offsets": offsets,
        "mode": mode,
        "factors": factors,
        "include_last": last,
        "padding": padding,
        "max_norm": norm,
    }
    for (offsets, last), (mode, factors), padding, norm in itertools.product(
        [(OFFSETS, False), (ENDS, True), (None, False)],
        [("sum", None), ("sum", FACTORS), ("mean", None), ("max", None)],
        [None, 1, -5],
        [None, 1.0],
    )
]


def inputs_and_options():
    """Yields the input of each call, and its options with factors of the input's shape."""
    for options in CALLS:
        index, factors = PAIRS if options["offsets"] is None else INDEX, options["factors"]
        factors = None if factors is None else factors.reshape(index.shape)
        yield index, {**options, "factors": factors}


def call(index, w, factors, options):
    return F.embedding_bag(
        index,
        w,
        options["offsets"],
        options["max_norm"],
        mode=options["mode"],
        per_sample_weights=factors,
        include_last_offset=options["include_last"],
        padding_idx=options["padding"],
    )


def test_values_and_gradients():
    # These calls share most of their eager programs: one compiled program takes longer.
    for index, options in inputs_and_options():
        want, reference = embedding_bag(index, WEIGHT, **options)
        got, pullback = jax.vjp(
            lambda w, factors, i=index, o=options: call(i, w, factors, o),
            WEIGHT,
            options["factors"],
        )
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, err_msg=str(options), **CLOSE)
        cotangent = normal(got.shape, 1)
        gradients = pullback(jnp.asarray(cotangent))
        wanted = reference(cotangent)
        np.testing.assert_allclose(gradients[0], wanted[0], err_msg=str(options), **CLOSE)
        if options["factors"] is not None:
            np.testing.assert_allclose(gradients[1], wanted[1], err_msg=str(options), **CLOSE)


def test_pytorch_has_the_values_of_the_reference():
    torch = pytest.importorskip("torch")
    for index, options in inputs_and_options():
        want, pullback = embedding_bag(index, WEIGHT, **options)
        w = torch.tensor(WEIGHT, requires_grad=True) * 1  # PyTorch writes scaled rows to it.
        # PyTorch wrongly adds the elements after the last bag to it, so it does not get them.
        end = ENDS[-1] if options["include_last"] else len(index)
        factors, offsets = options["factors"], options["offsets"]
        factors = None if factors is None else torch.tensor(factors[:end], requires_grad=True)
        out = torch.nn.functional.embedding_bag(
            torch.tensor(index[:end]),
            w,
            None if offsets is None else torch.tensor(offsets),
            options["max_norm"],
            mode=options["mode"],
            per_sample_weights=factors,
            include_last_offset=options["include_last"],
            padding_idx=options["padding"],
        )
        cotangent = normal(want.shape, 1)
        np.testing.assert_allclose(out.detach(), want, err_msg=str(options), **CLOSE)
        tensors = [w] if factors is None else [w, factors]
        gradients = torch.autograd.grad(out, tensors, torch.tensor(cotangent))
        of_w, of_factors = pullback(cotangent)
        for got, wanted in zip(gradients, (of_w, of_factors[:end]), strict=False):
            np.testing.assert_allclose(got, wanted, err_msg=str(options), **CLOSE)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_gradient_is_divided_by_the_frequency_of_a_row(mode):
    # PyTorch's CPU kernel divides by counts of other rows, so it is no reference here.
    @jax.jit
    def run(w, cotangent):
        function = lambda w: F.embedding_bag(INDEX, w, OFFSETS, None, 2, True, mode)  # noqa: E731
        return jax.vjp(function, w)[1](cotangent)[0]

    cotangent = normal((5, 3), 1)
    want = embedding_bag(INDEX, WEIGHT, OFFSETS, mode)[1](cotangent)[0]
    want /= np.maximum(np.bincount(INDEX, minlength=5), 1)[:, None]
    np.testing.assert_allclose(run(WEIGHT, cotangent), want, **CLOSE)


def test_float64():
    w, factors = WEIGHT.astype(np.float64), FACTORS.astype(np.float64)
    calls = [("sum", factors), ("mean", None)]
    with jax.enable_x64(True):
        results = jax.jit(
            lambda w: [
                F.embedding_bag(INDEX, w, OFFSETS, mode=mode, per_sample_weights=given)
                for mode, given in calls
            ]
        )(w)
    for got, (mode, given) in zip(results, calls, strict=True):
        assert got.dtype == np.float64
        want = embedding_bag(INDEX, w, OFFSETS, mode, given)[0]
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


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

    def greatest(*index):
        return F.embedding_bag(np.array([index]), table, mode="max")[0]

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


@pytest.mark.usefixtures("lowering")
def test_products_of_narrow_rows_are_not_rounded():
    index = np.random.default_rng(1).integers(0, 3, 2100)
    w, p = (spread(np.random.default_rng(k), s, np.float16) for k, s in enumerate([(3, 2), 2100]))
    offsets = np.array([0, 5, 5, 1500])
    wide = w.astype(np.float32)[index] * p.astype(np.float32)[:, None]
    bag = np.searchsorted(offsets, np.arange(2100), side="right") - 1
    want = oracles.panel(np.zeros((4, 2), np.float32), bag, wide).astype(np.float16)
    run = jax.jit(lambda w, p: F.embedding_bag(index, w, offsets, mode="sum", per_sample_weights=p))
    assert_same_bits(run(w, p), want)


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
    got = jax.jit(lambda o: F.embedding_bag(INDEX, WEIGHT, o))(offsets)
    assert_same_bits(got, F.embedding_bag(INDEX, WEIGHT, offsets))


def test_an_index_of_64_bits_is_checked_before_it_is_narrowed():
    with pytest.raises(RuntimeError, match="index 4294967297"):
        F.embedding_bag(np.array([[2**32 + 1, 1]]), WEIGHT)


ONE, PAIR = np.array([0]), np.array([[0, 1]])
SHORT = np.zeros(1, np.int16)
REALS = np.zeros(1, np.float32)

#: op, positional arguments, options, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
    (
        "embedding_bag",
        (np.array([0, 5]), WEIGHT, ONE),
        {},
        RuntimeError,
        "index 5 is out of bounds",
    ),
    ("embedding_bag", (np.array([[-1]]), WEIGHT), {}, RuntimeError, "5 rows, at position [0, 0]"),
    ("embedding_bag", (REALS, WEIGHT, ONE), {}, RuntimeError, "for input but got: float32"),
    ("embedding_bag", (ONE, WEIGHT, REALS), {}, RuntimeError, "for offsets but got: float32"),
    ("embedding_bag", (ONE, WEIGHT[0], ONE), {}, ValueError, "weight has to be 2-D"),
    ("embedding_bag", (ONE, WEIGHT.astype(int), ONE), {}, RuntimeError, "floats, but got int32"),
    ("embedding_bag", (PAIR, WEIGHT, ONE), {}, ValueError, "offsets has to be None"),
    ("embedding_bag", (ONE, WEIGHT), {}, ValueError, "1D array but got None"),
    ("embedding_bag", (ONE, WEIGHT, PAIR), {}, ValueError, "1D array, but got shape [1, 2]"),
    ("embedding_bag", (np.array(0), WEIGHT), {}, ValueError, "1D or 2D, but got shape []"),
    ("embedding_bag", (PAIR[None], WEIGHT), {}, ValueError, "got shape [1, 1, 2]"),
    ("embedding_bag", (ONE, WEIGHT, np.array([1])), {}, RuntimeError, "offsets[0] has to be 0"),
    (
        "embedding_bag",
        (ONE, WEIGHT, np.array([0, 2])),
        {},
        RuntimeError,
        "input's length 1 but got",
    ),
    (
        "embedding_bag",
        (ONE, WEIGHT, EMPTY),
        {"include_last_offset": True},
        RuntimeError,
        "at least 1",
    ),
    ("embedding_bag", (PAIR, WEIGHT), {"mode": "min"}, ValueError, "but got 'min'"),
    ("embedding_bag", (PAIR, WEIGHT), {"mode": 1}, ValueError, "one of sum, mean or max"),
    (
        "embedding_bag",
        (PAIR, WEIGHT),
        {"mode": "max", "sparse": True},
        ValueError,
        "sparse weights",
    ),
    (
        "embedding_bag",
        (PAIR, WEIGHT),
        {"mode": "max", "scale_grad_by_freq": True},
        ValueError,
        "scaling the gradient",
    ),
    (
        "embedding_bag",
        (PAIR, WEIGHT),
        {"mode": "sum", "per_sample_weights": REALS},
        ValueError,
        "per_sample_weights ([1]) must have the same shape as the input ([1, 2])",
    ),
    (
        "embedding_bag",
        (ONE, WEIGHT, ONE),
        {"mode": "sum", "per_sample_weights": np.ones(1, np.float16)},
        RuntimeError,
        "got float16 and float32",
    ),
    (
        "embedding_bag",
        (ONE, WEIGHT, ONE),
        {"mode": "mean", "per_sample_weights": REALS},
        NotImplementedError,
        "only supported for mode='sum', but got mode='mean'",
    ),
    ("embedding_bag", (PAIR, WEIGHT), {"padding_idx": 5}, RuntimeError, "-5 through 4, but got 5"),
    ("embedding_bag", (PAIR, WEIGHT), {"padding_idx": 1.0}, TypeError, "'padding_idx' must be int"),
    ("embedding_bag", (PAIR, WEIGHT), {"sparse": 0}, TypeError, "'sparse' must be bool, not int"),
    ("embedding_bag", (ONE, WEIGHT, ONE), {"include_last_offset": 1}, TypeError, "must be bool"),
]
#: Arguments for which PyTorch has another exception, or whose exception depends on the mode.
OWN: list[tuple[Any, ...]] = [
    ("embedding_bag", (SHORT, WEIGHT, ONE), {}, RuntimeError, "for input but got: int16"),
    ("embedding_bag", (ONE, WEIGHT, SHORT), {}, RuntimeError, "for offsets but got: int16"),
    ("embedding_bag", (ONE, WEIGHT, [0]), {}, TypeError, "'offsets' must be"),
    ("embedding_bag", ([0], WEIGHT, ONE), {}, TypeError, "'input' must be"),
    ("embedding_bag", (INDEX, WEIGHT, np.array([0, 3, 2])), {}, RuntimeError, "got 2 after 3"),
    ("embedding_bag", (INDEX, WEIGHT, np.array([0, -1])), {}, RuntimeError, "must ascend"),
    ("embedding_bag", (PAIR, WEIGHT, None, 1.0, True), {}, TypeError, "'norm_type' must be float"),
]


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error", "fragment"),
    BAD + OWN,
    ids=[f"{bad[0]}-{bad[-1]}" for bad in BAD + OWN],
)
def test_bad_arguments(op, arguments, options, error, fragment):
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        getattr(F, op)(*arguments, **options)
    assert type(raised.value) is error
    assert f"{op}(): " in str(raised.value)


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error"),
    [bad[:-1] for bad in BAD],
    ids=[f"{bad[0]}-{bad[-1]}" for bad in BAD],
)
def test_pytorch_refuses_the_same_arguments(op, arguments, options, error):
    torch = pytest.importorskip("torch")

    def tensor(value):
        return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value

    with pytest.raises(error) as raised:
        getattr(torch.nn.functional, op)(
            *map(tensor, arguments), **{name: tensor(value) for name, value in options.items()}
        )
    assert type(raised.value) is error
