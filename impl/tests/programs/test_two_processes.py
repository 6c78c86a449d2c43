"""Programs of two processes, which share their arrays: the bits of one, and clear errors.

Tests: impl.diagnosis._processes.
"""

import json

import numpy as np
import pytest

import impl
from impl.tests.programs import on_two_processes
from impl.tests.support import two_processes

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def facts():
    outputs = two_processes.run("impl.tests.programs.on_two_processes")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def test_two_processes_have_the_bits_of_one(facts):
    with impl.deterministic(guarantee="portable"):
        alone = on_two_processes.digests("jit")[0]["jit"]
    assert [each["digests"] for each in facts] == [{"jit": alone, "shard_map": alone}] * 2


def test_processes_that_differ_are_told_so(facts):
    assert [each["before"] for each in facts] == [None, None]
    (kind, text), other = (each["apart"] for each in facts)
    assert [kind, text] == other
    assert kind == "RuntimeError"
    assert "guarantee, by the number of the process: run_to_run in 0; portable in 1" in text
    assert "deterministic algorithms, by the number of the process: off in 0; on in 1" in text


def test_a_value_of_which_another_process_has_a_part_is_unknown(facts):
    counts = np.bincount(on_two_processes.TOKENS.ravel(), minlength=8).tolist()
    for each in facts:
        assert each["shared"]
        assert each["length"][0] == "TypeError"
        assert "other processes have a part of it; pass length=" in each["length"][1]
        assert each["counts"] == counts
        assert each["same"] is None


def test_a_device_of_another_process_is_refused_by_name(facts):
    for number, each in enumerate(facts):
        kind, text = each["away"]
        assert kind == "ValueError"
        assert f"a device of process {1 - number}, and this is {number}: pass one of" in text


def test_a_process_alone_agrees_with_itself():
    impl.testing.assert_processes_agree()
