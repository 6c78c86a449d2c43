"""The text on a failure: the row, the command that repeats the test, and the files to edit."""

import shlex
import types
from pathlib import Path

import pytest

import spec
from conformance.pytest_plugin import failures
from conformance.suite.cells import cells
from conformance.suite.promise import every_promise

pytestmark = pytest.mark.once

CELLS = {str(cell): cell for cell in cells()}
FOLD = CELLS["R0001-index_add-forward-cuda-complete-floating"]


class Config:
    """The part of pytest's configuration that the plugin reads."""

    def __init__(self, *plugins, **options):
        defaults = dict.fromkeys(["device", "profile", "expectations", "repeats"])
        self.options = defaults | {"namespace": "impl"} | options
        self.stash = pytest.Stash()
        self.pluginmanager = types.SimpleNamespace(hasplugin=plugins.__contains__)

    def getoption(self, name):
        return self.options[name.removeprefix("--")]


def explained(subject, config, test="test_bits"):
    return list(failures.explained(subject, f"test_rows.py::{test}[{subject}]", config))


def test_a_cell_states_its_row_its_command_and_the_three_files():
    lines = explained(FOLD, Config("xdist", device="cpu"))
    assert lines[0] == (
        "R0001: index_add, forward, on cuda, under complete; deterministic; order source; "
        "guarantee run_to_run"
    )
    assert lines[1] == "says:  torch.index_add: when called on a CUDA array"
    assert lines[2] == (
        "again: python -m conformance run --device cpu --profile complete -n 0 "
        "'test_rows.py::test_bits[R0001-index_add-forward-cuda-complete-floating]'"
    )
    assert lines[3:] == [
        "edit:  index_add in impl.ops._scatters, if the implementation is wrong",
        "       spec/rows/index_add.toml, if a row is wrong",
        "       conformance.cases.writes, if the sample is wrong",
    ]


def test_a_promise_says_what_its_row_says_and_where_it_is_tried():
    (promise,) = (promise for promise in every_promise() if str(promise).startswith("R0213"))
    lines = explained(promise, Config(device="cpu"), "test_promise")
    assert spec.load().row("R0213").statement in lines[1]
    assert shlex.split(lines[2])[-1] == f"test_rows.py::test_promise[{promise}]"
    assert "--profile" not in lines[2]
    assert "-n" not in shlex.split(lines[2])  # what pytest does not know without xdist
    assert lines[3:] == [
        "edit:  seed_everything in impl.random, if the implementation is wrong",
        "       spec/rows/random.toml, if a row is wrong",
        "       conformance.promises.random, if it is tried wrongly",
    ]


def test_several_calls_of_a_row_are_named():
    calls = [CELLS[f"R0001-index_add-forward-cuda-complete-{x}"] for x in ("floating", "narrow")]
    item = types.SimpleNamespace(callspec=types.SimpleNamespace(params=None))
    for params, subject in (
        ({"implementation": None, "calls": calls}, calls),
        ({"cell": FOLD}, FOLD),
        ({"calls": [], "row": FOLD.row}, None),
    ):
        item.callspec.params = params
        assert failures._subject(item) is subject
    lines = list(failures.explained(calls, "t.py::test_varies[R1]", Config(profile="torch-2.12")))
    assert lines[2] == "calls: floating, narrow"
    assert lines[3].endswith("--profile torch-2.12 't.py::test_varies[R1]'")
    assert "--profile" not in list(failures.explained(calls, "t.py::test_varies", Config()))[3]


def test_what_no_row_lists_says_so_and_where_rows_are():
    lines = explained(CELLS["unlisted-index_add-backward-cuda-complete-floating"], Config())
    assert lines[0].startswith("no row: index_add, backward, on cuda")
    assert "       spec/rows/index_add.toml, if a row is missing" in lines


def test_the_options_of_the_run_are_kept():
    options = {"namespace": "conformance.tests._plain", "expectations": Path("a b.toml")}
    (again,) = (x for x in explained(FOLD, Config(repeats=5, **options)) if x.startswith("again: "))
    for part in ("--namespace conformance.tests._plain", "--expectations 'a b.toml'"):
        assert part in again
    assert "--repeats 5" in again
