"""An editable installation has folders for Python's path, and runs nothing when Python starts."""

import csv
import io
import sys
import zipfile
from pathlib import Path

import pytest

import impl

BACKEND = Path(impl.__file__).parent / "_native" / "build_backend"
pytestmark = pytest.mark.once


@pytest.fixture
def backend(monkeypatch):
    pytest.importorskip("scikit_build_core")
    if not BACKEND.is_dir():
        pytest.skip("needs a checkout")
    monkeypatch.syspath_prepend(str(BACKEND))
    monkeypatch.delitem(sys.modules, "samebits_backend", raising=False)
    return pytest.importorskip("samebits_backend")


def test_an_editable_wheel_has_no_import_hook(backend, monkeypatch, tmp_path):
    monkeypatch.chdir(BACKEND.parents[2])
    monkeypatch.setenv("SAMEBITS_NATIVE", "off")
    name = backend.build_editable(str(tmp_path))
    assert name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(tmp_path / name) as wheel:
        files = {path: wheel.read(path).decode() for path in wheel.namelist()}
    at_the_top = [path for path in files if "/" not in path]
    assert [Path(path).suffix for path in at_the_top] == [".pth"]
    root = BACKEND.parents[2]
    assert files[at_the_top[0]].splitlines() == [str(root), str(root / "impl/_alias")]
    (record,) = (path for path in files if path.endswith("RECORD"))
    assert sorted(line[0] for line in csv.reader(io.StringIO(files[record]))) == sorted(files)


def test_only_what_runs_at_the_start_is_left_out(backend):
    record = "a.dist-info/RECORD"
    files = {
        "_hook.py": b"install()",
        "_hook.pth": b"import _hook\n/one\n/one\n/two\n",
        "_hook.start": b"_hook:install",
        "a.dist-info/METADATA": b"Name: a",
        record: b"_hook.py,sha256=1,9\n",
    }
    rest = backend.without_hook(files)
    assert list(rest) == ["_hook.pth", "a.dist-info/METADATA", record]
    assert rest["_hook.pth"] == b"/one\n/two\n"
    # By `sha256sum`, in the base64 of URLs.
    assert rest[record].decode().splitlines() == [
        "_hook.pth,sha256=YPd6bK3PlrfchtFDgiqoMhrGbxY-2mn7kogowpXw6wo,10",
        "a.dist-info/METADATA,sha256=fL5Xc15sud_--6G9LmnONYiqLvJ9HLh3fHVlPnQBHIg,7",
        "a.dist-info/RECORD,,",
    ]
