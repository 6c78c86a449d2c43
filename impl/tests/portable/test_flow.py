"""Shardings are followed through loops and conditions, to values that hold in every iteration."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from impl._portable.device_sums.shardings import TERM, UNKNOWN
from impl.tests.portable.sharded import results

ROWS = ((8, 4), {"d": 0})


def test_a_scan_carries_terms_and_stacks_slices():
    def function(x, y):
        return lax.scan(lambda c, row: (c + row.sum(), row * 2), y.sum(), x)

    assert results(function, ((3, 8), {"d": 1}), ((8,), {"d": 0})) == [{"d": TERM}, {"d": 1}]
    # Of a slice of each device's own rows, nothing is known.
    assert results(function, ((3, 8), {"d": 0}), ((8,), {})) == [{"d": UNKNOWN}, {"d": UNKNOWN}]


def test_a_carry_has_a_sharding_that_holds_after_the_second_iteration_too():
    def function(x, y):
        return lax.scan(lambda c, _: ((c[1], x.sum(0)), None), (y, y), None, length=3)[0]

    assert results(function, ROWS, ((4,), {})) == [{"d": TERM}, {"d": TERM}]
    assert results(function, ROWS, ((4,), {"d": 0})) == [{"d": UNKNOWN}, {"d": UNKNOWN}]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ({}, {}),  # All devices stop together.
        ({"m": UNKNOWN}, {"m": UNKNOWN}),
    ],
)
def test_devices_that_stop_apart_carry_different_values(stop, expected):
    def function(limit):
        return lax.while_loop(lambda c: c < limit, lambda c: c + 1, 0.0)

    def constant(limit):
        return lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, 1.0), (0.0, 0.0))[1]

    assert results(function, ((), stop)) == [expected]
    # A device that never runs the body has the initial value.
    assert results(constant, ((), stop)) == [expected]


def test_a_while_carries_what_its_body_adds():
    def function(x):
        def add(carry):
            count, total = carry
            return count + 1, total + x.sum(0)

        return lax.while_loop(lambda carry: carry[0] < 3, add, (0, jnp.zeros(4)))[1]

    assert results(function, ROWS) == [{"d": TERM}]


def test_a_condition_has_the_sharding_of_both_branches():
    def function(choice, x):
        return lax.cond(choice > 0, lambda x: x.sum(0), lambda x: x[0] * 2, x)

    def same(choice, x):
        return lax.cond(choice > 0, lambda x: x.sum(0), lambda x: (2 * x).sum(0), x)

    assert results(function, ((), {}), ROWS) == [{"d": UNKNOWN}]
    assert results(same, ((), {}), ROWS) == [{"d": TERM}]
    # Other devices along m may take the other branch.
    assert results(same, ((), {"m": UNKNOWN}), ROWS) == [{"d": TERM, "m": UNKNOWN}]


def test_a_checkpoint_is_followed():
    assert results(jax.checkpoint(lambda x: x.sum(0)), ROWS) == [{"d": TERM}]


def test_an_operation_that_reads_the_mesh_differs_between_devices():
    assert results(lambda x: x + lax.axis_index("m"), ROWS) == [{"d": 0, "m": UNKNOWN}]
    permuted = results(lambda x: lax.ppermute(x, "m", [(0, 1), (1, 0)]), ROWS)
    assert permuted == [{"d": 0, "m": UNKNOWN}]


def test_an_operation_without_a_rule_keeps_the_dimensions_of_equal_shapes():
    assert results(jnp.sin, ROWS) == [{"d": 0}]
    assert results(lambda x: jnp.sin(x.sum(0)), ROWS) == [{"d": UNKNOWN}]
    assert results(lambda x: lax.sort(x, dimension=0), ROWS) == [{"d": 0}]
    assert results(lambda x: lax.top_k(x, 2)[0], ROWS) == [{"d": UNKNOWN}]
