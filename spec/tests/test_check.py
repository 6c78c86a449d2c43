"""The lint: each rule is broken once, and is reported where it was broken."""

import re
import shutil
import sys
from pathlib import Path

import pytest

import spec
from spec import check, ledger
from spec.cases import cases
from spec.loader import ROOT, read_table, row_tables

INDEX_ADD = "rows/index_add.toml"
BINCOUNT = "rows/bincount.toml"
KTHVALUE = """\
guarantee = "portable"
order = "lowest_index"
mode_off = "not_guaranteed"
behaviour = { "torch-1.10" = "raise", complete = "deterministic" }"""
ROW = """
[[row]]
id = "R9999"
op = "{op}"
torch = "{torch}"
device = "{device}"
behaviour = {{ complete = "deterministic" }}
guarantee = "run_to_run"
{more}
[[row.source]]
document = "profiles"
releases = ["complete"]
phrase = "Every op is deterministic"
"""


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "spec"
    ignored = shutil.ignore_patterns("*.py", "tests", "__pycache__")
    shutil.copytree(Path(str(ROOT)), folder, ignore=ignored)
    return folder


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} does not have {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def reports(root):
    return [str(problem) for problem in check.problems(root)]


def test_the_spec_has_no_problem():
    assert reports(ROOT) == []


MUTATIONS = {
    "not TOML": (INDEX_ADD, "[[row]]", "[[row]", "index_add.toml is not TOML"),
    "a table too many": (
        INDEX_ADD,
        "[[row]]",
        "[a]\n[[row]]",
        "index_add.toml: .*'a' was unexpected",
    ),
    "unknown key": (INDEX_ADD, "device", "devise", "R0001: .*'devise' was unexpected"),
    "missing key": (INDEX_ADD, 'torch = "torch.index_add"\n', "", "R0001: 'torch' is a required"),
    "unknown device": (INDEX_ADD, '"cuda"', '"gpu"', "R0001: device 'gpu' is not one of"),
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
        'order = "panel"',
        'order = "panel"\ncaller = "x"',
        "R0001: must not have .*caller",
    ),
    "no guarantee": (INDEX_ADD, 'guarantee = "portable"\n', "", "R0001: 'guarantee' is a required"),
    "portable without order": (INDEX_ADD, 'order = "panel"\n', "", "R0001: 'order' is a required"),
    "a race on a CPU": (
        INDEX_ADD,
        'device = "cpu"',
        'device = "cpu"\nmode_off = "not_guaranteed"',
        "R0002: must not have .*mode_off",
    ),
    "a note that behaves": (
        "rows/notes.toml",
        'kind = "note"',
        'kind = "note"\nbehaviour = { complete = "fill" }',
        "must not have .*behaviour",
    ),
    "a loose vocabulary": ("facts.toml", "about =", "abuot =", "facts.toml: accumulate: .*abuot"),
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
    "an unknown profile": (INDEX_ADD, "complete =", "total =", "R0001: the profile 'total'"),
    "an unknown order": (INDEX_ADD, '"panel"', '"plane"', "R0001: the order 'plane'"),
    "an unknown document": (INDEX_ADD, '"list"', '"rumour"', "R0001: the document 'rumour'"),
    "a listing without a source": (INDEX_ADD, '"1.10", ', "", "R0001: no source says that torch-1"),
    "a fill from the wrong document": (
        "rows/empty.toml",
        '"fill"\nreleases',
        '"list"\nreleases',
        "cite the document 'fill'",
    ),
    "an unknown fact": (BINCOUNT, "{ weights", "{ weight", "the fact 'weight' is not in facts"),
    "a fact of the wrong type": (BINCOUNT, "weights = true", "weights = 1", "allowed: bool"),
    "an unknown choice": (BINCOUNT, '["integer", "bool"]', '["int"]', "erratum: .*got 'int'"),
    "a test without English": (
        "rows/pad.toml",
        "spatial_ndim = 1",
        "spatial_ndim = { min = 1 }",
        "no English for 'min'",
    ),
    "an unknown fact of an order": (
        "orders.toml",
        "overlapping = false",
        "apart = true",
        "orders.toml: window: order_free_when: the fact 'apart'",
    ),
    "a parameter nobody has": ("orders.toml", "{block}", "1024", "blocked_scan: the braces"),
    "a changed condition": (
        BINCOUNT,
        "weights = true",
        "weights = false",
        "locks.toml: torch-2.12: it no longer lists",
    ),
    "a listing that is lost": (
        INDEX_ADD,
        '"torch-2.15" = "deterministic", ',
        "",
        "locks.toml: torch-2.15: it no longer lists",
    ),
    "a lock that is none": ("locks.toml", '"torch-2.12" = "', '"torch-2.12" = "!', "locks.toml"),
    "two defaults": ("profiles.toml", "default = false", "default = true", "exactly one profile"),
    "no full stop": (INDEX_ADD, "since 1.9.", "since 1.9", "R0001: statement does not end"),
    "a wish": (INDEX_ADD, "it has not", "it should not", "R0001: statement says `should`"),
    "two sentences": (INDEX_ADD, "; it has", ". It has", "R0001: statement has more than 1"),
    "a long text": (
        INDEX_ADD,
        "; it has",
        "; " + "it has " * 30,
        "R0001: statement has .* characters",
    ),
    "a refusal under complete": (
        "rows/kthvalue.toml",
        KTHVALUE,
        'behaviour = { complete = "raise", "torch-1.10" = "raise" }',
        "it raises under complete",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_reported(root, name):
    file, old, new, expected = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(expected, "\n".join(reports(root)))


ADDITIONS = {
    "the same calls": (
        "index_add",
        ("index_add", "torch.index_add", "cuda", ""),
        "R9999: R0001 speaks of the same calls",
    ),
    "the same words": (
        "new",
        ("new", "torch.index_add", "cuda", ""),
        "R9999: R0001 reads the same under complete",
    ),
    "a tie": (
        "put",
        ("put", "torch.put", "cuda", 'when = { dtype = "floating" }'),
        r"R9999: R\d+ decides .*'accumulate': True.* on cuda under complete",
    ),
    "a device left out": (
        "new",
        ("new", "torch.new", "cuda", ""),
        r"R9999: no row says what new \(forward\) with {} on cpu does under complete",
    ),
    "another file": (
        "index_add",
        ("bincount", "torch.bincount", "cuda", ""),
        "the rows of 'bincount' are in",
    ),
}


def add(root, file, fields):
    text = ROW.format(**dict(zip(("op", "torch", "device", "more"), fields, strict=True)))
    with (root / "rows" / f"{file}.toml").open("a", encoding="utf-8") as stream:
        stream.write(text)
    edit(root / "ids.toml", "[retired]", f'R9999 = "{fields[0]}"\n[retired]')


@pytest.mark.parametrize("name", ADDITIONS)
def test_a_row_that_does_not_fit_is_reported(root, name):
    file, fields, expected = ADDITIONS[name]
    add(root, file, fields)
    assert re.search(expected, "\n".join(reports(root)))


def test_a_row_may_leave_calls_outside_its_condition_alone(root):
    add(root, "new", ("new", "torch.new", "any", "when = { input_ndim = { min = 2 } }"))
    assert reports(root) == []


def test_all_problems_are_listed_at_once(root):
    edit(root / INDEX_ADD, '"cuda"', '"gpu"')
    edit(root / BINCOUNT, "{ weights", "{ weight")
    edit(root / "rows/put.toml", '"panel"', '"plane"')
    assert len(reports(root)) == 3


def test_without_jsonschema_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(spec.SpecError, match="pip install jsonschema"):
        check.problems()


def test_cases_stand_on_both_sides_of_every_test():
    rows = [row for row in spec.load().rows if row.op == "scatter_add"]
    assert [case["input_ndim"] for case in cases(rows, spec.load().facts)] == [0, 1, 2, 3]


def used(root):
    return [(file, row["id"], row["op"]) for file, row in row_tables(root)]


def test_new_ids_are_added_to_the_ledger_and_nothing_else_changes(root):
    before = read_table(root, "ids.toml")
    add(root, "new", ("new", "torch.new", "any", ""))
    path = root / "ids.toml"
    edit(path, 'R9999 = "new"\n', "")
    new = ledger.unissued(used(root), before)
    assert new == {"R9999": "new"}
    assert ledger.next_free(used(root), before) == "R10000"
    ledger.write(path, {**before, "retired": {"R0000": 'It said "no".'}}, new)
    after = read_table(root, "ids.toml")
    assert after["issued"] == {**before["issued"], "R9999": "new"}
    assert after["retired"] == {"R0000": 'It said "no".'}


def test_an_id_that_is_none_does_not_enter_the_ledger():
    with pytest.raises(spec.SpecError, match="'None' is no id"):
        ledger.unissued([("a.toml", "None", "a")], {})
