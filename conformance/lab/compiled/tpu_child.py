"""Compiles one portable program for a TPU that is not there, and prints a record of its code.

``python -m conformance.lab.compiled.tpu_child product v5e`` prints, as one line of JSON,

    {"plain": {"operations": 9, ...}, "portable": {"operations": 15564, ...}, "faults": []}

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
from conformance.lab.compiled import small_programs
from conformance.lab.readers import tpu as reader

_PLATFORM = "tpu"
#: The topology of which one chip is taken, by the name of the chip.
CHIPS = {"v5e": "v5e:2x2", "v6e": "v6e:2x2"}


def record(name: str, chip: str) -> dict[str, Any]:
    """Returns what the code of a program has under ``portable``, and with the mode off.

    Args:
        name: One of ``small_programs.PROGRAMS``.
        chip: One of ``CHIPS``.
    """
    topology = topologies.get_topology_desc(platform=_PLATFORM, topology_name=CHIPS[chip])
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    function, arguments = small_programs.PROGRAMS[name]()
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), arguments
    )
    with impl.deterministic(False):
        plain = _compiled(function, shapes)
    with impl.deterministic(guarantee="portable"):
        portable = _compiled(function, shapes)
    text = _text(portable)
    faults = reader.faults(text)
    # A check that finds nothing in a program of floats would find nothing anywhere.
    if not reader.faults(_text(plain)) and not reader.arithmetic(_text(plain)):
        faults.append("the check finds no float in the plain program")
    return {
        "plain": _figures(plain),
        "portable": _figures(portable),
        "float_arithmetic": reader.arithmetic(text),
        "bounded_sums": reader.bounded_sums(text),
        "faults": faults,
    }


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
        "bytes": int(compiled.cost_analysis()["bytes accessed"]),
        "code": compiled.memory_analysis().generated_code_size_in_bytes,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the record of a program; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compiles one program for a TPU.")
    parser.add_argument("name", choices=tuple(small_programs.PROGRAMS))
    parser.add_argument("chip", choices=tuple(CHIPS))
    options = parser.parse_args(arguments)
    print(json.dumps(record(options.name, options.chip)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
