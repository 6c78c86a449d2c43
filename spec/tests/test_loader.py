"""Reading the TOML files."""

import dataclasses
from collections import Counter
from typing import Any

import pytest

import spec
from spec.loader import frozen, thawed

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
