"""Windows that a CPU computes differently from other devices, with the same bits.

Tests: impl._lowerings.windows.before_jax_0_11, impl._lowerings.windows.sums.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._families.window_table import WindowTable
from impl._lowerings.windows import sums as windows
from impl.tests.support.bits import assert_same_bits

ROW = WindowTable.of(4, np.arange(4)[:, None])
EVEN = WindowTable.of(11, 1 + 3 * np.arange(3)[:, None] + [0, 2, 3])


def parts(size, number):
    """Returns windows that divide a size as evenly as possible; neighbours may overlap."""
    window = np.arange(number)
    return WindowTable.intervals(size, window * size // number, -(-(window + 1) * size // number))


def reflected(size, before, after):
    position = np.arange(-before, size + after)
    return WindowTable.of(size, size - 1 - np.abs(size - 1 - np.abs(position))[:, None])


@pytest.mark.once
@pytest.mark.parametrize(
    ("tables", "transposed"),
    [
        pytest.param((parts(23, 3), parts(24, 3)), True, id="equal windows are copied"),
        pytest.param((parts(17, 2), ROW, parts(13, 3)), True, id="equal windows of three axes"),
        pytest.param((parts(24, 4), parts(21, 3)), False, id="even windows"),
        pytest.param((ROW, EVEN), False, id="even windows that overlap"),
        pytest.param((WindowTable.of(5, [[1], [0], [1], [2], [3], [4], [3]]),), False, id="shift"),
        pytest.param((ROW, WindowTable.of(5, [[3], [4], [-1], [0]])), False, id="short shift"),
        pytest.param((WindowTable.of(5, [[-1]] * 3),), False, id="nothing is read"),
        pytest.param((reflected(5, 2, 0), reflected(4, 1, 1)), True, id="few taps of two axes"),
        pytest.param(
            (reflected(5, 2, 0), ROW, reflected(6, 1, -2)), True, id="few taps of outer axes"
        ),
        pytest.param((reflected(3, 2, 1),) * 3, True, id="few taps of three axes"),
        pytest.param((parts(7, 5), parts(6, 5)), False, id="one or two taps, or none"),
    ],
)
def test_a_cpu_has_the_same_bits(tables, transposed):
    sizes = [table.outputs if transposed else table.inputs for table in tables]
    values = np.random.default_rng(0).normal(size=(2, *sizes)).astype(np.float32)
    values.flat[::5] = -0.0
    results = [
        jax.jit(functools.partial(compute, tables=tables, transposed=transposed))(values)
        for compute in (windows.sum_cpu, windows.sum_xla)
    ]
    assert_same_bits(*results)


@pytest.mark.once
def test_few_taps_of_several_axes_read_their_operand():
    tables = (reflected(5, 2, 0), reflected(4, 1, 1))
    values = jnp.ones((2, *(table.outputs for table in tables)))
    program = jax.make_jaxpr(functools.partial(windows.sum_xla, tables=tables, transposed=True))
    gathers = [each for each in program(values).eqns if each.primitive.name == "gather"]
    # Both taps of each axis gather from one array, the reshaped operand.
    assert len(gathers) == 4
    assert len({each.invars[0] for each in gathers}) == 1


def test_what_is_summed_is_computed_once():
    # A sum over overlapping windows reads each value several times. In one loop with these reads,
    # XLA would compute the value again for each.
    table = WindowTable.intervals(27, np.arange(13) * 2, np.arange(13) * 2 + 3)

    def sums(values):
        return windows.sum_cpu(jnp.exp(values), tables=(table, table), transposed=True)

    text = jax.jit(sums).lower(jnp.ones((4, 13, 13))).compile().as_text()
    loops = [part for part in text.split("\n\n") if " exponential(" in part]
    assert loops
    assert not any(" gather(" in part for part in loops)
