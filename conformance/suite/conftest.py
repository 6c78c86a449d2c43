"""Fixtures of the suite, and the cells that each of its tests gets."""

from __future__ import annotations

import functools
import gc
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import pytest

import spec
from conformance.adapters.base import Adapter
from conformance.pytest_plugin import run
from conformance.suite import releases
from conformance.suite.cells import Cell, cells, portable_cells, words_of


@pytest.fixture(scope="session")
def implementation(request: pytest.FixtureRequest) -> Adapter:
    """The adapter of the implementation under test."""
    return run.implementation(request.config)


@pytest.fixture(scope="session")
def namespace(implementation: Adapter) -> Any:
    """The ops under test, by dotted name."""
    return implementation.namespace


@pytest.fixture(scope="session")
def repeats(request: pytest.FixtureRequest, implementation: Adapter) -> int:
    """The number of runs whose bits are compared."""
    number: int | None = request.config.getoption("--repeats")
    return number or implementation.repeats(implementation.devices()[0])


@pytest.fixture(autouse=True)
def _mode_off(implementation: Adapter) -> Iterator[None]:
    implementation.set_mode(False)
    yield
    implementation.set_mode(False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each test with the argument ``cell`` the cells that it is about.

    A test names behaviours in its mark ``about``, and a device if it is about one alone.
    ``profiles="one"`` takes each call under one profile alone, and ``alike`` takes the first of the
    cells with the same key.
    """
    groups = {"calls": _calls, "under_profiles": _under_profiles, "portable_cell": _portable}
    for name in groups.keys() & set(metafunc.fixturenames):
        parameters = []
        for id, own in groups[name](metafunc.config):
            value = own[0] if name == "portable_cell" else own
            parameters.append(pytest.param(value, id=id, marks=_one_worker(own[0])))
        metafunc.parametrize(name, parameters)
    if "cell" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("about")
    assert mark is not None, f"{metafunc.function.__name__} names no behaviour"
    profile = metafunc.config.getoption("--profile") or spec.load().default_profile
    only_profile = profile if mark.kwargs.get("profiles") == "one" else None
    of_test = [
        cell
        for cell in _cells_of_run(metafunc.config)
        if cell.behaviour in mark.args
        and mark.kwargs.get("device") in (None, cell.device)
        and (only_profile or cell.profile) == cell.profile
    ]
    adapter = run.implementation(metafunc.config)
    # It is unknown which calls another implementation treats alike.
    if "alike" in mark.kwargs and adapter.of_this_project:
        first: dict[Hashable, Cell] = {}
        for cell in of_test:
            first.setdefault(mark.kwargs["alike"](adapter, cell), cell)
        of_test = list(first.values())
    metafunc.parametrize("cell", list(_marked(of_test)), ids=str)


def _marked(of_test: Iterable[Cell]) -> Iterator[Any]:
    """Yields cells as parameters. Two cells of one code and the same dtypes are alike.

    Another release of JAX has nothing new for the second, which its mark says.
    """
    known: set[Hashable] = set()
    for cell in of_test:
        code = cell.device, cell.profile, cell.op, cell.direction, cell.row and cell.row.id
        key = code, words_of(cell.sample), *(array.dtype for array in cell.sample.arrays)
        once = [pytest.mark.once] if key in known else []
        known.add(key)
        yield pytest.param(cell, marks=[_one_worker(cell), *once])


def _one_worker(cell: Cell) -> pytest.MarkDecorator:
    """Returns the mark by which one worker gets all tests of a sample.

    Cells of one call often have one program, which that worker compiles once.
    """
    return pytest.mark.xdist_group(f"{cell.op} {cell.sample.name}")


def _calls(config: pytest.Config) -> Iterator[tuple[str, list[Cell]]]:
    """Yields the calls of each row that guarantees nothing with the mode off."""
    by_row: dict[str, dict[Hashable, Cell]] = {}
    for cell in _cells_of_run(config):
        row = cell.row
        if row and row.mode_off and cell.device == "cuda" and cell.behaviour == "deterministic":
            by_row.setdefault(row.id, {}).setdefault(cell.call(), cell)
    for id, by_call in by_row.items():
        first, *_ = calls = list(by_call.values())
        yield f"{id}-{first.op}-{first.direction}", calls


def _under_profiles(config: pytest.Config) -> Iterator[tuple[str, list[Cell]]]:
    """Yields each call for CUDA, under every profile of the run."""
    by_call: dict[Hashable, list[Cell]] = {}
    for cell in _cells_of_run(config):
        if cell.device == "cuda":
            by_call.setdefault(cell.call(), []).append(cell)
    for own in by_call.values():
        yield f"{own[0].op}-{own[0].direction}-{own[0].sample.name}", own


def _portable(config: pytest.Config) -> Iterator[tuple[str, list[Cell]]]:
    """Yields the calls that are exact under portable on a GPU here, each alone.

    On a CPU, a unit test asks for the bits of every sample (``conformance/tests/every_op``).
    """
    devices = {*run.implementation(config).devices()} - {"cpu"}
    for cell in portable_cells(_cells_of_run(config), devices):
        yield str(cell), [cell]


def _cells_of_run(config: pytest.Config) -> Iterator[Cell]:
    """Yields the cells that this machine can test, under the profiles of the run."""
    adapter = run.implementation(config)
    device = config.getoption("--device") or adapter.devices()[0]
    profile, devices = config.getoption("--profile"), spec.load().devices
    for cell in _cells_of_release(adapter.release):
        # A machine with a GPU tests rows of the GPU. A CPU also stands in for a GPU.
        stands_in = device == "cpu" and adapter.can_lower and devices[cell.device].stand_ins
        if (cell.device == device or stands_in) and profile in (None, cell.profile):
            yield cell


@functools.cache
def _cells_of_release(release: str | None) -> Sequence[Cell]:
    """Returns the cells. For a release of PyTorch, with the behaviour to expect of it."""
    if release is None:
        return cells()
    transcribed = [cell for cell in cells() if spec.load().profiles[cell.profile].release]
    return [releases.for_release(cell, release) for cell in transcribed]


def pytest_collection_finish() -> None:
    """Spares the garbage collector the modules and the tests, which live until the run ends.

    Tracing allocates so much that collections would otherwise take a tenth of a run.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks of the suite."""
    config.addinivalue_line("markers", "about(*behaviours): the cells that a test takes")
    config.addinivalue_line("markers", "once: an earlier test has the code and the dtypes of it")
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one worker")
