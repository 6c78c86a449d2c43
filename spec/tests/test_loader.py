"""The files of a spec are read, and become rows, profiles and conditions."""

import dataclasses
import re
import tomllib
from collections import Counter
from typing import Any

import pytest

import spec
from spec import loader
from spec.__main__ import main
from spec.check import versions
from spec.conditions import meets, specificity, yields_to
from spec.loader import frozen, thawed
from spec.tests._edits import add, edit, reports

TORCH = [name for name, profile in spec.load().profiles.items() if profile.release]


def test_it_is_read_once_and_frozen():
    assert spec.load() is spec.load()
    row: Any = spec.load().rows[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.op = "other"
    with pytest.raises(TypeError):
        row.behaviour["complete"] = None


def test_frozen_is_undone_by_thawed():
    when = {"a": [1, 2], "b": {"not": ["x"], "min": 1}, "c": True}
    held: Any = frozen(when)
    assert isinstance(held["a"], tuple)
    with pytest.raises(TypeError):
        held["b"]["min"] = 2
    assert thawed(held) == when


def test_a_row_knows_the_file_that_has_it():
    assert spec.load().row("R0121").family == "max_pool"


def test_every_row_names_every_profile():
    loaded = spec.load()
    assert all(list(row.behaviour) == list(loaded.profiles) for row in loaded.rows)
    assert len({row.id for row in loaded.rows}) == len(loaded.rows)


@pytest.mark.parametrize("profile", TORCH)
def test_a_profile_of_pytorch_has_both_lists(profile):
    behaviours = Counter(row.behaviour[profile] for row in spec.load().select(active=True))
    assert behaviours["deterministic"]
    assert behaviours["raise"]


def test_nothing_raises_under_complete_and_each_device_has_rows():
    rows = spec.load().select(profile="complete")
    assert not [row.id for row in rows if row.behaviour["complete"] == "raise"]
    for listed in spec.load().select(kind="op", active=True):
        family = [r for r in rows if (r.op, r.direction) == (listed.op, listed.direction)]
        assert [device for device in ("cpu", "cuda") if any(r.covers(device) for r in family)] == [
            "cpu",
            "cuda",
        ]


def test_an_alert_has_a_name_and_a_deterministic_row_a_guarantee():
    for row in spec.load().select(active=True):
        listed = set(row.behaviour.values())
        raising = {name for name, behaviour in row.behaviour.items() if behaviour == "raise"}
        assert set(row.callers) == (set() if row.message else raising)
        assert bool(row.guarantee) == ("deterministic" in listed or row.statement is not None)


def test_rows_without_a_platform_say_why():
    rows = spec.load().select(active=False)
    assert all(row.reason for row in rows)
    assert {row.device for row in rows if row.kind == "op"} == {"mps"}
    assert not [row.id for row in rows if row.behaviour["complete"]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows/index_add.toml", "[[row]", "index_add.toml is not TOML"),
        ("rows/index_add.toml", '[[row]]\nid = "R0001"', "R0001: KeyError.*spec check"),
        ("rows/index_add.toml", '[[row]]\nid="R1"\ndevise="any"\nsource=[]', "R1: .*device"),
        (
            "rows/index_add.toml",
            '[[row]]\nid="R1"\ndevice="any"\nsource=[]\nbehaviour={x="raise"}',
            r"R1: .*\['x'\]",
        ),
        (
            "rows/index_add.toml",
            '[[row]]\nid="R1"\nop="a"\ndevice="gpu"\nsource=[]\nbehaviour={complete="raise"}',
            "R1: .*gpu",
        ),
        ("profiles.toml", "[complete]", "profiles.toml: TypeError.*spec check"),
        ("devices.toml", "[cpu]", "devices.toml: KeyError.*spec check"),
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


def test_a_row_covers_devices_and_decides_directions():
    loaded = spec.load()
    any_device, forward = loaded.row("R0060"), loaded.row("R0113")
    assert any_device.covers("cpu")
    assert any_device.covers("cuda")
    assert any_device.decides("forward")
    assert any_device.decides("backward")
    assert forward.covers("cuda")
    assert not forward.covers("cpu")
    assert not forward.decides("backward")


def test_platforms_and_backends_of_jax_are_devices():
    loaded = spec.load()
    platforms = {name: device.name for name, device in loaded.platforms.items()}
    assert platforms == {"cpu": "cpu", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
    backends = {name: device.name for name, device in loaded.backends.items()}
    assert backends == {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}


def test_devices_are_those_with_a_platform():
    assert spec.DEVICES == ("cpu", "cuda", "tpu")
    assert [device.name for device in spec.load().devices.values()] == ["cpu", "cuda", "tpu", "mps"]
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


def test_holds_asks_for_every_test_and_ignores_other_facts():
    when: dict[str, Any] = {"accumulate": True, "input_ndim": {"min": 2}}
    assert spec.holds(when, {"accumulate": True, "input_ndim": 2, "quantized": False})
    assert not spec.holds(when, {"accumulate": True, "input_ndim": 1})
    assert spec.holds({}, {})


def test_a_fact_that_was_not_stated_is_an_error():
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
def test_check_facts_refuses(facts, message):
    with pytest.raises(spec.SpecError, match=message):
        spec.check_facts(facts, spec.load().facts)


def test_check_facts_takes_every_type():
    facts: dict[str, Any] = {
        "accumulate": False,
        "input_ndim": 0,
        "mode": "area",
        "cublas_workspace_config": "",
    }
    spec.check_facts(facts, spec.load().facts)


def make_row(id, device="any", when=None, **changes):
    row = spec.load().rows[0]
    behaviour: dict[str, Any] = dict.fromkeys(row.behaviour, "deterministic")
    made = dataclasses.replace(
        row,
        id=id,
        op="op",
        direction="forward",
        device=device,
        when=when or {},
        behaviour=behaviour,
        state="active",
    )
    return dataclasses.replace(made, **changes)


def decide(rows, device="cuda", direction="forward", facts=None, profile="complete"):
    row = spec.deciding_row(rows, "op", direction, device, facts or {}, profile)
    return row and row.id


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
    rows = [
        make_row("wide"),
        make_row("cuda", "cuda"),
        make_row("narrow", when={"accumulate": True}),
        make_row("other", when={"accumulate": False}),
        make_row("backward", direction="backward"),
        make_row("out of scope", "cuda", state="out_of_scope"),
        make_row("options", "cuda", kind="backend"),
    ]
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    yields = {row.id: [r.id for r in yields_to(row, loaded)] for row in rows}
    assert yields.pop("wide") == ["cuda", "narrow", "other"]
    assert yields.pop("cuda") == ["narrow", "other"]
    assert not any(yields.values())


def test_of_two_equal_rows_the_later_one_yields():
    rows = [make_row("first"), make_row("second")]
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    assert [yields_to(row, loaded) for row in rows] == [(), (rows[0],)]


def test_rows_without_a_profile_in_common_do_not_yield():
    listed = dict.fromkeys(spec.load().profiles)
    rows = [
        make_row("ours", behaviour={**listed, "complete": "deterministic"}),
        make_row("theirs", "cuda", behaviour={**listed, "torch-2.12": "deterministic"}),
    ]
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    assert [yields_to(row, loaded) for row in rows] == [(), ()]


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


def test_a_change_of_a_row_needs_a_version(root):
    edit(root / "rows/index_add.toml", "it has not raised since", "it last raised before")
    (problem,) = reports(root)
    assert problem.startswith("data.toml: the rows differ from version ")
    assert problem.endswith(": Changed: R0001. Run `python -m spec version --write`")
    write(root, "patch")
    assert reports(root) == []


def test_a_change_of_a_vocabulary_needs_a_version(root):
    edit(root / "orders.toml", "Last write wins", "Last one wins")
    (problem,) = reports(root)
    assert "Changed: orders. Run" in problem


def test_many_rows_are_counted():
    ids = tuple(f"R{number:04}" for number in range(1, 31))
    few = versions.Changes(added=ids[:20], changed=(), removed=())
    many = versions.Changes(added=(), changed=(*ids, "facts"), removed=ids[:1])
    assert few.lines() == [f"Added: {', '.join(ids[:20])}."]
    assert many.lines() == ["Changed: 30 rows, facts.", "Removed: R0001."]


def test_a_version_needs_an_entry(root):
    (root / "CHANGELOG.md").write_text("# Changelog\n", encoding="utf-8")
    (problem,) = reports(root)
    assert problem.startswith("CHANGELOG.md: the newest entry is not one of version ")


def test_an_entry_needs_a_text(root):
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    heading = re.search(r"^## .*\n", text, re.MULTILINE)
    changelog.write_text(text[: heading.end()], encoding="utf-8")
    (problem,) = reports(root)
    assert problem.startswith("CHANGELOG.md")


def test_a_new_row_is_described_in_a_minor_version(root):
    before = table(root)["version"]
    add(root, "new", "new", "torch.new", "any")
    version = write(root)
    assert version == versions.raised(before, "minor") == table(root)["version"]
    entries = (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert entries[1] == f"[{version}] - {table(root)['changed'][:10]}\n\n- Added: R9999.\n"
    assert entries[2].startswith(f"[{before}]")
    assert reports(root) == []


def test_a_version_that_nobody_has_read_may_stay(root):
    before = table(root)["version"]
    entries = (root / "CHANGELOG.md").read_text(encoding="utf-8").count("\n## ")
    add(root, "new", "new", "torch.new", "any")
    assert write(root, "same") == before
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == entries
    assert "- Added: R9999.\n- " in text
    assert reports(root) == []


def test_a_lost_row_makes_a_major_version(root):
    before = table(root)["version"]
    edit(root / "data.toml", "[digests]", '[digests]\nR9999 = "0123456789abcdef"')
    assert versions.changes(loader.read(root), table(root)["digests"]).removed == ("R9999",)
    assert write(root) == versions.raised(before, "major")


def test_without_a_change_nothing_is_written(root):
    before = {file.name: file.read_bytes() for file in root.iterdir() if file.is_file()}
    write(root)
    assert {file.name: file.read_bytes() for file in root.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("part", "expected"),
    [("major", "2.0.0"), ("minor", "1.3.0"), ("patch", "1.2.4"), ("same", "1.2.3")],
)
def test_a_part_is_raised(part, expected):
    assert versions.raised("1.2.3", part) == expected


def test_the_command_lists_the_changes_and_writes_them(root, capsys):
    before = table(root)["version"]
    add(root, "new", "new", "torch.new", "any")
    assert main(["--root", str(root), "version"]) == 0
    assert capsys.readouterr().out == f"Added: R9999.\nthe version is {before}\n"
    assert main(["--root", str(root), "version", "--write", "--part", "patch"]) == 0
    raised = versions.raised(before, "patch")
    assert capsys.readouterr().out == f"Added: R9999.\nthe version is {raised}\n"
