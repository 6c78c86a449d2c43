"""embedding and embedding_bag: bad arguments, and what is out of range where nobody knows."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests._support import assert_same_bits

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
W = RNG.standard_normal((5, 3)).astype(np.float32)
INDEX = RNG.integers(0, 5, 10)
NONE = np.zeros(0, np.int64)

ONE, PAIR = np.array([0]), np.array([[0, 1]])
SHORT = np.zeros(1, np.int16)
FLOATS = np.zeros(1, np.float32)

#: op, positional arguments, keywords, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
    ("embedding", (np.array([0, 5]), W), {}, IndexError, "index 5 is out of bounds for a weight"),
    ("embedding", (np.array([[0, -1]]), W), {}, IndexError, "position [0, 1] of argument 'input'"),
    ("embedding", ([0], W), {}, TypeError, "'input' must be"),
    ("embedding", (ONE, [[0.0]]), {}, TypeError, "'weight' must be"),
    ("embedding", (SHORT, W), {}, RuntimeError, "int32/int64 for input but got: int16"),
    ("embedding", (FLOATS, W), {}, RuntimeError, "for input but got: float32"),
    ("embedding", (ONE, W[0]), {}, RuntimeError, "must be 2-D, but got shape [3]"),
    ("embedding", (ONE, W, 5), {}, AssertionError, "-5 through 4, but got 5"),
    ("embedding", (ONE, W, -6), {}, AssertionError, "but got -6"),
    ("embedding", (ONE, W, 1.0), {}, TypeError, "'padding_idx' must be int, not float"),
    ("embedding", (ONE, W, True), {}, TypeError, "'padding_idx' must be int, not bool"),
    ("embedding", (ONE, W, None, "1"), {}, TypeError, "'max_norm' must be Number, not str"),
    ("embedding", (ONE, W, None, 1j), {}, TypeError, "'max_norm' must be float, not complex"),
    ("embedding", (ONE, W, None, 1.0, "2"), {}, TypeError, "'norm_type' must be float, not str"),
    ("embedding", (ONE, W, None, 1.0, None), {}, TypeError, "'norm_type' must be float"),
    ("embedding", (ONE, W.astype(int), None, 1.0), {}, RuntimeError, "got int32"),
    ("embedding", (ONE, W), {"scale_grad_by_freq": 1}, TypeError, "'scale_grad_by_freq' must be"),
    ("embedding", (ONE, W), {"sparse": 1}, TypeError, "'sparse' must be bool, not int"),
    ("embedding_bag", (np.array([0, 5]), W, ONE), {}, RuntimeError, "index 5 is out of bounds"),
    ("embedding_bag", (np.array([[-1]]), W), {}, RuntimeError, "5 rows, at position [0, 0]"),
    ("embedding_bag", (FLOATS, W, ONE), {}, RuntimeError, "for input but got: float32"),
    ("embedding_bag", (ONE, W, FLOATS), {}, RuntimeError, "for offsets but got: float32"),
    ("embedding_bag", (ONE, W[0], ONE), {}, ValueError, "weight has to be 2-D"),
    ("embedding_bag", (ONE, W.astype(int), ONE), {}, RuntimeError, "floats, but got int32"),
    ("embedding_bag", (PAIR, W, ONE), {}, ValueError, "offsets has to be None"),
    ("embedding_bag", (ONE, W), {}, ValueError, "1D array but got None"),
    ("embedding_bag", (ONE, W, PAIR), {}, ValueError, "1D array, but got shape [1, 2]"),
    ("embedding_bag", (np.array(0), W), {}, ValueError, "1D or 2D, but got shape []"),
    ("embedding_bag", (PAIR[None], W), {}, ValueError, "got shape [1, 1, 2]"),
    ("embedding_bag", (ONE, W, np.array([1])), {}, RuntimeError, "offsets[0] has to be 0"),
    ("embedding_bag", (ONE, W, np.array([0, 2])), {}, RuntimeError, "input's length 1 but got"),
    ("embedding_bag", (ONE, W, NONE), {"include_last_offset": True}, RuntimeError, "at least 1"),
    ("embedding_bag", (PAIR, W), {"mode": "min"}, ValueError, "but got 'min'"),
    ("embedding_bag", (PAIR, W), {"mode": 1}, ValueError, "one of sum, mean or max"),
    ("embedding_bag", (PAIR, W), {"mode": "max", "sparse": True}, ValueError, "sparse weights"),
    (
        "embedding_bag",
        (PAIR, W),
        {"mode": "max", "scale_grad_by_freq": True},
        ValueError,
        "scaling the gradient",
    ),
    (
        "embedding_bag",
        (PAIR, W),
        {"mode": "sum", "per_sample_weights": FLOATS},
        ValueError,
        "per_sample_weights ([1]) must have the same shape as the input ([1, 2])",
    ),
    (
        "embedding_bag",
        (ONE, W, ONE),
        {"mode": "sum", "per_sample_weights": np.ones(1, np.float16)},
        RuntimeError,
        "got float16 and float32",
    ),
    (
        "embedding_bag",
        (ONE, W, ONE),
        {"mode": "mean", "per_sample_weights": FLOATS},
        NotImplementedError,
        "only supported for mode='sum', but got mode='mean'",
    ),
    ("embedding_bag", (PAIR, W), {"padding_idx": 5}, RuntimeError, "-5 through 4, but got 5"),
    ("embedding_bag", (PAIR, W), {"padding_idx": 1.0}, TypeError, "'padding_idx' must be int"),
    ("embedding_bag", (PAIR, W), {"sparse": 0}, TypeError, "'sparse' must be bool, not int"),
    ("embedding_bag", (ONE, W, ONE), {"include_last_offset": 1}, TypeError, "must be bool"),
]

#: As above, where PyTorch does something else: it has other exceptions, or depends on the mode.
OWN: list[tuple[Any, ...]] = [
    ("embedding", (ONE, W[:0]), {}, IndexError, "none is allowed"),
    ("embedding_bag", (SHORT, W, ONE), {}, RuntimeError, "for input but got: int16"),
    ("embedding_bag", (ONE, W, SHORT), {}, RuntimeError, "for offsets but got: int16"),
    ("embedding_bag", (ONE, W, [0]), {}, TypeError, "'offsets' must be"),
    ("embedding_bag", ([0], W, ONE), {}, TypeError, "'input' must be"),
    ("embedding_bag", (INDEX, W, np.array([0, 3, 2])), {}, RuntimeError, "got 2 after 3"),
    ("embedding_bag", (INDEX, W, np.array([0, -1])), {}, RuntimeError, "must ascend"),
    ("embedding_bag", (PAIR, W, None, 1.0, True), {}, TypeError, "'norm_type' must be float"),
]
NAMES = [f"{bad[0]}-{bad[-1]}" for bad in BAD]


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error", "fragment"),
    BAD + OWN,
    ids=NAMES + [f"{bad[0]}-own-{bad[-1]}" for bad in OWN],
)
def test_bad_arguments(op, arguments, options, error, fragment):
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        getattr(F, op)(*arguments, **options)
    assert type(raised.value) is error
    assert f"{op}(): " in str(raised.value)


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error"), [bad[:-1] for bad in BAD], ids=NAMES
)
def test_torch_raises_the_same(op, arguments, options, error):
    torch = pytest.importorskip("torch")

    def tensor(value):
        return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value

    with pytest.raises(error) as raised:
        getattr(torch.nn.functional, op)(
            *map(tensor, arguments), **{name: tensor(value) for name, value in options.items()}
        )
    assert type(raised.value) is error


# Under jit, where values are unknown.


WILD = np.array([3, -1, 0, 5, 3, 12, -5, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (WILD >= 0) & (WILD < 5)


@pytest.mark.usefixtures("path")
def test_rows_out_of_range_are_nan_and_have_no_gradient():
    want = np.where(IN_RANGE[:, None], W[np.where(IN_RANGE, WILD, 0)], np.nan)
    for options in ({}, {"padding_idx": 2, "scale_grad_by_freq": True, "max_norm": 100.0}):
        got = jax.jit(lambda i, w, o=options: F.embedding(i, w, **o))(WILD, W)
        np.testing.assert_array_equal(got, want)
    ct = np.ones((10, 3), np.float32)
    gradient = jax.jit(lambda i, w, ct: jax.vjp(lambda w: F.embedding(i, w), w)[1](ct)[0])
    assert_same_bits(gradient(WILD, W, ct)[:, 0], np.array([1, 1, 0, 2, 0], np.float32))
    gradient = jax.jit(
        lambda i, w, ct: jax.vjp(lambda w: F.embedding(i, w, -2, None, 2.0, True), w)[1](ct)[0]
    )
    assert_same_bits(gradient(WILD, W, ct)[:, 0], np.array([1, 1, 0, 0, 0], np.float32))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.usefixtures("path")
def test_a_bag_with_a_row_out_of_range_is_nan(mode):
    pairs = WILD.reshape(5, 2)
    whole = IN_RANGE.reshape(5, 2).all(1)

    def call(i, w):
        return F.embedding_bag(i, w, mode=mode)

    got, gradient = jax.jit(
        lambda i, w, ct: (call(i, w), jax.vjp(lambda w: call(i, w), w)[1](ct)[0])
    )(pairs, W, np.ones((5, 3), np.float32))
    assert np.isnan(np.asarray(got)).all(1).tolist() == (~whole).tolist()
    assert np.all(np.isfinite(gradient))
    if mode == "sum":
        assert gradient[:, 0].tolist() == [1, 1, 0, 2, 0]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.usefixtures("path")
def test_what_is_in_no_bag_has_no_part(mode):
    # Before the first offset, after the last, and the padding: whatever is there.
    w = W.copy()
    w[4], w[2] = np.nan, np.inf
    i = np.array([4, 2, 0, 1, 2, 3, 4, 2])
    p = np.array([np.inf, np.nan, 2, 2, np.nan, 2, np.inf, np.nan], np.float32)
    weighted = mode == "sum"

    def call(i, w, offsets, p):
        return F.embedding_bag(
            i, w, offsets, mode=mode, per_sample_weights=p if weighted else None,
            include_last_offset=True, padding_idx=2,
        )  # fmt: skip

    @jax.jit
    def both(i, w, offsets, p, ct):
        out, pullback = jax.vjp(lambda w, p: call(i, w, offsets, p), w, p)
        return out, *pullback(ct)

    ct = np.full((2, 3), 3, np.float32)
    out, of_w, of_p = map(np.asarray, both(i, w, np.array([2, 5, 6]), p, ct))
    factor = 2 if weighted else 1
    first = W[:2].max(0) if mode == "max" else W[:2].sum(0) * (0.5 if mode == "mean" else 2)
    np.testing.assert_allclose(out, np.stack([first, W[3] * factor]), rtol=1e-6)
    assert not np.any(of_w[[2, 4]])
    np.testing.assert_allclose(of_w[:2].sum(0), {"sum": 12, "mean": 3, "max": 3}[mode])
    assert of_w[3].tolist() == [3 * factor] * 3
    assert not np.any(of_p[[0, 1, 4, 6, 7]])


def test_a_known_index_is_checked_under_jit_too():
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        jax.jit(lambda w: F.embedding(np.array([5]), w))(W)
    with pytest.raises(RuntimeError, match="must ascend"):
        jax.jit(lambda w: F.embedding_bag(INDEX, w, np.array([0, 3, 2])))(W)


def test_a_wide_index_is_not_narrowed_first():
    wide = np.array([2**32 + 1, 1])
    with pytest.raises(IndexError, match="index 4294967297"):
        F.embedding(wide, W)
    with pytest.raises(RuntimeError, match="index 4294967297"):
        F.embedding_bag(wide[None], W)
    with jax.enable_x64(True):
        got = jax.jit(F.embedding)(wide, W)
        assert np.isnan(np.asarray(got)[:, 0]).tolist() == [True, False]


def test_what_is_known_of_offsets_is_not_needed():
    offsets = jnp.array([0, 3, 3, 8])
    got = jax.jit(lambda o: F.embedding_bag(INDEX, W, o))(offsets)
    assert_same_bits(got, F.embedding_bag(INDEX, W, offsets))
