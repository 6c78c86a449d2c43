"""Reports: what was checked of each row, how strongly, and with what outcome.

A report is one JSON object, described by ``report_schema.json``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.metadata
import json
import os
import platform
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

FORMAT = 1

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
Evidence: TypeAlias = Literal["static", "scheduled", "compiled", "hardware"]

#: From the weakest to the strongest.
STRENGTHS: tuple[Evidence, ...] = get_args(Evidence)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class ReportError(ValueError):
    """A file is not a report."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One check of one row.

    Attributes:
        row: Id of the row that decides; None where the profile lists nothing.
        op: Dotted name of the op.
        direction: ``forward`` or ``backward``; None where neither is meant.
        device: The device of the spec that the row is tried for.
        profile: The profile that held; None where none matters.
        lowering: How the device was stood in for, or the GPU compiled for; None where it does
            not matter.
        check: What was checked.
        sample: Name of the call that was tried.
        behaviour: What the mode does there; None where it does nothing.
        outcome: How it ended.
        evidence: How strong it is as a proof of determinism; None where it is none.
        seconds: How long it took.
        sha256: Of the bits of the result, where there are bits.
        detail: What else was found, or why it failed.
    """

    row: str | None
    op: str
    direction: str | None
    device: str
    profile: str | None
    lowering: str | None
    check: str
    sample: str | None
    behaviour: str | None
    outcome: Outcome
    evidence: Evidence | None
    seconds: float
    sha256: str | None = None
    detail: str | None = None

    @property
    def key(self) -> tuple[str | None, ...]:
        """What the record is about, the same in every report."""
        return (
            self.row,
            self.op,
            self.direction,
            self.device,
            self.profile,
            self.lowering,
            self.check,
            self.sample,
        )

    def __str__(self) -> str:
        """The key, for people."""
        return " ".join(part for part in self.key if part is not None)


@dataclasses.dataclass(frozen=True)
class Report:
    """What a run found.

    Attributes:
        made: When, in UTC, as ISO 8601.
        environment: What it was made with: names and versions.
        records: What was checked.
    """

    made: str
    environment: Mapping[str, str]
    records: tuple[Record, ...]

    def strongest(self) -> dict[tuple[str, str], Evidence | None]:
        """The strongest evidence for each row and device, where no check of it failed."""
        found: dict[tuple[str, str], Evidence | None] = {}
        failed = {(r.row, r.device) for r in self.records if r.outcome == "failed"}
        for record in self.records:
            if record.row is None or record.outcome != "passed":
                continue
            at = record.row, record.device
            if at not in failed:
                found[at] = max(found.get(at), record.evidence, key=_strength)
        return found


def _strength(evidence: Evidence | None) -> int:
    return -1 if evidence is None else STRENGTHS.index(evidence)


def environment() -> dict[str, str]:
    """What results are obtained with, in this process."""
    import jax  # noqa: PLC0415  # A report can be read without starting JAX.
    import numpy as np  # noqa: PLC0415  # as above

    return {
        "samebits": version("samebits"),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "numpy": np.__version__,
        "platform": jax.default_backend(),
        "device": jax.devices()[0].device_kind,
        "machine": platform.machine(),
    }


def version(distribution: str) -> str:
    """The release of a distribution; a checkout may be run without being installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def write(path: Path, environment: Mapping[str, str], records: Iterable[Record]) -> None:
    """Writes a report, whole or not at all: a file that is there stays until then."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    head = {"format": FORMAT, "made": now, "environment": dict(environment)}
    # A line for each record, so that two reports can be compared line by line.
    lines = ",\n".join(json.dumps(dataclasses.asdict(record)) for record in records)
    text = f'{json.dumps(head)[:-1]}, "records": [\n{lines}\n]}}\n'
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, path)  # noqa: PTH105  # Path.replace is the same
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> Report:
    """Reads a report.

    Raises:
        ReportError: The file cannot be read or is not a report of this format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ReportError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ReportError(
            f"{path} is not a report of format {FORMAT}, which `python -m conformance run --report "
            "FILE` writes"
        )
    try:
        records = tuple(Record(**record) for record in content["records"])
        report = Report(content["made"], content["environment"], records)
    except (KeyError, TypeError) as error:
        raise ReportError(f"{path} breaks report_schema.json: {error}") from error
    wrong = next((r for r in records if r.outcome not in OUTCOMES), None)
    if wrong is not None:
        raise ReportError(f"{path}: {wrong}: the outcome {wrong.outcome!r} is none of {OUTCOMES}")
    return report


def table(records: Iterable[Record]) -> Iterator[str]:
    """How many rows have which evidence at best, on each device, as lines of text."""
    report = Report("", {}, tuple(records))
    best = report.strongest()
    failed = {(r.row, r.device) for r in report.records if r.outcome == "failed" and r.row}
    devices = sorted({device for _, device in {*best, *failed}})
    counts = Counter((evidence, device) for (_, device), evidence in best.items())
    names: dict[Evidence | None, str] = {each: each for each in reversed(STRENGTHS)}
    names[None] = "no evidence of bits"
    yield f"{'strongest evidence':22}" + "".join(f"{device:>8}" for device in devices)
    for evidence, name in names.items():
        numbers = [counts[evidence, device] for device in devices]
        if any(numbers):
            yield f"{name:22}" + "".join(f"{number:8}" for number in numbers)
    if failed:
        numbers = [sum(at == device for _, at in failed) for device in devices]
        yield f"{'failed':22}" + "".join(f"{number:8}" for number in numbers)


def difference(old: Report, new: Report) -> Iterator[str]:
    """What is weaker in ``new`` than in ``old``, and which bits are others, as lines of text."""
    before, after = old.strongest(), new.strongest()
    for at, evidence in sorted(before.items()):
        row, device = at
        if at not in after:
            yield f"weaker: {row} on {device}: {evidence or 'passed'} before, nothing now"
        elif _strength(after[at]) < _strength(evidence):
            yield f"weaker: {row} on {device}: {evidence} before, {after[at] or 'nothing'} now"
    earlier = {record.key: record for record in old.records}
    for record in new.records:
        known = earlier.get(record.key)
        if known is None:
            continue
        if record.outcome == "failed" and known.outcome == "passed":
            yield f"fails: {record}" + (f": {record.detail}" if record.detail else "")
        if None not in (record.sha256, known.sha256) and record.sha256 != known.sha256:
            yield f"other bits: {record}: {known.sha256} before, {record.sha256} now"


def from_property(value: Mapping[str, Any], outcome: Outcome, seconds: float) -> Record:
    """The record that a test left, with how the test ended."""
    names = {field.name for field in dataclasses.fields(Record)}
    known = dict.fromkeys(names - {"outcome", "seconds"})
    given = {**known, **value, "outcome": outcome, "seconds": round(seconds, 3)}
    return Record(**given)
