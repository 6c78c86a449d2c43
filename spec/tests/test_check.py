"""The lint: each rule is broken once, and is reported for the row that broke it."""

import re
import sys

import pytest

import spec
from spec import check, loader
from spec.check import ledger, locks
from spec.loader import ROOT, read_table, row_tables
from spec.tests._edits import add, edit, reports, reports_of_rows

INDEX_ADD = "rows/index_add.toml"
BINCOUNT = "rows/bincount.toml"
HISTC = "rows/histc.toml"
INDEX_REDUCE = "rows/index_reduce.toml"

MUTATIONS = {
    # The shape of each file: each rule is broken once, and is reported for the row that broke it.
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
    # Names that one file uses and another declares.
    "two defaults": ("profiles.toml", "default = false", "default = true", "exactly one profile"),
    "an unknown profile": (INDEX_ADD, "complete =", "total =", "R0001: the profile 'total'"),
    "an unknown order": (INDEX_ADD, '"source"', '"plane"', "R0001: the order 'plane'"),
    "an unknown document": (INDEX_ADD, '"list"', '"rumour"', "R0001: the document 'rumour'"),
    "an unknown device": (INDEX_ADD, '"cuda"', '"gpu"', "R0001: device 'gpu' is not one of"),
    "a race on a CPU": (
        INDEX_ADD,
        'device = "cpu"',
        'device = "cpu"\nmode_off = "not_guaranteed"',
        "R0002: must not have .*mode_off",
    ),
    "an active row of a device without platforms": (
        "rows/avg_pool.toml",
        'device = "mps"',
        'device = "mps"\nstate = "active"',
        "R0022: state must be out_of_scope: JAX has no MPS platform",
    ),
    "a platform of two devices": (
        "devices.toml",
        'platforms = ["cpu"]',
        'platforms = ["cpu", "rocm"]',
        "devices.toml: cuda: platforms: 'rocm' is 'cpu' already",
    ),
    "a row of a device that is like another one": (
        INDEX_ADD,
        'device = "cuda"',
        'device = "tpu"',
        "R0001: no row may name 'tpu', where rows of 'cuda' decide",
    ),
    "a device that is like an unknown one": (
        "devices.toml",
        'like = "cuda"',
        'like = "gpu"',
        "devices.toml: tpu: like: 'gpu' is not a device with rows of its own",
    ),
    "a device that is like itself": (
        "devices.toml",
        'like = "cuda"',
        'like = "tpu"',
        "devices.toml: tpu: like: 'tpu' is not a device with rows of its own",
    ),
    "an untried platform that the device lacks": (
        "devices.toml",
        "untried = { rocm",
        "untried = { metal",
        "devices.toml: cuda: untried: \\['metal'\\] are no platforms of it",
    ),
    "a listing without a source": (INDEX_ADD, '"1.10", ', "", "R0001: no source says that torch-1"),
    "a fill from the wrong document": (
        "rows/empty.toml",
        '"fill"\nreleases',
        '"list"\nreleases',
        "cite the document 'fill'",
    ),
    "a listing in the code alone": (
        INDEX_ADD,
        'document = "list"',
        'document = "code"',
        "R0001: .* cite the document 'list' or 'notes' of release",
    ),
    "an unknown fact": (BINCOUNT, "{ weights", "{ weight", "the fact 'weight' is not in facts"),
    "a fact of the wrong type": (BINCOUNT, "weights = true", "weights = 1", "allowed: bool"),
    "an unknown choice": (HISTC, 'dtype = "floating"', 'dtype = "float"', "erratum: .*got 'float'"),
    "an unknown document of an erratum": (HISTC, '"binary"', '"rumour"', "document 'rumour'"),
    "a test without English": (
        "rows/pad.toml",
        "spatial_ndim = 1",
        "spatial_ndim = { min = 1 }",
        "no English for 'min'",
    ),
    "an unknown fact of an order": (
        "orders.toml",
        "unique_indices = true",
        "apart = true",
        "orders.toml: source: order_free_when: the fact 'apart'",
    ),
    # The wording of texts.
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
    # Errata and callers: releases, devices, sources, and names in alerts.
    "no source": (
        INDEX_REDUCE,
        "[[row.erratum.source]]",
        "[[row.source]]",
        "R0099: erratum.0 'source' is a required property",
    ),
    "an unknown first release": (HISTC, 'since = "2.8"', 'since = "2.88"', "erratum: '2.88' is no"),
    "an unknown release of a source": (
        HISTC,
        '"2.9", ',
        '"2.99", ',
        "source: '2.99' is not a release",
    ),
    "a last release before the first": (
        HISTC,
        'since = "2.8"',
        'since = "2.8"\nuntil = "2.2"',
        "R0091: erratum: until 2.2 is before since 2.8; swap them",
    ),
    "a device of a row for one device": (
        HISTC,
        'since = "2.8"',
        'since = "2.8"\ndevice = "cpu"',
        "R0091: erratum: device 'cpu' is not one of devices.toml, or the row is for one device",
    ),
    "an erratum that raises under no name": (
        INDEX_REDUCE,
        'caller = "index_reduce_cuda"\n',
        "",
        "R0099: erratum: it raises, and no caller is given",
    ),
    "a caller of a profile that does not raise": (
        HISTC,
        '{ "torch-1.10" = "_histc_cuda"',
        '{ complete = "_histc_cuda"',
        "R0091: caller is of the profiles",
    ),
    "a caller that does not differ": (
        HISTC,
        '"torch-1.10" = "_histc_cuda"',
        '"torch-1.10" = "_histc_cuda with floating point input"',
        "R0091: caller has the same name for all profiles",
    ),
    "a caller and a message": (
        "rows/bincount.toml",
        'caller = "_bincount_cuda"',
        'caller = "_bincount_cuda"\nmessage = "Deterministic behavior"',
        "R0023: must not have",
    ),
    # The ledger of ids.
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
    # The locks of the transcribed profiles.
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
