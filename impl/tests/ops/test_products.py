"""mm, mv, bmm and sparse.mm: sparse left operands and their layouts, and dense operands.

Tests: impl.sparse.mm.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO, BCSR, bcoo_concatenate

import impl
from impl._mode.decide import Action, Alert, Decision
from impl.ops import _products
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.numbers import whole
from impl.tests.support.programs import run_together

pytestmark = pytest.mark.usefixtures("complete")
RNG = np.random.default_rng(0)
#: Many elements for each destination.
ROWS, HEIGHT, ELEMENTS = 5, 6, 2100
ROW = RNG.integers(0, ROWS - 1, ELEMENTS)
COLUMN = RNG.integers(0, HEIGHT, ELEMENTS)
POSITIONS = np.stack([ROW, COLUMN], -1).astype(np.int32)


def matrix(data, positions=POSITIONS):
    return BCOO((data, positions), shape=(ROWS, HEIGHT))


def mm(data, dense):
    return impl.sparse.mm(matrix(data), dense)


def test_dtypes(rng):
    # Whole numbers have one sum in every order.
    data, dense = whole(rng, ELEMENTS, 2), whole(rng, (HEIGHT, 3), 2)
    calls, wanted = {}, {}
    for dtype in ("bfloat16", "float32", "uint8", "complex64"):
        a, b = data.astype(dtype), dense.astype(dtype)
        if dtype == "complex64":
            a, b = a + 1j * data[::-1], b - 1j * dense[::-1]
        total = np.zeros((ROWS, 3), np.complex128)
        np.add.at(total, ROW, a.astype(np.complex128)[:, None] * b.astype(np.complex128)[COLUMN])
        calls[dtype] = mm, a, b
        total = total if dtype == "complex64" else total.real
        wanted[dtype] = (total.astype(np.int64) if dtype == "uint8" else total).astype(dtype)
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


def test_padding_adds_nothing_to_a_row_with_infinities():
    positions = np.array([[0, 0], [2, 3]], np.int32)  # The second one is padding.
    dense, ct = np.full((3, 2), np.inf, np.float32), np.full((2, 2), np.inf, np.float32)
    data = np.array([1, np.nan], np.float32)

    @jax.jit
    def run(data, dense, ct):
        def product(data, dense):
            return impl.mm(BCOO((data, positions), shape=(2, 3)), dense)

        out, pullback = jax.vjp(product, data, dense)
        return out, *pullback(ct)

    out, of_data, of_dense = run(data, dense, ct)
    assert_same_bits(out, np.array([[np.inf] * 2, [0] * 2], np.float32))
    assert_same_bits(of_data, np.array([np.inf, 0], np.float32))
    assert_same_bits(of_dense, np.array([[np.inf] * 2, [0] * 2, [0] * 2], np.float32))


def test_the_gradient_of_complex_numbers_is_that_of_a_product(rng):
    data, dense = (whole(rng, s) + 1j * whole(rng, s) for s in ((ELEMENTS,), (HEIGHT, 2)))
    ct = whole(rng, (ROWS, 2)) * 1j + 1
    of_data, of_dense = jax.jit(lambda data, dense, ct: jax.vjp(mm, data, dense)[1](ct))(
        data.astype(np.complex64), dense.astype(np.complex64), ct.astype(np.complex64)
    )
    np.testing.assert_allclose(of_data, (ct[ROW] * dense[COLUMN]).sum(1))
    right = np.zeros_like(dense)
    np.add.at(right, COLUMN, data[:, None] * ct[ROW])
    np.testing.assert_allclose(of_dense, right)


def test_a_gradient_gives_the_alert_of_its_decision(monkeypatch):
    alert = Alert("raise", "somebody", "R1", "complete")
    pullback = Decision(actions=(("cuda", Action(alert=alert)),))
    decisions = {(): Decision(), ("backward",): pullback}
    monkeypatch.setattr(_products, "decide", lambda _, *direction, **__: decisions[direction])

    def total(data, dense):
        return mm(data, dense).sum()

    arrays = jnp.ones(ELEMENTS), jnp.ones((HEIGHT, 2))
    impl.testing.lower(total, *arrays)
    for argument in (0, 1):
        with pytest.raises(RuntimeError, match="somebody does not have"):
            impl.testing.lower(jax.grad(total, argument), *arrays)


DENSE = np.where(RNG.random((2, 4, 3)) < 0.6, whole(RNG, (2, 4, 3)), np.float32(0))


def _stored(x, n_batch):
    """Returns the number of elements to store for each index of the batch dimensions."""
    return int(np.count_nonzero(x, axis=tuple(range(n_batch, x.ndim))).max())


def _coo(x, n_batch=0, nse=None):
    return functools.partial(BCOO.fromdense, n_batch=n_batch, nse=nse or _stored(x, n_batch))


def _csr(x, nse=None):
    n_batch = x.ndim - 2
    return functools.partial(BCSR.fromdense, n_batch=n_batch, nse=nse or _stored(x, n_batch))


#: For each layout a function that makes it, for an array of its shape.
LAYOUTS = {
    "flat": _coo,
    "batched": lambda x: _coo(x, 1),
    "all but the columns": lambda x: _coo(x, x.ndim - 1),
    "nothing but a batch": lambda x: _coo(x, x.ndim, 1),
    "padded": lambda x: _coo(x, nse=30),
    "by row": _csr,
    "by row, padded": lambda x: _csr(x, 15),
}


def test_layouts(rng):
    dense = whole(rng, (2, 3, 5))
    # In two programs, so that the second one has constant indices, which the ops check.
    makers = {name: (layout(DENSE), layout(DENSE[0])) for name, layout in LAYOUTS.items()}
    layouts = jax.jit(
        lambda x: {name: (many(x), one(x[0])) for name, (many, one) in makers.items()}
    )(DENSE)

    def calls(many, one, dense):
        def stored(data):
            return type(one)((data, *one._bufs[1:]), shape=one.shape)

        def squared(data):
            return (impl.mm(stored(data), dense[0]) ** 2).sum()

        return (
            impl.bmm(many, dense),
            impl.mm(one, dense[0]),
            stored(jax.grad(squared)(one.data)).todense(),
            stored(jnp.ones_like(one.data)).todense(),
        )

    results = jax.jit(lambda dense: {name: calls(*pair, dense) for name, pair in layouts.items()})(
        dense
    )
    out = DENSE @ dense
    for name, (*got, is_stored) in results.items():
        slope = 2 * out[0] @ dense[0].T * is_stored
        for value, want in zip(got, (out, out[0], slope), strict=True):
            np.testing.assert_array_equal(value, want, err_msg=name)


def test_one_array_of_elements_may_serve_all_of_a_batch(rng):
    shared = BCOO((np.array([[2, 3]], np.float32), np.array([[[0, 1], [2, 0]]])), shape=(4, 3, 2))
    dense = whole(rng, (4, 2, 2))
    assert_same_bits(impl.bmm(shared, dense), shared.todense() @ dense)


def test_concatenated_padding_is_padding_still():
    part = BCOO.fromdense(jnp.asarray(DENSE[0]), nse=15)
    both = bcoo_concatenate([part, part], dimension=0)
    product = impl.mm(both, np.eye(3, dtype=np.float32))
    np.testing.assert_array_equal(product, np.concatenate([DENSE[0]] * 2))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
def test_indices_of_any_integer(dtype, rng):
    # int8 counts the 100 rows of one matrix, and not the 300 rows of the batch.
    shape, elements = (3, 100, 2), np.array([2, 3, 4], np.float32)
    positions = np.array([[2, 99, 1], [0, 0, 0], [2, 99, 1]]).astype(dtype)
    dense, full = whole(rng, (3, 2, 2)), np.zeros((3, 100, 2), np.float32)
    np.add.at(full, tuple(positions.T.astype(int)), elements)
    with jax.enable_x64(dtype == "int64"):
        sparse = BCOO((elements, positions), shape=shape)
        assert_same_bits(jax.jit(lambda x: impl.bmm(sparse, x))(dense), full @ dense)


@pytest.mark.parametrize("layout", [BCOO, BCSR])
def test_nothing_is_stored_or_nothing_asked(layout):
    cases = [((0, 3), 0, 2), ((3, 0), 0, 2), ((3, 2), 0, 2), ((3, 2), 4, 0), ((2, 0, 3), 0, 2)]
    calls = {}
    for shape, elements, columns in cases:
        batch = shape[:-2]
        if layout is BCOO:
            indices = (np.zeros((*batch, elements, 2), int),)
        else:
            starts = np.zeros((*batch, shape[-2] + 1), int)
            indices = np.zeros((*batch, elements), int), starts
        product = impl.bmm if batch else impl.sparse.mm

        def both(data, dense, indices=indices, shape=shape, product=product):
            out, pullback = jax.vjp(
                lambda data, dense: product(layout((data, *indices), shape=shape), dense),
                data,
                dense,
            )
            return out, *pullback(out + 1)

        arrays = np.ones((*batch, elements)), np.ones((*batch, shape[-1], columns))
        name = f"{shape}, {elements} elements, {columns} columns"
        calls[name] = both, *(array.astype(np.float32) for array in arrays)
    for name, (out, *gradients) in run_together(calls).items():
        _, data, dense = calls[name]
        shape = (*dense.shape[:-2], out.shape[-2], dense.shape[-1])
        assert_same_bits(out, np.zeros(shape, np.float32), name)
        assert_all_same_bits(gradients, [np.zeros_like(data), np.zeros_like(dense)], name)


def coo(positions, shape=(2, 3), dtype=np.float32):
    elements = np.ones(np.shape(positions)[:-1], dtype)
    return BCOO((elements, np.array(positions, np.int32)), shape=shape)


def csr(columns, starts, shape=(2, 3)):
    elements = np.ones(np.shape(columns), np.float32)
    return BCSR((elements, np.array(columns, np.int32), np.array(starts, np.int32)), shape=shape)


D = np.ones((3, 4), np.float32)


@pytest.mark.usefixtures("lowering")
def test_elements_out_of_range_are_dropped_under_jit():
    bad = {
        "too large": coo([[1, 0], [-1, 0], [0, -1], [5, 0], [0, 7], [1, 1]]),
        "too small": coo([[1, 0], [-2, 2], [-2, -3], [2, 3], [2**31 - 1, 0], [1, 1]]),
        "by row": csr([-1, 0, 1, -3, 3, 99], [0, 1, 3, 6], (3, 3)),
    }
    # No NaN enters a result, although one is in each row that a bad index could read.
    dense = np.array([[1, 2], [3, 4], [np.nan, np.nan]], np.float32)

    def both(sparse, dense):
        def product(data, dense):
            return impl.sparse.mm(
                type(sparse)((data, *sparse._bufs[1:]), shape=sparse.shape), dense
            )

        out, pullback = jax.vjp(product, sparse.data, dense)
        return out, *pullback(jnp.ones_like(out))

    results = run_together({name: (both, sparse, dense) for name, sparse in bad.items()})
    for name, (out, of_data, of_dense) in results.items():
        want = np.zeros((bad[name].shape[0], 2), np.float32)
        want[1] = 4, 6
        assert_same_bits(out, want, name)
        inside = np.isin(np.arange(6), [1, 2] if name == "by row" else [0, 5])
        gradient = np.where(inside, [3] + [3, 7] * 2 + [7], 0).astype(np.float32)
        assert_same_bits(of_data, gradient, name)
        assert_same_bits(of_dense, np.array([[1, 1], [1, 1], [0, 0]], np.float32), name)


def test_starts_out_of_range_under_jit_do_no_harm():
    out = jax.jit(impl.mm)(csr([0, 1], [-5, 1, 9]), D)
    assert out.shape == (2, 4)
    assert float(out.max()) <= 2


# Dense operands.


def test_precision_is_the_callers_and_else_full():
    x = np.ones((2, 2), np.float32)
    assert "HIGHEST" in str(jax.make_jaxpr(impl.mm)(x, x))
    with jax.default_matmul_precision("tensorfloat32"):
        assert "precision=(Precision.HIGH, Precision.HIGH)" in str(jax.make_jaxpr(impl.mm)(x, x))
