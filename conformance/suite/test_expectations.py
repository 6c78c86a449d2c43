"""What is expected of an implementation is about something that is tried."""

from __future__ import annotations

import pytest

import spec
from conformance import expecting
from conformance.expectations import Expectation

OPS = {row.op for row in spec.load().select(kind="op", active=True)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each id of each entry that holds."""
    every = [
        pytest.param(entry, id, id=id)
        for entry in expecting.entries(metafunc.config)
        for id in entry.ids
    ]
    nothing = pytest.mark.skip(reason="nothing is expected to fail")
    none = pytest.param(None, None, marks=nothing, id="nothing")
    metafunc.parametrize(("entry", "id"), every or [none])


def test_id_means_something(entry: Expectation, id: str, request: pytest.FixtureRequest) -> None:
    """An id that no test has would hide that its entry is out of date."""
    config = request.config
    if entry.outcome == "missing":
        assert id in OPS, f"no row has the op {id}; remove it from {expecting.file(config)}"
        return
    absent = entry.device and not expecting.devices(config) & set(entry.device)
    if config.getoption("--profile") or absent:
        pytest.skip("only a run of every profile, on the entry's device, can tell")
    assert (entry, id) in expecting.matched(config), (
        f"{id} is no test that is tried here; correct it or remove it from "
        f"{expecting.file(config)} (python -m conformance expectations --rewrite does so)"
    )
