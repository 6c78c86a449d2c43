"""``doctor --twice``: the log of calls, and the first call, argument or output that differs."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl.diagnosis import _after, _twice
from impl.digests import DigestLog
from impl.digests._log import LogFile
from impl.tests.diagnosis.test_doctor import validate

HERE = "impl/tests/diagnosis/test_twice.py"


@pytest.fixture
def logged(tmp_path):
    """Returns the log of the calls that a function makes, and the programs that it compiles."""

    def log(run):
        programs = _after.Recorder()
        with (
            _twice.CallLog(tmp_path / "calls.jsonl", programs) as calls,
            programs.watched(calls.called),
        ):
            run()
        return LogFile(tmp_path / "calls.jsonl"), programs.programs

    return log


def leaves(log, number, tree):
    """Returns the name, type and digest of each argument or output of a call."""
    (record,) = log.steps[number][tree]
    return [(path, of.type, of.digest) for path, of in log.leaves(record, tree).items()]


def test_each_call_has_a_step_with_types_and_digests(logged):
    f = jax.jit(lambda x, n: (x * n, x + n))

    def run():
        x, _ = f(np.float32(2), 3.0)
        f(x, 3.0)

    log, _ = logged(run)
    line, function, *counts = log.origins[1]
    assert line.startswith(HERE)
    assert function.startswith("<lambda> at ")
    assert counts == [2, 2]
    x, n = leaves(log, 1, "arguments")
    assert (x[:2], n[0]) == (("x", "float32[]"), "n")
    outputs = leaves(log, 1, "outputs")
    assert [name for name, _, _ in outputs] == ["output 0", "output 1"]
    assert outputs[0][2] != outputs[1][2]
    again = leaves(log, 2, "arguments")
    assert again[0][2] == outputs[0][2]
    assert again[1] == n


def test_donated_arguments_and_keys_are_read_and_what_has_no_bits_is_named(logged):
    draw = jax.jit(lambda key, x: (key, x + 1), donate_argnums=1)
    key = jax.random.key(3)
    log, recorded = logged(lambda: draw(key, jax.device_put(np.ones(4, np.float32))))
    of_key, of_x = leaves(log, 1, "arguments")
    (data,) = _twice._leaves("data", jax.random.key_data(key))
    assert of_key[1:] == (data.type, _twice.Pending([data]).result().of_leaves[0].hex()[:16])
    assert leaves(log, 1, "outputs")[0][1:] == of_key[1:]
    assert of_x[1] == "float32[4]"
    # Programs that read a value for its digest do not count as programs of the user.
    assert len(recorded) == 1
    (token,) = _twice._leaves("x", object())
    assert (token.path, token.type) == ("x", "object, not read")


def test_the_findings_of_a_function_are_those_of_its_device(logged):
    def add(x, i):
        return jnp.zeros(4).at[i].add(x)

    _, recorded = logged(lambda: jax.jit(add)(np.ones(9, np.float32), np.zeros(9, np.int32)))
    ((function, lines),) = _twice._findings(recorded, "cuda").items()
    assert function.startswith("add at ")
    assert lines[0].startswith(f"lax.scatter_add at {HERE}:")
    assert _twice._findings(recorded, "cpu") == {}


def call(arguments=(), outputs=(), line="a.py:3", function="f at a.py:1", main=True, size=1):
    """Returns a call whose arguments and outputs are one array for each letter."""
    trees = {"arguments": ("x", arguments), "outputs": ("output ", outputs)}
    for tree, (name, texts) in trees.items():
        arrays = {f"{name}{i}": np.full(size, ord(text[-1])) for i, text in enumerate(texts)}
        trees[tree] = _twice.Pending([_twice.Leaf(n, f"i[{size}]", a) for n, a in arrays.items()])
    return main, trees, (line, function, len(arguments), len(outputs))


@pytest.fixture
def compared(tmp_path):
    def compare(*runs, findings=()):
        folders = [tmp_path / f"{number}" for number in range(2)]
        for folder, calls in zip(folders, runs, strict=True):
            for name, of_main in zip(_twice._LOGS, (True, False), strict=True):
                folder.mkdir(exist_ok=True)
                (folder / name).unlink(missing_ok=True)
                with DigestLog(folder / name) as log:
                    mine = [each[1:] for each in calls if each[0] is of_main]
                    for number, (trees, origin) in enumerate(mine, 1):
                        step = {tree: (pending, None) for tree, pending in trees.items()}
                        log._write_step(number, step, origin=origin)
        logs = [_twice._pair(folders, name) for name in _twice._LOGS]
        return list(_twice.differences(*logs, dict(findings)))

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
    comparison = _twice.Comparison("a.py", (4, 4), None, (found, later), ("a.py:2",))
    validate(comparison.as_dict())
    text = comparison.text()
    assert text.index("The first difference") < text.index("a.py:5") < text.index("a.py:9")
    assert text.endswith("Generators without a seed: a.py:2.")


def test_an_output_of_equal_arguments_names_the_equations_that_vary(compared):
    first, second = [call("a", "bc")], [call("a", "bC")]
    findings = {"f at a.py:1": ["lax.scatter_add at a.py:2"]}
    (found,) = compared(first, second, findings=findings)
    assert (found.kind, found.name) == ("output", "output 1")
    assert found.reason.endswith("varies: lax.scatter_add at a.py:2.")
    (found,) = compared(first, second)
    assert "No row of the spec states why" in found.reason


@pytest.mark.parametrize(
    ("second", "name", "number"),
    [
        ([call("a", "b"), call("b", "c", function="g at a.py:7")], "g (a.py:7) at a.py:3", 2),
        ([call("a", "b"), call("b", "c", "a.py:8")], "f (a.py:1) at a.py:8", 2),
        ([call("a", "b")], "the end of the run", 2),
        ([call("a", "b"), call("b", "c"), call("c", "d")], "the end of the run", 3),
    ],
)
def test_another_call_or_shape_is_a_difference(compared, second, name, number):
    first = [call("a", "b"), call("b", "c")]
    (found,) = compared(first, second)
    assert (found.kind, found.number) == ("call", number)
    assert name in (found.name, found.function)
    (found,) = compared(first[:1], [call("a", "b", size=4)])
    assert (found.kind, found.type) == ("argument", "i[1] and i[4]")


def test_threads_are_compared_without_their_order(compared):
    one, other = call("a", "b", main=False), call("c", "d", main=False)
    assert compared([one, other], [other, one]) == []
    (found,) = compared([one, other], [other, call("a", "B", main=False)])
    assert (found.kind, found.name, found.number) == ("output", "output 0", None)
    (found,) = compared([one], [one, other])
    assert found.kind == "call"


def test_a_line_counts_once(compared):
    first = [call("a", "b") for _ in range(30)]
    second = [call([chr(1000 + i)], "b") for i in range(30)]
    assert len(compared(first, second)) == 1
    first = [call([chr(100 + i)], "b", f"a.py:{i}") for i in range(30)]
    second = [call([chr(1000 + i)], "b", f"a.py:{i}") for i in range(30)]
    assert [found.number for found in compared(first, second)] == list(range(1, 12))


def test_hash_seeds_give_sets_of_strings_another_order_in_each_run(monkeypatch):
    seeds = []

    def run(folder, seed, *_):
        seeds.append(seed)
        for name in _twice._LOGS:
            (folder / name).touch()

    monkeypatch.setattr(_twice, "_run", run)
    assert _twice.compared(Path("train.py"), []).calls == (0, 0)
    # Neither seed is 0, with which Python does not randomize hashes.
    assert len(set(seeds) - {"0"}) == 2


def test_a_run_that_fails_is_not_compared(monkeypatch):
    def run(folder, *_):
        (folder / _twice._END).write_text(json.dumps({"failure": "raised ZeroDivisionError"}))
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
