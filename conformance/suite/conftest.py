"""What the suite's tests are given."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

import spec
from conformance import plugin, trial
from conformance.cells import Cell, cells


@pytest.fixture(scope="session")
def namespace(request: pytest.FixtureRequest) -> ModuleType:
    """The module whose ops are tried."""
    return plugin.namespace(request.config)


@pytest.fixture(scope="session")
def repeats(request: pytest.FixtureRequest) -> int:
    """How often a call is run to compare bits."""
    asked: int | None = request.config.getoption("--repeats")
    return asked or (2 if trial.here() == "cpu" else 20)


@pytest.fixture(autouse=True)
def _mode_off(namespace: ModuleType) -> Iterator[None]:
    namespace.use_deterministic_algorithms(False)
    yield
    namespace.use_deterministic_algorithms(False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each test that asks for a ``cell`` those that it is about.

    A test names the behaviours that it is about in the mark ``about``, and the device if it is
    only about one; ``profiles="one"`` takes each call under one profile alone.
    """
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


def _tried(config: pytest.Config) -> Iterator[Cell]:
    device = config.getoption("--device") or trial.here()
    profile = config.getoption("--profile")
    for cell in cells():
        # A machine with a GPU tries the GPU; one without stands in for it as well.
        if device == "cuda" and cell.device != "cuda":
            continue
        if profile in (None, cell.profile):
            yield cell


def pytest_configure(config: pytest.Config) -> None:
    """Declares the suite's mark."""
    config.addinivalue_line("markers", "about(*behaviours): the cells that a test takes")
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one worker")
