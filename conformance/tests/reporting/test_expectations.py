"""Files of expectations: the tests that they mean, and the mistakes that are refused."""

import dataclasses

import pytest

from conformance import __main__ as command
from conformance.adapters import loading
from conformance.reporting import expectations
from conformance.reporting.expectations import Expectation

TEST = "test_bits[R0095-index_put-forward-cpu-torch-2.12-written]"


def entry(*ids, **fields):
    return Expectation(ids, fields.pop("outcome", "fail"), "A reason.", **fields)


@pytest.mark.parametrize(
    "id",
    [
        "R0095",
        "index_put",
        TEST,
        TEST[10:-1],
        "*-written",
        "R0095-*-cpu-*",
        "test_bits[*",
        "*index_put-forward*",
    ],
)
def test_an_id_means_a_test(id):
    assert entry("R0001", id).matches(TEST, "cpu") == [id]


@pytest.mark.parametrize("id", ["R009", "index", "written", "test_bits", "R0095-*-cuda-*", "[cpu]"])
def test_an_id_means_no_other_test(id):
    assert entry(id).matches(TEST, "cpu") == []


def test_a_device_is_that_of_the_cell_and_tests_of_no_cell_are_meant_by_their_whole_name():
    assert entry("R0095", device=("cuda",)).matches(TEST, "cpu") == []
    assert entry("R0095", device=("cuda", "cpu")).matches(TEST, "cpu") == ["R0095"]
    assert entry("gather").matches("test_op_exists[gather]") == []
    assert entry("test_op_exists[gather]").matches("test_op_exists[gather]") != []


@pytest.mark.parametrize(
    ("versions", "version", "holds"),
    [
        (">=2.12,<2.14", "2.13.0+cpu", True),
        (">=2.12,<2.14", "2.14.0", False),
        (">=2.12", "2.15.0.dev2026", True),
    ],
)
def test_a_version_is_in_a_range(versions, version, holds):
    assert entry("a", versions={"torch": versions}).holds({"torch": version}) is holds
    assert not entry("a", versions={"torch": versions}).holds({"jax": version})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ids = ["a"]\noutcome = "fail"', "gives no reason; say why"),
        ('ids = ["a"]\noutcome = "fail"\nreason = " "', "gives no reason; say why"),
        ('ids = []\noutcome = "fail"\nreason = "b"', r"it needs a list of one or more names"),
        ('ids = "a"\noutcome = "fail"\nreason = "b"', r"it needs a list of one or more names"),
        ('ids = ["a"]\noutcome = "pass"\nreason = "b"', "has outcome 'pass'; allowed:"),
        ('ids = ["a"]\nreason = "b"', "has outcome None; allowed:"),
        ('ids = ["a"]\noutcome = "fail"\nreason = "b"\nwhy = "c"', r"unknown keys \['why'\]"),
        ('ids = ["a"]\noutcome = "fail"\nreason = "b"\nstrict = 1', "has strict 1; allowed:"),
        (
            'ids = ["a"]\noutcome = "fail"\nreason = "b"\nwhen = { torch = "new" }',
            "when.torch is not a range of versions",
        ),
        ('ids = ["a", "a"]\noutcome = "fail"\nreason = "b"', "a stands in two entries"),
        ("ids = [", "expect.toml"),
        ('[[other]]\nids = ["a"]', r"unknown \['other'\]"),
    ],
)
def test_a_malformed_file_is_refused(text, message, tmp_path, capsys):
    path = tmp_path / "expect.toml"
    path.write_text(text if "other" in text else f"[[expect]]\n{text}\n")
    with pytest.raises(ValueError, match=message):
        expectations.read(path)
    assert command.main(["run", "--expectations", str(path)]) == 2
    assert f"--expectations {path}" in capsys.readouterr().err


def test_what_is_written_is_read_as_it_was(tmp_path):
    path = tmp_path / "expect.toml"
    path.write_text('# Why "this".\n# More.\n\n[[expect]]\n')
    entries = (
        Expectation(("a-*", 'b\\"'), "fail", 'Says "so".', ("cpu",), {"torch": ">=2"}, False),
        entry("c", outcome="missing"),
    )
    expectations.write(path, entries)
    assert path.read_text().startswith('# Why "this".\n# More.\n\n[[expect]]\nids = [\n')
    assert [dataclasses.asdict(e) for e in expectations.read(path)] == [
        dataclasses.asdict(e) for e in entries
    ]


def test_the_expectations_of_this_implementation_are_read_and_are_none():
    assert expectations.read(loading.load("impl").expectations) == ()
