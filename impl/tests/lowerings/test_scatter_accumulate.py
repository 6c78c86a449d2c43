"""Scatter-accumulate by every lowering, against the oracle of the panel order."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core import reductions, replicas
from impl._kernels.launch import Launch
from impl._lowerings import scatter_accumulate, scatter_accumulate_cpu
from impl.tests.lowerings._contributions import KINDS, contributions, in_panel_order
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread

COMBINE = {"add": np.add, "mul": np.multiply}

ORDERED = {
    "cpu": scatter_accumulate_cpu.ordered_cpu,
    "xla": scatter_accumulate.ordered_xla,
    "kernel": functools.partial(
        scatter_accumulate.ordered_kernel, launch=Launch(interpret=True, seed=1)
    ),
}
ATOMIC = {
    "xla": scatter_accumulate.atomic_xla,
    "kernel": functools.partial(scatter_accumulate.atomic_kernel, launch=Launch(interpret=True)),
}


@pytest.mark.parametrize(
    ("kind", "by"), [*((kind, "add") for kind in KINDS), ("shared", "mul"), ("own", "mul")]
)
@pytest.mark.parametrize("name", ORDERED)
def test_indices_of_all_lanes_and_of_each(name, kind, by):
    args = contributions(2, 5, 3, 3100, kind=kind, near_one=by == "mul")
    reduction = {"add": reductions.ADD, "mul": reductions.MUL}[by]
    got = jax.jit(functools.partial(ORDERED[name], reduction=reduction))(*args)
    assert_same_bits(got, in_panel_order(*args, COMBINE[by]))


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("name", ORDERED)
def test_updates_with_several_weights(name, outer):
    operand, indices, updates = contributions(outer, 5, 3, 3100, kind="rows")
    updates, weights = updates[:, :775], spread(np.random.default_rng(0), (outer, 3100))
    got = jax.jit(functools.partial(ORDERED[name], reduction=reductions.ADD))(
        operand, indices, updates, weights=weights
    )
    products = np.repeat(updates, 4, axis=1) * weights[:, :, None]
    assert_same_bits(got, in_panel_order(operand, indices, products, np.add))


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
    """As many keys are sorted as there are indices, not as there are contributions."""
    args = contributions(2, 5, 64, 100, kind="rows")
    ordered = functools.partial(scatter_accumulate.ordered_xla, reduction=reductions.ADD)
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
