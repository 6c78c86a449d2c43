"""The report of the benchmarks: one JSON object, and the tables of it, as Markdown.

A case whose sides took 2, 3 and 4 ms, and 5, 6 and 7 ms, which moves 8 MB, becomes the row::

    | op | plain JAX | ordered | spread | GB/s | times a copy | temporary, bytes |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | cumsum | 3 (1.0) | 6 (2.0) | 17% | 1.3 | 4.0 | 0 |
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import platform
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from conformance.reporting import report as reports

FORMAT = 1
_LEGEND = (
    "Milliseconds: medians of rounds in which each side ran once. In brackets: the ratio to {base}."
)
_LEGEND_OF_COPY = (
    "Spread: the distance of the quartiles of {ours}, divided by its median. Times a copy: its "
    "median divided by the time of a copy of its arguments and result. Temporary: its memory "
    "besides these."
)


class MeasurementsError(ValueError):
    """A file is not a report of the benchmarks."""


@dataclasses.dataclass(frozen=True)
class Times:
    """The milliseconds that a side took in several rounds. Each side runs once in a round.

    ``low`` and ``high`` are the quartiles.
    """

    median: float
    low: float
    high: float
    least: float
    rounds: int

    @staticmethod
    def of(milliseconds: Sequence[float]) -> Times:
        """Returns the summary of some runs."""
        median = statistics.median(milliseconds)
        low, high = median, median
        if len(milliseconds) > 1:
            low, _, high = statistics.quantiles(milliseconds, n=4, method="inclusive")
        return Times(median, low, high, min(milliseconds), len(milliseconds))


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The measurement of one case, which ``case`` describes by column of the table.

    Besides the times of each side, there are: the message of each side that refuses the case; the
    memory of our program besides its arguments and its result; the bytes of those, which are the
    floor; the time of a copy that moves as many; and the size of a case that is a point of a curve.
    """

    case: Mapping[str, str]
    sides: Mapping[str, Times]
    refused: Mapping[str, str]
    temporary_bytes: int | None
    floor_bytes: int | None
    copy_ms: float | None
    n: int | None


@dataclasses.dataclass(frozen=True)
class Family:
    """The measurements of a family, one for each case.

    ``base`` is the side with which each side is compared, and ``ours`` the deterministic one. The
    remarks are sentences that a reader of the figures has to know.
    """

    title: str
    base: str
    ours: str
    remarks: tuple[str, ...]
    measurements: tuple[Measurement, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of a run of the benchmarks, and the command that measures anew.

    ``made`` is the time in UTC, as ISO 8601. ``without`` is why a family was not measured.
    """

    made: str
    environment: Mapping[str, str]
    command: str
    families: Mapping[str, Family]
    without: Mapping[str, str]

    def write(self, path: Path) -> None:
        """Writes the report to a file."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Report:
        """Returns the report of a file."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                raise MeasurementsError(
                    f"{path} has the format {document['format']!r}, but only {FORMAT} can be read; "
                    "measure anew with python -m conformance bench"
                )
            families = {name: _family(each) for name, each in document["families"].items()}
            return Report(
                document["made"],
                document["environment"],
                document["command"],
                families,
                document["without"],
            )
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise MeasurementsError(
                f"{path} is not a report of the benchmarks ({type(error).__name__}: {error}); "
                "python -m conformance bench --report FILE writes one"
            ) from error


def now() -> str:
    """Returns the time in UTC, as ISO 8601."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _family(fields: Mapping[str, Any]) -> Family:
    measurements = tuple(
        Measurement(**{**each, "sides": {k: Times(**v) for k, v in each["sides"].items()}})
        for each in fields["measurements"]
    )
    return Family(**{**fields, "remarks": tuple(fields["remarks"]), "measurements": measurements})


def table(report: Report, family: Family) -> str:
    """Returns the table of a family of a report."""
    sides = list(dict.fromkeys(side for each in family.measurements for side in each.sides))
    refused = {m.refused[s] for m in family.measurements for s in m.refused}
    columns = list(dict.fromkeys(column for each in family.measurements for column in each.case))
    more = ["spread", "GB/s", "times a copy", "temporary, bytes"]
    legend = _LEGEND.format(base=family.base), _LEGEND_OF_COPY.format(ours=family.ours)
    lines = [
        f"# {family.title}",
        "",
        " ".join(legend),
        "",
        f"- {line(report.environment)}",
        f"- `{report.command}`, {report.made[:10]}",
        "",
        _row([*columns, *sides, *more]),
        _row(["---"] * len(columns) + ["---:"] * (len(sides) + len(more))),
    ]
    for each in family.measurements:
        cells = [each.case.get(column, "") for column in columns]
        cells += [_time(each, side, family.base) for side in sides]
        lines.append(_row([*cells, *_of_ours(each, family)]))
    remarks = [*family.remarks, *(f"Refused: {message}" for message in sorted(refused))]
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    return "\n".join(lines) + "\n"


def _time(measurement: Measurement, side: str, base: str) -> str:
    times = measurement.sides.get(side)
    if times is None:
        return "refused" if side in measurement.refused else ""
    text = f"{times.median:.3g}" if times.median < 100 else f"{times.median:.0f}"
    if base not in measurement.sides:
        return text
    return f"{text} ({times.median / measurement.sides[base].median:.1f})"


def _of_ours(measurement: Measurement, family: Family) -> list[str]:
    times = measurement.sides[family.ours]
    moved, copied = measurement.floor_bytes, measurement.copy_ms
    return [
        f"{(times.high - times.low) / times.median:.0%}",
        "" if moved is None else f"{moved / times.median / 1e6:.1f}",
        "" if copied is None else f"{times.median / copied:.1f}",
        "" if measurement.temporary_bytes is None else f"{measurement.temporary_bytes:,}",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def device() -> jax.Device:
    """Returns the device that JAX computes on, also while a program is traced."""
    with jax.ensure_compile_time_eval():
        (chosen,) = jnp.zeros(()).devices()
    return chosen


def on_cpu() -> bool:
    """Returns whether JAX computes on a CPU. The benchmarks ask nothing else about the device."""
    is_cpu: bool = device().platform == "cpu"
    return is_cpu


def threads() -> int:
    """Returns the number of threads that JAX uses on a CPU."""
    return len(os.sched_getaffinity(0))


def memory_of_device() -> int:
    """Returns the bytes of memory of the device."""
    if on_cpu():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(device().memory_stats()["bytes_limit"])


def environment(torch: str | None) -> dict[str, str]:
    """Returns what names the machine and the versions."""
    name = _cpu_model() if on_cpu() else device().device_kind
    found = reports.environment({"platform": device().platform, "device": name})
    return {
        **found,
        "torch": torch or "not installed",
        "threads": str(threads()),
        "memory": f"{memory_of_device() / 2**30:.0f} GiB",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def line(environment: Mapping[str, str]) -> str:
    """Returns the machine and the versions that matter, in one line."""
    packages = ("jax", "jaxlib", "torch")
    device_name = environment["device"]
    if environment["platform"] == "cpu":
        device_name += f", {environment['threads']} threads"
    versions = [f"{name} {environment[name]}" for name in packages]
    load = f"load at the start {environment['load']}"
    return ", ".join([device_name, f"Python {environment['python']}", *versions, load])


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    return model.group(1) if model else platform.machine()
