"""What the reports in the repository show of the rows. Nothing here needs Sphinx.

A report of a run of this implementation is evidence; one of another (``--namespace``) is not. What
is checked of each report is that the spec knows what it speaks of.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import conformance
import spec
from conformance.cells import cells
from conformance.report import STRENGTHS, Evidence, Record, Report, ReportError, read
from spec import loader

REPORTS = Path(conformance.__file__).parent / "reports"
#: The namespace whose runs are evidence.
OURS = "impl"
NOT_ON_HARDWARE = "not yet verified on hardware"
#: What the page says while there is no run on a GPU.
NO_GPU = (
    "No report of a run on a GPU is in the repository: no row for CUDA is verified on hardware."
)
_AGAIN = "make it again (CONTRIBUTING.md, under Generated files, says how) or remove it"


@dataclasses.dataclass(frozen=True)
class Found:
    """What the reports say of one row on one device.

    Attributes:
        shown: Where each level of evidence was obtained: names of GPUs for ``compiled``, of
            devices for ``hardware``, none for the others.
        failed: The checks that failed, each with the name of its report. Where there are any,
            nothing else counts.
        tried: Whether a check of it passed, be it evidence or not.
        on_gpu: Whether one passed in a process that computed on a GPU.
    """

    shown: Mapping[Evidence, frozenset[str]]
    failed: tuple[str, ...]
    tried: bool
    on_gpu: bool = False

    @property
    def strongest(self) -> Evidence | None:
        """The strongest evidence, whether or not a check failed; None where there is none."""
        levels = [level for level in STRENGTHS if level in self.shown]
        return levels[-1] if levels else None

    def __str__(self) -> str:
        """The levels, strongest first, or what failed."""
        if self.failed:
            return f"failed: {', '.join(self.failed)}"
        levels = [
            f"{level} ({', '.join(sorted(self.shown[level]))})" if self.shown[level] else level
            for level in reversed(STRENGTHS)
            if level in self.shown
        ]
        return ", ".join(levels) or ("tried, and not by bits" if self.tried else "none")


NOTHING = Found({}, (), tried=False)


def every_report(folder: Path) -> dict[str, Report]:
    """The reports of a folder by file name.

    Raises:
        ReportError: One cannot be read, or the spec does not know what it speaks of.
    """
    ledger = loader.read_table(loader.ROOT, "ids.toml")
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.name] = report = read(path)
        except ReportError as error:
            raise ReportError(f"{error}; {_AGAIN}") from error
        problem = next(_problems(report, ledger), None)
        if problem is not None:
            raise ReportError(f"{path}: {problem}; {_AGAIN}")
    return found


def _problems(report: Report, ledger: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    if "namespace" not in report.environment:
        yield "its environment has no `namespace`, so that nobody knows what was tried"
    for record in report.records:
        row = record.row
        if row is not None and row in ledger["retired"]:
            yield f"it names {row}, which is retired: {ledger['retired'][row]}"
        elif row is not None and row not in ledger["issued"]:
            yield f"it names {row}, an id that spec/ids.toml does not have"
        if record.device not in ("any", *spec.DEVICES):
            yield f"{record}: the device {record.device!r} is none of {spec.DEVICES}"
        if record.evidence not in (None, *STRENGTHS):
            yield f"{record}: the evidence {record.evidence!r} is none of {STRENGTHS}"


def ours(folder: Path) -> dict[str, Report]:
    """The reports of this implementation; raises as ``every_report`` does."""
    return {
        name: report
        for name, report in every_report(folder).items()
        if report.environment["namespace"] == OURS
    }


def by_row(reports: Mapping[str, Report]) -> dict[tuple[str, str], Found]:
    """What reports say of each row and device that they speak of."""
    groups: dict[tuple[str, str], list[tuple[str, Record]]] = {}
    for name, report in reports.items():
        for record in report.records:
            if record.row is not None and record.outcome != "skipped":
                at = record.row, _device(record, report)
                groups.setdefault(at, []).append((name, record))
    return {at: _found(group, reports) for at, group in groups.items()}


def _device(record: Record, report: Report) -> str:
    """The device a record speaks of; a check for any device was made on that of the process."""
    return _here(report) if record.device == "any" else record.device


def _here(report: Report) -> str:
    """Returns the device of a process, or ``any`` if it is no device of the spec."""
    device = spec.load().backends.get(report.environment.get("platform", ""))
    return device.name if device else "any"


def _has_stand_in(device: str) -> bool:
    """Returns whether a CPU stands in for the device in tests, unless a GPU is there."""
    return device != "any" and bool(spec.load().devices[device].stand_ins)


def _found(group: Iterable[tuple[str, Record]], reports: Mapping[str, Report]) -> Found:
    shown: dict[Evidence, set[str]] = {}
    failed: dict[str, None] = {}
    tried = on_gpu = False
    for name, record in group:
        if record.outcome == "failed":
            failed[f"{record.check} in {name}"] = None
            continue
        tried = True
        on_gpu |= _has_stand_in(_here(reports[name]))
        if record.evidence is not None:
            shown.setdefault(record.evidence, set()).update(_where(record, reports[name]))
    return Found(
        {level: frozenset(where) for level, where in shown.items()}, tuple(failed), tried, on_gpu
    )


def _where(record: Record, report: Report) -> list[str]:
    """The device of which a record of evidence speaks by name."""
    if record.evidence == "hardware":
        return [report.environment.get("device", "unknown")]
    return [record.lowering.upper()] if record.evidence == "compiled" and record.lowering else []


def line(row: spec.Row, found: Mapping[tuple[str, str], Found]) -> str:
    """What the reports show of a row, in one line."""
    devices = devices_of(row)
    texts = []
    for device in devices:
        here = found.get((row.id, device), NOTHING)
        # Only what some profile has deterministic can have evidence of bits.
        bits = "deterministic" in row.behaviour.values()
        verified = "hardware" in here.shown if bits else here.on_gpu
        text = str(here)
        if _has_stand_in(device) and not verified and not here.failed:
            text = NOT_ON_HARDWARE if text == "none" else f"{text}; {NOT_ON_HARDWARE}"
        texts.append(text)
    if len(set(texts)) == 1:
        return texts[0]
    return ". ".join(f"{device}: {text}" for device, text in zip(devices, texts, strict=True))


def devices_of(row: spec.Row) -> list[str]:
    """The devices on which a row decides anything; all that it covers, if none of its samples does.

    Where a row of one device decides, one of any device does not.
    """
    covered: list[str] = [device for device in spec.DEVICES if row.covers(device)]
    deciding = [device for device in covered if (row.id, device) in _deciding()]
    return deciding or covered


@functools.cache
def _deciding() -> frozenset[tuple[str, str]]:
    return frozenset((cell.row.id, cell.device) for cell in cells() if cell.row is not None)


def ran_on_gpu(reports: Iterable[Report]) -> bool:
    """Whether a report is of a run on a GPU, however it ended."""
    return any(
        record.evidence == "hardware"
        and _has_stand_in(record.device)
        and record.outcome != "skipped"
        for report in reports
        for record in report.records
    )


def page(folder: Path, source: Path) -> str:
    """What the reports show of all rows, as Markdown.

    Args:
        folder: Where the reports are.
        source: The folder of the site's sources, to which links are relative.

    Raises:
        ReportError: As ``every_report``.
    """
    reports = ours(folder)
    lines = [] if ran_on_gpu(reports.values()) else [NO_GPU, ""]
    lines += ["Active rows by the strongest evidence that a report has for them:", ""]
    lines += _counts(spec.load().select(active=True), by_row(reports))
    lines += ["", "The reports:", "", *_made(reports, os.path.relpath(folder, source))]
    return "\n".join(lines) + "\n"


def _counts(rows: Iterable[spec.Row], found: Mapping[tuple[str, str], Found]) -> Iterator[str]:
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for device in devices_of(row):
            here = found.get((row.id, device), NOTHING)
            level: str = here.strongest or ("tried" if here.tried else "none")
            counts["failed" if here.failed else level, device] += 1
    yield f"| Strongest evidence | {' | '.join(spec.DEVICES)} |"
    yield f"| --- |{' ---: |' * len(spec.DEVICES)}"
    names: dict[str, str] = {level: f"`{level}`" for level in reversed(STRENGTHS)}
    names |= {"tried": "tried, and not by bits", "none": "none", "failed": "failed"}
    for level, name in names.items():
        numbers = [str(counts[level, device]) for device in spec.DEVICES]
        yield f"| {name} | {' | '.join(numbers)} |"


def _made(reports: Mapping[str, Report], folder: str) -> Iterator[str]:
    if not reports:
        yield "There is none."
        return
    yield "| Report | Made | JAX | Device | samebits | Evidence |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, report in reports.items():
        about = [report.environment.get(key, "") for key in ("jax", "device", "samebits")]
        group = [(name, record) for record in report.records if record.outcome == "passed"]
        link = f"{{download}}`{name} </{Path(folder).as_posix()}/{name}>`"
        parts = (link, report.made.partition("T")[0], *about, str(_found(group, reports)))
        yield f"| {' | '.join(parts)} |"
