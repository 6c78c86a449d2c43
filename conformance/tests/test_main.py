"""The command line: options that are refused, and workers."""

import jax
import pytest

from conformance import __main__ as command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cuda"], "a device that impl does not see here"),
        (["--report", "/nowhere/x.json"], "there is no folder /nowhere"),
        (["--expectations", "/nowhere/x.toml"], "there is no such file"),
    ],
)
def test_a_problem_that_keeps_the_suite_from_running_is_named(arguments, message, capsys):
    if jax.default_backend() != "cpu":
        pytest.skip("speaks of a machine without a GPU")
    assert command.main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        (["-k", "R0001"], False),
        (["-k", "test_bits"], True),
        ([], True),
        (["test_rows.py::test_bits[a/b]"], False),
        (["conformance/suite/test_rows.py::test_bits[a/b]"], False),
        (["-n", "3"], False),
    ],
)
def test_workers_share_the_tests_where_there_are_many(words, workers, monkeypatch):
    pytest.importorskip("xdist")
    calls = []
    monkeypatch.setattr(pytest, "main", lambda arguments: calls.append(arguments) or 0)
    assert command.main(["run", "--device", "cpu", "--profile", "complete", *words]) == 0
    ((*arguments,),) = calls
    assert ("auto" in arguments) is workers
    if "::" in "".join(words):
        assert arguments[-1] == f"{command._SUITE}/test_rows.py::test_bits[a/b]"
        assert str(command._SUITE) not in arguments
    else:
        assert arguments[len(arguments) - len(words) :] == words
        assert str(command._SUITE) in arguments
