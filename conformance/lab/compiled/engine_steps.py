"""Compiles portable programs for GPUs with little float64, and counts what their engine saves.

``python -m conformance.lab.compiled.engine_steps`` needs no GPU; it needs the packages of
``python -m conformance compile``. For each target whose engine is not float64 (``ENGINE_TARGETS``)
it compiles each of ``PROGRAMS`` three times: with the mode off, with the engine ``float64``, and
with the engine of the target. It prints launches, bytes, the arithmetic of a run
(``readers.work``), and how many instructions of some kinds the code of the kernels has. It fails if
the code for the engine of the target contracts, approximates or calls a library, or if a program
keeps more of the arithmetic in float64 than ``MOST`` says. ``--write`` keeps the counts in
``engine_steps.json``, from which the site draws a table::

    product for l40s: float64 {"launches": 8, ..., "float64": 312000, "int8": 0, ...}
                      int8    {"launches": 32, ..., "float64": 51000, "int8": 4100000, ...}

The numbers are made up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import impl
from conformance.lab.compiled import (
    ENGINE_TARGETS,
    compiler,
    example_steps,
    launches,
    small_programs,
)
from conformance.lab.compiled.costs import records
from conformance.lab.compiled.portable_steps import faults
from conformance.lab.readers import work
from spec import gpus
from spec.engines import DEFAULT, engine_of

DATA = Path(__file__).with_name("engine_steps.json")
#: The programs. The example is 32 wide, where most of its arithmetic is on elements, which stays in
#: float64; at the width of a small model most of it is in products.
PROGRAMS: Mapping[str, Callable[[], example_steps.Call]] = {
    "product": small_programs.PROGRAMS["product"],
    "convolution": small_programs.PROGRAMS["convolution"],
    "example": example_steps.portable,
    "example_512_wide": lambda: example_steps.portable(WIDTH=512, LENGTH=64),
}
#: The greatest part of the arithmetic in float64 that a program may keep, by its name.
MOST: Mapping[str, float] = {"example_512_wide": 1 / 3}
#: The instructions of PTX that are counted, by the names of the counts.
_INSTRUCTIONS: Mapping[str, re.Pattern[str]] = {
    "code_float64": re.compile(
        r"^\s*(?:@%\w+ )?(?:add|sub|mul|div|fma|sqrt|min|max|setp|cvt)(?:\.\w+)*\.f64\b",
        re.MULTILINE,
    ),
    "code_mma_int8": re.compile(r"\bmma\.sync(?:\.\w+)*\.s8\b"),
    "code_dp4a": re.compile(r"\bdp4a\b"),
    "code_products_int32": re.compile(r"\b(?:mul|mad)\.(?:lo|hi|wide)\.[su]32\b"),
}


def compiled(name: str, target: str, engine: str | None) -> tuple[dict[str, int], list[str]]:
    """Returns the counts of a program, and the faults of its code.

    Args:
        name: One of ``PROGRAMS``.
        target: The name of the GPU.
        engine: The engine; None for the mode off.
    """
    function, arguments = PROGRAMS[name]()
    scope = impl.testing.engine(engine) if engine else contextlib.nullcontext()
    with scope, impl.deterministic(engine is not None, guarantee="portable" if engine else None):
        code = compiler.compile_call(function, arguments, target, compiler.NO_AUTOTUNING)
    counts = records.side_data(launches.account_of(code.hlo))
    if engine is None:
        return counts, []
    done = work.work_of(code.hlo)
    text = "\n".join(dict.fromkeys(code.kernels.values()))
    of_code = {kind: len(found.findall(text)) for kind, found in _INSTRUCTIONS.items()}
    return {**counts, "float64": done.float64, "int8": done.int8, **of_code}, faults(code)


def case(name: str, target: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the counts of a program for a GPU, by engine, and their problems."""
    own = engine_of("cuda", capability=gpus.capability(target))
    counts: dict[str, Any] = {}
    problems: list[str] = []
    for side, engine in (("plain", None), (DEFAULT, DEFAULT), (own, own)):
        counts[side], found = compiled(name, target, engine)
        if side == own:  # Products in float64 may be contracted: the bound of their error holds.
            problems += [f"{name} for {target}: {fault}" for fault in found]
    if name in MOST and counts[own]["float64"] > MOST[name] * counts[DEFAULT]["float64"]:
        stays = f"{counts[own]['float64']:,} of {counts[DEFAULT]['float64']:,} operations"
        problems.append(f"{name} for {target}: {stays} stay in float64, above {MOST[name]:.0%}")
    return counts, problems


def write(cases: Mapping[str, Any]) -> None:
    """Writes counts, and keeps what the file has of other programs by the same compiler."""
    about = {key: value for key, value in records.about("").items() if key != "target"}
    before = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    is_same = {key: before.get(key) for key in about} == about
    known = {**(before["cases"] if is_same else {}), **cases}
    names = [f"{name} for {target}" for target in ENGINE_TARGETS for name in PROGRAMS]
    kept = {name: known[name] for name in names if name in known}
    DATA.write_text(records.text_of({**about, "cases": kept}), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the counts and the problems of the programs; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compiles portable programs for GPUs.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PROGRAMS)}; default: all")
    parser.add_argument("--target", action="append", choices=ENGINE_TARGETS, help="default: all")
    parser.add_argument("--write", action="store_true", help=f"write {DATA.name}")
    options = parser.parse_args(arguments)

    def cases() -> Iterator[tuple[str, Any, list[str]]]:
        for target in options.target or ENGINE_TARGETS:
            for name in options.names or PROGRAMS:
                label = f"{name} for {target}"
                counts, problems = case(name, target)
                if options.write:
                    write({label: counts})
                yield label, counts, problems

    return compiler.counted(cases())[1]


if __name__ == "__main__":
    sys.exit(main())
