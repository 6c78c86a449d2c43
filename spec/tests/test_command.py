"""The command line and the exports."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spec
from spec.__main__ import main
from spec.export import as_csv, as_json
from spec.loader import ROOT, frozen


def test_json_says_what_the_rows_say():
    loaded = spec.load()
    exported = json.loads(as_json(loaded))
    assert [entry["id"] for entry in exported] == [row.id for row in loaded.rows]
    for entry, row in zip(exported, loaded.rows, strict=True):
        assert entry["behaviour"] == dict(row.behaviour)
        assert frozen(entry["when"]) == row.when
        assert entry["condition"] == row.condition
        assert [source["phrase"] for source in entry["source"]] == [s.phrase for s in row.sources]
        assert (entry["erratum"] is None) == (row.erratum is None)
        same = ("op", "torch", "device", "direction", "caller", "guarantee", "order", "kind")
        assert [entry[name] for name in same] == [getattr(row, name) for name in same]


def test_csv_has_a_line_for_each_row_and_a_column_for_each_profile():
    loaded = spec.load()
    lines = list(csv.DictReader(io.StringIO(as_csv(loaded))))
    for line, row in zip(lines, loaded.rows, strict=True):
        assert line["id"] == row.id
        assert {name: line[name] or None for name in loaded.profiles} == dict(row.behaviour)
        assert json.loads(line["when"]).keys() == row.when.keys()
        assert all(source.phrase in line["source"] for source in row.sources)


@pytest.mark.parametrize(("name", "render"), [("json", as_json), ("csv", as_csv)])
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


def test_a_problem_is_printed_and_fails(tmp_path, capsys):
    root = tmp_path / "spec"
    shutil.copytree(Path(str(ROOT)), root)
    (root / "ids.toml").write_text("[issued]\n[retired]\n", encoding="utf-8")
    assert main(["--root", str(root), "check"]) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == len(spec.load().rows)
    assert "problem(s)" in captured.err
    assert main(["--root", str(root), "ids", "--write"]) == 0
    assert main(["--root", str(root), "check"]) == 0


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
