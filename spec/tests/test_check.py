"""The lint as a whole."""

import sys

import pytest

import spec
from spec import check
from spec.loader import ROOT
from spec.tests._edits import edit, reports


def test_the_spec_has_no_problem():
    assert reports(ROOT) == []


def test_the_small_spec_has_no_problem(root):
    assert reports(root) == []


def test_all_problems_are_listed_at_once(root):
    edit(root / "rows/index_add.toml", '"cuda"', '"gpu"')
    edit(root / "rows/bincount.toml", "{ weights", "{ weight")
    edit(root / "rows/put.toml", '"source"', '"plane"')
    assert len(reports(root)) == 3


def test_a_problem_names_its_file_and_its_row(root):
    edit(root / "rows/index_add.toml", 'order = "source"', 'order = "plane"')
    (problem,) = check.problems(root)
    assert (problem.file, problem.id) == ("index_add.toml", "R0001")
    assert str(problem).startswith("index_add.toml: R0001: the order 'plane'")


def test_rows_are_checked_where_a_row_of_the_same_file_is_malformed(root):
    edit(root / "rows/put.toml", 'device = "any"', 'devise = "any"')
    edit(root / "rows/put.toml", 'order = "source"', 'order = "plane"')
    assert [text.split(": ")[1] for text in reports(root)] == ["R0158", "R0158", "R0159"]


def test_without_jsonschema_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    check.schema._validator.cache_clear()
    with pytest.raises(spec.SpecError, match=r"pip install 'samebits\[spec\]'"):
        check.problems()
