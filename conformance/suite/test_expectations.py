"""Tests that each expectation is about a test of this run, so that a stale one is found."""

from __future__ import annotations

import pytest

import spec
from conformance.pytest_plugin import expectations
from conformance.reporting.expectations import Expectation

OPS = {row.op for row in spec.load().select(kind="op", active=True)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each id of each entry that holds."""
    parameters = [
        pytest.param(entry, id, id=id)
        for entry in expectations.entries(metafunc.config)
        for id in entry.ids
    ]
    skip = pytest.mark.skip(reason="nothing is expected to fail")
    nothing = pytest.param(None, None, marks=skip, id="nothing")
    metafunc.parametrize(("entry", "id"), parameters or [nothing])


def test_id_means_something(entry: Expectation, id: str, request: pytest.FixtureRequest) -> None:
    """An id means some test. An id that means none would hide that its entry is out of date."""
    config = request.config
    if entry.outcome == "missing":
        assert id in OPS, f"no row has the op {id}; remove it from {expectations.file(config)}"
        return
    absent = entry.device and not expectations.devices(config) & set(entry.device)
    if config.getoption("--profile") or absent:
        pytest.skip("only a run of every profile, on the entry's device, can tell")
    assert (entry, id) in expectations.matched(config), (
        f"{id} is not a test that is tried here; correct it or remove it from "
        f"{expectations.file(config)} (python -m conformance expectations --rewrite does so)"
    )
