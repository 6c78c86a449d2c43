"""Files with a loader's state: damaged ones, and ones that cannot be written."""

import contextlib
import os
import resource

import pytest

from impl.tests.data._loaders import shuffled
from impl.utils import data

DAMAGES = {
    "empty": (lambda content: content[:0], "is not a file that DataLoader.save wrote"),
    "foreign": (lambda content: b"PK\3\4" + content, "is not a file that DataLoader.save wrote"),
    "cut": (lambda content: content[:-1], "cut short or added to"),
    "longer": (lambda content: content + b" ", "cut short or added to"),
    "a bit": (lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "damaged"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused(name, tmp_path):
    damage, message = DAMAGES[name]
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    path.write_bytes(damage(path.read_bytes()))
    state = loader.state_dict()
    with pytest.raises(ValueError, match=message):
        loader.restore(path)
    assert loader.state_dict() == state


def names(folder):
    return [path.name for path in folder.iterdir()]


@contextlib.contextmanager
def largest_file(size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_file_that_cannot_be_written_leaves_the_earlier_one(tmp_path):
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    content = path.read_bytes()
    next(iter(loader))
    with largest_file(100), pytest.raises(OSError, match="File too large") as raised:
        loader.save(path)
    assert "is unchanged" in raised.value.__notes__[0]
    assert path.read_bytes() == content
    assert names(tmp_path) == ["state"]
    loader.save(path)
    assert path.read_bytes() != content


def test_a_failed_rename_leaves_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    content = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (tmp_path / "nothing").stat())
    next(iter(loader))
    with pytest.raises(FileNotFoundError):
        loader.save(path)
    assert path.read_bytes() == content
    assert names(tmp_path) == ["state"]


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1]
        )
    shuffled().save(tmp_path / "state")
    assert calls == ["fsync", "replace", "fsync"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "state")
    shuffled().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    shuffled().restore(tmp_path / "state")


def test_what_json_has_no_form_for_is_refused(tmp_path):
    loader = data.DataLoader({1j: 1.0}, sampler=[1j])
    next(iter(loader))
    loader.load_state_dict(loader.state_dict() | {"epoch": None})
    iter(loader)
    with pytest.raises(TypeError, match="cannot be written to a file: got a complex"):
        loader.save(tmp_path / "state")
    assert names(tmp_path) == []
