"""Compiles one portable program for a TPU that is not there, and prints a record of its code.

``python -m conformance.lab.compiled.tpu_child product v5e`` prints, as one line of JSON,

    {"faults": [], "code": "15,564 operations (9 with the mode off), 24 fusions (1), ..."}

libtpu compiles for a description of a topology, in a process whose JAX has a CPU alone:
https://docs.jax.dev/en/latest/aot.html.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental import topologies

import impl
from conformance.lab.compiled import programs
from conformance.lab.readers import tpu as reader

_PLATFORM = "tpu"
#: The topology of which one chip is taken, by the name of the chip.
CHIPS = {"v5e": "v5e:2x2", "v6e": "v6e:2x2"}


def record(name: str, chip: str) -> dict[str, Any]:
    """Returns the faults of the code of a program under ``portable``, and its figures in words.

    Args:
        name: One of ``programs.PROGRAMS``.
        chip: One of ``CHIPS``.
    """
    topology = topologies.get_topology_desc(platform=_PLATFORM, topology_name=CHIPS[chip])
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    function, arguments = programs.PROGRAMS[name]()
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), arguments
    )
    with impl.deterministic(False):
        plain = _compiled(function, shapes)
    with impl.deterministic(guarantee="portable"):
        portable = _compiled(function, shapes)
    faults = reader.faults(_text(portable))
    # A check that finds nothing in a program of floats would find nothing anywhere.
    if not reader.faults(_text(plain)) and not reader.arithmetic(_text(plain)):
        faults.append("the check finds no float in the plain program")
    others = list(_figures(plain).values())
    figures = [f"{number:,} {key}" for key, number in _figures(portable).items()]
    figures[0] += f" ({others[0]:,} with the mode off)"
    figures[1:] = [f"{own} ({n:,})" for own, n in zip(figures[1:], others[1:], strict=True)]
    return {"faults": faults, "code": ", ".join(figures)}


def _compiled(function: Callable[..., Any], shapes: Sequence[Any]) -> Any:
    traced = jax.jit(function).trace(*shapes)
    return traced.lower(lowering_platforms=(_PLATFORM,)).compile()


def _text(compiled: Any) -> str:
    """Returns the optimised program, with the numbers of long constants."""
    # ``as_text()`` shortens the constants. The module has no types.
    options = importlib.import_module("jaxlib._hlo").HloPrintOptions()
    options.print_large_constants = True
    (module,) = compiled.runtime_executable().hlo_modules()
    text: str = module.to_string(options)
    return text


def _figures(compiled: Any) -> dict[str, int]:
    return {
        **reader.counts(_text(compiled)),
        "bytes accessed": int(compiled.cost_analysis()["bytes accessed"]),
        "bytes of code": compiled.memory_analysis().generated_code_size_in_bytes,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the record of a program; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compiles one program for a TPU.")
    parser.add_argument("name", choices=tuple(programs.PROGRAMS))
    parser.add_argument("chip", choices=tuple(CHIPS))
    options = parser.parse_args(arguments)
    print(json.dumps(record(options.name, options.chip)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
