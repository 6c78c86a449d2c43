"""What the suite says of a failure: what was tried, how to try it alone, and what to edit."""

import functools
import shlex
import types
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

import impl
import spec
from conformance import failing, places
from conformance.adapters.base import Adapter
from conformance.cells import cells
from conformance.promise import every_promise

ROOT = Path(spec.__file__).parents[1]
CELLS = {str(cell): cell for cell in cells()}
FOLD = CELLS["R0001-index_add-forward-cuda-complete-floating"]


class Config:
    """As much of pytest's as is asked for."""

    def __init__(self, *plugins, **options):
        given = dict.fromkeys(["device", "profile", "expectations", "repeats"])
        given["namespace"] = "impl"
        self.options = given | options
        self.pluginmanager = types.SimpleNamespace(hasplugin=plugins.__contains__)

    def getoption(self, name):
        return self.options[name.removeprefix("--")]


def said(tried, config, test="test_bits"):
    return list(failing.explained(tried, f"{test}[{tried}]", config))


def placed(line):
    """The file and line that a line of text names, with what is there."""
    path, _, number = line.removeprefix("edit:").strip().partition(",")[0].partition(":")
    lines = (ROOT / path).read_text().splitlines()
    return path, lines[int(number or 1) - 1]


def test_a_cell_says_its_row_its_command_and_the_three_places():
    lines = said(FOLD, Config("xdist", device="cpu"))
    assert lines[0] == (
        "R0001: index_add, forward, on cuda, under complete; deterministic; order panel; "
        "guarantee portable"
    )
    assert lines[1] == "says:  torch.index_add: when called on a CUDA array"
    assert lines[2] == (
        "again: python -m conformance run --device cpu --profile complete -n 0 "
        "-k 'test_bits[R0001-index_add-forward-cuda-complete-floating]'"
    )
    assert placed(lines[3]) == ("impl/ops/index_add.py", "def index_add(")
    assert placed(lines[4]) == ("spec/rows/index_add.toml", 'id = "R0001"')
    assert placed(lines[5])[0] == "conformance/cases/index_add.py"
    assert len(lines) == 6


def test_a_promise_says_what_its_row_says_and_where_it_is_tried():
    (promise,) = (each for each in every_promise() if str(each).startswith("R0213"))
    lines = said(promise, Config(device="cpu"), "test_promise")
    assert spec.load().row("R0213").statement in lines[1]
    assert shlex.split(lines[2])[-2:] == ["-k", failing.selection(f"test_promise[{promise}]")]
    assert "--profile" not in lines[2]
    assert "-n" not in shlex.split(lines[2])  # what pytest does not know without xdist
    assert placed(lines[3])[1].startswith("def seed_everything(")
    assert placed(lines[4]) == ("spec/rows/random.toml", 'id = "R0213"')
    assert placed(lines[5])[0] == "conformance/promises/seed_everything.py"


def test_several_calls_of_a_row_are_named():
    calls = [CELLS[f"R0001-index_add-forward-cuda-complete-{x}"] for x in ("floating", "narrow")]
    assert failing._tried({"implementation": None, "calls": calls}) is calls
    assert failing._tried({"cell": FOLD}) is FOLD
    assert failing._tried({"calls": [], "row": FOLD.row}) is None
    lines = list(failing.explained(calls, "test_varies[R0001]", Config(profile="torch-2.12")))
    assert lines[2] == "calls: floating, narrow"
    assert lines[3].endswith("--profile torch-2.12 -k 'test_varies[R0001]'")
    assert "--profile" not in list(failing.explained(calls, "test_varies[R0001]", Config()))[3]


def test_what_no_row_lists_says_so_and_where_rows_are():
    lines = said(CELLS["unlisted-index_add-backward-cuda-complete-floating"], Config())
    assert lines[0].startswith("no row: index_add, backward, on cuda")
    assert "       spec/rows/index_add.toml, if a row is missing" in lines


def test_the_options_of_the_run_are_kept():
    options = {"namespace": "conformance.tests._plain", "expectations": Path("a b.toml")}
    (again,) = (x for x in said(FOLD, Config(repeats=5, **options)) if x.startswith("again: "))
    for part in ("--namespace conformance.tests._plain", "--expectations 'a b.toml'"):
        assert part in again
    assert "--repeats 5" in again


def test_an_op_without_source_is_named():
    adapter = Adapter()
    adapter.namespace = types.SimpleNamespace(index_add=print)
    lines = list(places.to_edit(FOLD.row, "index_add", adapter.namespace))
    assert lines[0] == "edit:  the implementation of index_add, if the implementation is wrong"


def test_what_is_wrapped_is_found_and_what_is_elsewhere_is_whole(tmp_path):
    @functools.wraps(impl.index_add)
    def wrapped(*args, **options):
        return impl.index_add(*args, **options)

    (first, *_) = places.to_edit(None, "index_add", types.SimpleNamespace(index_add=wrapped))
    assert placed(first) == ("impl/ops/index_add.py", "def index_add(")
    assert places._shown(tmp_path / "a.py") == str(tmp_path / "a.py")


def test_a_place_outside_a_checkout_is_whole(monkeypatch, tmp_path):
    monkeypatch.setattr(places, "_ROOT", tmp_path)
    (first, *_) = places.to_edit(None, "index_add", impl)
    assert first.startswith(f"edit:  {ROOT}/impl/ops/index_add.py:")


def test_a_selection_means_one_test_alone():
    names = [f"test_x[{name}]" for name in (*CELLS, *map(str, every_promise()))]
    # Under one profile: others change nothing of what follows.
    split = [name for name in names if "complete" in name and failing.selection(name) != name]
    assert any(", " in name for name in split)
    assert any("=" in name for name in split)
    # What is not split ends in a bracket, as its name does.
    for name in {*split, names[0]}:
        meant = Expression.compile(failing.selection(name))
        found = [
            x for x in names if meant.evaluate(lambda word, x=x, **_: word.lower() in x.lower())
        ]
        assert found == [name]


def deeper(depth):
    if depth:
        return deeper(depth - 1)
    raise ValueError("why")


def test_a_traceback_is_without_what_is_between(monkeypatch):
    with pytest.raises(ValueError, match="why") as caught:
        deeper(3)
    monkeypatch.setattr(failing, "_JAX", Path(__file__).with_name("no folder"))
    failing._shorten(caught)
    assert len(caught.traceback) == 5
    monkeypatch.setattr(failing, "_JAX", Path(__file__).parent)
    failing._shorten(caught)
    (only,) = caught.traceback
    assert only.frame.code.name == "deeper"
    assert only.lineno == deeper.__code__.co_firstlineno + 2
