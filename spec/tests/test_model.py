"""The records."""

import pytest

import spec


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
