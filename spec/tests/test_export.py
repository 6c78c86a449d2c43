"""The command, and the document that it exports."""

import csv
import io
import itertools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

import spec
from spec import export, show
from spec.__main__ import main
from spec.conditions import distinct_calls
from spec.export import as_csv, as_json, schema_as_json
from spec.loader import ROOT, frozen

# A reader of the equations of the document, as a stranger could write it. docs/data.md has a reader
# of the calls in JavaScript, and docs/tests/test_data.py asks it about each call.


def passes(test, value):
    """Returns whether the value of one fact passes the test of a condition."""
    if isinstance(test, dict):
        return (
            value not in test.get("not", [])
            and ("min" not in test or value >= test["min"])
            and ("max" not in test or value <= test["max"])
        )
    return value in test if isinstance(test, list) else value == test


def deciding_primitive(data, primitive, device, facts):
    """Returns the row that decides an equation of a jaxpr, or None."""
    matching = [
        row
        for row in data["primitives"]
        if primitive in row["primitives"]
        and row["device"] in ("any", device)
        and all(passes(test, facts[name]) for name, test in row["when"].items())
    ]
    return max(matching, key=lambda row: (row["device"] != "any", len(row["when"])), default=None)


@pytest.fixture(scope="module")
def text():
    return as_json(spec.load())


@pytest.fixture(scope="module")
def exported(text):
    return json.loads(text)


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(export.schema())
    return jsonschema.Draft202012Validator(export.schema())


def test_rows_are_those_of_the_spec_with_each_erratum(exported):
    loaded = spec.load()
    same = ("op", "torch", "device", "direction", "message", "guarantee", "order", "kind")
    of_erratum = ("statement", "since", "until", "behaviour", "calls", "device", "caller")
    for entry, row in zip(exported["rows"], loaded.rows, strict=True):
        assert entry["behaviour"] == dict(row.behaviour)
        assert frozen(entry["when"]) == row.when
        assert [source["phrase"] for source in entry["source"]] == [s.phrase for s in row.sources]
        assert entry["caller"] == dict(row.callers)
        names = ("id", "condition", *same)
        assert [entry[name] for name in names] == [getattr(row, name) for name in names]
        for written, erratum in zip(entry["errata"], row.errata, strict=True):
            assert frozen(written["when"]) == erratum.when
            assert [written[n] for n in of_erratum] == [getattr(erratum, n) for n in of_erratum]


def test_rows_of_primitives_and_the_classes_of_portable(exported):
    classes = exported["portable"]["classes"]
    for name, found in spec.load().portable.items():
        assert classes[name]["answer"] == found.answer
        assert classes[name]["primitives"] == list(found.primitives)
    assert classes["products"]["dtypes"] == ["bfloat16", "float16", "float32", "float64"]
    assert exported["portable"]["unlisted"]["answer"] == "refused"
    assert [row["id"] for row in exported["primitives"]] == [
        row.id for row in spec.load().primitives
    ]
    assert all(row["evidence"] and "torch" not in row for row in exported["primitives"])
    rows = {row["id"]: row["portable"] for row in (*exported["rows"], *exported["primitives"])}
    assert (rows["R0158"], rows["R0138"]) == ("exact", "rule")
    assert rows["R0412"] == ["sequences"]


def test_a_stranger_finds_answers_in_the_document_alone(exported):
    rows = {row["id"]: row for row in exported["rows"]}
    order = exported["orders"]["stable_sort"]
    assert order["title"] == "Stable sort"
    assert "portable" in order["guarantees"]
    listed = [s["releases"] for s in rows["R0001"]["source"] if s["document"] == "list"]
    assert listed == [["1.10", "2.12", "2.15"]]
    assert "{release}" in exported["documents"]["list"]["url"]
    (erratum,) = rows["R0137"]["errata"]
    assert (erratum["since"], erratum["since_is_bound"], erratum["until"]) == ("1.7", True, "2.9")
    assert all(source["file"] and source["phrase"] for source in erratum["source"])


def test_the_licence_is_that_of_the_distribution(exported):
    pyproject = Path(str(ROOT)).parent / "pyproject.toml"
    if not pyproject.exists():
        pytest.skip("a wheel has no pyproject.toml")
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    assert exported["meta"]["licence"] == project["license"]


def test_the_document_meets_its_schema(exported, validator):
    assert [error.message for error in validator.iter_errors(exported)] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "None is not of type 'string'"),
        ({"behaviour": {"complete": "crash"}}, "'crash' is not one of"),
        ({"mood": "good"}, "'mood' was unexpected"),
        ({"when": {"dtype": {"like": 1}}}, "not valid under any"),
    ],
)
def test_a_broken_row_does_not_meet_the_schema(change, message, exported, validator):
    row = exported["rows"][0]
    assert validator.is_valid({**exported, "rows": [row]})
    errors = validator.iter_errors({**exported, "rows": [{**row, **change}]})
    assert any(message in error.message for error in errors)


def test_csv_has_a_line_for_each_row_and_a_column_for_each_profile():
    loaded = spec.load()
    lines = list(csv.DictReader(io.StringIO(as_csv(loaded))))
    for line, row in zip(lines, loaded.rows, strict=True):
        assert line["id"] == row.id
        assert {name: line[name] or None for name in loaded.profiles} == dict(row.behaviour)
        assert json.loads(line["when"]).keys() == row.when.keys()
        assert all(source.phrase in line["source"] for source in row.sources)
        assert [e["statement"] for e in json.loads(line["errata"] or "[]")] == [
            erratum.statement for erratum in row.errata
        ]


def test_a_reader_of_the_document_decides_equations_as_the_library_does(exported):
    rules = spec.load()
    by_op = itertools.groupby(rules.primitives, key=lambda row: row.op)
    for rows in (list(group) for _, group in by_op):
        primitive = rows[0].primitives[0]
        for facts in distinct_calls(rows, rules.facts):
            for device in ("cpu", "cuda", "any"):
                found = deciding_primitive(exported, primitive, device, facts)
                answer = spec.resolve_primitive(primitive, device, facts)
                assert (found and found["id"]) == (answer.row and answer.row.id)


@pytest.mark.parametrize("name", ["json", "csv", "schema"])
def test_export_writes_to_the_terminal_or_to_a_file(name, text, tmp_path, capsys):
    file = tmp_path / "rows"
    schema = schema_as_json()
    assert main(["export", "--format", name]) == 0
    expected = {"json": text, "csv": as_csv(spec.load()), "schema": schema}[name]
    assert capsys.readouterr().out == expected
    assert main(["export", "--format", "schema", "--output", str(file)]) == 0
    assert file.read_bytes() == schema.encode()


def test_a_problem_is_printed_and_fails(root, capsys):
    (root / "ids.toml").write_text("[issued]\n[retired]\n", encoding="utf-8")
    assert main(["--root", str(root), "check"]) == 1
    captured = capsys.readouterr()
    rules = spec.read(root)
    assert len(captured.out.splitlines()) == len(rules.rows) + len(rules.primitives)
    assert "problem(s)" in captured.err
    assert main(["--root", str(root), "ids", "--write"]) == 0
    assert main(["--root", str(root), "check"]) == 0


def test_locks_are_shown_and_written(root, capsys):
    before = (root / "locks.toml").read_bytes()
    (root / "locks.toml").write_text("", encoding="utf-8")
    assert main(["--root", str(root), "lock", "--write"]) == 0
    assert capsys.readouterr().out.startswith("torch-1.10 ")
    assert (root / "locks.toml").read_bytes() == before


def test_a_folder_or_an_output_that_does_not_fit_is_an_error_in_words(tmp_path, capsys):
    assert main(["--root", str(tmp_path), "export"]) == 1
    assert "profiles.toml" in capsys.readouterr().err
    assert main(["export", "--format", "schema", "--output", str(tmp_path)]) == 1
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


RULES = spec.load()


def shown(capsys, *words):
    assert main(["show", *words]) == 0
    return capsys.readouterr().out


def test_each_condition_has_its_effect_and_its_reasons(capsys):
    text = shown(capsys, "cumsum", "--device", "cuda", "--direction", "forward")
    row = RULES.row("R0059")
    assert text.startswith(f"With the mode on under {RULES.default_profile}:\n")
    assert "cumsum, forward on cuda\n  when the dtype is" in text
    assert ": raises [R0059]\n    Alert: cumsum_cuda_kernel\n" in text
    assert "PyTorch's code since 2.6: deterministic." in text
    assert row.sources[0].phrase in " ".join(text.split())
    assert "  otherwise: the same bits anyway [R0060]\n" in text
    assert "    Guarantee: run_to_run\n    Under portable: another path, of prim" in text
    assert "Listed by: complete, not by torch-2.12" in text
    text = shown(capsys, "sort", "--device", "cuda")
    assert "    Order: stable_sort\n    Guarantee: portable\n" in text
    assert "    Under portable: the same path\n" in text
    assert "\nThe order stable_sort\n  Elements are sorted by value." in text


def test_a_profile_can_be_named(capsys):
    text = shown(capsys, "cumsum", "--device", "cuda", "--profile", "complete")
    assert "cumsum, forward on cuda, backward on cuda\n  always: deterministic [R0060]\n" in text
    assert "raises" not in text


def test_the_name_in_pytorch_is_taken_and_a_call_that_no_row_is_about(capsys):
    assert shown(capsys, "torch.nn.AvgPool3d") == shown(capsys, "nn.functional.avg_pool3d")
    text = shown(capsys, "gather", "--direction", "forward")
    assert "gather, forward on cpu and cuda and tpu\n  always: the same bits anyway\n" in text


def test_a_primitive_of_jax_has_its_path_on_each_device(capsys):
    text = shown(capsys, "scatter-add")
    assert "scatter-add, on cpu\n  always: the same bits anyway [R0515]\n" in text
    assert "\n  otherwise: deterministic [R0400]\n" in text
    assert 'guarantee="portable"\n  Computed by a rule. It is the exact sum, rounded once.' in text
    assert "\nThe order source\n" in text
    assert (
        shown(capsys, "lax.scatter_add")
        .partition("\n")[2]
        .replace("lax.scatter_add", "scatter-add")
        == text.partition("\n")[2]
    )
    assert shown(capsys, "dce_sink").startswith("dce_sink, with guarantee")
    assert "`psum_start`, `psum_invariant_start`, `psum_done`: Refused" in " ".join(
        shown(capsys, "lax.psum").split()
    )


def test_every_op_can_be_shown():
    for op in sorted({row.op for row in RULES.select(active=True)}):
        lines = show.text(op, RULES, profile="torch-1.10").splitlines()
        assert lines[2].startswith(op)
        assert all(len(line) <= 100 or " " not in line.strip() for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cumsm"], "no row is about the op 'cumsm'; close to it: cumsum"),
        (["cumsum", "--device", "npu"], "no device 'npu'; there are cpu, cuda, tpu"),
        (["cumsum", "--profile", "torch-9"], "no profile 'torch-9'; there are torch-1.10,"),
    ],
)
def test_an_unknown_name_is_an_error_in_words(words, message, capsys):
    assert main(["show", *words]) == 1
    assert message in capsys.readouterr().err
