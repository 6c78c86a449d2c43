"""The ledger of ids."""

import re

import pytest

import spec
from spec.check import ledger
from spec.loader import read_table, row_tables
from spec.tests._edits import add, edit, reports

INDEX_ADD = "rows/index_add.toml"

MUTATIONS = {
    "an id used twice": (INDEX_ADD, "R0002", "R0001", "R0001: .* has this id too"),
    "an id never issued": (INDEX_ADD, "R0002", "R9999", "R9999: this id was never issued"),
    "an id that vanished": (INDEX_ADD, "R0002", "R9999", "ids.toml: R0002: no row has it"),
    "a retired id": ("ids.toml", "[retired]", '[retired]\nR0001 = "Gone."', "R0001: .* retired"),
    "a retired id never issued": (
        "ids.toml",
        "[retired]",
        '[retired]\nR9999 = "Gone."',
        "R9999: it is retired but was never issued",
    ),
    "an id of another op": (
        "ids.toml",
        'R0001 = "index_add"',
        'R0001 = "put"',
        "R0001: this id was issued for 'put', not 'index_add'",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_reported(root, name):
    file, old, new, expected = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(expected, "\n".join(reports(root)))


def used(root):
    return [(file, row["id"], row["op"]) for file, row in row_tables(root)]


def test_new_ids_are_added_to_the_ledger_and_nothing_else_changes(root):
    before = read_table(root, "ids.toml")
    add(root, "new", "new", "torch.new", "any")
    path = root / "ids.toml"
    edit(path, 'R9999 = "new"\n', "")
    new = ledger.unissued(used(root), before)
    assert new == {"R9999": "new"}
    assert ledger.next_free(used(root), before) == "R10000"
    ledger.write(path, {**before, "retired": {"R0000": 'It said "no".'}}, new)
    after = read_table(root, "ids.toml")
    assert after["issued"] == {**before["issued"], "R9999": "new"}
    assert after["retired"] == {"R0000": 'It said "no".'}


def test_an_id_of_another_form_does_not_enter_the_ledger():
    with pytest.raises(spec.SpecError, match="'None' is not an id"):
        ledger.unissued([("a.toml", "None", "a")], {})
