"""The table of operations: its entries, and how samples judge results."""

import pytest

import spec
from conformance.cases import table as table_of_ops
from conformance.cases.table import Sample, samples


def test_each_op_has_one_entry_and_rows():
    ops = [entry.op for _, entry in table_of_ops._entries()]
    assert len(ops) == len(set(ops))
    assert set(ops) <= {row.op for row in spec.load().rows}


def test_a_wrong_value_is_not_accepted():
    (sample, *_) = samples("index_add")
    assert isinstance(sample, Sample)
    result = sample.ordered(*sample.arrays)
    sample.judge("forward", result)
    result[0, 0] += 0.1
    with pytest.raises(AssertionError):
        sample.judge("forward", result)
