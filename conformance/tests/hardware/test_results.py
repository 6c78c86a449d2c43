"""The results of a run: bits of a later round that differ are a failure."""

from conformance.hardware import jobs
from conformance.hardware.results import RunResults, rerun_command
from conformance.tests.hardware.examples import passed, planned, record


def test_different_bits_in_a_fresh_process_are_a_failure_that_states_everything():
    results = RunResults(jobs.expected_keys(planned("a", "b"), 2), "impl")
    results.add(passed("a", 2, sha256="1" * 64, check="bits in fresh process 2"))
    assert results.failures() == {}  # There are no bits of round 1 yet.
    for test in (passed("a"), passed("b"), passed("b", 2, check="bits in fresh process 2")):
        results.add(test)
    (title,) = results.failures()
    assert title == "a in fresh process 2"
    assert [r.outcome for r in results.records()] == ["passed", "passed", "failed", "passed"]
    detail = list(results.records())[2].detail
    for word in ("R0001", "0" * 64, "1" * 64, rerun_command(record())):
        assert word in detail
    assert results.unfinished_count == 0


def test_the_slowest_tests_come_first():
    results = RunResults(jobs.expected_keys(planned("a", "b", "c"), 1), "impl")
    for name, seconds in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        results.add(passed(name, seconds=seconds))
    assert results.slowest(2) == [("b", 3.0), ("c", 2.0)]


def test_the_command_for_a_row_alone_selects_it():
    name = 'R0001-index_add-forward-cuda-complete"'
    assert rerun_command(record()) == f'python -m conformance run --device cuda -k "{name}'
    assert " --namespace other -k " in rerun_command(record(), "other")
