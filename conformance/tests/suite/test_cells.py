"""Cells have names that tell them apart, and some of them are alike for a test."""

import functools
import inspect
import types

import pytest

import impl
import spec
from conformance.adapters import base
from conformance.suite import conftest, test_rows
from conformance.suite.cells import cells, to_edit


def test_names_of_cells_are_unique():
    names = [str(cell) for cell in cells()]
    assert len(names) == len(set(names))


def on_a_cpu():
    if base.load("impl").devices()[0] != "cpu":
        pytest.skip("the CPU stands in for a GPU only where there is none")


def test_every_path_of_a_stand_in_is_tried_once():
    on_a_cpu()
    cuda = [cell for cell in cells() if cell.device == "cuda"]
    keys = {test_rows.path(base.load("impl"), cell) for cell in cuda}
    assert len(keys) < len({cell.call() for cell in cuda}) < len(cuda)
    # An op has a path for each direction, row and reduction.
    reductions = [cell for cell in cuda if cell.op == "index_reduce" and cell.row is not None]
    paths = {test_rows.path(base.load("impl"), cell) for cell in reductions}
    names = ("reduce", "dtype")
    stated = {(c.direction, c.row.id, *map(c.sample.facts.get, names)) for c in reductions}
    assert len(paths) == len(stated)
    of_cpu = [cell for cell in cells() if cell.device == "cpu" and cell.profile == "complete"]
    assert_alike(test_rows.path, of_cpu, lambda c: (c.op, c.direction, c.answer.row))


def test_each_test_of_rows_gets_cells():
    options = {"--namespace": "impl"}
    config = types.SimpleNamespace(getoption=options.get, stash=pytest.Stash())
    for name, function in vars(test_rows).items():
        marks = {mark.name: mark for mark in getattr(function, "pytestmark", ())}
        if "about" not in marks:
            continue
        given = []
        of_function = types.SimpleNamespace(
            function=function,
            fixturenames=inspect.signature(function).parameters,
            config=config,
            definition=types.SimpleNamespace(get_closest_marker=marks.get),
            parametrize=lambda _, cells, given=given, **__: given.extend(cells),
        )
        conftest.pytest_generate_tests(of_function)
        assert given, f"{name} gets no cells"


def test_every_call_of_a_gpu_is_a_path(monkeypatch):
    implementation = base.load("impl")
    monkeypatch.setattr(type(implementation), "lowerings", lambda *_: ("native",))
    cuda = [cell for cell in cells() if cell.device == "cuda" and cell.profile == "complete"]
    assert len({test_rows.path(implementation, cell) for cell in cuda}) == len(cuda)


def test_the_first_call_of_a_path_with_its_dtypes_contracts():
    sums = [cell for cell in cells() if cell.op == "index_add" and cell.device == "cuda"]
    first = {cell.sample.name for cell in sums if test_rows.contracts(cell)}
    assert first == {"floating", "integer", "narrow"}


def test_cells_with_one_alert_have_an_op_a_row_and_a_caller_in_common():
    on_a_cpu()
    refused = [cell for cell in cells() if cell.behaviour == "raise"]
    assert_alike(test_rows.alert_of, refused, lambda c: (c.op, c.direction, c.row, c.caller))


def test_unlisted_calls_of_one_path_have_an_op_a_row_and_a_profile_in_common():
    on_a_cpu()
    unlisted = [cell for cell in cells() if cell.behaviour is None]
    with_row = [cell for cell in unlisted if cell.answer.row]
    others = [cell for cell in unlisted if not cell.answer.row]
    assert_alike(
        test_rows.unlisted_path,
        with_row,
        lambda c: (c.op, c.direction, c.device, c.answer.row, c.profile),
    )
    assert len({test_rows.unlisted_path(base.load("impl"), c) for c in others}) == len(others)


def assert_alike(key, several, common):
    """Compares what the cells of one key have in common; some key has several cells."""
    first = {}
    for cell in several:
        like = first.setdefault(key(base.load("impl"), cell), cell)
        assert common(cell) == common(like)
    assert len(first) < len(several)


def test_a_failure_names_the_module_of_a_wrapped_function_and_the_file_of_a_row():
    @functools.wraps(impl.index_add)
    def wrapped(*args, **options):
        return impl.index_add(*args, **options)

    namespace = types.SimpleNamespace(index_add=wrapped)
    assert list(to_edit(spec.load().row("R0001"), "index_add", namespace)) == [
        "edit:  index_add in impl.ops._scatters, if the implementation is wrong",
        "       spec/rows/index_add.toml, if a row is wrong",
    ]
    assert list(to_edit(None, "index_add", types.SimpleNamespace())) == [
        "edit:  index_add in the namespace, if the implementation is wrong",
        "       spec/rows/index_add.toml, if a row is missing",
    ]
