"""The comparison of two runs: the first call, argument or output that differs."""

import dataclasses
import json
from pathlib import Path

import pytest

from impl.diagnosis import _twice
from impl.tests.diagnosis.test_after import PROGRAM
from impl.tests.diagnosis.test_doctor import validate


def call(
    arguments=(), outputs=(), line="a.py:3", function="f at a.py:1", main=True, type_="f32[3]"
):
    return {
        "main": main,
        "line": line,
        "function": function,
        "arguments": [[f"x{i}", type_, digest] for i, digest in enumerate(arguments)],
        "outputs": [[f"output {i}", type_, digest] for i, digest in enumerate(outputs)],
    }


@pytest.fixture
def compared(tmp_path):
    def compare(first, second, findings=()):
        records = tmp_path / "1", tmp_path / "2"
        for record, calls in zip(records, (first, second), strict=True):
            record.write_text(
                "".join(f"{json.dumps(entry)}\n" for entry in (*calls, {"end": True}))
            )
        return list(_twice.differences(*records, dict(findings)))

    return compare


def test_equal_runs_do_not_differ(compared):
    run = [call("ab", "c"), call("c", "d"), call("x", "y", main=False)]
    assert compared(run, run) == []


def test_an_argument_is_named_and_what_comes_from_it_is_not(compared):
    first = [call("a", "b"), call("bk", "c", "a.py:5"), call("c", "d"), call("n", "e", "a.py:9")]
    second = [call("a", "b"), call("bl", "C", "a.py:5"), call("C", "D"), call("N", "E", "a.py:9")]
    found, later = compared(first, second)
    assert (found.kind, found.name, found.line, found.number) == ("argument", "x1", "a.py:5", 2)
    assert "made outside of compiled programs" in found.reason
    assert (later.line, later.name, later.reason) == ("a.py:9", "x0", "")


def test_an_output_of_equal_arguments_names_the_equations_that_vary(compared):
    first, second = [call("a", "bc")], [call("a", "bC")]
    findings = {"f at a.py:1": ["lax.scatter_add at a.py:2"]}
    (found,) = compared(first, second, findings)
    assert (found.kind, found.name) == ("output", "output 1")
    assert found.reason.endswith("varies: lax.scatter_add at a.py:2.")
    (found,) = compared(first, second)
    assert "No row of the spec states why" in found.reason


@pytest.mark.parametrize(
    ("second", "name"),
    [
        ([call("a", "b"), call("b", "c", function="g at a.py:7")], "g (a.py:7) at a.py:3"),
        ([call("a", "b"), call("b", "c", "a.py:8")], "f (a.py:1) at a.py:8"),
        ([call("a", "b")], "the end of the run"),
    ],
)
def test_another_call_is_a_difference(compared, second, name):
    (found,) = compared([call("a", "b"), call("b", "c")], second)
    assert (found.kind, found.name, found.number) == ("call", name, 2)


def test_a_run_that_goes_on_is_a_difference(compared):
    (found,) = compared([call("a", "b")], [call("a", "b"), call("b", "c")])
    assert (found.kind, found.function) == ("call", "the end of the run")


def test_another_shape_is_a_difference(compared):
    (found,) = compared([call("a", "b")], [call("a", "b", type_="f32[4]")])
    assert (found.kind, found.type) == ("argument", "f32[3] and f32[4]")


def test_threads_are_compared_without_their_order(compared):
    one, other = call("a", "b", main=False), call("c", "d", main=False)
    assert compared([one, other], [other, one]) == []
    (found,) = compared([one, other], [other, call("a", "B", main=False)])
    assert (found.kind, found.name, found.number) == ("output", "output 0", None)
    (found,) = compared([one], [one, other])
    assert found.kind == "call"


def test_a_line_counts_once(compared):
    first = [call([f"{i}"], "b") for i in range(30)]
    second = [call([f"{i}'"], "b") for i in range(30)]
    assert len(compared(first, second)) == 1
    first = [call([f"{i}"], "b", f"a.py:{i}") for i in range(30)]
    second = [call([f"{i}'"], "b", f"a.py:{i}") for i in range(30)]
    assert [found.number for found in compared(first, second)] == list(range(1, 12))


def test_two_processes_name_the_key_that_the_time_makes(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(f"{PROGRAM}import sys; assert sys.argv[1:] == ['--fast']\n")
    comparison = _twice.compared(file, ["--fast"])
    validate(comparison.as_dict())
    assert not comparison.equal
    assert comparison.calls[0] == comparison.calls[1] > 2
    key, draw = comparison.differences
    assert (key.kind, key.line) == ("argument", f"{file}:7")
    assert key.code == "key = jax.random.key(time.time_ns() % 1000)"
    assert draw.line == f"{file}:8"
    assert comparison.generators == (f"{file}:6",)
    text = comparison.text()
    assert "The first difference" in text
    assert text.index(f"{file}:7") < text.index(f"{file}:8")


def test_hash_seeds_give_sets_of_strings_another_order_in_each_run(monkeypatch):
    seeds = []
    monkeypatch.setattr(_twice, "_run", lambda *arguments: seeds.append(arguments[1]))
    assert _twice.compared(Path("train.py"), []).calls == (0, 0)
    # Neither seed is 0, with which Python does not randomize hashes.
    assert len(set(seeds) - {"0"}) == 2


def test_a_run_that_fails_is_not_compared(monkeypatch):
    def run(record, hash_seed, file, arguments):  # noqa: ARG001  # It stands in for a process.
        end = {"end": True, "failure": "raised ZeroDivisionError", "findings": {}, "generators": []}
        record.write_text(json.dumps(end))
        return 1

    monkeypatch.setattr(_twice, "_run", run)
    comparison = _twice.compared(Path("train.py"), [])
    validate(comparison.as_dict())
    assert not comparison.equal
    assert comparison.failure == "The first run raised ZeroDivisionError"
    assert "So nothing was compared" in comparison.text()


def test_equal_is_said_only_of_what_was_seen():
    equal = _twice.Comparison("a.py", (3, 3), None, (), ())
    assert equal.equal
    assert "All 3 calls of compiled programs" in equal.text()
    assert "It did not see other values" in equal.text()
    nothing = dataclasses.replace(equal, calls=(0, 0))
    assert not nothing.equal
    assert "called no compiled program" in nothing.text()
