"""Finds the evidence of each row in the reports of the repository.

A report of a run of this implementation is evidence. A report of another implementation
(``--namespace``) is not, but the spec has to know the rows and devices of both. From the checks of
R0001, a row for CUDA, in two reports it makes one line::

    report         check     outcome  evidence   lowering
    cpu.json       no race   passed   static     null
    cpu.json       bits      passed   scheduled  kernel
    compiled.json  compiled  passed   compiled   h100

    compiled (H100), scheduled, static; not yet verified on hardware

One failed check takes all evidence from the row, so the site does not count a row as verified whose
last run failed. If ``no race`` fails, the line is ``failed: no race in cpu.json``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import conformance
import spec
from answers import grouped
from conformance.reporting.report import STRENGTHS, Evidence, Record, Report, ReportError, read
from conformance.suite.cells import cells
from spec import loader

REPORTS = Path(conformance.__file__).parent / "reports"
#: The namespace whose runs are evidence.
OURS = "impl"
NOT_ON_HARDWARE = "not yet verified on hardware"
#: The evidence of a row whose checks passed, none of which compared bits.
NO_BITS = "tested without comparing bits"
#: The words for a row without evidence, and for one with a failure.
NONE, FAILED = "none", "failed"
#: Every answer to the question which evidence is a row's strongest, the strongest first.
LEVELS: tuple[str, ...] = (*reversed(STRENGTHS), NO_BITS, NONE, FAILED)
#: The sentence of the page while no report is of a run on a GPU.
NO_GPU = (
    "No report of a run on a GPU is in the repository: no row for CUDA is verified on hardware."
)
_REMEDY = "make it again (CONTRIBUTING.md, under Generated files, says how) or remove it"


@dataclasses.dataclass(frozen=True)
class RowEvidence:
    """The evidence of one row on one device.

    Attributes:
        devices: The names of the devices for each level of evidence: names of GPUs for
            ``compiled``, names of any devices for ``hardware``, none for the other levels.
        failures: The checks that failed, each with the name of its report. A row with a failure has
            no evidence.
        passed: Whether a check passed, with evidence or without.
        on_gpu: Whether a check passed in a process that computed on a GPU.
    """

    devices: Mapping[Evidence, frozenset[str]]
    failures: tuple[str, ...]
    passed: bool
    on_gpu: bool = False

    @property
    def strongest(self) -> Evidence | None:
        """The strongest level, even if a check failed; None if there is no evidence."""
        levels = [level for level in STRENGTHS if level in self.devices]
        return levels[-1] if levels else None

    @property
    def level(self) -> str:
        """The one of ``LEVELS`` that the row counts for."""
        return FAILED if self.failures else self.strongest or (NO_BITS if self.passed else NONE)

    def __str__(self) -> str:
        """Returns the failures, or else the levels, strongest first."""
        if self.failures:
            return f"failed: {', '.join(self.failures)}"
        levels = [
            f"{level} ({', '.join(sorted(self.devices[level]))})" if self.devices[level] else level
            for level in reversed(STRENGTHS)
            if level in self.devices
        ]
        return ", ".join(levels) or (NO_BITS if self.passed else "none")


NO_EVIDENCE = RowEvidence({}, (), passed=False)


def every_report(folder: Path) -> dict[str, Report]:
    """Returns the reports of a folder by file name."""
    ledger = loader.read_table(loader.ROOT, "ids.toml")
    reports = {}
    for path in sorted(folder.glob("*.json")):
        try:
            reports[path.name] = report = read(path)
        except ReportError as error:
            raise ReportError(f"{error}; {_REMEDY}") from error
        problem = next(_problems(report, ledger), None)
        if problem is not None:
            raise ReportError(f"{path}: {problem}; {_REMEDY}")
    return reports


def _problems(report: Report, ledger: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    if "namespace" not in report.environment:
        yield "its environment has no `namespace`, so it does not say which library was tried"
    for record in report.records:
        row = record.row
        if row is not None and row in ledger["retired"]:
            yield f"it names {row}, which is retired: {ledger['retired'][row]}"
        elif row is not None and row not in ledger["issued"]:
            yield f"it names {row}, an id that spec/ids.toml does not have"
        if record.device not in ("any", *spec.DEVICES):
            yield f"{record}: the device {record.device!r} is not one of {spec.DEVICES}"
        if record.evidence not in (None, *STRENGTHS):
            yield f"{record}: the evidence {record.evidence!r} is not one of {STRENGTHS}"


def our_reports(folder: Path | None = None) -> dict[str, Report]:
    """Returns the reports of this implementation by file name."""
    every = every_report(folder or REPORTS)
    return {n: report for n, report in every.items() if report.environment["namespace"] == OURS}


def by_row(reports: Mapping[str, Report]) -> dict[tuple[str, str], RowEvidence]:
    """Returns the evidence for each pair of a row's id and a device that the reports name."""
    groups = grouped(
        ((record.row, _device_of_record(record, report)), (name, record))
        for name, report in reports.items()
        for record in report.records
        if record.row is not None and record.outcome != "skipped"
    )
    return {key: _evidence(group, reports) for key, group in groups.items()}


def of_report(name: str, report: Report) -> RowEvidence:
    """Returns the evidence that the passed checks of a report have, taken together."""
    passed = [(name, record) for record in report.records if record.outcome == "passed"]
    return _evidence(passed, {name: report})


def _device_of_record(record: Record, report: Report) -> str:
    """Returns the device of a record. A check of any device ran on the device of the process."""
    return _device_of_process(report) if record.device == "any" else record.device


def _device_of_process(report: Report) -> str:
    """Returns the device of a process, or ``any`` if it is not a device of the spec."""
    device = spec.load().backends.get(report.environment.get("platform", ""))
    return device.name if device else "any"


def _has_stand_in(device: str) -> bool:
    """Returns whether a CPU stands in for the device in tests, unless a GPU is there."""
    return device != "any" and bool(spec.load().devices[device].stand_ins)


def _evidence(group: Iterable[tuple[str, Record]], reports: Mapping[str, Report]) -> RowEvidence:
    devices: dict[Evidence, set[str]] = {}
    failures: dict[str, None] = {}
    passed = on_gpu = False
    for name, record in group:
        if record.outcome == "failed":
            failures[f"{record.check} in {name}"] = None
            continue
        passed = True
        on_gpu |= _has_stand_in(_device_of_process(reports[name]))
        if record.evidence is not None:
            devices.setdefault(record.evidence, set()).update(_device_names(record, reports[name]))
    return RowEvidence(
        {level: frozenset(names) for level, names in devices.items()},
        tuple(failures),
        passed,
        on_gpu,
    )


def _device_names(record: Record, report: Report) -> list[str]:
    """Returns the name of the device of a record of evidence, or nothing if it has none."""
    if record.evidence == "hardware":
        return [report.environment.get("device", "unknown")]
    return [record.lowering.upper()] if record.evidence == "compiled" and record.lowering else []


def line(row: spec.Row, evidence: Mapping[tuple[str, str], RowEvidence]) -> str:
    """Returns the evidence of a row in one line."""
    devices = deciding_devices(row)
    texts = []
    for device in devices:
        entry = evidence.get((row.id, device), NO_EVIDENCE)
        # A row can have evidence of bits only if some profile lists it as deterministic.
        has_bits = "deterministic" in row.behaviour.values()
        verified = "hardware" in entry.devices if has_bits else entry.on_gpu
        text = str(entry)
        if _has_stand_in(device) and not verified and not entry.failures:
            text = NOT_ON_HARDWARE if text == "none" else f"{text}; {NOT_ON_HARDWARE}"
        texts.append(text)
    if len(set(texts)) == 1:
        return texts[0]
    return ". ".join(f"{device}: {text}" for device, text in zip(devices, texts, strict=True))


def deciding_devices(row: spec.Row) -> list[str]:
    """Returns the devices on which a row decides a cell of the suite.

    A row of any device decides nothing on a device for which another row decides. A row that
    decides no cell at all has every device that it covers. A device on which nothing has run is
    left out: ``page`` has a sentence about it.
    """
    tried = [device for device in spec.DEVICES if spec.load().devices[device].tried]
    covered = [device for device in tried if row.covers(device)]
    return [device for device in covered if (row.id, device) in _deciding()] or covered


@functools.cache
def _deciding() -> frozenset[tuple[str, str]]:
    return frozenset((cell.row.id, cell.device) for cell in cells() if cell.row is not None)


def ran_on_gpu(reports: Iterable[Report]) -> bool:
    """Returns whether a report is of a run on a GPU, with any outcome."""
    return any(
        record.evidence == "hardware"
        and _has_stand_in(record.device)
        and record.outcome != "skipped"
        for report in reports
        for record in report.records
    )


def by_device(evidence: Mapping[tuple[str, str], RowEvidence]) -> dict[str, list[RowEvidence]]:
    """Returns the evidence of each active row on each device on which it decides, by device."""
    result = grouped(
        (device, evidence.get((row.id, device), NO_EVIDENCE))
        for row in spec.load().select(active=True)
        for device in deciding_devices(row)
    )
    return {device: result[device] for device in spec.DEVICES if device in result}


def counts(evidence: Mapping[tuple[str, str], RowEvidence]) -> dict[str, Mapping[str, int]]:
    """Returns the number of active rows for each device and strongest evidence."""
    return {
        device: Counter(entry.level for entry in entries)
        for device, entries in by_device(evidence).items()
    }


def names(entries: Iterable[Mapping[Evidence, frozenset[str]]]) -> list[str]:
    """Returns the names of devices in levels of evidence, in alphabetical order."""
    return sorted({name for levels in entries for each in levels.values() for name in each})


def records(check: str) -> list[Record]:
    """Returns the records of a check in our reports."""
    found = [each for r in our_reports().values() for each in r.records if each.check == check]
    if not found:
        raise ValueError(f"no record is of the check {check!r}")
    return found
