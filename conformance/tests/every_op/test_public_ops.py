"""Every public op has an entry in the table and a docstring."""

import inspect

import spec
from conformance.cases._calls import calls
from conformance.cases.table import table
from conformance.tests.every_op.calls import named_calls, primitives_of
from impl.tests.support.public_ops import public_ops


def test_each_op_has_an_entry_in_the_table():
    assert table().keys() == public_ops().keys(), "conformance/cases has an entry for each op"
    assert [op for op in table() if not calls(op)] == []


def test_docstrings_name_the_source():
    docstrings = {op: inspect.getdoc(function) or "" for op, function in public_ops().items()}
    assert [op for op, text in docstrings.items() if "Source: ``torch." not in text] == []


def test_bits_may_differ_only_if_a_row_says_so():
    for op in public_ops():
        guarantees = {row.guarantee for row in spec.load().rows if row.op == op}
        same_bits = all(call.same_bits for call in calls(op))
        assert same_bits or guarantees - {"portable"}, op


def test_ops_consist_of_the_primitives_of_jax():
    # JAX has none for an alert.
    own = {"samebits_alert", "samebits_alert_pullback"}
    for name, call in named_calls().items():
        for profile in ("complete", "torch-1.10"):
            names = primitives_of(call, profile, differentiated=True)
            assert {each for each in names if each.startswith("samebits_")} <= own, name
