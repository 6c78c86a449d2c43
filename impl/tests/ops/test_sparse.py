"""mm, mv, bmm and sparse.mm with sparse left operands.

Tests: impl._lowerings.sparse_matmul, impl._primitives.sparse_matmul, impl.sparse.mm.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO

import impl
from impl._mode.decide import Action, Alert, Decision
from impl._primitives import sparse_matmul as primitives
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits, bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import spread, whole
from impl.tests.support.programs import XLA_ADDS, run_together
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
