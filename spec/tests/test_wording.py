"""The wording of texts."""

import re

import pytest

from spec.tests._edits import edit, reports

INDEX_ADD = "rows/index_add.toml"

MUTATIONS = {
    "no full stop": (INDEX_ADD, "since 1.9.", "since 1.9", "R0001: statement does not end"),
    "a wish": (INDEX_ADD, "it has not", "it should not", "R0001: statement uses `should`"),
    "two sentences": (INDEX_ADD, "; it has", ". It has", "R0001: statement has more than 1"),
    "a long text": (
        INDEX_ADD,
        "; it has",
        "; " + "it has " * 30,
        "R0001: statement has .* characters",
    ),
    "a long order": (
        "orders.toml",
        'statement = "Of several writes',
        'statement = "' + "First this. " * 140 + "Of several writes",
        "orders.toml: last_write: statement has .* characters",
    ),
    "a fact without a full stop": (
        "facts.toml",
        'the mode is on."',
        'the mode is on"',
        "facts.toml: deterministic_algorithms: about does not end",
    ),
    "a reason without a full stop": (
        "devices.toml",
        'could run."',
        'could run"',
        "devices.toml: mps: reason does not end",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_reported(root, name):
    file, old, new, expected = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(expected, "\n".join(reports(root)))
