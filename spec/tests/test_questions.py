"""Ten questions about the rows, which the exported document answers to a reader of JSON alone.

Each answer is a function of the document: it does not import ``spec``.
"""

import ast
import json
from pathlib import Path

import pytest

from spec.tests import reader
from spec.tests.reader import deciding

RESIZED = {"mode": "bilinear", "antialias": True}


def by_id(data):
    return {row["id"]: row for row in data["rows"]}


def releases(row, document):
    """Returns the releases of a document that a row cites."""
    return [r for s in row["source"] if s["document"] == document for r in s["releases"]]


def behaviour_on_cuda(data):
    """Answers what index_add does on a GPU under torch-2.12, and its guarantee."""
    row = deciding(data, "index_add", "forward", "cuda", {}, "torch-2.12")
    return row["id"], row["behaviour"]["torch-2.12"], row["guarantee"]


def raising_ops(data):
    """Answers: which ops raise on a GPU under torch-2.15, and by which name?"""
    return {
        (row["op"], row["caller"].get("torch-2.15"))
        for row in data["rows"]
        if row["behaviour"]["torch-2.15"] == "raise" and row["device"] in ("any", "cuda")
    }


def order_of_a_sort(data):
    """Answers: by which rule does sort order elements?"""
    row = deciding(data, "sort", "forward", "cpu", {}, "complete")
    order = data["orders"][row["order"]]
    return order["title"], order["statement"], order["guarantees"]


def documents_that_list_it(data):
    """Answers: which document lists index_add, in which releases, and at which addresses?"""
    row = deciding(data, "index_add", "forward", "cuda", {}, "torch-1.10")
    url = data["documents"]["list"]["url"]
    listed = releases(row, "list")
    return listed, [url.replace("{release}", release) for release in listed]


def errors_of_the_documents(data):
    """Answers: where do PyTorch's documents differ from its code, and since when?"""
    return {row["op"]: erratum["since"] for row in data["rows"] for erratum in row["errata"]}


def portable_ops(data):
    """Answers: which ops have the same bits on a CPU and on a GPU?"""
    active = [row for row in data["rows"] if row["state"] == "active" and row["kind"] == "op"]
    weaker = {row["op"] for row in active if row["guarantee"] != "portable"}
    return {row["op"] for row in active} - weaker


def row_that_goes_first(data):
    """Answers: two rows match the gradient of a resized image. Which one decides?"""
    rows = by_id(data)
    decided = deciding(data, "nn.functional.interpolate", "backward", "cuda", RESIZED, "complete")[
        "id"
    ]
    return decided, [id for id in ("R0106", "R0111") if decided in rows[id]["yields_to"]]


def filled_memory(data):
    """Answers: which function fills fresh memory, and which setting turns that off?"""
    row = deciding(data, "empty", "forward", "cpu", {"fill_uninitialized_memory": True}, "complete")
    off = deciding(
        data, "empty", "forward", "cpu", {"fill_uninitialized_memory": False}, "complete"
    )
    facts = [data["facts"][name]["about"] for name in row["when"]]
    return row["behaviour"]["complete"], off and off["behaviour"]["complete"], facts


def licence_and_version(data):
    """Answers: may I use the data, of which version are they, and what describes them?"""
    meta = data["meta"]
    return meta["licence"], len(meta["version"].split(".")), meta["schema"]["id"]


def default_and_its_release(data):
    """Answers: which profile holds if I choose none, and which release does it transcribe?"""
    (default,) = [name for name, profile in data["profiles"].items() if profile["default"]]
    return default, data["profiles"][default]["release"]


@pytest.fixture(scope="module")
def data():
    from spec import export, load  # noqa: PLC0415  # to write the document; no answer needs them

    return json.loads(export.as_json(load()))


def test_the_reader_imports_nothing():
    tree = ast.parse(Path(reader.__file__).read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_what_an_op_does_on_a_device_under_a_profile(data):
    assert behaviour_on_cuda(data) == ("R0001", "deterministic", "run_to_run")


def test_which_ops_raise_under_a_profile(data):
    raising = raising_ops(data)
    assert {("bincount", "_bincount_cuda"), ("put", "put_")} <= raising
    assert "index_add" not in {op for op, _ in raising}


def test_the_order_of_an_op_and_its_sentence(data):
    title, statement, guarantees = order_of_a_sort(data)
    assert title == "Stable sort"
    assert statement.startswith("Elements are sorted by value.")
    assert "portable" in guarantees


def test_the_document_that_lists_an_op_and_its_releases(data):
    listed, addresses = documents_that_list_it(data)
    assert listed == ["1.10", "2.12", "2.15"]
    assert addresses[0].startswith("https://docs.pytorch.org/docs/1.10/")


def test_the_errata(data):
    errata = errors_of_the_documents(data)
    assert errata["cumsum"] == "2.6"
    assert "gather" not in errata


def test_the_portable_ops(data):
    portable = portable_ops(data)
    assert {"index_copy", "sort"} <= portable
    assert not {"index_add", "cumsum", "mm", "nn.functional.conv2d"} & portable


def test_the_precedence_of_two_rows_that_match(data):
    assert row_that_goes_first(data) == ("R0109", ["R0106", "R0111"])


def test_the_fill_and_its_setting(data):
    behaviour, off, facts = filled_memory(data)
    assert (behaviour, off) == ("fill", None)
    assert facts == ["The setting `utils.deterministic.fill_uninitialized_memory`."]


def test_the_licence_the_version_and_the_schema(data):
    assert licence_and_version(data) == ("Apache-2.0", 3, "urn:samebits:export-schema:2.0.0")


def test_the_default_profile_and_its_release(data):
    assert default_and_its_release(data) == ("torch-2.12", "2.12")
