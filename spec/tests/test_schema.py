"""The shape of each file: each rule is broken once, and is reported for the row that broke it."""

import re

import pytest

from spec.tests._edits import edit, reports

INDEX_ADD = "rows/index_add.toml"
BINCOUNT = "rows/bincount.toml"

MUTATIONS = {
    "not TOML": (INDEX_ADD, "[[row]]", "[[row]", "index_add.toml is not TOML"),
    "a table too many": (
        INDEX_ADD,
        "[[row]]",
        "[a]\n[[row]]",
        "index_add.toml: .*'a' was unexpected",
    ),
    "unknown key": (INDEX_ADD, "device", "devise", "R0001: .*'devise' was unexpected"),
    "missing key": (INDEX_ADD, 'device = "cuda"\n', "", "R0001: 'device' is a required"),
    "malformed id": (INDEX_ADD, "R0001", "one", "one: id 'one' does not match"),
    "no sentence of why": (
        "rows/notes.toml",
        "reason =",
        "note =",
        "'reason' is a required property",
    ),
    "a raise without a caller": (BINCOUNT, 'caller = "_bincount_cuda"', "", "caller"),
    "a caller without a raise": (
        INDEX_ADD,
        'order = "source"',
        'order = "source"\ncaller = "x"',
        "R0001: must not have .*caller",
    ),
    "no guarantee": (INDEX_ADD, "guarantee", "# guarantee", "R0001: 'guarantee' is a required"),
    "portable without order": ("rows/put.toml", "order", "# order", "R0158: 'order' is a required"),
    "a note that behaves": (
        "rows/notes.toml",
        'kind = "note"',
        'kind = "note"\nbehaviour = { complete = "fill" }',
        "must not have .*behaviour",
    ),
    "a promise without a source": (
        "rows/random.toml",
        '[[row.source]]\ndocument = "notes"',
        '[[row.rumour]]\ndocument = "notes"',
        "R0210: 'source' is a required",
    ),
    "a loose vocabulary": ("facts.toml", "about =", "abuot =", "facts.toml: accumulate: .*abuot"),
    "a device without English": (
        "devices.toml",
        "english =",
        "german =",
        "devices.toml: cpu: .*'german' was unexpected",
    ),
    "a device without platforms or a reason": (
        "devices.toml",
        'platforms = ["cpu"]',
        "platforms = []",
        "devices.toml: cpu: 'reason' is a required",
    ),
    "a device with platforms and a reason": (
        "devices.toml",
        'platforms = ["cpu"]',
        'platforms = ["cpu"]\nreason = "None."',
        "devices.toml: cpu: must not have .*reason",
    ),
    "a lock that is not a digest": (
        "locks.toml",
        '"torch-2.12" = "',
        '"torch-2.12" = "!',
        "locks.toml",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_reported(root, name):
    file, old, new, expected = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(expected, "\n".join(reports(root)))
