"""embedding and embedding_bag: values, gradients and dtypes."""

import contextlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests._support import LOWERINGS, assert_same_bits

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
W = RNG.standard_normal((5, 3)).astype(np.float32)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
INDEX = RNG.integers(0, 5, 10)
PAIRS = INDEX.reshape(5, 2)
OFFSETS = np.array([0, 0, 3, 7, 10])
#: The last bag ends before the input does.
ENDS = np.array([0, 2, 2, 8])
SAMPLES = RNG.standard_normal(10).astype(np.float32)


# References, in float64, with gradients.


def bounded(rows, max_norm, order):
    rows = rows.astype(np.result_type(rows, np.float64))
    if max_norm is None:
        return rows
    norm = np.stack([np.linalg.norm(row, order) for row in rows])[:, None]
    return np.where(norm > max_norm, rows * max_norm / (norm + 1e-7), rows)


def embedding(i, w, padding=None, max_norm=None, order=2.0, scaled=False):
    """The result, and a function from its cotangent to the gradient of ``w``."""

    def pullback(ct):
        out = np.zeros(w.shape, np.result_type(w, np.float64))
        np.add.at(out, i, ct)
        if scaled:
            out /= np.maximum(np.bincount(np.ravel(i), minlength=len(w)), 1)[:, None]
        if padding is not None:
            out[padding] = 0
        return out

    return bounded(w, max_norm, order)[i], pullback


def held(i, offsets, include_last, padding, rows):
    """The positions in the flattened input of what each bag holds."""
    if offsets is None:
        offsets, include_last = np.arange(0, i.size, i.shape[1]), False
    ends = offsets[1:] if include_last else [*offsets[1:], i.size]
    flat = i.reshape(-1)
    skipped = None if padding is None else padding % rows
    starts = offsets[:-1] if include_last else offsets
    return [
        [k for k in range(start, end) if flat[k] != skipped]
        for start, end in zip(starts, ends, strict=True)
    ]


def embedding_bag(
    i, w, offsets=None, mode="mean", p=None, include_last=False, padding=None, max_norm=None
):
    """The result, and a function from its cotangent to the gradients of ``w`` and ``p``."""
    rows = bounded(w, max_norm, 2.0)[i.reshape(-1)]
    bags = held(i, offsets, include_last, padding, len(w))
    # How much of each element of each row is in each element of each bag.
    share = np.zeros((len(bags), *rows.shape))
    for share_of_bag, members in zip(share, bags, strict=True):
        for column in range(rows.shape[1] if members else 0):
            if mode == "max":
                best = members[int(np.argmax(rows[members, column]))]
                share_of_bag[best, column] = 1
            else:
                share_of_bag[members, column] = 1 / (len(members) if mode == "mean" else 1)
    weight = np.ones(len(rows)) if p is None else p.reshape(-1).astype(np.float64)

    def pullback(ct):
        each = np.einsum("bd,bnd->nd", ct, share)
        of_w = np.zeros(w.shape)
        np.add.at(of_w, i.reshape(-1), each * weight[:, None])
        return of_w, (each * rows).sum(1).reshape(i.shape)

    return np.einsum("bnd,nd,n->bd", share, rows, weight), pullback


EMBEDDINGS = [
    (RNG.integers(0, 5, shape), padding, max_norm, order, scaled)
    for shape, padding, (max_norm, order), scaled in itertools.product(
        [(), (6,), (2, 3)],
        [None, 0, -2],
        [(None, 2.0), (1.0, 2.0), (1, 1.0), (0.5, np.inf), (1.0, 3.0), (2.0, 0.0), (0.0, 2)],
        [False, True],
    )
    if shape == (2, 3) or (order == 2.0 and max_norm != 0)
]
BAGS = [
    {"offsets": offsets, "mode": mode, "p": p, "include_last": last, "padding": padding,
     "max_norm": norm}
    for (offsets, last), (mode, p), padding, norm in itertools.product(
        [(OFFSETS, False), (ENDS, True), (None, False)],
        [("sum", None), ("sum", SAMPLES), ("mean", None), ("max", None)],
        [None, 1, -5],
        [None, 1.0],
    )
]  # fmt: skip


def shaped(bags):
    """The input of each call, and its other arguments with weights of the input's shape."""
    for given in bags:
        i, p = PAIRS if given["offsets"] is None else INDEX, given["p"]
        yield i, {**given, "p": None if p is None else p.reshape(i.shape)}


def bag(i, w, p, given):
    return F.embedding_bag(
        i,
        w,
        given["offsets"],
        given["max_norm"],
        mode=given["mode"],
        per_sample_weights=p,
        include_last_offset=given["include_last"],
        padding_idx=given["padding"],
    )


def test_embedding_is_the_reference():
    for i, *options in EMBEDDINGS:
        want, reference = embedding(i, W, *options)
        got, pullback = jax.vjp(lambda w, i=i, o=options: F.embedding(i, w, *o), W)
        assert got.dtype == np.float32
        assert got.shape == (*i.shape, 3)
        np.testing.assert_allclose(got, want, err_msg=str(options), **CLOSE)
        ct = RNG.standard_normal(got.shape).astype(np.float32)
        of_w = pullback(jnp.asarray(ct))[0]
        np.testing.assert_allclose(of_w, reference(ct), err_msg=str(options), **CLOSE)


def test_embedding_bag_is_the_reference():
    for i, given in shaped(BAGS):
        want, reference = embedding_bag(i, W, **given)
        got, pullback = jax.vjp(lambda w, p, i=i, g=given: bag(i, w, p, g), W, given["p"])
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, err_msg=str(given), **CLOSE)
        ct = RNG.standard_normal(got.shape).astype(np.float32)
        of_w, of_p = pullback(jnp.asarray(ct))
        np.testing.assert_allclose(of_w, reference(ct)[0], err_msg=str(given), **CLOSE)
        if given["p"] is not None:
            np.testing.assert_allclose(of_p, reference(ct)[1], err_msg=str(given), **CLOSE)


def test_the_references_are_pytorch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    for i, *options in EMBEDDINGS:
        want, pullback = embedding(i, W, *options)
        w = torch.from_numpy(W.copy()).requires_grad_(True) * 1  # PyTorch writes to it
        out = functional.embedding(torch.tensor(i), w, *options)
        ct = RNG.standard_normal(want.shape).astype(np.float32)
        np.testing.assert_allclose(out.detach(), want, err_msg=str(options), **CLOSE)
        of_w = torch.autograd.grad(out, w, torch.tensor(ct))[0]
        np.testing.assert_allclose(of_w, pullback(ct), err_msg=str(options), **CLOSE)
    for i, given in shaped(BAGS):
        if given["include_last"] and given["mode"] != "max":
            # There it divides by other counts, and reads gradients beyond the end of an array.
            continue
        want, pullback = embedding_bag(i, W, **given)
        w = torch.from_numpy(W.copy()).requires_grad_(True) * 1
        p = None if given["p"] is None else torch.tensor(given["p"], requires_grad=True)
        offsets = None if given["offsets"] is None else torch.tensor(given["offsets"])
        out = functional.embedding_bag(
            torch.tensor(i), w, offsets, given["max_norm"], 2, False, given["mode"], False, p,
            given["include_last"], given["padding"],
        )  # fmt: skip
        ct = RNG.standard_normal(want.shape).astype(np.float32)
        np.testing.assert_allclose(out.detach(), want, err_msg=str(given), **CLOSE)
        both = torch.autograd.grad(out, [w] if p is None else [w, p], torch.tensor(ct))
        for got, wanted in zip(both, pullback(ct), strict=False):
            np.testing.assert_allclose(got, wanted, err_msg=str(given), **CLOSE)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_a_bags_gradient_is_divided_by_how_often_a_row_is_read(mode):
    # PyTorch's CPU kernel divides by counts of other rows, so it is no reference here.
    ct = RNG.standard_normal((5, 3)).astype(np.float32)
    pullback = jax.vjp(lambda w: F.embedding_bag(INDEX, w, OFFSETS, None, 2, True, mode), W)[1]
    want = embedding_bag(INDEX, W, OFFSETS, mode)[1](ct)[0]
    want /= np.maximum(np.bincount(INDEX, minlength=5), 1)[:, None]
    np.testing.assert_allclose(pullback(jnp.asarray(ct))[0], want, **CLOSE)


@pytest.mark.parametrize(
    "dtype", [np.float16, jnp.bfloat16, np.int8, np.uint32, bool, np.complex64]
)
def test_dtypes_of_embedding(dtype):
    w = np.array([[1, 0], [0, 1], [120, 3]]).astype(dtype)
    got = F.embedding(np.array([[2, 0]], np.int32), w, padding_idx=0)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, w[[[2, 0]]])


@pytest.mark.parametrize("order", [2.0, 1.0, np.inf])
def test_complex_rows(order):
    w = (W[:, :2] + 1j * W[:, 1:]).astype(np.complex64)
    want, reference = embedding(INDEX, w, 1, 1.0, order, True)
    got, pullback = jax.vjp(lambda w: F.embedding(INDEX, w, 1, 1.0, order, True), w)
    np.testing.assert_allclose(got, want, **CLOSE)
    ct = (W[INDEX][:, :2] - 2j).astype(np.complex64)
    np.testing.assert_allclose(pullback(jnp.asarray(ct))[0], reference(ct), **CLOSE)


def test_x64():
    with jax.enable_x64(True):
        w, p = W.astype(np.float64), SAMPLES.astype(np.float64)
        tight = {"rtol": 1e-13, "atol": 1e-13}
        want = embedding(INDEX, w, None, 1.0)[0]
        np.testing.assert_allclose(F.embedding(INDEX, w, None, 1.0), want, **tight)
        for mode, given in (("sum", p), ("mean", None)):
            got = F.embedding_bag(INDEX, w, OFFSETS, mode=mode, per_sample_weights=given)
            assert got.dtype == np.float64
            np.testing.assert_allclose(
                got, embedding_bag(INDEX, w, OFFSETS, mode, given)[0], **tight
            )


NONE = np.zeros(0, np.int64)


def test_nothing_read():
    got, gradient = jax.value_and_grad(lambda w: F.embedding(NONE, w, 1, 1.0, 2.0, True).sum())(W)
    assert got == 0
    assert not np.any(gradient)
    assert F.embedding(NONE.reshape(0, 2), W).shape == (0, 2, 3)
    assert F.embedding(NONE, W[:0], 0).shape == (0, 3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_without_elements(mode):
    def bags(i, offsets=None, w=W, last=False):
        return F.embedding_bag(i, w, offsets, mode=mode, include_last_offset=last).tolist()

    assert bags(NONE, np.array([0, 0])) == np.zeros((2, 3)).tolist()
    assert bags(NONE, np.array([0]), W[:0]) == [[0, 0, 0]]
    assert bags(np.zeros((2, 0), int)) == np.zeros((2, 3)).tolist()
    assert bags(NONE, NONE) == bags(np.zeros((0, 3), int)) == []
    assert bags(INDEX, np.array([0]), last=True) == []
    assert bags(PAIRS, w=W[:, :0]) == [[]] * 5
    gradient = jax.grad(lambda w: F.embedding_bag(NONE, w, np.array([0, 0]), mode=mode).sum())
    assert not np.any(gradient(W))


def test_the_greatest():
    table = np.array([[1, -0.0], [np.nan, 0.0], [2, -np.inf], [2, -np.inf]], np.float32)

    def greatest(*i):
        return F.embedding_bag(np.array([i]), table, mode="max")[0]

    # Of equal ones the first, its sign included; a NaN is above all, wherever it is.
    assert_same_bits(greatest(2, 0, 3), np.array([2, -0.0], np.float32))
    assert np.signbit(greatest(0, 1)).tolist()[1] is True
    assert np.signbit(greatest(1, 0)).tolist()[1] is False
    for order in itertools.permutations([0, 1, 2]):
        assert np.isnan(greatest(*order)[0])
    assert greatest(3, 2)[1] == -np.inf


@pytest.mark.parametrize("name", ["off", "native", "seed 1"])
def test_the_first_of_equal_ones_has_the_gradient(name):
    table = np.array([[1, 5], [1, 5], [1, np.nan], [0, np.nan]], np.float32)
    with contextlib.ExitStack() as stack:
        if name == "off":
            stack.enter_context(impl.deterministic(False))
        else:
            stack.enter_context(LOWERINGS[name]())
        gradient = jax.grad(
            lambda w: F.embedding_bag(np.array([[3, 2, 1, 0]]), w, mode="max").sum()
        )
        assert gradient(table).tolist() == [[0, 0], [0, 0], [1, 0], [0, 1]]
