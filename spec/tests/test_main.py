"""The command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spec
from spec.__main__ import main
from spec.export import as_csv, as_json, schema_as_json
from spec.loader import ROOT


@pytest.mark.parametrize(
    ("name", "render"),
    [("json", as_json), ("csv", as_csv), ("schema", lambda _: schema_as_json())],
)
def test_export_writes_the_same_to_a_file_and_to_the_terminal(name, render, tmp_path, capsys):
    file = tmp_path / "rows"
    assert main(["export", "--format", name]) == 0
    assert main(["export", "--format", name, "--output", str(file)]) == 0
    assert capsys.readouterr().out == render(spec.load())
    assert file.read_bytes() == render(spec.load()).encode()


def test_check_and_ids_of_the_spec(capsys):
    assert main(["check"]) == 0
    assert main(["ids"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{len(spec.load().rows)} rows, no problem"
    assert out[1].startswith("the next free id is R")


def test_a_problem_is_printed_and_fails(root, capsys):
    (root / "ids.toml").write_text("[issued]\n[retired]\n", encoding="utf-8")
    assert main(["--root", str(root), "check"]) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == len(spec.read(root).rows)
    assert "problem(s)" in captured.err
    assert main(["--root", str(root), "ids", "--write"]) == 0
    assert main(["--root", str(root), "check"]) == 0


def test_locks_are_shown_and_written(root, capsys):
    before = (root / "locks.toml").read_bytes()
    (root / "locks.toml").write_text("", encoding="utf-8")
    assert main(["--root", str(root), "lock", "--write"]) == 0
    assert capsys.readouterr().out.startswith("torch-1.10 ")
    assert (root / "locks.toml").read_bytes() == before


def test_a_folder_that_is_no_spec_is_an_error_in_words(tmp_path, capsys):
    assert main(["--root", str(tmp_path), "export"]) == 1
    assert "profiles.toml" in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_an_error_in_words(tmp_path, capsys):
    assert main(["export", "--output", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="a pipe closed by its reader is POSIX's")
def test_a_reader_that_goes_away_is_an_error_in_words():
    command = [sys.executable, "-m", "spec", "export"]
    repository = Path(str(ROOT)).parent
    with subprocess.Popen(
        command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 1
    assert error == "python -m spec: the reader of the output went away before its end\n"
