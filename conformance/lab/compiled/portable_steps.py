"""Compiles whole portable training steps for a GPU, and reads their code next to plain JAX's.

``python -m conformance.lab.compiled.portable_steps`` needs no GPU; it needs the packages of
``python -m conformance compile``. The code of a portable step may contract nothing, flush no
subnormals, approximate nothing, and call no library. The command prints the launches of each step
and the bytes that it moves. ``--write`` keeps them in ``portable_steps.json``, from which the
site draws a table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import impl
from conformance.lab.compiled import TARGETS, compiler, launches
from conformance.lab.compiled.costs import records
from conformance.lab.elementary.machine_code import inexact
from conformance.lab.portable import programs
from conformance.lab.readers import hlo, ptx

DATA = Path(__file__).with_name("portable_steps.json")
#: The GPU of the data.
TARGET = "h200"
PROGRAMS = ("transformer", "mixed_precision", "recurrent", "conv_net")


def compiled(name: str, target: str, *, plain: bool) -> tuple[dict[str, int], list[str]]:
    """Returns the launches and bytes of a program's step, and the faults of its code.

    Args:
        name: One of ``portable_steps.PROGRAMS``.
        target: The name of the GPU.
        plain: Whether to leave the mode off.
    """
    state, batch, step = programs.PROGRAMS[name]()
    with impl.deterministic(not plain, guarantee=None if plain else "portable"):
        code = compiler.compile_call(step, (state, batch), target, compiler.NO_AUTOTUNING)
    return records.side_data(launches.account_of(code.hlo)), faults(code)


def faults(code: compiler.MachineCode) -> list[str]:
    """Returns the instructions and calls whose results depend on the device, each once."""
    text = "\n".join(dict.fromkeys(code.kernels.values()))
    if not text:
        return ["it has no kernel"]
    instructions = [
        *ptx.contractions(text),
        *ptx.approximations(text),
        *inexact(text),
    ]
    calls = [f"a call of {name}" for name in hlo.library_calls(code.hlo)]
    return list(dict.fromkeys([*instructions, *calls]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the costs and the faults of portable steps; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; default: all")
    parser.add_argument("--target", choices=TARGETS, default=TARGET)
    parser.add_argument("--write", action="store_true", help=f"write {DATA.name}")
    options = parser.parse_args(arguments)

    def cases() -> Iterator[tuple[str, Any, list[str]]]:
        for name in options.names or PROGRAMS:
            plain, faults_of_plain = compiled(name, options.target, plain=True)
            portable, faults_of_step = compiled(name, options.target, plain=False)
            if not faults_of_plain:
                faults_of_step.append("the check finds no fault in the plain step, which has many")
            sides = {"plain": plain, "portable": portable}
            yield name, sides, [f"{name}: {fault}" for fault in faults_of_step]

    known, status = compiler.counted(cases())
    if options.write and known:
        text = records.text_of({**records.about(options.target), "cases": known})
        DATA.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
