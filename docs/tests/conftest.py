"""Fixtures for the tests of the site and of its example; ``nox -s docs`` builds the site first."""

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import spec

# It sets the variable that Equinox reads when a page imports Equinox.
from conformance import programs as programs
from conformance.suite.sample import samples
from impl.tests._state import restored_state as restored_state

HTML = Path(__file__).parents[1] / "_build" / "html"
REPORTS = Path(__file__).parents[2] / "conformance" / "reports"


@pytest.fixture(scope="session")
def page_html() -> Callable[[str], str]:
    """Returns the HTML of a page of the built site, by its name."""
    return lambda page: (HTML / f"{page}.html").read_text(encoding="utf-8")


@dataclasses.dataclass
class KeptEvidence:
    """The evidence of the reports in the repository, read here without the code under test.

    Attributes:
        reports: The reports of this implementation as JSON, by file name.
        records: Their records. A record has its own device, and the device and platform of its
            process as ``process_device`` and ``process_platform``.
        levels: Pairs of a level and the name of a device, by row and device.
        failed: The pairs of a row and a device with a failure.
        passed: The pairs of a row and a device with a check that passed.
    """

    reports: dict[str, Any]
    records: list[dict[str, Any]]
    levels: dict[tuple[str, str], set[tuple[str, str | None]]]
    failed: set[tuple[str, str]]
    passed: set[tuple[str, str]]

    @property
    def passed_on_gpu(self) -> set[tuple[str, str]]:
        """The pairs of a row and a device with a check that passed in a process with a GPU."""
        return {
            (record["row"], record["device"])
            for record in self.records
            if record["outcome"] == "passed" and record["process_platform"] == "cuda"
        }


@pytest.fixture(scope="session")
def kept_evidence() -> KeptEvidence:
    """Returns the evidence of the reports in the repository."""
    files = sorted(REPORTS.glob("*.json"))
    every = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in files}
    reports = {n: r for n, r in every.items() if r["environment"]["namespace"] == "impl"}
    kept = KeptEvidence(reports, [], defaultdict(set), set(), set())
    for report in reports.values():
        platform = "cpu" if report["environment"]["platform"] == "cpu" else "cuda"
        for record in report["records"]:
            kept.records.append(
                {
                    **record,
                    "device": platform if record["device"] == "any" else record["device"],
                    "process_device": report["environment"]["device"],
                    "process_platform": platform,
                }
            )
    for record in kept.records:
        key, device = (record["row"], record["device"]), None
        if record["outcome"] == "failed":
            kept.failed.add(key)
        elif record["outcome"] == "passed":
            kept.passed.add(key)
            if record["evidence"] == "hardware":
                device = record["process_device"]
            elif record["evidence"] == "compiled":
                device = record["lowering"].upper()
            if record["evidence"]:
                kept.levels[key].add((record["evidence"], device))
    return kept


@pytest.fixture(scope="session")
def deciding_devices() -> Callable[[spec.Row], list[str]]:
    """Returns a function from a row to the devices on which it decides a call of a sample."""
    rules = spec.load()

    def devices(row: spec.Row) -> list[str]:
        covered = ["cpu", "cuda"] if row.device == "any" else [row.device]
        if row.kind != "op":
            return covered
        return [device for device in covered if any(decisions(row, device))]

    def decisions(row: spec.Row, device: str) -> Iterator[bool]:
        calls = itertools.product(
            get_args(spec.Direction), (sample.facts for sample in samples(row.op)), rules.profiles
        )
        for direction, facts, profile in calls:
            decided = spec.deciding_row(rules.rows, row.op, direction, device, facts, profile)
            yield decided == row

    return devices
