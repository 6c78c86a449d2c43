"""The locks of the transcribed profiles."""

import re

import pytest

from spec import loader
from spec.check import locks
from spec.tests._edits import edit, reports, reports_of_rows

MUTATIONS = {
    "a changed condition": (
        "rows/bincount.toml",
        "weights = true",
        "weights = false",
        "locks.toml: torch-2.12: it no longer lists",
    ),
    "a listing that is lost": (
        "rows/index_add.toml",
        '"torch-2.15" = "deterministic", ',
        "",
        "locks.toml: torch-2.15: it no longer lists",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_reported(root, name):
    file, old, new, expected = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(expected, "\n".join(reports(root)))


def test_a_profile_is_locked_at_what_it_lists_now(root):
    edit(root / "rows/index_add.toml", '"torch-2.15" = "deterministic", ', "")
    locks.write(root / "locks.toml", loader.read(root))
    assert reports_of_rows(root) == []


def test_our_own_profile_is_not_locked():
    assert list(locks.digests(loader.load())) == ["torch-1.10", "torch-2.12", "torch-2.15"]
