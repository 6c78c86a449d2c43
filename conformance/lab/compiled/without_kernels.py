"""Compiles calls for a GPU with kernels and without them, and compares launches and bytes.

``python -m conformance.lab.compiled.without_kernels`` needs no GPU; it needs the packages of
``python -m conformance compile``. Where JAX lacks Pallas' Triton backend, XLA's operations replace
the kernels. The command prints what that costs each call, and fails if a program without kernels
still launches one, or a program with kernels launches none. ``--write`` keeps the counts in
``without_kernels.json``, from which the site draws a table.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

import impl
from conformance.lab.compiled import TARGETS, compiler, launches
from conformance.lab.compiled.costs import command, records
from conformance.lab.compiled.costs.case import CostCase, floats, ints
from conformance.lab.compiled.costs.counts import PROFILE
from conformance.lab.readers import stablehlo
from impl._kernels import pallas

DATA = Path(__file__).with_name("without_kernels.json")
#: The GPU of the data.
TARGET = "h200"
#: The computations that replace kernels.
_ROWS = "XLA's scatter, which adds parts of each element by atomics of integers"
_SCAN = "a blocked scan of whole arrays"
_EXTREME = "two cumulative maxima of integers, one of them of positions"
_SELECT = "one pass over the row for each bit of the element"
_TAPS = "a product of matrices for each block of images and run of taps"
_PRODUCT = "XLA's product, which XLA must not pick by timing"
#: The calls of ``costs`` whose programs have a kernel, at the sizes of benchmarks, each with the
#: computation that replaces the kernel.
REPLACEMENTS: Mapping[str, str] = {
    "embedding-backward-50k-65536-1024": _ROWS,
    "index_select-backward-50k-65536-1024": _ROWS,
    "scatter_reduce-prod-10k-100k": "a loop over the longest chain of factors",
    "cumsum-4096-4096": _SCAN,
    "cumprod-4096-4096": _SCAN,
    "cumprod-backward-4096-4096": _SCAN,
    "logcumsumexp-4096-4096": _SCAN,
    "logcumsumexp-backward-4096-4096": _SCAN,
    "cummax-4096-4096": _EXTREME,
    "cummin-4096-4096": _EXTREME,
    "kthvalue-4096-4096": _SELECT,
    "median-4096-4096": _SELECT,
    "kthvalue-1-10M": _SELECT,
    "median-1-10M": _SELECT,
    "mode-512-1024": "a sort of each row",
    "topk-4096-4096": "a sort of each row",
    "mm-4096-float32": _PRODUCT,
    "bmm-1024-64-64-float32": _PRODUCT,
    "conv2d-64-64-56-56-float32": _TAPS,
    "conv2d-backward-image-64-64-56-56-float32": _TAPS,
    "conv2d-backward-weights-64-64-56-56-float32": _TAPS,
}


def cases() -> dict[str, CostCase]:
    """Returns the calls by name: calls of ``costs``, and two without a budget."""

    def multiplied(operand: jax.Array, index: jax.Array, source: jax.Array) -> Any:
        return impl.scatter_reduce(operand, 0, index, source, "prod")

    shapes = (floats(10_000), ints(100_000), floats(100_000))
    product = CostCase(
        "scatter_reduce-prod-10k-100k", "scatter_reduce", "forward", multiplied, shapes
    )
    rows = (floats(512, 1024, dtype=jnp.float32),)
    # Longer rows are sorted by XLA, with kernels too.
    mode = CostCase("mode-512-1024", "mode", "forward", lambda x: impl.mode(x, -1), rows)
    known = {**command.by_name(), product.name: product, mode.name: mode}
    return {name: known[name] for name in REPLACEMENTS}


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Makes impl believe that JAX has no backend for kernels."""
    with mock.patch.object(pallas, "reason_missing", return_value="it is hidden"):
        yield


def measured(case: CostCase, target: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the counts of a call with kernels and without, and the faults.

    A count is None where XLA does not know how often a loop runs.
    """
    counts: dict[str, Any] = {}
    problems: list[str] = []
    for side, scope in (("with", contextlib.nullcontext()), ("without", hidden())):
        jax.clear_caches()  # The two sides have the same equations.
        with scope, impl.deterministic(profile=PROFILE):
            code = compiler.compile_call(case.call, case.inputs, target, compiler.NO_AUTOTUNING)
        if bool(stablehlo.kernels(code.lowered)) != (side == "with"):
            problems.append(
                f"{case.name}, {side} kernels: it launches {stablehlo.kernels(code.lowered)}"
            )
        try:
            counts[side] = records.side_data(launches.account_of(code.hlo, case.unlikely))
        except ValueError:  # The loop runs as often as the longest chain is long.
            counts[side] = None
    return counts, problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the counts of calls with and without kernels; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *REPLACEMENTS], help="calls; default: all")
    parser.add_argument("--target", choices=TARGETS, default=TARGET)
    parser.add_argument("--write", action="store_true", help=f"write {DATA.name}")
    options = parser.parse_args(arguments)
    known = cases()

    def counts() -> Iterator[tuple[str, Any, list[str]]]:
        for name in options.names or REPLACEMENTS:
            sides, problems = measured(known[name], options.target)
            yield name, {"replacement": REPLACEMENTS[name], **sides}, problems

    counted, status = compiler.counted(counts())
    if options.write and counted:
        text = records.text_of({**records.about(options.target), "cases": counted})
        DATA.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
