"""What the suite's tests are given."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import spec
from conformance import documents, plugin
from conformance.cells import Cell, cells
from conformance.implementation import Implementation


@pytest.fixture(scope="session")
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """What is tried."""
    return plugin.implementation(request.config)


@pytest.fixture(scope="session")
def namespace(implementation: Implementation) -> Any:
    """The ops that are tried, by dotted name."""
    return implementation.namespace


@pytest.fixture(scope="session")
def repeats(request: pytest.FixtureRequest, implementation: Implementation) -> int:
    """How often a call is run to compare bits."""
    asked: int | None = request.config.getoption("--repeats")
    return asked or implementation.repeats(implementation.devices()[0])


@pytest.fixture(autouse=True)
def _mode_off(implementation: Implementation) -> Iterator[None]:
    implementation.set_mode(False)
    yield
    implementation.set_mode(False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each test that asks for a ``cell`` those that it is about.

    A test names the behaviours that it is about in the mark ``about``, and the device if it is
    only about one; ``profiles="one"`` takes each call under one profile alone.
    """
    if "calls" in metafunc.fixturenames:
        _generate_calls(metafunc)
    if "cell" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("about")
    assert mark is not None, f"{metafunc.function.__name__} names no behaviour"
    asked = metafunc.config.getoption("--profile") or spec.load().default_profile
    one = asked if mark.kwargs.get("profiles") == "one" else None
    found = [
        # Cells of one call often have one program, which a worker then compiles once.
        pytest.param(cell, marks=pytest.mark.xdist_group(f"{cell.op} {cell.sample.name}"))
        for cell in _tried(metafunc.config)
        if cell.behaviour in mark.args
        and mark.kwargs.get("device") in (None, cell.device)
        and (one or cell.profile) == cell.profile
    ]
    metafunc.parametrize("cell", found, ids=str)


def _generate_calls(metafunc: pytest.Metafunc) -> None:
    """Gives a test that asks for ``calls`` those of each row that guarantees nothing otherwise."""
    found: dict[str, dict[Any, Cell]] = {}
    for cell in _tried(metafunc.config):
        row = cell.row
        if row is None or cell.device != "cuda" or cell.behaviour != "deterministic":
            continue
        if row.mode_off:
            found.setdefault(row.id, {}).setdefault(cell.call(), cell)
    every = []
    for row_id, by_call in found.items():
        calls = list(by_call.values())
        first = calls[0]
        group = pytest.mark.xdist_group(f"{first.op} {first.sample.name}")
        every.append(pytest.param(calls, id=f"{row_id}-{first.op}-{first.direction}", marks=group))
    metafunc.parametrize("calls", every)


def _tried(config: pytest.Config) -> Iterator[Cell]:
    tried = plugin.implementation(config)
    device = config.getoption("--device") or tried.devices()[0]
    profile = config.getoption("--profile")
    for cell in _seen_by(tried.release):
        # A machine with a GPU tries the GPU; one without stands in for it as well.
        if device == "cuda" and cell.device != "cuda":
            continue
        if not tried.can_lower and cell.device != device:
            continue
        if profile in (None, cell.profile):
            yield cell


@functools.cache
def _seen_by(release: str | None) -> Sequence[Cell]:
    """The cells, with what a release of PyTorch is expected to do in each that is about one."""
    if release is None:
        return cells()
    about = [cell for cell in cells() if spec.load().profiles[cell.profile].release]
    return [documents.seen(cell, release) for cell in about]


def pytest_configure(config: pytest.Config) -> None:
    """Declares the suite's mark."""
    config.addinivalue_line("markers", "about(*behaviours): the cells that a test takes")
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one worker")
