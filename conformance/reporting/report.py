"""Reports: a record for each check of a run, with its outcome and its strength as evidence.

A report is one JSON object. ``report_schema.json`` describes it. Reading a report needs neither JAX
nor pytest. Pages of the site cite reports, so a record says how strong it is: a program that was
read is weaker evidence than a run on the hardware. Of these three records, all of which passed::

    row    device  check    evidence    sha256
    R0001  cuda    no race  static      null
    R0001  cuda    bits     scheduled   3f3f...
    R0002  cpu     bits     hardware    aaaa...

``table`` keeps the strongest of each row::

    strongest evidence         cpu    cuda
    hardware                     1       0
    scheduled                    0       1

If a later report lacks the second record and has ``bbbb...`` in the third, ``difference`` yields::

    weaker: R0001 on cuda: scheduled before, static now
    other bits: R0002 index_add forward cpu ...: aaaa... before, bbbb... now
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
        row: The id of the row that decides the behaviour. None where the profile lists none.
        op: Dotted name of the op.
        direction: ``forward`` or ``backward``. None for a check of neither.
        device: The device of the spec that the row was tested for.
        profile: The profile of the mode. None where the profile does not matter.
        lowering: The lowering or stand-in that ran, or the GPU that the program was compiled for.
            None where it does not matter.
        check: The name of the check.
        sample: The name of the call.
        behaviour: The behaviour that the profile lists. None where the mode changes nothing.
        outcome: ``passed``, ``failed`` or ``skipped``.
        evidence: The strength of the check as evidence of determinism. None if it is not evidence.
        seconds: The duration of the check.
        sha256: The digest of the bits of the result, if the check has a result.
        detail: The reason for a failure, or a finding that no other field has.
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
        """The fields that identify the check in every report."""
        names = "row", "op", "direction", "device", "profile", "lowering", "check", "sample"
        return tuple(getattr(self, name) for name in names)

    def __str__(self) -> str:
        """Returns the key in a readable form."""
        return " ".join(part for part in self.key if part is not None)


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of a run.

    Attributes:
        made: The time of the run in UTC, as ISO 8601.
        environment: Names and versions of the hardware and software.
        records: The checks.
    """

    made: str
    environment: Mapping[str, str]
    records: tuple[Record, ...]

    def strongest(self) -> dict[tuple[str, str], Evidence | None]:
        """Returns the strongest evidence for each row and device without a failed check."""
        strongest: dict[tuple[str, str], Evidence | None] = {}
        failed = {(r.row, r.device) for r in self.records if r.outcome == "failed"}
        for record in self.records:
            if record.row is None or record.outcome != "passed":
                continue
            key = record.row, record.device
            if key not in failed:
                strongest[key] = max(strongest.get(key), record.evidence, key=_strength)
        return strongest


def _strength(evidence: Evidence | None) -> int:
    return -1 if evidence is None else STRENGTHS.index(evidence)


def environment(hardware: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment that the results of this process are obtained in."""
    return {
        "samebits": version("samebits"),
        "python": platform.python_version(),
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
        "numpy": version("numpy"),
        **(_hardware_of_jax() if hardware is None else hardware),
        "machine": platform.machine(),
    }


def _hardware_of_jax() -> dict[str, str]:
    import jax  # noqa: PLC0415  # a report can be read without starting JAX

    return {"platform": jax.default_backend(), "device": jax.devices()[0].device_kind}


def version(distribution: str) -> str:
    """Returns the release of a distribution.

    A checkout of this project may be used without being installed.
    """
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def write(path: Path, environment: Mapping[str, str], records: Iterable[Record]) -> None:
    """Writes a report, whole or not at all.

    An earlier report of the same name stays until the new one is complete.
    """
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


def update(path: Path, environment: Mapping[str, str], records: Iterable[Record]) -> None:
    """Writes a report that keeps the records of other checks in the same environment."""
    before = read(path) if path.exists() else None
    is_same = before is not None and before.environment == environment
    known = before.records if before is not None and is_same else ()
    merged = {record.key: record for record in (*known, *records)}
    write(path, environment, merged.values())


def read(path: Path) -> Report:
    """Reads a report."""
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
    bad = next((r for r in records if r.outcome not in OUTCOMES), None)
    if bad is not None:
        raise ReportError(f"{path}: {bad}: the outcome {bad.outcome!r} is not one of {OUTCOMES}")
    return report


def table(records: Iterable[Record]) -> Iterator[str]:
    """Yields a table: for each device, the number of rows by their strongest evidence."""
    report = Report("", {}, tuple(records))
    best = report.strongest()
    failed = {(r.row, r.device) for r in report.records if r.outcome == "failed" and r.row}
    devices = sorted({device for _, device in {*best, *failed}})
    counts = Counter((evidence, device) for (_, device), evidence in best.items())
    names: dict[Evidence | None, str] = {level: level for level in reversed(STRENGTHS)}
    names[None] = "no evidence of bits"
    yield f"{'strongest evidence':22}" + "".join(f"{device:>8}" for device in devices)
    for evidence, name in names.items():
        numbers = [counts[evidence, device] for device in devices]
        if any(numbers):
            yield f"{name:22}" + "".join(f"{number:8}" for number in numbers)
    if failed:
        numbers = [sum(d == device for _, d in failed) for device in devices]
        yield f"{'failed':22}" + "".join(f"{number:8}" for number in numbers)


def difference(old: Report, new: Report) -> Iterator[str]:
    """Yields a line for each row with weaker evidence in ``new``, and for each changed digest."""
    before, after = old.strongest(), new.strongest()
    for key, evidence in sorted(before.items()):
        row, device = key
        if key not in after:
            yield f"weaker: {row} on {device}: {evidence or 'passed'} before, nothing now"
        elif _strength(after[key]) < _strength(evidence):
            yield f"weaker: {row} on {device}: {evidence} before, {after[key] or 'nothing'} now"
    earlier = {record.key: record for record in old.records}
    for record in new.records:
        counterpart = earlier.get(record.key)
        if counterpart is None:
            continue
        if record.outcome == "failed" and counterpart.outcome == "passed":
            yield f"fails: {record}" + (f": {record.detail}" if record.detail else "")
        digests = counterpart.sha256, record.sha256
        if None not in digests and digests[0] != digests[1]:
            yield f"other bits: {record}: {digests[0]} before, {digests[1]} now"


def from_property(value: Mapping[str, Any], outcome: Outcome, seconds: float) -> Record:
    """Returns the record that a test left as a property, with the outcome of the test."""
    names = {field.name for field in dataclasses.fields(Record)}
    defaults = dict.fromkeys(names - {"outcome", "seconds"})
    fields: dict[str, Any] = {**defaults, **value, "outcome": outcome, "seconds": round(seconds, 3)}
    return Record(**fields)
