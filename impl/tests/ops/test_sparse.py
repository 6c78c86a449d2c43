"""mm, mv, bmm and sparse.mm with sparse left operands, and their layouts.

Tests: impl._lowerings.sparse_matmul, impl._primitives.sparse_matmul, impl.sparse.mm.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO, BCSR, bcoo_concatenate

import impl
from impl._mode.decide import Action, Alert, Decision
from impl._primitives import sparse_matmul as primitives
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits, bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import spread, whole
from impl.tests.support.programs import XLA_ADDS, run_together
from impl.tests.support.refusals import BadArgumentsUnlikeTorch, Call
from impl.tests.support.sums import in_order

pytestmark = pytest.mark.usefixtures("complete")
RNG = np.random.default_rng(0)
#: Many elements for each destination.
ROWS, HEIGHT, ELEMENTS = 5, 6, 2100
ROW = RNG.integers(0, ROWS - 1, ELEMENTS)
COLUMN = RNG.integers(0, HEIGHT, ELEMENTS)
POSITIONS = np.stack([ROW, COLUMN], -1).astype(np.int32)


def sum_of(terms, destination, size):
    """Adds terms by their destination, by the oracle."""
    return in_order(np.zeros((size, *terms.shape[1:]), terms.dtype), destination, terms)


def dots(a, b):
    """Multiplies rows and adds up each of them, by the oracle."""
    terms = np.swapaxes(a * b, 0, 1)
    return in_order(np.zeros((1, len(a)), a.dtype), np.zeros(len(terms), int), terms)[0]


def matrix(data, positions=POSITIONS):
    return BCOO((data, positions), shape=(ROWS, HEIGHT))


def mm(data, dense):
    return impl.sparse.mm(matrix(data), dense)


# Bits.


#: Elements of [4, 6], two of one position, and one past the edge, as BCOO pads.
FEW = np.array([[3, 5], [0, 1], [3, 5], [0, 0], [4, 6], [1, 2]], np.int32)


@pytest.mark.parametrize("name", ["native", "kernel"])
def test_elements_are_added_in_stored_order(name, rng):
    data, dense, ct = spread(rng, 6), spread(rng, (6, 3)), spread(rng, (4, 3))
    inside = FEW[:, 0] < 4
    row, column = FEW[inside].T

    @jax.jit
    def products(data, positions, dense, ct):
        sparse = BCOO((data, positions), shape=(4, 6))
        twice = BCOO((jnp.stack([data] * 2), jnp.stack([positions] * 2)), shape=(2, 4, 6))
        out, pullback = jax.vjp(
            lambda data, dense: impl.mm(BCOO((data, positions), shape=(4, 6)), dense), data, dense
        )
        return (
            out,
            impl.mv(sparse, dense[:, 0]),
            impl.bmm(twice, jnp.stack([dense] * 2)),
            *pullback(ct),
        )

    with LOWERINGS[name]():
        results = products(data, FEW, dense, ct)
        product = sum_of(data[inside, None] * dense[column], row, 4)
        of_data = np.zeros_like(data)
        of_data[inside] = dots(ct[row], dense[column])
        of_dense = sum_of(data[inside, None] * ct[row], column, 6)
    wanted = product, product[:, 0], np.stack([product] * 2), of_data, of_dense
    assert_all_same_bits(results, wanted)


@pytest.mark.usefixtures("lowering")
def test_the_gradient_of_an_element_adds_columns(rng):
    row, column, calls, wanted = ROW[:9], COLUMN[:9], {}, {}

    def by_elements(data, dense, ct):
        return jax.vjp(lambda d: impl.mm(matrix(d, POSITIONS[:9]), dense), data)[1](ct)[0]

    for width in (1, 2100):
        dense, ct = spread(rng, (HEIGHT, width)), spread(rng, (ROWS, width))
        # Nothing but zeros with signs: a sum that starts from 0 is 0.
        ct[row[0]], dense[column[0]] = 0, -1
        calls[f"width {width}"] = by_elements, np.zeros(9, np.float32), dense, ct
        wanted[f"width {width}"] = dots(ct[row], dense[column])
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


def test_more_elements_than_are_read_at_once(rng):
    width = 40  # The number of elements times this is more than a CPU reads at a time.
    dense, ct = spread(rng, (HEIGHT, width)), spread(rng, (ROWS, width))
    gradient = jax.jit(
        lambda dense, ct: jax.vjp(lambda d: mm(d, dense), jnp.zeros(ELEMENTS))[1](ct)
    )
    assert_same_bits(gradient(dense, ct)[0], dots(ct[ROW], dense[COLUMN]))


@pytest.mark.usefixtures("lowering")
def test_dtypes(rng):
    data, dense = spread(rng, ELEMENTS), spread(rng, (HEIGHT, 3))
    calls, wanted = {}, {}
    for dtype in (jnp.bfloat16, np.uint8):
        values = (np.abs(a) + 3 if dtype is np.uint8 else a for a in (data, dense))
        a, b = (value.astype(dtype) for value in values)
        wide = np.float32 if dtype is jnp.bfloat16 else np.int32
        terms = a.astype(wide)[:, None] * b.astype(wide)[COLUMN]
        calls[dtype.__name__] = mm, a, b
        wanted[dtype.__name__] = sum_of(terms, ROW, ROWS).astype(dtype)
    a, b = data + 1j * data[::-1], dense - 1j * dense[::-1]
    assert a.dtype == np.complex64
    parts = [
        sum_of(x[:, None] * y[COLUMN], ROW, ROWS)
        for x in (a.real, a.imag)
        for y in (b.real, b.imag)
    ]
    calls["complex64"] = mm, a, b
    wanted["complex64"] = (parts[0] - parts[3]) + 1j * (parts[1] + parts[2])
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


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


# Transformations in other lowerings.


# Memory, schedules, and alerts.


def product_and_gradients(data, positions, dense):
    out, pullback = jax.vjp(
        lambda data, dense: impl.mm(matrix(data, positions), dense), data, dense
    )
    return out, pullback(out)


@pytest.mark.parametrize("on", [True, False])
def test_no_array_has_a_row_for_each_element(on, rng):
    # 2100 elements and 48 columns are in no other shape.
    arrays = spread(rng, ELEMENTS), POSITIONS, spread(rng, (HEIGHT, 48))
    with impl.deterministic(on, profile="complete"):
        text = impl.testing.lower(product_and_gradients, *arrays).as_text()
        many = (jax.ShapeDtypeStruct((20 * len(a), *a.shape[1:]), a.dtype) for a in arrays[:2])
        compiled = jax.jit(product_and_gradients).lower(*many, arrays[2]).compile()
    assert "2100" in text
    # The updates of XLA's scatter have such a shape; XLA computes them where it adds them.
    if not on and not XLA_ADDS:
        assert len(re.findall('name = "scatter_add_atomic"', text)) == 2
        assert not re.search(r"2100x(1x)?48x", text)
    assert compiled.memory_analysis().temp_size_in_bytes < 20 * ELEMENTS * 48 * 4 / 4


def test_without_the_mode_a_schedule_changes_bits(rng):
    data, dense = spread(rng, ELEMENTS), spread(rng, (HEIGHT, 1))
    want = sum_of(data[:, None] * dense[COLUMN], ROW, ROWS)
    run, seed, results = jax.jit(mm), impl.testing.Seed(), []
    for seed.value in (1, 2):
        with impl.deterministic(False), impl.testing.schedule(seed):
            results.append(bits(run(data, dense)))
            np.testing.assert_allclose(run(data, dense), want, rtol=1e-4, atol=1e-2)
    assert results[0] != results[1]


def test_a_gradient_gives_the_alert_of_its_decision():
    alert = Alert("raise", "somebody", "R1", "complete")
    pullback = Decision(actions=(("cuda", Action(alert=alert)),))

    def total(data, dense):
        rows_and_columns = POSITIONS.T[:, None, :]
        options = {"size": ROWS, "decision": Decision(), "pullback": pullback}
        return primitives.sparse_matmul(data, *rows_and_columns, dense, **options).sum()

    arrays = jnp.ones((1, ELEMENTS)), jnp.ones((1, HEIGHT, 2))
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


def test_a_batch_may_be_sparse_too(rng):
    positions = np.array([[1, 2, 0], [0, 1, 1], [1, 2, 0]], np.int32)
    sparse = BCOO((np.array([2, 3, 4], np.float32), positions), shape=(2, 3, 2))
    dense = whole(rng, (2, 2, 4))
    assert_same_bits(impl.bmm(sparse, dense), sparse.todense() @ dense)


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


COO = coo([[0, 2], [1, 0]])


CSR = csr([2, 0], [0, 1, 2])


HYBRID = BCOO((jnp.asarray(D[:1, :3]), jnp.asarray(np.zeros((1, 1), np.int32))), shape=(2, 3))
MANY = coo([[[0, 2]], [[1, 0]]], (2, 2, 3))


UNLIKE_TORCH: list[Call] = [
    ("sparse.mm", (D.T, D), TypeError, "'mat1' must be a jax.experimental.sparse.BCOO"),
    ("sparse.mm", ([1.0], D), TypeError, "or BCSR, not list; mm takes dense matrices"),
    ("sparse.mm", (COO, [1.0]), TypeError, "argument 'mat2' must be a jax.Array"),
    ("sparse.mm", (COO, COO), TypeError, "argument 'mat2' must be a jax.Array"),
    ("sparse.mm", (COO, D[0]), RuntimeError, "mat2 must be a matrix, but got shape [4]"),
    ("sparse.mm", (MANY, D), RuntimeError, "mat1 must be a matrix, but got shape [2, 2, 3]"),
    ("sparse.mm", (COO, D.T), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3"),
    ("sparse.mm", (CSR, D.astype(np.float16)), RuntimeError, "expected mat1 and mat2 to have"),
    ("sparse.mm", (COO, D.astype(int)), RuntimeError, "float32 != int"),
    ("sparse.mm", (coo([[0, 0]], dtype=bool), D > 0), NotImplementedError, "implemented for bool"),
    ("sparse.mm", (HYBRID, D), RuntimeError, "mat1 must have 0 dense dims, but has 1"),
    ("mv", (HYBRID, D[:, 0]), RuntimeError, "input must have 0 dense dims, but has 1"),
    ("mv", (CSR, D[:2, 0]), RuntimeError, "size mismatch, got input (2x3), vec (2)"),
    ("mm", (CSR, D.T), RuntimeError, "mat2 shapes cannot be multiplied (2x3 and 4x3)"),
    ("bmm", (COO, D[None]), RuntimeError, "must have three dimensions, but got shape [2, 3]"),
    ("bmm", (MANY, D[None]), RuntimeError, "of mat2 to be: [2, 3] but got: [1, 3]"),
    (
        "mm",
        (coo([[0, 0], [1, -1]]), D),
        RuntimeError,
        "with size 3, at position [1, 1] of the indices of 'input'; allowed are 0 to 2, and 3 for",
    ),
    ("sparse.mm", (coo([[3, 0]]), D), RuntimeError, "3 is out of bounds for dimension 0"),
    ("mv", (csr([4, 0], [0, 1, 2]), D[:, 0]), RuntimeError, "index 4 is out of bounds for dim"),
    ("mm", (csr([-1, 0], [0, 1, 2]), D), RuntimeError, "-1 is out of bounds for dimension 1"),
    ("mm", (csr([0, 0], [1, 1, 2]), D), RuntimeError, "indptr of 'input' must start with 0"),
    ("mm", (csr([0, 0], [0, 2, 1]), D), RuntimeError, "never fall, and end with at most"),
    ("mm", (csr([0, 0], [0, 1, 3]), D), RuntimeError, "elements, 2, but got [0, 1, 3]"),
    (
        "bmm",
        (coo([[[0, 2]], [[1, 5]]], (2, 2, 3)), np.ones((2, 3, 1), np.float32)),
        RuntimeError,
        "index 5 is out of bounds for dimension 2 with size 3, at position [1, 0, 1]",
    ),
]


class TestBadArguments(BadArgumentsUnlikeTorch):
    unlike_torch = UNLIKE_TORCH


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
