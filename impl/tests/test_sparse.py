"""mm, mv, bmm and sparse.mm with sparse left operands: layouts, dtypes, bits, derivatives."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO, BCSR
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from impl._mode.decide import Action, Alert, Decision
from impl._primitives import sparse_matmul as primitives
from impl.tests._dots import exact
from impl.tests._support import LOWERINGS, assert_same_bits, bits, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")
RNG = np.random.default_rng(0)
#: Enough elements and columns for several panels.
ROWS, HEIGHT, ELEMENTS = 5, 6, 2100
ROW = RNG.integers(0, ROWS - 1, ELEMENTS)
COLUMN = RNG.integers(0, HEIGHT, ELEMENTS)
PLACES = np.stack([ROW, COLUMN], -1).astype(np.int32)


def sum_of(terms, to, size):
    return oracles.panel(np.zeros((size, *terms.shape[1:]), terms.dtype), to, terms)


def dots(a, b):
    terms = np.swapaxes(a * b, 0, 1)
    return oracles.panel(np.zeros((1, len(a)), a.dtype), np.zeros(len(terms), int), terms)[0]


def mm(data, dense):
    return impl.sparse.mm(BCOO((data, PLACES), shape=(ROWS, HEIGHT)), dense)


def test_every_lowering_has_the_bits_of_the_oracle(path):
    data, dense, ct = spread(RNG, ELEMENTS), spread(RNG, (HEIGHT, 3)), spread(RNG, (ROWS, 3))

    @jax.jit
    def all_of(data, dense, ct):
        out, pullback = jax.vjp(mm, data, dense)
        return out, *pullback(ct)

    found = all_of(data, dense, ct)
    wanted = (
        sum_of(data[:, None] * dense[COLUMN], ROW, ROWS),
        dots(ct[ROW], dense[COLUMN]),
        sum_of(data[:, None] * ct[ROW], COLUMN, HEIGHT),
    )
    for out, right in zip(found, wanted, strict=True):
        if path == "off":
            np.testing.assert_allclose(out, right, rtol=1e-4, atol=1e-2)
        else:
            assert_same_bits(out, right)


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize("width", [1, 2100])
def test_the_gradient_of_an_element_adds_panels_of_columns(width):
    row, column = ROW[:9], COLUMN[:9]
    dense, ct = spread(RNG, (HEIGHT, width)), spread(RNG, (ROWS, width))
    # Nothing but zeros with signs: a sum that starts from 0 is 0.
    ct[row[0]], dense[column[0]] = 0, -1

    def by_elements(data):
        return impl.mm(BCOO((data, PLACES[:9]), shape=(ROWS, HEIGHT)), dense)

    (found,) = jax.vjp(by_elements, jnp.zeros(9))[1](ct)
    assert_same_bits(found, dots(ct[row], dense[column]))


def test_more_elements_than_are_read_at_once():
    width = 40  # times elements: more than a CPU reads at a time
    dense, ct = spread(RNG, (HEIGHT, width)), spread(RNG, (ROWS, width))
    (found,) = jax.vjp(lambda d: mm(d, dense), jnp.zeros(ELEMENTS))[1](ct)
    assert_same_bits(found, dots(ct[ROW], dense[COLUMN]))


@pytest.mark.parametrize("dtype", ["bfloat16", "uint8", "complex64"])
@pytest.mark.usefixtures("lowering")
def test_dtypes(dtype):
    data, dense = spread(RNG, ELEMENTS), spread(RNG, (HEIGHT, 3))
    if dtype == "complex64":
        data, dense = data + 1j * data[::-1], dense - 1j * dense[::-1]
        assert data.dtype == dtype
        pairs = [
            sum_of(a[:, None] * b[COLUMN], ROW, ROWS)
            for a in (data.real, data.imag)
            for b in (dense.real, dense.imag)
        ]
        wanted = (pairs[0] - pairs[3]) + 1j * (pairs[1] + pairs[2])
    else:
        if dtype == "uint8":
            data, dense = np.abs(data) + 3, np.abs(dense) + 3
        data, dense = (np.asarray(jnp.asarray(a).astype(dtype)) for a in (data, dense))
        wide = np.float32 if dtype == "bfloat16" else np.int32
        terms = data.astype(wide)[:, None] * dense.astype(wide)[COLUMN]
        wanted = np.asarray(jnp.asarray(sum_of(terms, ROW, ROWS)).astype(dtype))
    assert_same_bits(mm(data, dense), wanted)


def test_the_gradient_of_complex_numbers_is_that_of_a_product():
    data, dense = (exact(RNG, s) + 1j * exact(RNG, s) for s in ((ELEMENTS,), (HEIGHT, 2)))
    ct = exact(RNG, (ROWS, 2)) * 1j + 1
    of_data, of_dense = jax.vjp(mm, data.astype(np.complex64), dense.astype(np.complex64))[1](
        ct.astype(np.complex64)
    )
    np.testing.assert_allclose(of_data, (ct[ROW] * dense[COLUMN]).sum(1))
    right = np.zeros_like(dense)
    np.add.at(right, COLUMN, data[:, None] * ct[ROW])
    np.testing.assert_allclose(of_dense, right)


# Layouts.

MATRIX = np.where(RNG.random((2, 4, 3)) < 0.6, exact(RNG, (2, 4, 3)), np.float32(0))
LAYOUTS = {
    "flat": BCOO.fromdense,
    "batched": lambda x: BCOO.fromdense(x, n_batch=1),
    "all but the columns": lambda x: BCOO.fromdense(x, n_batch=x.ndim - 1),
    "nothing but a batch": lambda x: BCOO.fromdense(x, n_batch=x.ndim),
    "padded": lambda x: BCOO.fromdense(x, nse=30),
    "by row": lambda x: BCSR.fromdense(x, n_batch=x.ndim - 2),
    "by row, padded": lambda x: BCSR.fromdense(x, n_batch=x.ndim - 2, nse=15),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    dense = exact(RNG, (2, 3, 5))
    many, one = (LAYOUTS[layout](jnp.asarray(x)) for x in (MATRIX, MATRIX[0]))

    @jax.jit
    def every(dense):
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

    out = MATRIX @ dense
    *found, there = every(dense)
    slope = 2 * out[0] @ dense[0].T * there
    for got, want in zip(found, (out, out[0], slope), strict=True):
        np.testing.assert_array_equal(got, want)


def test_one_array_of_elements_may_serve_all_of_a_batch():
    data, places = jnp.asarray([[2.0, 3.0]]), jnp.asarray([[[0, 1], [2, 0]]])
    shared = BCOO((data, places), shape=(4, 3, 2))
    dense = exact(RNG, (4, 2, 2))
    assert_same_bits(impl.bmm(shared, dense), shared.todense() @ dense)


def test_concatenated_padding_is_padding_still():
    part = BCOO.fromdense(jnp.asarray(MATRIX[0]), nse=15)
    both = jax.experimental.sparse.bcoo_concatenate([part, part], dimension=0)
    product = impl.mm(both, np.eye(3, dtype=np.float32))
    np.testing.assert_array_equal(product, np.concatenate([MATRIX[0]] * 2))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
def test_indices_of_any_integer(dtype):
    with jax.enable_x64(dtype == "int64"):
        # More rows than the index could count, were they counted through the batch in it.
        shape = (3, 100, 2)
        places = np.array([[2, 99, 1], [0, 0, 0], [2, 99, 1]]).astype(dtype)
        sparse = BCOO((jnp.asarray([2, 3, 4], np.float32), jnp.asarray(places)), shape=shape)
        dense = exact(RNG, (3, 2, 2))
        assert_same_bits(impl.bmm(sparse, dense), sparse.todense() @ dense)


@pytest.mark.parametrize(
    ("shape", "elements", "columns"),
    [((0, 3), 0, 2), ((3, 0), 0, 2), ((3, 2), 0, 2), ((3, 2), 4, 0), ((2, 0, 3), 0, 2)],
)
@pytest.mark.parametrize("layout", [BCOO, BCSR])
def test_nothing_stored_or_nothing_asked(layout, shape, elements, columns):
    batch = shape[:-2]
    data = jnp.ones((*batch, elements))
    if layout is BCOO:
        own = (data, jnp.zeros((*batch, elements, 2), int))
    else:
        own = (data, jnp.zeros((*batch, elements), int), jnp.zeros((*batch, shape[-2] + 1), int))
    sparse = layout(own, shape=shape)
    dense = jnp.ones((*batch, shape[-1], columns))
    product = impl.bmm if batch else impl.sparse.mm
    out, pullback = jax.vjp(
        lambda d, x: product(layout((d, *own[1:]), shape=shape), x), data, dense
    )
    assert_same_bits(out, np.zeros((*shape[:-1], columns), np.float32))
    assert_same_bits(product(sparse, dense), out)
    for gradient, of in zip(pullback(out + 1), (data, dense), strict=True):
        assert_same_bits(gradient, jnp.zeros_like(of))


# Transformations.


@pytest.mark.parametrize(
    ("axes", "way"),
    [
        ((0, None, None), "native"),
        ((None, None, 1), "native"),
        ((None, 0, None), "native"),
        ((0, 0, 0), "seed 1"),
        ((None, None, 0), "xla"),
    ],
)
def test_batches(axes, way):
    arrays = exact(RNG, 7), PLACES[:7], exact(RNG, (HEIGHT, 2))
    each = [
        arrays if not i else (arrays[0] * i, (arrays[1] + i) % ROWS, arrays[2] + i)
        for i in range(3)
    ]
    each = [[one[p] if axes[p] is not None else arrays[p] for p in range(3)] for one in each]
    stacked = [
        arrays[p] if axes[p] is None else np.stack([one[p] for one in each], axes[p])
        for p in range(3)
    ]

    def loss(data, places, dense):
        out = impl.sparse.mm(BCOO((data, places), shape=(ROWS, HEIGHT)), dense)
        return (out**2).sum(), out

    with LOWERINGS[way]():
        pulled = jax.grad(loss, (0, 2), has_aux=True)
        (of_data, of_dense), out = jax.jit(jax.vmap(pulled, axes))(*stacked)
    for i, (data, places, dense) in enumerate(each):
        row, column = places.T
        matrix = np.zeros((ROWS, HEIGHT), np.float32)
        np.add.at(matrix, (row, column), data)
        slope = 2 * matrix @ dense
        np.testing.assert_array_equal(out[i], matrix @ dense)
        np.testing.assert_array_equal(of_data[i], (slope[row] * dense[column]).sum(1))
        np.testing.assert_array_equal(of_dense[i], matrix.T @ slope)


def test_derivatives_of_every_order():
    data, dense = RNG.normal(size=4), RNG.normal(size=(HEIGHT, 2))
    places = np.array([[0, 1], [4, 5], [0, 1], [3, 0]])

    def product(data, dense):
        return jnp.sin(impl.mm(BCOO((data, places), shape=(ROWS, HEIGHT)), dense))

    with jax.enable_x64(True):
        check_grads(product, (data, dense), order=2, rtol=1e-4)
        plain, kept = (
            jax.jit(jax.grad(lambda *a, f=f: f(*a).sum(), (0, 1)))(data, dense)
            for f in (product, jax.checkpoint(product))
        )
    for a, b in zip(plain, kept, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("way", ["native", "xla"])  # Pallas' interpreter knows nothing of shards
def test_shards(way):
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    data, dense = exact(RNG, (1, 9)), exact(RNG, (HEIGHT, 2))

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(PartitionSpec("x"), PartitionSpec()),
        out_specs=PartitionSpec("x"),
    )
    def product(data, dense):
        return impl.mm(BCOO((data[0], PLACES[:9]), shape=(ROWS, HEIGHT)), dense)

    alone = BCOO((jnp.asarray(data[0]), jnp.asarray(PLACES[:9])), shape=(ROWS, HEIGHT)).todense()
    with LOWERINGS[way]():
        out, pullback = jax.vjp(jax.jit(product), data, dense)
        of_data, of_dense = pullback(jnp.ones_like(out))
    assert_same_bits(out, alone @ dense)
    assert_same_bits(of_data, dense.sum(1)[COLUMN[:9]][None])
    assert_same_bits(of_dense, np.asarray(alone).sum(0)[:, None] + np.zeros_like(dense))


# What it costs, and what it is.


def both_ways(data, places, dense):
    def product(data, dense):
        return impl.mm(BCOO((data, places), shape=(ROWS, HEIGHT)), dense)

    out, pullback = jax.vjp(product, data, dense)
    return out, pullback(out)


@pytest.mark.parametrize("on", [True, False])
def test_no_array_has_a_row_for_each_element(on):
    # 2100 elements and 48 columns are in no other shape.
    arrays = spread(RNG, ELEMENTS), PLACES, spread(RNG, (HEIGHT, 48))
    with impl.deterministic(on, profile="complete"):
        text = impl.testing.lower(both_ways, *arrays).as_text()
        many = (jax.ShapeDtypeStruct((20 * len(a), *a.shape[1:]), a.dtype) for a in arrays[:2])
        compiled = jax.jit(both_ways).lower(*many, arrays[2]).compile()
    name = "scatter_add_ordered_fold" if on else "scatter_add_atomic"
    assert len(re.findall(f'name = "{name}"', text)) == 2
    assert "2100" in text
    assert not re.search(r"2100x(1x)?48x", text)
    assert compiled.memory_analysis().temp_size_in_bytes < 20 * ELEMENTS * 48 * 4 / 4


def test_without_the_mode_a_schedule_changes_bits():
    data, dense = spread(RNG, ELEMENTS), spread(RNG, (HEIGHT, 1))
    found = []
    for seed in (1, 2):
        with impl.deterministic(False), impl.testing.schedule(seed):
            found.append(jax.jit(mm)(data, dense))
        wanted = sum_of(data[:, None] * dense[COLUMN], ROW, ROWS)
        np.testing.assert_allclose(found[-1], wanted, rtol=1e-4, atol=1e-2)
    assert bits(found[0]) != bits(found[1])


def test_a_gradient_says_what_its_decision_says():
    alert = Alert("raise", "somebody", "R1", "complete")
    pullback = Decision(actions=(("cuda", Action(alert=alert)),))

    def total(data, dense):
        places = PLACES.T[:, None, :]
        options = {"size": ROWS, "decision": Decision(), "pullback": pullback}
        return primitives.sparse_matmul(data, *places, dense, **options).sum()

    arrays = jnp.ones((1, ELEMENTS)), jnp.ones((1, HEIGHT, 2))
    impl.testing.lower(total, *arrays)
    for wrt in (0, 1):
        with pytest.raises(RuntimeError, match="somebody does not have"):
            impl.testing.lower(jax.grad(total, wrt), *arrays)
