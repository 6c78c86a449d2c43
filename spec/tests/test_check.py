"""The lint: each rule is broken once, and is reported for the row that broke it."""

import re
import sys

import pytest

import spec
from spec import check
from spec.__main__ import main
from spec.check import ledger
from spec.loader import read_table, row_tables
from spec.tests._edits import add, edit, reports, reports_of_rows

HINT = '[[hint]]\nlibrary = "equinox"\nprimitives = ["pure_callback"]\nremedy = "Wait."\n'
#: Of each file: a text of it, another text, and a part of the problems that the spec then has. A
#: text that begins a line comes after the first one.
MUTATIONS = {
    "index_add.toml": [
        # The shape of a file.
        ("[[row]]", "[[row]", "index_add.toml is not TOML"),
        ("[[row]]", "[a]\n[[row]]", "index_add.toml: .*'a' was unexpected"),
        ("device", "devise", "R0001: .*'devise' was unexpected"),
        ('order = "source"', '\ncaller = "x"', "R0001: must not have .*caller"),
        ("guarantee", "# guarantee", "R0001: 'guarantee' is a required"),
        # Names that another file declares.
        ("complete =", "total =", "R0001: the profile 'total'"),
        ('"source"', '"plane"', "R0001: the order 'plane'"),
        ('"list"', '"rumour"', "R0001: the document 'rumour'"),
        ('"cuda"', '"gpu"', "R0001: device 'gpu' is not one of"),
        ('"cuda"', '"tpu"', "R0001: no row may name 'tpu', where rows of 'cuda' decide"),
        ('"cpu"', '\nmode_off = "not_guaranteed"', "R0002: must not have .*mode_off"),
        ('"1.10", ', "", "R0001: no source says that torch-1"),
        ('"list"', '"code"', "R0001: .* cite the document 'list' or 'notes' of release"),
        # The wording of texts.
        ("since 1.9.", "since 1.9", "R0001: statement does not end"),
        ("it has not", "it should not", "R0001: statement uses `should`"),
        ("; it has", ". It has", "R0001: statement has more than 1"),
        ("; it has", "; " + "it has " * 30, "R0001: statement has .* characters"),
        # The ledger of ids, and the locks.
        ("R0002", "R0001", "R0001: .* has this id too"),
        ("R0002", "R9999", r"(?s)ids.toml: R0002: no row has it.*R9999: this id was never issued"),
        ('"torch-2.15" = "deterministic", ', "", "locks.toml: torch-2.15: it no longer lists"),
    ],
    "notes.toml": [
        ("reason =", "note =", "'reason' is a required property"),
        ('"note"', '\nbehaviour = { complete = "fill" }', "must not have .*behaviour"),
    ],
    "bincount.toml": [
        ('caller = "_bincount_cuda"', "", "caller"),
        ('caller = "_bincount_cuda"', '\nmessage = "Behavior"', "R0023: must not have"),
        ("{ weights", "{ weight", "the fact 'weight' is not in facts"),
        ("weights = true", "weights = 1", "allowed: bool"),
        ('"raise" }', '"raise", complete = "raise" }', "R0024: it raises under complete"),
        ("weights = true", "weights = false", "locks.toml: torch-2.12: it no longer lists"),
    ],
    "put.toml": [("order", "# order", "R0158: 'order' is a required")],
    "random.toml": [("row.source]]", "row.rumour]]", "R0210: 'source' is a required")],
    "facts.toml": [
        ("about =", "abuot =", "facts.toml: accumulate: .*abuot"),
        ('is on."', 'is on"', "facts.toml: deterministic_algorithms: about does not end"),
    ],
    "devices.toml": [
        ('platforms = ["cpu"]', "platforms = []", "cpu: 'reason' is a required"),
        ('platforms = ["cpu"]', '\nreason = "None."', "cpu: must not have .*reason"),
        ('["cpu"]', '["cpu", "rocm"]', "cuda: platforms: 'rocm' is 'cpu' already"),
        ('like = "cuda"', 'like = "gpu"', "tpu: like: 'gpu' is not a device with rows of its own"),
        ('like = "cuda"', 'like = "tpu"', "tpu: like: 'tpu' is not a device with rows of its own"),
        ("{ rocm", "{ metal", r"cuda: untried: \['metal'\] are no platforms of it"),
        ('could run."', 'could run"', "devices.toml: mps: reason does not end"),
    ],
    "locks.toml": [('"torch-2.12" = "', '"torch-2.12" = "!', "locks.toml")],
    "profiles.toml": [("default = false", "default = true", "exactly one profile")],
    "avg_pool.toml": [
        ('"mps"', '\nstate = "active"', "R0022: state must be out_of_scope: JAX has no MPS"),
    ],
    "empty.toml": [('"fill"\nreleases', '"list"\nreleases', "cite the document 'fill'")],
    "histc.toml": [
        # Errata and callers: releases, devices, sources, and names in alerts.
        ('dtype = "floating"', 'dtype = "float"', "erratum: .*got 'float'"),
        ('"binary"', '"rumour"', "document 'rumour'"),
        ('since = "2.8"', 'since = "2.88"', "erratum: '2.88' is no"),
        ('"2.9", ', '"2.99", ', "source: '2.99' is not a release"),
        ('since = "2.8"', '\nuntil = "2.2"', "R0091: erratum: until 2.2 is before since 2.8"),
        ('since = "2.8"', '\ndevice = "cpu"', "R0091: erratum: device 'cpu' is not one of .*, or"),
        ('{ "torch-1.10" = "_', '{ complete = "_', "R0091: caller is of the profiles"),
        ('"_histc_cuda"', '"_histc_cuda with floating point input"', "R0091: .* same name for all"),
    ],
    "pad.toml": [("spatial_ndim = 1", "spatial_ndim = { min = 1 }", "no English for 'min'")],
    "orders.toml": [
        ("unique_indices", "apart", "orders.toml: source: order_free_when: the fact 'apart'"),
        ("Of several writes", "First this. " * 140, "orders.toml: last_write: .* characters"),
    ],
    "index_reduce.toml": [
        ("row.erratum.source", "row.source", "R0099: erratum.0 'source' is a required property"),
        ('caller = "index_reduce_cuda"\n', "", "R0099: erratum: it raises, and no caller"),
    ],
    "ids.toml": [
        ("[retired]", '\nR0001 = "Gone."', "R0001: .* retired"),
        ("[retired]", '\nR9999 = "Gone."', "R9999: it is retired but was never issued"),
        ('"index_add"', '"put"', "R0001: this id was issued for 'put', not 'index_add'"),
    ],
    "backends.toml": [
        ("exclude_nondeterministic_ops = true", "autotune_level = 9", "R0202: R0201 sets xla_gpu_"),
    ],
    # Rows about primitives of JAX.
    "sorting.toml": [
        ('behaviour = "deterministic"\n', "", "jax/sorting.toml: R0451: 'remedy' is a required"),
        ('guarantee = "run_to_run"\n', "", "R0451: 'guarantee' is a required"),
        ('"deterministic"', '"fill"', "R0451: behaviour 'fill' is not one of"),
        ('["sort"]', '["Sort"]', "R0451: primitives.0 'Sort' does not match"),
        ('"any"', '"cpu"', "R0451: no row says what lax.sort"),
    ],
    "opaque.toml": [
        ('the bits."', 'the bits"', "R0505: remedy does not end with a full stop"),
        (
            '["pallas_call"]\ndevice = "any"',
            "\nwhen = { sparse = true }",
            "R0509: R0508 decides pallas_call with .* as well and differs",
        ),
    ],
    "portable.toml": [
        ("limits = { length = 65536, prime = 127 }\n", "", "portable.toml: .*transforms"),
        ('"approx_top_k"', '"approx_top_k", "add"', "'add' is in 'operations' already"),
        ('dtypes = ["float64", "complex128"]', "", "portable.toml: .*tpu"),
        ('remedy = "Use `jax.lax.top_k`."\n', "", "portable.toml: .*'remedy'"),
    ],
    "hints.toml": [
        ('"pure_callback"', '"pure_callback", "nobodys"', "'nobodys' is in no class"),
        ("[[hint]]", f"{HINT}[[hint]]", "'pure_callback' has a hint already"),
    ],
}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [(file, *mutation) for file, mutations in MUTATIONS.items() for mutation in mutations],
)
def test_a_broken_rule_is_reported(root, file, old, new, expected):
    (path,) = root.rglob(file)
    edit(path, old, old + new if new.startswith("\n") else new)
    assert re.search(expected, "\n".join(reports(root)))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("index_add", "index_add", "cuda"), "R9999: R0001 speaks of the same calls"),
        (
            ("new", "new", "cuda", 'torch = "torch.index_add"'),
            "R9999: R0001 reads the same under complete",
        ),
        (
            ("put", "put", "cuda", 'when = { dtype = "floating" }'),
            r"R9999: R\d+ decides .*'accumulate': True.* on cuda under complete",
        ),
        (
            ("new", "new", "cuda"),
            r"R9999: no row says what new \(forward\) with {} on cpu does under complete",
        ),
        (("put", "bincount", "cuda"), "the rows of 'bincount' are in bincount.toml"),
    ],
)
def test_a_row_that_does_not_fit_is_reported(root, row, expected):
    add(root, *row)
    assert re.search(expected, "\n".join(reports(root)))


def test_a_row_may_leave_calls_outside_its_condition_alone(root):
    add(root, "new", "new", "any", "when = { input_ndim = { min = 2 } }")
    assert reports_of_rows(root) == []


def test_the_spec_has_no_problem(root, capsys):
    assert main(["check"]) == main(["ids"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{len(spec.load().rows)} rows, no problem"
    assert out[1].startswith("the next free id is R")
    assert reports(root) == []


def test_all_problems_are_listed_at_once_with_their_files_and_rows(root):
    edit(root / "rows/index_add.toml", 'order = "source"', 'order = "plane"')
    edit(root / "rows/bincount.toml", "{ weights", "{ weight")
    # The other rows of a file with a malformed row are checked too.
    edit(root / "rows/put.toml", 'device = "any"', 'devise = "any"')
    edit(root / "rows/put.toml", 'order = "source"', 'order = "plane"')
    found = check.problems(root)
    assert [problem.id for problem in found] == ["R0024", "R0001", "R0158", "R0158", "R0159"]
    assert found[1].file == "index_add.toml"
    assert str(found[1]).startswith("index_add.toml: R0001: the order 'plane'")


def test_without_jsonschema_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    check.schema._validator.cache_clear()
    with pytest.raises(spec.SpecError, match=r"pip install 'samebits\[spec\]'"):
        check.problems()


def used(root):
    return [(file, row["id"], row["op"]) for file, row in row_tables(root)]


def test_new_ids_are_added_to_the_ledger_and_nothing_else_changes(root):
    before = read_table(root, "ids.toml")
    add(root, "new", "new", "any")
    path = root / "ids.toml"
    edit(path, 'R9999 = "new"\n', "")
    new = ledger.unissued(used(root), before)
    assert new == {"R9999": "new"}
    assert ledger.next_free(used(root), before) == "R10000"
    ledger.write(path, {**before, "retired": {"R0000": 'It said "no".'}}, new)
    after = read_table(root, "ids.toml")
    assert after["issued"] == {**before["issued"], "R9999": "new"}
    assert after["retired"] == {"R0000": 'It said "no".'}
    with pytest.raises(spec.SpecError, match="'None' is not an id"):
        ledger.unissued([("a.toml", "None", "a")], {})
