"""A known fault belongs to an op, to targets, and to a part of a message."""

import pytest

from conformance.lab.compiled import known_faults
from conformance.tests.lab.compiled.examples import checked_call


def test_a_known_fault_matches_its_op_its_targets_and_its_message():
    fields = {"ops": ["index_add"], "message": "no config", "reason": "No device."}
    (entry,) = known_faults.parse([{**fields, "targets": ["h200"]}])
    assert entry.matches(checked_call(), "it has no config here")
    assert not entry.matches(checked_call(), "it races")
    assert not entry.matches(checked_call(target="a100"), "it has no config here")
    (other,) = known_faults.parse([{**fields, "ops": ["scatter_add"]}])
    assert not other.matches(checked_call(), "it has no config here")
    for wrong in (
        {"ops": ["index_add"], "message": "x"},
        {**fields, "more": 1},
        {**fields, "targets": ["h300"]},
        {**fields, "ops": "index_add"},
    ):
        with pytest.raises(ValueError, match=r"known_faults\.toml"):
            known_faults.parse([wrong])
    known_faults.load()
