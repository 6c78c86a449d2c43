"""The files of a spec are read, and become rows, profiles and conditions."""

import dataclasses
import re
import tomllib
from typing import Any

import pytest

import spec
from spec import loader
from spec.__main__ import main
from spec.check import versions
from spec.conditions import meets, specificity, yields_to
from spec.loader import frozen, thawed
from spec.tests._edits import add, edit, reports


def test_it_is_read_once_and_frozen():
    assert spec.load() is spec.load()
    row: Any = spec.load().row("R0121")
    assert row.family == "max_pool"
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.op = "other"
    with pytest.raises(TypeError):
        row.behaviour["complete"] = None
    when = {"a": [1, 2], "b": {"not": ["x"], "min": 1}, "c": True}
    held: Any = frozen(when)
    assert isinstance(held["a"], tuple)
    with pytest.raises(TypeError):
        held["b"]["min"] = 2
    assert thawed(held) == when


ROW = '[[row]]\nid = "R1"\nop = "a"\nsource = []\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows/index_add.toml", "[[row]", "index_add.toml is not TOML"),
        ("rows/index_add.toml", '[[row]]\nid = "R0001"', "R0001: KeyError.*spec check"),
        ("rows/index_add.toml", ROW, "R1: .*device"),
        ("rows/index_add.toml", f'{ROW}device="any"\nbehaviour={{x="raise"}}', r"R1: .*\['x'\]"),
        ("rows/index_add.toml", f'{ROW}device="gpu"\nbehaviour={{complete="raise"}}', "R1: .*gpu"),
        ("profiles.toml", "[complete]", "profiles.toml: TypeError.*spec check"),
        ("devices.toml", "[cpu]", "devices.toml: TypeError.*spec check"),
    ],
)
def test_what_cannot_be_read_is_named(root, name, text, message):
    (root / name).write_text(text, encoding="utf-8")
    with pytest.raises(spec.SpecError, match=message):
        spec.read(root)


def test_row_and_select():
    loaded = spec.load()
    row = loaded.rows[0]
    assert loaded.row(row.id) is row
    with pytest.raises(KeyError, match="R0000"):
        loaded.row("R0000")
    chosen = loaded.select(profile="torch-2.12", behaviour="raise", active=True)
    assert chosen
    assert {row.behaviour["torch-2.12"] for row in chosen} == {"raise"}
    assert len(chosen) < len(loaded.select(profile="torch-2.12"))
    with pytest.raises(spec.SpecError, match="behaviour needs a profile"):
        loaded.select(behaviour="raise")


def test_platforms_and_backends_of_jax_are_devices():
    loaded = spec.load()
    platforms = {name: device.name for name, device in loaded.platforms.items()}
    assert platforms == {"cpu": "cpu", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
    backends = {name: device.name for name, device in loaded.backends.items()}
    assert backends == {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
    assert spec.DEVICES == ("cpu", "cuda", "tpu")
    with pytest.raises(AttributeError, match="'spec' has no attribute 'DEVICE'"):
        spec.DEVICE  # noqa: B018  # It is the access that raises.


@pytest.mark.parametrize(
    ("test", "passing", "failing"),
    [
        (True, [True], [False]),
        ("prod", ["prod"], ["sum"]),
        (("sum", "mean"), ["sum", "mean"], ["prod"]),
        ({"not": ("sum",)}, ["mean"], ["sum"]),
        ({"min": 2}, [2, 3], [1]),
        ({"max": 2}, [0, 2], [3]),
        ({"min": 2, "max": 3, "not": (3,)}, [2], [1, 3, 4]),
    ],
)
def test_meets(test, passing, failing):
    assert all(meets(test, value) for value in passing)
    assert not any(meets(test, value) for value in failing)


def test_a_condition_asks_for_every_test_and_ignores_other_facts():
    when: dict[str, Any] = {"accumulate": True, "input_ndim": {"min": 2}}
    assert spec.holds(when, {"accumulate": True, "input_ndim": 2, "quantized": False})
    assert not spec.holds(when, {"accumulate": True, "input_ndim": 1})
    assert spec.holds({}, {})
    with pytest.raises(spec.SpecError, match="accumulate"):
        spec.holds({"accumulate": True}, {})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"acumulate": True}, "unknown fact 'acumulate'"),
        ({"accumulate": 1}, "allowed: bool"),
        ({"input_ndim": True}, "allowed: int"),
        ({"mode": "nearest_exact"}, "nearest-exact"),
        ({"cublas_workspace_config": None}, "allowed: string"),
    ],
)
def test_facts_of_a_wrong_name_or_type_are_refused(facts, message):
    with pytest.raises(spec.SpecError, match=message):
        spec.check_facts(facts, spec.load().facts)
    right = {"accumulate": False, "input_ndim": 0, "mode": "area", "cublas_workspace_config": ""}
    spec.check_facts(right, spec.load().facts)


def make_row(id, device="any", when=None, **changes):
    row = spec.load().rows[0]
    behaviour: dict[str, Any] = dict.fromkeys(row.behaviour, "deterministic")
    same = {"op": "op", "direction": "forward", "state": "active", "behaviour": behaviour}
    return dataclasses.replace(row, **same | changes, id=id, device=device, when=when or {})


def decide(rows, device="cuda", direction="forward", facts=None, profile="complete"):
    row = spec.deciding_row(rows, "op", direction, device, facts or {}, profile)
    return row and row.id


def yields(rows):
    """Returns the ids of the rows that decide in place of each row."""
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    return {row.id: [other.id for other in yields_to(row, loaded)] for row in rows}


def test_more_facts_go_before_a_named_device():
    rows = [
        make_row("wide"),
        make_row("cuda", "cuda"),
        make_row("narrow", when={"accumulate": True}),
    ]
    assert decide(rows, facts={"accumulate": True}) == "narrow"
    assert decide(rows, facts={"accumulate": False}) == "cuda"
    assert decide(rows, "cpu", facts={"accumulate": False}) == "wide"
    assert [specificity(row) for row in rows] == [(0, False), (0, True), (1, False)]


def test_a_row_yields_to_the_rows_that_decide_instead():
    unlisted = dict.fromkeys(spec.load().profiles)
    rows = [
        make_row("wide"),
        make_row("cuda", "cuda"),
        make_row("narrow", when={"accumulate": True}),
        make_row("other", when={"accumulate": False}),
        make_row("backward", direction="backward"),
        make_row("out of scope", "cuda", state="out_of_scope"),
        make_row("options", "cuda", kind="backend"),
        make_row("no profile in common", "cuda", behaviour=unlisted),
    ]
    found = yields(rows)
    assert found.pop("wide") == ["cuda", "narrow", "other"]
    assert found.pop("cuda") == ["narrow", "other"]
    assert not any(found.values())
    # Of two equal rows the later one yields.
    assert yields([make_row("first"), make_row("second")]) == {"first": [], "second": ["first"]}


def test_rows_that_do_not_speak_do_not_decide():
    unlisted = dict.fromkeys(spec.load().profiles)
    rows = [
        make_row("other op", op="other"),
        make_row("backward", direction="backward"),
        make_row("cpu", "cpu"),
        make_row("unlisted", behaviour=unlisted),
        make_row("out of scope", state="out_of_scope"),
    ]
    assert decide(rows) is None
    assert decide(rows, direction="backward") == "backward"


def table(root):
    return tomllib.loads((root / "data.toml").read_text(encoding="utf-8"))


def write(root, part=None):
    return versions.write(root, loader.read(root), part)


def entries(root):
    return (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")


def test_a_change_of_a_row_or_a_vocabulary_needs_a_version(root):
    edit(root / "rows/index_add.toml", "it has not raised since", "it last raised before")
    edit(root / "orders.toml", "Last write wins", "Last one wins")
    (problem,) = reports(root)
    assert problem.startswith("data.toml: the rows differ from version ")
    assert problem.endswith(": Changed: R0001, orders. Run `python -m spec version --write`")
    write(root, "patch")
    assert reports(root) == []


def test_many_rows_are_counted():
    ids = tuple(f"R{number:04}" for number in range(1, 31))
    few = versions.Changes(added=ids[:20], changed=(), removed=())
    many = versions.Changes(added=(), changed=(*ids, "facts"), removed=ids[:1])
    assert few.lines() == [f"Added: {', '.join(ids[:20])}."]
    assert many.lines() == ["Changed: 30 rows, facts.", "Removed: R0001."]


@pytest.mark.parametrize("text", ["# Changelog\n", None], ids=["no entry", "no text"])
def test_a_version_needs_an_entry_with_a_text(root, text):
    changelog = root / "CHANGELOG.md"
    heading = re.search(r"(?ms).*?^## .*?\n", changelog.read_text(encoding="utf-8"))
    changelog.write_text(text or heading[0], encoding="utf-8")
    (problem,) = reports(root)
    assert problem.startswith("CHANGELOG.md: the newest entry is not one of version ")


def test_a_new_row_is_described_in_a_minor_version(root):
    before = table(root)["version"]
    add(root, "new", "new", "any")
    version = write(root)
    assert version == versions.raised(before, "minor") == table(root)["version"]
    newest, next_one = entries(root)[1:3]
    assert newest == f"[{version}] - {table(root)['changed'][:10]}\n\n- Added: R9999.\n"
    assert next_one.startswith(f"[{before}]")
    assert reports(root) == []
    files = {file.name: file.read_bytes() for file in root.iterdir() if file.is_file()}
    write(root)  # There is nothing new.
    assert {file.name: file.read_bytes() for file in root.iterdir() if file.is_file()} == files


def test_a_version_that_nobody_has_read_may_stay(root):
    before, older = table(root)["version"], entries(root)
    add(root, "new", "new", "any")
    assert write(root, "same") == before
    assert len(entries(root)) == len(older)
    assert "- Added: R9999.\n- " in entries(root)[1]
    assert reports(root) == []


def test_a_lost_row_makes_a_major_version(root):
    before = table(root)["version"]
    edit(root / "data.toml", "[digests]", '[digests]\nR9999 = "0123456789abcdef"')
    assert versions.changes(loader.read(root), table(root)["digests"]).removed == ("R9999",)
    assert write(root) == versions.raised(before, "major")
    raised = [versions.raised("1.2.3", part) for part in ("major", "minor", "patch", "same")]
    assert raised == ["2.0.0", "1.3.0", "1.2.4", "1.2.3"]


def test_the_command_lists_the_changes_and_writes_them(root, capsys):
    before = table(root)["version"]
    add(root, "new", "new", "any")
    assert main(["--root", str(root), "version"]) == 0
    assert capsys.readouterr().out == f"Added: R9999.\nthe version is {before}\n"
    assert main(["--root", str(root), "version", "--write", "--part", "patch"]) == 0
    raised = versions.raised(before, "patch")
    assert capsys.readouterr().out == f"Added: R9999.\nthe version is {raised}\n"
