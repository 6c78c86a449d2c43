"""Renders the engines of ``portable``: their devices, their computed costs, and programs for a TPU.

The directive ``engines`` has a line for each engine of ``spec/engines.toml``. The directive
``engine-costs`` has a line for each device of ``engine_costs.toml``: operations divided by peak
rates.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from conformance_tables import MarkdownDirective
from spec.engines import engine_of, engines

RATES = Path(__file__).with_name("engine_costs.toml")
_TABLE = Path(__file__).parents[2] / "spec/engines.toml"
_MILLISECONDS, _TERA = 1000, 1e12


@dataclasses.dataclass(frozen=True)
class Cost:
    """The computed milliseconds of a training step on a device.

    Attributes:
        device: The name of the device.
        engine: The engine that it has.
        plain: Products of float32, with the mode off.
        float64: Products of float64, which the engine ``float64`` computes.
        int8: Products of int8, which the engine ``int8`` computes.
        elementwise: The arithmetic of float64 on elements, which both engines compute.
    """

    device: str
    engine: str
    plain: float
    float64: float
    int8: float
    elementwise: float

    @property
    def products(self) -> float:
        """Products as the engine of the device computes them."""
        return self.int8 if self.engine == "int8" else self.float64


def costs(path: Path = RATES) -> Iterator[Cost]:
    """Yields the cost on each device of the file of rates."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    operations, elements = 2 * data["step"]["multiply_adds"], data["step"]["elementwise"]
    digits = data["int8"]
    of_long = 2 * digits["multiply_adds_of_long"]
    of_digits = digits["products"] * (operations - of_long) + digits["products_of_long"] * of_long

    def milliseconds(count: float, rate: float) -> float:
        return count / (rate * _TERA) * _MILLISECONDS

    for device in data["device"]:
        yield Cost(
            device["name"],
            engine_of("cuda", capability=device["capability"]),
            milliseconds(operations, device["float32"]),
            milliseconds(operations, device["float64_products"]),
            milliseconds(of_digits, device["int8"]),
            # An operation on elements is no multiply-add, which would count as two.
            milliseconds(2 * elements, device["float64"]),
        )


def engine_lines() -> Iterator[str]:
    """Yields a table of the engines and their devices, as Markdown."""
    yield "| Engine | The program computes with | Devices |"
    yield "| --- | --- | --- |"
    for engine in engines().values():
        devices = [f"`{platform}`" for platform in engine.platforms]
        if engine.capabilities:
            devices.append(f"compute capability {', '.join(engine.capabilities)}")
        yield f"| `{engine.name}` | {engine.statement} | {', '.join(devices)} |"


def cost_lines(path: Path = RATES) -> Iterator[str]:
    """Yields a sentence and a table of the computed costs, as Markdown."""
    digits = tomllib.loads(path.read_text(encoding="utf-8"))["int8"]
    yield (
        f"The engine `int8` makes {digits['products']} products of digits of each product of"
        f" float32, and {digits['products_of_long']} if its sums have more than 1,024 terms:"
    )
    yield ""
    yield "| Device | Engine | Plain products | With float64 | With int8 | Elementwise |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for each in costs(path):
        numbers = each.plain, each.float64, each.int8, each.elementwise
        cells = " | ".join(
            f"{number:.2g}" if number < 100 else f"{number:.0f}" for number in numbers
        )
        yield f"| {each.device} | `{each.engine}` | {cells} |"


def programs_by_engine(path: Path) -> Iterator[str]:
    """Yields the programs that were compiled for GPUs with little float64, as Markdown."""
    data = json.loads(path.read_text(encoding="utf-8"))
    yield "# Portable programs compiled for GPUs with little float64"
    yield ""
    yield f"- Compiled by XLA of jax {data['jax']}; nothing ran."
    yield (
        "- *Float64* and *int8*: the operations of a run. In brackets: the operations that the"
        " engine `float64` needs on the same GPU."
    )
    yield ""
    yield "| program | engine | launches | bytes | float64 | int8 |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for name, sides in data["cases"].items():
        engine = next(side for side in sides if side not in {"plain", "float64"})
        own, other = sides[engine], sides["float64"]
        cells = [f"{own[key]:,} ({other[key]:,})" for key in ("launches", "bytes", "float64")]
        words = name.replace("_", " ")
        yield f"| {words} | `{engine}` | {' | '.join(cells)} | {own['int8']:,} |"


def programs_for_tpu(path: Path) -> Iterator[str]:
    """Yields the programs that were compiled for TPUs, as Markdown."""
    data = json.loads(path.read_text(encoding="utf-8"))
    yield "# Portable programs compiled for a TPU"
    yield ""
    yield (
        f"- Compiled by libtpu {data['libtpu']} with jax {data['jax']}; nothing ran. The"
        " operations, bytes and code of plain JAX are in brackets."
    )
    yield ""
    yield "| program | TPU | HLO operations | fusions | bytes accessed | bytes of code |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for name, chips in data["cases"].items():
        for chip, record in chips.items():
            yield f"| {name.replace('_', ' ')} | {chip} | {' | '.join(_cells(record))} |"


def _cells(record: Mapping[str, Any]) -> list[str]:
    if record["status"] != "compiled":
        limit = f" of {record['limit']:g} s" if "limit" in record else ""
        limit += f" ({record['gib']} GiB)" if "gib" in record else ""
        return [f"{record['status']}{limit}", "", "", ""]
    plain, portable = record["plain"], record["portable"]
    keys = ("operations", "fusions", "bytes", "code")
    return [f"{portable[key]:,} ({plain[key]:,})" for key in keys]


class Engines(MarkdownDirective):
    """A table of the engines."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        self.env.note_dependency(str(_TABLE))
        return self.parsed("\n".join(engine_lines()), _TABLE)


class EngineCosts(MarkdownDirective):
    """A table of computed costs."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        self.env.note_dependency(str(RATES))
        return self.parsed("\n".join(cost_lines()), RATES)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("conformance_tables")
    app.add_directive("engines", Engines)
    app.add_directive("engine-costs", EngineCosts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
