"""Drawn calls of every op: under ``portable`` a CPU has the bits of the oracle, eager and compiled.

The samples of an op are functions of sizes and of elements, which ``table.Draw`` fixes. Here
Hypothesis draws them. Sizes shrink to the least that a call takes, and elements are of the kinds
of ``conformance.hunt.values``, where arithmetic goes wrong::

    index_add, "last_dim"     of the suite: [3, 7], 2500 indices    drawn: [1, 2], 3 indices
                              normal numbers                        NaNs, ties, opposite numbers

Each run draws the same two calls of each op. ``--hypothesis-profile=many`` draws other ones.
"""

import dataclasses
import itertools
import random
import zlib

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import impl
from conformance.cases.table import Draw, samples, table
from conformance.hunt import values
from conformance.hunt.program import Aval
from impl.tests.support.bits import assert_all_same_bits

#: The kinds of elements of samples with a reference in float64, and further ones with an oracle.
NEAR = ("plain", "few")
EXACT = (*NEAR, "zeros", "ties", "wide", "cancelling", "spoiled", "borders")


class Drawn(Draw):
    def __init__(self, draw, kinds):
        self.draw, self.kind = draw, draw(st.sampled_from(kinds))
        self.seed = draw(st.integers(0, 2**32 - 1))
        usual = (Draw.few, Draw.some, Draw.many, Draw.lanes, Draw.columns)
        sizes = self.sizes(usual, (1, 1, 0, 0, 0))
        self.few, self.some, self.many, self.lanes, self.columns = sizes

    def sizes(self, usual, least=0, most=None):
        mosts = itertools.repeat(None) if most is None else most
        return tuple(map(self.size, usual, np.broadcast_to(least, len(usual)), mosts))

    def size(self, usual, least, most):
        # Most are small.
        ends = [least + 1, least + 5, max(least, min(usual, 300))] if most is None else [most]
        return self.draw(st.one_of(*(st.integers(int(least), int(end)) for end in ends)))

    def values(self, shape, dtype, seed=0):
        source = random.Random(f"{self.seed} {seed} {shape}")
        return values.draw(source, Aval(shape, np.dtype(dtype).name), self.kind).values().copy()

    def indices(self, shape, size=None):
        rng = np.random.default_rng((self.seed, *shape))
        return rng.integers(0, self.few if size is None else size, shape).astype(np.int32)


@st.composite
def calls(draw, op):
    """Draws a call of an op: one of its samples, with other sizes and elements."""
    index = draw(st.integers(0, len(samples(op)) - 1))
    usual = samples(op)[index]
    is_exact = usual.ordered is not None and usual.facts.get("dtype") != "integer"
    drawn = Drawn(draw, EXACT if is_exact else NEAR)
    with np.errstate(all="ignore"):
        sample = next(itertools.islice(table()[op].samples(drawn), index, None))
    if drawn.kind not in NEAR and sample.ordered_gradient is None:
        return dataclasses.replace(sample, wrt=None)
    return sample


def assert_agree(got, want, label):
    """Compares bits, but of NaNs and of subnormal numbers, which the guarantee leaves open."""
    got, want = ([*map(np.asarray, jax.tree.leaves(result))] for result in (got, want))
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        if jnp.issubdtype(other.dtype, jnp.floating) and one.shape == other.shape:
            size = np.abs(other)
            is_open = (size > 0) & (size < jnp.finfo(other.dtype).tiny)
            want[number] = np.where(is_open | np.isnan(one) & np.isnan(other), one, other)
    assert_all_same_bits(got, want, label)


@np.errstate(all="ignore")
def assert_right(sample, is_eager):
    functions = [sample.function(impl, direction) for direction in sample.directions]
    inputs = [sample.inputs(direction) for direction in sample.directions]
    filled = sample.filled if sample.facts.get("fill_uninitialized_memory") else None
    wants = [
        oracle(*arrays) if (oracle := sample.oracle(direction) or filled) else None
        for direction, arrays in zip(sample.directions, inputs, strict=True)
    ]

    def program(inputs):
        return [function(*arrays) for function, arrays in zip(functions, inputs, strict=True)]

    with impl.deterministic(profile="complete", guarantee="portable"):
        results = jax.jit(program)(inputs)
        if is_eager:  # It takes longer, since each operation is compiled alone.
            assert_agree(program(inputs), results, "eager")
    for direction, got, want in zip(sample.directions, results, wants, strict=True):
        if want is not None:
            assert_agree(got, want, direction)
        else:
            sample.judge(direction, jax.tree.map(np.asarray, got))


@pytest.mark.parametrize("op", table())
def test_a_drawn_call(op, monkeypatch):
    # The draws depend on no constants of the modules that happen to be imported.
    private = "hypothesis.internal.conjecture.providers.is_local_module_file"
    monkeypatch.setattr(private, lambda _: False, raising=False)
    run = hypothesis.given(calls(op), st.sampled_from((False, False, True)))(assert_right)
    if hypothesis.settings.default.derandomize:
        run = hypothesis.seed(zlib.crc32(op.encode()))(run)
    run()
