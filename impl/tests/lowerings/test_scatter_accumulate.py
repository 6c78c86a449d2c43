"""Scatter-accumulate by every lowering, against the oracles of its orders.

Tests: impl._lowerings.scatter_accumulate_exact, impl._lowerings.scatter_accumulate_ordered.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._families import reductions, replicas
from impl._kernels.launch import Launch
from impl._lowerings import (
    scatter_accumulate,
    scatter_accumulate_cpu,
    scatter_accumulate_exact,
    scatter_accumulate_ordered,
)
from impl.tests.lowerings._contributions import (
    KINDS,
    added_exactly,
    added_in_source_order,
    contributions,
    in_panel_order,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread

SCHEDULED = Launch(interpret=True, seed=1).possible()

PRODUCTS = {
    "cpu": scatter_accumulate_cpu.ordered_cpu,
    "xla": scatter_accumulate_ordered.ordered_xla,
    "kernel": functools.partial(scatter_accumulate_ordered.ordered_kernel, launch=SCHEDULED),
}
SUMS = {
    "cpu": scatter_accumulate_exact.exact_cpu,
    "anywhere": scatter_accumulate_exact.exact_anywhere,
    "device": functools.partial(scatter_accumulate_exact.exact_device, launch=SCHEDULED),
}
ATOMIC = {
    "xla": scatter_accumulate.atomic_xla,
    "kernel": functools.partial(
        scatter_accumulate.atomic_kernel, launch=Launch(interpret=True).possible()
    ),
}


def run(function, *args, **options):
    with arithmetic.wide():
        return jax.jit(functools.partial(function, **options))(*args)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SUMS)
def test_exact_sums_by_indices_of_all_lanes_and_of_each(name, kind):
    args = contributions(2, 5, 3, 300, kind=kind)
    assert_same_bits(run(SUMS[name], *args), added_exactly(*args))


@pytest.mark.parametrize("name", SUMS)
def test_an_exact_sum_with_one_destination(name):
    args = contributions(2, 1, 3, 300, kind="rows")
    assert_same_bits(run(SUMS[name], *args), added_exactly(*args))


@pytest.mark.parametrize("kind", ["shared", "own"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_by_indices_of_all_lanes_and_of_each(name, kind):
    args = contributions(2, 5, 3, 3100, kind=kind, near_one=True)
    got = jax.jit(functools.partial(PRODUCTS[name], reduction=reductions.MUL))(*args)
    assert_same_bits(got, in_panel_order(*args, np.multiply))


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("name", [*SUMS, "source"])
def test_updates_with_several_weights(monkeypatch, name, outer):
    # With a limit of 64 panel results, a CPU computes the products in several parts.
    monkeypatch.setattr(scatter_accumulate_cpu, "_PANEL_RESULTS", 64)
    operand, indices, updates = contributions(outer, 5, 3, 300, kind="rows")
    updates, weights = updates[:, :75], spread(np.random.default_rng(0), (outer, 300))
    products = np.repeat(updates, 4, axis=1) * weights[:, :, None]
    if name == "source":
        function = functools.partial(scatter_accumulate_cpu.source_cpu, reduction=reductions.ADD)
        want = added_in_source_order(operand, indices, products)
    else:
        function, want = SUMS[name], added_exactly(operand, indices, products)
    assert_same_bits(run(function, operand, indices, updates, weights=weights), want)


@pytest.mark.parametrize("name", ATOMIC)
def test_atomics_of_updates_with_several_weights(name):
    operand, indices, updates = contributions(2, 5, 3, 300, kind="rows")
    updates, weights = updates[:, :75], spread(np.random.default_rng(0), (2, 300))
    got = jax.jit(functools.partial(ATOMIC[name], reduction=reductions.ADD))(
        operand, indices, updates, weights=weights
    )
    products = np.repeat(updates, 4, axis=1) * weights[:, :, None]
    np.testing.assert_allclose(
        got, in_panel_order(operand, indices, products, np.add), rtol=1e-4, atol=1e-3
    )


def test_rows_of_lanes_are_sorted_by_row():
    """The sort has one key for each index, not one for each contribution."""
    args = contributions(2, 5, 64, 100, kind="rows")
    ordered = functools.partial(scatter_accumulate_ordered.ordered_xla, reduction=reductions.ADD)
    assert "[200] = sort[" in str(jax.make_jaxpr(ordered)(*map(jnp.asarray, args)))


@pytest.mark.parametrize("kind", KINDS)
def test_integers_with_replicas(monkeypatch, kind):
    monkeypatch.setattr(replicas, "_FEW", 8)
    monkeypatch.setattr(replicas, "_SHARE", 1)
    monkeypatch.setattr(replicas, "_SLOTS", 4)
    operand, indices, updates = (x.astype(np.int32) for x in contributions(2, 5, 3, 300, kind=kind))
    got = jax.jit(functools.partial(ATOMIC["kernel"], reduction=reductions.ADD))(
        operand, indices, updates
    )
    assert_same_bits(got, in_panel_order(operand, indices, updates, np.add))


@pytest.mark.once
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=["float16", "bfloat16"])
def test_sums_of_16_bits_with_the_mode_off_are_of_no_wider_arrays(monkeypatch, dtype):
    monkeypatch.setattr(scatter_accumulate, "FLOAT32_HAS_ATOMIC_ADD", True)
    arrays = jnp.ones((1, 5, 2), dtype), jnp.asarray([[[1], [1], [9]]]), jnp.ones((1, 3, 2), dtype)

    def add(*arrays, by=reductions.ADD, launch=None, **options):
        options |= {"reduction": by, "launch": launch or Launch().possible()}
        return scatter_accumulate.atomic_kernel(*arrays, **options)

    assert "f32" not in str(jax.make_jaxpr(add)(*arrays))
    want = jnp.ones((1, 5, 2), dtype).at[0, 1].set(3)
    assert_same_bits(add(*arrays), want)
    assert_same_bits(add(*arrays, launch=SCHEDULED), want)
    # Products are rounded once, as the products of sparse matrices are.
    weights = jnp.ones((1, 3), dtype)
    assert "f32" in str(jax.make_jaxpr(lambda *arrays: add(*arrays, weights=weights))(*arrays))
