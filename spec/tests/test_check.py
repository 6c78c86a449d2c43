"""The lint: each rule is broken once, and is reported for the row that broke it."""

import re
import sys

import pytest

import spec
from spec import check, loader
from spec.check import ledger, locks
from spec.loader import ROOT, read_table, row_tables
from spec.tests._edits import add, edit, reports, reports_of_rows

#: A file, a text of it, another text, and a part of the problems that it then has.
MUTATIONS = [
    # The shape of each file: each rule is broken once, and is reported for the row that broke it.
    ("index_add.toml", "[[row]]", "[[row]", "index_add.toml is not TOML"),
    ("index_add.toml", "[[row]]", "[a]\n[[row]]", "index_add.toml: .*'a' was unexpected"),
    ("index_add.toml", "device", "devise", "R0001: .*'devise' was unexpected"),
    ("index_add.toml", 'device = "cuda"\n', "", "R0001: 'device' is a required"),
    ("index_add.toml", "R0001", "one", "one: id 'one' does not match"),
    ("notes.toml", "reason =", "note =", "'reason' is a required property"),
    ("bincount.toml", 'caller = "_bincount_cuda"', "", "caller"),
    (
        "index_add.toml",
        'order = "source"',
        'order = "source"\ncaller = "x"',
        "R0001: must not have .*caller",
    ),
    ("index_add.toml", "guarantee", "# guarantee", "R0001: 'guarantee' is a required"),
    ("put.toml", "order", "# order", "R0158: 'order' is a required"),
    (
        "notes.toml",
        'kind = "note"',
        'kind = "note"\nbehaviour = { complete = "fill" }',
        "must not have .*behaviour",
    ),
    (
        "random.toml",
        '[[row.source]]\ndocument = "notes"',
        '[[row.rumour]]\ndocument = "notes"',
        "R0210: 'source' is a required",
    ),
    ("facts.toml", "about =", "abuot =", "facts.toml: accumulate: .*abuot"),
    ("devices.toml", "english =", "german =", "devices.toml: cpu: .*'german' was unexpected"),
    (
        "devices.toml",
        'platforms = ["cpu"]',
        "platforms = []",
        "devices.toml: cpu: 'reason' is a required",
    ),
    (
        "devices.toml",
        'platforms = ["cpu"]',
        'platforms = ["cpu"]\nreason = "None."',
        "devices.toml: cpu: must not have .*reason",
    ),
    ("locks.toml", '"torch-2.12" = "', '"torch-2.12" = "!', "locks.toml"),
    # Names that one file uses and another declares.
    ("profiles.toml", "default = false", "default = true", "exactly one profile"),
    ("index_add.toml", "complete =", "total =", "R0001: the profile 'total'"),
    ("index_add.toml", '"source"', '"plane"', "R0001: the order 'plane'"),
    ("index_add.toml", '"list"', '"rumour"', "R0001: the document 'rumour'"),
    ("index_add.toml", '"cuda"', '"gpu"', "R0001: device 'gpu' is not one of"),
    (
        "index_add.toml",
        'device = "cpu"',
        'device = "cpu"\nmode_off = "not_guaranteed"',
        "R0002: must not have .*mode_off",
    ),
    (
        "avg_pool.toml",
        'device = "mps"',
        'device = "mps"\nstate = "active"',
        "R0022: state must be out_of_scope: JAX has no MPS platform",
    ),
    (
        "devices.toml",
        'platforms = ["cpu"]',
        'platforms = ["cpu", "rocm"]',
        "devices.toml: cuda: platforms: 'rocm' is 'cpu' already",
    ),
    (
        "index_add.toml",
        'device = "cuda"',
        'device = "tpu"',
        "R0001: no row may name 'tpu', where rows of 'cuda' decide",
    ),
    (
        "devices.toml",
        'like = "cuda"',
        'like = "gpu"',
        "devices.toml: tpu: like: 'gpu' is not a device with rows of its own",
    ),
    (
        "devices.toml",
        'like = "cuda"',
        'like = "tpu"',
        "devices.toml: tpu: like: 'tpu' is not a device with rows of its own",
    ),
    (
        "devices.toml",
        "untried = { rocm",
        "untried = { metal",
        "devices.toml: cuda: untried: \\['metal'\\] are no platforms of it",
    ),
    ("index_add.toml", '"1.10", ', "", "R0001: no source says that torch-1"),
    ("empty.toml", '"fill"\nreleases', '"list"\nreleases', "cite the document 'fill'"),
    (
        "index_add.toml",
        'document = "list"',
        'document = "code"',
        "R0001: .* cite the document 'list' or 'notes' of release",
    ),
    ("bincount.toml", "{ weights", "{ weight", "the fact 'weight' is not in facts"),
    ("bincount.toml", "weights = true", "weights = 1", "allowed: bool"),
    ("histc.toml", 'dtype = "floating"', 'dtype = "float"', "erratum: .*got 'float'"),
    ("histc.toml", '"binary"', '"rumour"', "document 'rumour'"),
    ("pad.toml", "spatial_ndim = 1", "spatial_ndim = { min = 1 }", "no English for 'min'"),
    (
        "orders.toml",
        "unique_indices = true",
        "apart = true",
        "orders.toml: source: order_free_when: the fact 'apart'",
    ),
    # The wording of texts.
    ("index_add.toml", "since 1.9.", "since 1.9", "R0001: statement does not end"),
    ("index_add.toml", "it has not", "it should not", "R0001: statement uses `should`"),
    ("index_add.toml", "; it has", ". It has", "R0001: statement has more than 1"),
    ("index_add.toml", "; it has", "; " + "it has " * 30, "R0001: statement has .* characters"),
    (
        "orders.toml",
        'statement = "Of several writes',
        'statement = "' + "First this. " * 140 + "Of several writes",
        "orders.toml: last_write: statement has .* characters",
    ),
    (
        "facts.toml",
        'the mode is on."',
        'the mode is on"',
        "facts.toml: deterministic_algorithms: about does not end",
    ),
    ("devices.toml", 'could run."', 'could run"', "devices.toml: mps: reason does not end"),
    # Errata and callers: releases, devices, sources, and names in alerts.
    (
        "index_reduce.toml",
        "[[row.erratum.source]]",
        "[[row.source]]",
        "R0099: erratum.0 'source' is a required property",
    ),
    ("histc.toml", 'since = "2.8"', 'since = "2.88"', "erratum: '2.88' is no"),
    ("histc.toml", '"2.9", ', '"2.99", ', "source: '2.99' is not a release"),
    (
        "histc.toml",
        'since = "2.8"',
        'since = "2.8"\nuntil = "2.2"',
        "R0091: erratum: until 2.2 is before since 2.8; swap them",
    ),
    (
        "histc.toml",
        'since = "2.8"',
        'since = "2.8"\ndevice = "cpu"',
        "R0091: erratum: device 'cpu' is not one of devices.toml, or the row is for one device",
    ),
    (
        "index_reduce.toml",
        'caller = "index_reduce_cuda"\n',
        "",
        "R0099: erratum: it raises, and no caller is given",
    ),
    (
        "histc.toml",
        '{ "torch-1.10" = "_histc_cuda"',
        '{ complete = "_histc_cuda"',
        "R0091: caller is of the profiles",
    ),
    (
        "histc.toml",
        '"torch-1.10" = "_histc_cuda"',
        '"torch-1.10" = "_histc_cuda with floating point input"',
        "R0091: caller has the same name for all profiles",
    ),
    (
        "bincount.toml",
        'caller = "_bincount_cuda"',
        'caller = "_bincount_cuda"\nmessage = "Deterministic behavior"',
        "R0023: must not have",
    ),
    # The ledger of ids.
    ("index_add.toml", "R0002", "R0001", "R0001: .* has this id too"),
    ("index_add.toml", "R0002", "R9999", "R9999: this id was never issued"),
    ("index_add.toml", "R0002", "R9999", "ids.toml: R0002: no row has it"),
    ("ids.toml", "[retired]", '[retired]\nR0001 = "Gone."', "R0001: .* retired"),
    (
        "ids.toml",
        "[retired]",
        '[retired]\nR9999 = "Gone."',
        "R9999: it is retired but was never issued",
    ),
    (
        "ids.toml",
        'R0001 = "index_add"',
        'R0001 = "put"',
        "R0001: this id was issued for 'put', not 'index_add'",
    ),
    # The locks of the transcribed profiles.
    (
        "bincount.toml",
        "weights = true",
        "weights = false",
        "locks.toml: torch-2.12: it no longer lists",
    ),
    (
        "index_add.toml",
        '"torch-2.15" = "deterministic", ',
        "",
        "locks.toml: torch-2.15: it no longer lists",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), MUTATIONS)
def test_a_broken_rule_is_reported(root, file, old, new, expected):
    (path,) = root.rglob(file)
    edit(path, old, new)
    assert re.search(expected, "\n".join(reports(root)))


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


def test_rows_of_an_op_are_in_one_file(root):
    add(root, "index_add", "bincount", "torch.bincount", "cuda")
    assert re.search("the rows of 'bincount' are in bincount.toml", "\n".join(reports(root)))


def test_every_erratum_has_a_source_and_a_known_range():
    rules = spec.load()
    order = {release: number for number, release in enumerate(rules.releases)}
    for erratum in (erratum for row in rules.rows for erratum in row.errata):
        assert erratum.sources
        assert order[erratum.since] <= order[erratum.until or rules.releases[-1]]


def test_an_erratum_is_about_the_device_of_its_row_or_one_of_them():
    (take,) = spec.load().row("R0183").errata
    assert (take.covers("cuda"), take.covers("cpu")) == (True, False)
    (index_add,) = spec.load().row("R0001").errata
    assert index_add.covers("cuda")


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


def test_a_profile_is_locked_at_what_it_lists_now(root):
    edit(root / "rows/index_add.toml", '"torch-2.15" = "deterministic", ', "")
    locks.write(root / "locks.toml", loader.read(root))
    assert reports_of_rows(root) == []


def test_our_own_profile_is_not_locked():
    assert list(locks.digests(loader.load())) == ["torch-1.10", "torch-2.12", "torch-2.15"]
