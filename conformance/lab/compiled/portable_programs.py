"""Compiles whole portable programs for a GPU, and reads their code beside that of plain JAX.

``python -m conformance.lab.compiled.portable_programs`` needs no GPU, and what
``python -m conformance compile`` needs. The code of a portable training step may contract nothing,
flush nothing by itself, approximate nothing, and call no library. The command prints the launches
of each step and the bytes that it moves; with ``--write`` it writes the table that the site shows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

import impl
from conformance.lab.compiled import TARGETS, compiler, hlo_costs, hlo_reader, ptx_reader
from conformance.lab.compiled.hlo_costs import Cost
from conformance.lab.elementary.machine_code import inexact
from conformance.lab.portable import programs
from conformance.reporting import report

#: The table that the site shows.
TABLE = Path(__file__).with_name("portable_programs.md")
#: The GPU of the table.
TARGET = "h200"
PROGRAMS = ("transformer", "mixed_precision", "recurrent", "conv_net")


def compiled(name: str, target: str, *, plain: bool) -> tuple[Cost, list[str]]:
    """Returns the cost of a program's step, and the faults of its code.

    Args:
        name: One of ``portable_programs.PROGRAMS``.
        target: The name of the GPU.
        plain: Whether to leave the mode off.
    """
    state, batch, step = programs.PROGRAMS[name]()
    leaves, form = jax.tree.flatten((state, batch))

    def call(*arrays: Any) -> Any:
        return step(*jax.tree.unflatten(form, arrays))

    with impl.deterministic(not plain, guarantee=None if plain else "portable"):
        code = compiler.compile_call(call, tuple(leaves), target, compiler.NO_AUTOTUNING)
    return hlo_costs.cost(code.hlo), faults(code)


def faults(code: compiler.MachineCode) -> list[str]:
    """Returns the instructions and calls that have other bits on other devices, each once."""
    text = "\n".join(dict.fromkeys(code.kernels.values()))
    if not text:
        return ["it has no kernel"]
    instructions = [
        *ptx_reader.contractions(text),
        *ptx_reader.approximations(text),
        *inexact(text),
    ]
    calls = [f"a call of {name}" for name in hlo_reader.library_calls(code.hlo)]
    return list(dict.fromkeys([*instructions, *calls]))


def row(name: str, plain: Cost, portable: Cost) -> str:
    """Returns a row of the table."""
    return (
        f"| {name} | {plain.launches} | {portable.launches} "
        f"({portable.launches / plain.launches:.1f}) | {plain.moved:,} | {portable.moved:,} "
        f"({portable.moved / plain.moved:.1f}) |"
    )


def heading(target: str) -> list[str]:
    """Returns what stands above the rows of the table."""
    plugin = "jax-cuda13-plugin"
    releases = f"jax {jax.__version__}, {plugin} {report.version(plugin)}"
    return [
        "# Portable training steps by their compiled code",
        "",
        f"- Compiled for one {target.upper()} by XLA of {releases}; nothing ran.",
        "- In brackets: the ratio to plain.",
        "- Bytes: those of the operands and results of each launch.",
        "- `python -m conformance.lab.compiled.portable_programs --write`",
        "",
        "| step | launches, plain | launches, portable | bytes, plain | bytes, portable |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table and the faults of portable programs; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; default: all")
    parser.add_argument("--target", choices=TARGETS, default=TARGET)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    options = parser.parse_args(arguments)
    with compiler.prepared() as is_able:
        if not is_able:
            return 2
        lines, wrong = heading(options.target), []
        print("\n".join(lines))
        for name in options.names or PROGRAMS:
            plain, of_plain = compiled(name, options.target, plain=True)
            portable, problems = compiled(name, options.target, plain=False)
            if not of_plain:
                problems.append("nothing is found in the plain step, where much should be")
            lines.append(row(name, plain, portable))
            print(lines[-1], flush=True)
            wrong += [f"{name}: {problem}" for problem in problems]
    for problem in wrong:
        print(f"FAILED {problem}")
    if options.write:
        TABLE.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
