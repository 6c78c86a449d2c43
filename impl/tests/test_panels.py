"""Panel order, however the lowerings cut the work: by the sizes of caches, words and buffers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core import reductions
from impl._kernels.triton import Launch
from impl._lowerings import scatter_accumulate, scatter_accumulate_chains, scatter_accumulate_cpu
from impl.tests._support import assert_same_bits, spread
from spec import oracles

COMBINE = {"add": np.add, "mul": np.multiply}


def oracle(operand, indices, updates, combine):
    """Every lane by itself."""
    outer, _, inner = operand.shape
    indices = np.broadcast_to(indices, updates.shape)
    out = operand.copy()
    for a in range(outer):
        for b in range(inner):
            lane = (a, slice(None), b)
            out[lane] = oracles.panel(operand[lane], indices[lane], updates[lane], combine)
    return out


#: Whether the outer axis and the inner one have indices of their own.
KINDS = {
    "shared": (False, False),
    "rows": (True, False),
    "columns": (False, True),
    "own": (True, True),
}


def data(outer, size, inner, n, *, kind, near_one=False):
    rng = np.random.default_rng((outer, size, inner, n))
    operand, updates = spread(rng, (outer, size, inner)), spread(rng, (outer, n, inner))
    if near_one:
        operand, updates = (1 + a / 2048 for a in (operand, updates))
    # Some of no place: below, above, and far above.
    by_outer, by_inner = KINDS[kind]
    shape = (outer if by_outer else 1, n, inner if by_inner else 1)
    indices = rng.integers(-1, size + 1, shape)
    indices[:, ::50] = 2**31 - 1
    return operand.astype(np.float32), indices.astype(np.int32), updates.astype(np.float32)


LOWERINGS = {
    "cpu": scatter_accumulate_cpu.cpu,
    "xla": scatter_accumulate.xla_chains,
    "kernel": functools.partial(
        scatter_accumulate.kernel_chains, launch=Launch(interpret=True, seed=1)
    ),
}


@pytest.mark.parametrize(
    ("kind", "by"), [*((kind, "add") for kind in KINDS), ("shared", "mul"), ("own", "mul")]
)
@pytest.mark.parametrize("name", LOWERINGS)
def test_indices_of_all_lanes_and_of_each(name, kind, by):
    args = data(2, 5, 3, 3100, kind=kind, near_one=by == "mul")
    reduction = {"add": reductions.ADD, "mul": reductions.MUL}[by]
    got = jax.jit(functools.partial(LOWERINGS[name], reduction=reduction))(*args)
    assert_same_bits(got, oracle(*args, COMBINE[by]))


@pytest.mark.parametrize(
    ("kept", "read", "size", "n"),
    [
        (2048, 65536, 5, 5000),  # two panels in a group, the last one short
        (16384, 64, 5, 2100),  # a panel in parts, the last one of them moved back
        (16384, 16, 1500, 2600),  # a long panel in parts
        (1, 65536, 5, 2048),  # a panel at a time
        (16384, 65536, 3, 5000),  # few places: panels side by side
        (16384, 65536, 3, 7),  # less than a panel
        (16384, 65536, 3, 1024),  # a panel
    ],
)
def test_a_cpu_cuts_its_work_as_its_cache_wants(monkeypatch, kept, read, size, n):
    monkeypatch.setattr(scatter_accumulate_cpu, "_KEPT", kept)
    monkeypatch.setattr(scatter_accumulate_cpu, "_READ", read)
    for outer, kind in ((1, "shared"), (2, "rows"), (1, "own")):
        args = data(outer, size, 2, n, kind=kind)
        got = jax.jit(functools.partial(scatter_accumulate_cpu.cpu, reduction=reductions.ADD))(
            *args
        )
        assert_same_bits(got, oracle(*args, np.add))


@pytest.mark.parametrize("word", [0, 32])
@pytest.mark.parametrize("parts", [1, 1 << 22])
@pytest.mark.parametrize("kind", ["shared", "rows", "own"])
def test_chains_are_found_by_words_and_by_pairs_and_kept_a_few_at_a_time(
    monkeypatch, word, parts, kind
):
    monkeypatch.setattr(scatter_accumulate_chains, "_WORD", word)
    monkeypatch.setattr(scatter_accumulate, "_PARTS", parts)
    args = data(2, 3, 2, 2100, kind=kind)
    got = jax.jit(functools.partial(scatter_accumulate.xla_chains, reduction=reductions.ADD))(*args)
    assert_same_bits(got, oracle(*args, np.add))


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("name", LOWERINGS)
def test_updates_that_stand_for_several_contributions(name, outer):
    operand, indices, updates = data(outer, 5, 3, 3100, kind="rows")
    updates, weights = updates[:, :775], spread(np.random.default_rng(0), (outer, 3100))
    got = jax.jit(functools.partial(LOWERINGS[name], reduction=reductions.ADD))(
        operand, indices, updates, weights=weights
    )
    products = np.repeat(updates, 4, axis=1) * weights[:, :, None]
    assert_same_bits(got, oracle(operand, indices, products, np.add))


@pytest.mark.parametrize("name", ["xla", "kernel"])
def test_atomics_of_updates_that_stand_for_several_contributions(name):
    operand, indices, updates = data(2, 5, 3, 300, kind="rows")
    updates, weights = updates[:, :75], spread(np.random.default_rng(0), (2, 300))
    way = {
        "xla": scatter_accumulate.xla_atomic,
        "kernel": functools.partial(
            scatter_accumulate.kernel_atomic, launch=Launch(interpret=True)
        ),
    }[name]
    got = jax.jit(functools.partial(way, reduction=reductions.ADD))(
        operand, indices, updates, weights=weights
    )
    products = np.repeat(updates, 4, axis=1) * weights[:, :, None]
    np.testing.assert_allclose(
        got, oracle(operand, indices, products, np.add), rtol=1e-4, atol=1e-3
    )


def test_rows_of_lanes_are_sorted_by_row():
    """As many keys as there are indices, not as there are contributions."""
    operand, indices, updates = data(2, 5, 64, 100, kind="rows")
    text = str(
        jax.make_jaxpr(functools.partial(scatter_accumulate.xla_chains, reduction=reductions.ADD))(
            operand, indices, updates
        )
    )
    assert "[200] = sort[" in text


@pytest.mark.parametrize("n", [100, 70000])
def test_keys_are_as_narrow_as_they_can_be(n):
    """One word of 16 or 32 bits, or a pair: what is sorted on a GPU."""

    def table(destination, destinations):
        scatter_accumulate_cpu = -(-n // 1024)
        first = jnp.broadcast_to(
            jnp.arange(scatter_accumulate_cpu) * 1024, (destinations, scatter_accumulate_cpu)
        )
        return scatter_accumulate_chains.chain_table(
            destination, jnp.arange(n) // 1024, first.astype(jnp.int32)
        )

    def sorts(destinations):
        jaxpr = jax.make_jaxpr(lambda d: table(d, destinations))(jnp.zeros(n, jnp.int32))
        return next(
            [v.aval.dtype.name for v in e.invars] for e in jaxpr.eqns if "sort" in str(e.primitive)
        )

    if n == 100:
        assert sorts(3) == ["uint16"]
        assert sorts(1 << 12) == ["uint32"]
    else:
        assert sorts(3) == ["uint32"]
        assert sorts(1 << 20) == ["uint32", "int32"]
