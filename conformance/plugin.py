"""The pytest plugin of the suite: its options, and the report."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from conformance import trial
from conformance.implementation import Implementation, load

_RECORD = "samebits"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of ``python -m conformance run``."""
    group = parser.getgroup("samebits conformance")
    group.addoption("--device", default=None, help="cpu or cuda; default: what JAX computes on")
    group.addoption("--profile", default=None, help="only this profile")
    group.addoption("--namespace", default="impl", help="the module whose ops are tried")
    group.addoption("--repeats", type=int, default=None, help="runs whose bits are compared")
    group.addoption("--report", type=Path, default=None, help="write a JSON report to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Starts the report, in the process that collects the results."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config), "samebits-report")


def implementation(config: pytest.Config) -> Implementation:
    """What is tried."""
    return load(config.getoption("--namespace"))


def environment(tried: Implementation) -> dict[str, Any]:
    """What the results were obtained with."""
    device = jax.devices()[0]
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "platform": trial.here(),
        "device": device.device_kind,
        "machine": platform.machine(),
        "namespace": tried.name,
        **tried.versions(),
    }


class Report:
    """Collects a record of each check, and writes them with the outcome."""

    def __init__(self, config: pytest.Config) -> None:
        """Reads where to write."""
        self.path: Path | None = config.getoption("--report")
        self.tried = implementation(config)
        self.records: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes the records that a test left."""
        if report.when != "call" and report.outcome == "passed":
            return
        for name, value in report.user_properties:
            if name == _RECORD and isinstance(value, dict):
                outcome, known = report.outcome, getattr(report, "wasxfail", None)
                if known and report.skipped:  # it failed, as was expected
                    outcome, value["detail"] = "failed", f"expected: {known}"
                self.records.append(
                    {**value, "outcome": outcome, "seconds": round(report.duration, 3)}
                )

    def pytest_sessionfinish(self) -> None:
        """Writes the report."""
        if self.path is not None:
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            content = {
                "made": now,
                "environment": environment(self.tried),
                "records": self.records,
            }
            self.path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Counts the rows by what was shown of them."""
        rows: dict[str, set[str]] = {}
        for record in self.records:
            if record["outcome"] == "passed" and record["row"]:
                rows.setdefault(f"{record['check']} ({record['device']})", set()).add(record["row"])
        terminalreporter.section("rows checked")
        for check, ids in sorted(rows.items()):
            terminalreporter.line(f"{check}: {len(ids)} row(s)")
        if self.path is not None:
            terminalreporter.line(f"report: {self.path}")


@pytest.fixture
def record(record_property: Any) -> Any:
    """Leaves a record of one check in the report; its outcome is the test's."""

    def leave(tried: Any, check: str, **more: Any) -> None:
        record_property(_RECORD, {**tried.about, "check": check, **more})

    return leave
