"""The command ``python -m conformance compile``, and its tests, without compiling a program.

Tests: conformance.lab.compiled, conformance.lab.compiled.conftest,
conformance.lab.compiled.test_compiled.
"""

import argparse
import dataclasses
import importlib.util
from types import SimpleNamespace

import pytest

from conformance.lab import compiled
from conformance.lab.compiled import conftest, program_calls, row_calls, test_compiled
from conformance.lab.compiled.launches import Cost
from conformance.lab.compiled.row_calls import CompiledProgram

PROGRAM = CompiledProgram(kernels=("fold",), cost=Cost(3, 9))
ROW = "R0001-index_add-forward-deterministic"


@pytest.fixture
def left():
    """The records that a test left."""
    return []


@pytest.fixture
def record(left):
    """The fixture of the suite."""
    return lambda tested, check, **fields: left.append({**tested.about, "check": check, **fields})


def check_row(monkeypatch, record, name=ROW, **facts):
    program = dataclasses.replace(PROGRAM, **facts)
    monkeypatch.setattr(row_calls, "compiled", lambda *_: [(False, program), (True, PROGRAM)])
    test_compiled.test_row(test_compiled.calls_of_rows()[name], "h200", record)


def test_a_record_is_about_the_calls_that_the_mode_treats_alike(monkeypatch, record, left):
    names = {
        ROW: ("compiled", "compiled"),
        "R0059-cumsum-forward-raise": ("compiled, warn only", None),
        "R0070-empty-forward-fill": ("compiled, filled", None),
        "unlisted-cumsum-forward-unaffected": ("compiled, as with the mode off", None),
    }
    for name, found in names.items():
        check_row(monkeypatch, record, name)
        assert (left[-1]["check"], left[-1]["evidence"]) == found
        assert (left[-1]["lowering"], left[-1]["sample"]) == ("h200", None)
    assert left[0]["detail"] == "2 programs, 2 kernels, at most 3 launches"
    assert (left[0]["row"], left[0]["profile"]) == ("R0001", None)
    check_row(monkeypatch, record, sorts=("XLA",))
    assert "stands in" in left[-1]["detail"]


def test_a_fault_fails_with_its_calls_and_the_files(monkeypatch, record, left):
    with pytest.raises(pytest.fail.Exception) as caught:
        check_row(monkeypatch, record, races=("an atomic",))
    first, *edit = str(caught.value).splitlines()
    assert first.startswith("R0001-index_add-forward-cuda-")
    assert first.endswith(" more calls: it races: an atomic")
    assert edit[0].startswith("edit:  index_add in impl.ops._scatters")
    assert edit[1].startswith("       spec/rows/index_add.toml")
    assert left[0]["detail"] == first


def test_a_whole_program_has_a_check_and_details_of_its_own(monkeypatch, record, left):
    monkeypatch.setattr(program_calls, "check_program", lambda *_: ([], "1 launches, 32 bytes"))
    test_compiled.test_program("sum", "h200", record)
    monkeypatch.setattr(program_calls, "check_elementary", lambda _: (["exp: fma"], 9))
    with pytest.raises(pytest.fail.Exception, match="exp: fma"):
        test_compiled.test_elementary("h200", record)
    found = [(each["op"], each["check"], each["detail"]) for each in left]
    assert found == [
        ("sum", "program compiled", "1 launches, 32 bytes"),
        (program_calls.ELEMENTARY, "program compiled", "exp: fma"),
    ]


@pytest.mark.parametrize(
    ("name", "targets", "some"),
    [
        ("calls", ["a100", "l40s"], {f"{ROW}-a100"}),
        ("calls", None, {f"{ROW}-{target}" for target in compiled.TARGETS}),
        ("name", ["a100", "l40s"], {"program-sum-l40s"}),
        ("name", None, {"program-mode-h200", "program-sum-rtx4090"}),
    ],
)
def test_a_test_is_about_a_program_and_one_of_its_gpus(name, targets, some):
    given = []
    conftest.pytest_generate_tests(
        SimpleNamespace(
            config=SimpleNamespace(getoption=lambda _: targets),
            fixturenames=[name, "target"],
            parametrize=lambda _, parameters: given.extend(parameters),
        )
    )
    ids = [each.id for each in given]
    assert some <= set(ids)
    assert len(ids) == len(set(ids))
    assert {each.values[1] for each in given} <= set(targets or compiled.gpus.NAMES)


def options(*words):
    parser = argparse.ArgumentParser()
    compiled.add_options(parser)
    return parser.parse_args(words)


def test_a_folder_that_is_missing_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    assert compiled.run(options("--report", str(tmp_path / "no" / "r.json")), []) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_missing_compiler_is_named(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert compiled.run(options(), []) == 2
    assert "pip install jax==0.11.2 jax-cuda13-plugin" in capsys.readouterr().err
