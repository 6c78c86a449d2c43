"""The folder of a run: a run continues only if nothing that decides its results has changed."""

import pytest

from conformance.hardware import run_folder
from conformance.hardware.journal import FinishedTest, Journal
from conformance.hardware.run_folder import OtherRunError, RunFolder, source_digest
from conformance.tests.hardware.examples import record


def test_a_run_continues_only_with_the_same_identity(tmp_path):
    path, failed = tmp_path / "parts", FinishedTest(1, "a", "failed", (record(),), "why")
    folder = RunFolder(path, {"jax": "1", "device": "x"})
    with Journal(folder.new_name().with_suffix(".jsonl")) as journal:
        journal.write({"event": "started", "test": "a", "about": None})
        journal.write(failed.to_line())
    with (path / "process-001.jsonl").open("a") as file:
        file.write('{"event": "fini')  # The process died while it wrote this line.
    with pytest.raises(OtherRunError, match=r"device x then, y now; jax 1 then, None now.*Remove"):
        RunFolder(path, {"device": "y"})
    second = RunFolder(path, {"jax": "1", "device": "x"})
    assert second.finished_tests() == [failed]
    assert second.new_name().name == "process-002"
    second.close(complete=False)
    assert sorted(file.name for file in path.iterdir()) == ["process-000.jsonl", "run.json"]
    assert RunFolder(path, {"jax": "1", "device": "x"}).finished_tests() == [failed]
    second.close(complete=True)
    assert not path.exists()


def test_a_change_of_the_code_changes_the_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "_PACKAGES", ("changing",))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "changing" / "tests").mkdir(parents=True)
    digests = []
    for name, text in (("__init__.py", ""), ("a.toml", "x"), ("a.toml", "y"), ("tests/t.py", "")):
        (tmp_path / "changing" / name).write_text(text)
        digests.append(source_digest("conformance.tests._plain"))
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]
