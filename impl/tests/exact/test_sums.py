"""Sums rounded once, for a device that adds terms in the worst order."""

import numpy as np
import pytest
from jax import lax

from impl._exact.nearest import sums
from impl.tests.exact._sums import DTYPES, assert_same, run
from impl.tests.exact._terms import hard_matrix, outweighed_terms, serial_terms
from spec import oracles


def serial(x):
    """Returns the sums along the first axis, added one term after another."""

    def step(total, term):
        return lax.add(total, term), None

    return lax.scan(step, lax.full_like(x[0], 0), x)[0]


def rounded(x, dtype, chains=None):
    """Returns sums along the first axis, of which one of two stages may have all additions."""

    def in_stages(x):
        total = serial(x)
        return total, lax.abs(total) if chains[1] == 1 else lax.reduce_sum(lax.abs(x), (0,))

    how = sums.Sums(
        x.shape[0],
        add=serial,
        greatest=lambda magnitudes: lax.reduce_max(magnitudes, (0,)),
        least=lambda magnitudes: lax.reduce_min(magnitudes, (0,)),
        chains=chains,
        in_stages=None if chains is None else in_stages,
    )
    return run(lambda x: sums.rounded_sums(x, dtype, how), x)


@pytest.mark.parametrize("stage", [None, 0, 1])
@pytest.mark.parametrize("name", serial_terms())
def test_the_order_of_terms_may_be_the_worst_one(name, stage):
    x = serial_terms()[name]
    wrong = np.cumsum(x.astype(np.float64))[-1].astype(np.float32)
    want = oracles.nearest(x)
    assert wrong != want
    chains = {None: None, 0: (len(x), 1), 1: (1, len(x))}[stage]
    assert_same(rounded(x[:, None], np.float32, chains), want[None])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parts_outweigh_higher_parts(dtype):
    half = 2.0 ** (-24 if dtype == "float32" else -8)
    x = outweighed_terms(half).astype(DTYPES[dtype])
    want = np.full(x.shape[1], 1 + 2 * half, DTYPES[dtype])
    assert_same(rounded(x, DTYPES[dtype]), want)


@pytest.mark.parametrize("to", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_hard_terms_have_the_bits_of_the_oracle(rng, dtype, to):
    x = hard_matrix(rng, 20, dtype)
    assert_same(rounded(x, DTYPES[to]), oracles.nearest(x, DTYPES[to]))


@pytest.mark.parametrize(("count", "power"), [(0, 0), (1, 0), (2, 1), (3, 2), (1024, 10)])
def test_the_logarithm_of_a_number_of_terms(count, power):
    assert sums.log2_above(count) == power
