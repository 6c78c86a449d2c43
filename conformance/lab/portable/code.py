"""Reads a lowered program for what may have other bits elsewhere: it needs no device.

A portable program adds numbers whose sums are exact: integers, or floats that are whole numbers.
Other sums stand in the scope ``in_any_order``, with a bound of their errors, and a rounding test
decides whether the bound suffices (``impl._exact.nearest``). The program calls no library for a
function of floats, and rounds each product before another operation uses it. To prove that floats
are whole numbers, the reader follows each value back to its source, through calls and loops: an
abstract interpretation with two values, whole and unknown (Cousot and Cousot, POPL 1977). Of the
plain step ``recurrent`` it lists, among other lines,

    stablehlo.reduce to tensor<f32>: sums are rounded in an order of the platform
    stablehlo.multiply to tensor<8x16xf32>: a product that something else may be fused with

``python -m conformance.lab.portable.code`` lowers the programs of
``conformance.lab.portable.programs`` for several platforms and lists the violations. It fails if
there are any.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax

import impl
from conformance.lab.portable import programs
from conformance.lab.readers import stablehlo
from impl._core.numerics import MENDED
from impl._native import library

PLATFORMS = ("cpu", "cuda", "rocm")
_REDUCTIONS = ("reduce", "reduce_window")
#: The operations that combine terms in an order of their own, if their bodies add or multiply.
_FOLDS = (*_REDUCTIONS, "scatter", "all_reduce", "reduce_scatter", "scan")
#: The operations whose bodies only say how two elements are combined or compared.
_WITH_BODIES = frozenset(
    f"{dialect}.{name}" for dialect in ("stablehlo", "chlo") for name in (*_FOLDS, "sort")
)
_PRODUCTS = ("dot_general", "dot", "convolution")
#: The operations that only move elements, of their first operand or of all operands.
_MOVES = frozenset(
    {
        *("reshape", "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "gather"),
        *("optimization_barrier", "negate", "abs", "convert", "reverse", "all_gather"),
    }
)
#: The operations whose results are whole numbers if their operands are.
_CLOSED = frozenset(
    {
        *("add", "subtract", "multiply", "maximum", "minimum", "concatenate", "pad", "clamp"),
        *("dynamic_update_slice", "reduce", "reduce_window", "scatter", "all_reduce"),
        *("reduce_scatter", "scan", "dot_general", "convolution", "all_to_all"),
    }
)
_ROUNDINGS = frozenset({"round_nearest_even", "round_nearest_afz", "floor", "ceil", "sign"})
#: Functions of floats that a platform computes in its own way.
_OF_LIBRARIES = frozenset(
    {
        *("atan2", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "tan", "tanh"),
        *("log_plus_one", "logistic", "power", "rsqrt", "sine", "fft", "cholesky"),
        *("triangular_solve", "select_and_scatter", "batch_norm_training", "batch_norm_grad"),
    }
)
#: Functions that are computed in float64 choose among no zeros of both signs.
_EXTREMES = frozenset({"maximum", "minimum", "clamp"})
#: Functions that take a subnormal number for another one than 0.
_OF_SUBNORMALS = _ROUNDINGS | {"remainder", "reduce_precision", "top_k"}
#: Functions that a GPU rounds to nearest in float64 alone.
_ROUNDED_IN_FLOAT64 = frozenset({"divide", "sqrt"})
#: Calls that say where an array is, or in which order of axes, and compute nothing. The calls of
#: the engine ``native`` have exact results.
_CALLS = frozenset(
    {"LayoutConstraint", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
).union(library.CALLS)


def violations(module: Any, platform: str) -> list[str]:
    """Returns the operations of a lowered program that may have other bits elsewhere, each once."""
    reader = _Reader(module, platform)
    return list(dict.fromkeys(reader.problems()))


class _Reader:
    """A walk through a module, which follows values through calls and loops."""

    def __init__(self, module: Any, platform: str) -> None:
        self.platform = platform
        self.operations = list(stablehlo.walk(module.operation, _WITH_BODIES))
        self.functions = {
            stablehlo.in_text(op.attributes["sym_name"]): op
            for op in self.operations
            if op.operation.name == "func.func"
        }
        self.calls: dict[str, list[Any]] = {}
        for op in self.operations:
            if op.operation.name == "func.call":
                self.calls.setdefault(stablehlo.in_text(op.attributes["callee"]), []).append(op)
        self.arguments = {*self.functions["main"].regions[0].blocks[0].arguments}
        self.known: dict[Any, bool] = {}

    def problems(self) -> Iterator[str]:
        """Yields a line for each violation."""
        for op in self.operations:
            dialect, _, name = op.operation.name.partition(".")
            if dialect == "chlo" and name not in {"top_k", "scan"}:
                yield _line(op, "a function of the platform")
            if dialect not in {"stablehlo", "chlo"}:
                continue
            floats = [value for value in op.operands if _is_float(value)]
            if self.platform != "cpu" and name in _OF_SUBNORMALS and {*floats} & self.arguments:
                yield _line(op, "it sees a subnormal argument")
            # A library that transforms a convolution errs by more than the bound says.
            is_transformed = name == "convolution" and self.platform != "cpu"
            if stablehlo.is_in_any_order(op) and not is_transformed:
                continue
            if name in _OF_LIBRARIES and floats:
                yield _line(op, "a function of the platform")
            elif name in _ROUNDED_IN_FLOAT64 and not self.is_rounded(name, floats):
                yield _line(op, "is not rounded to nearest on every platform")
            elif name in _ROUNDED_IN_FLOAT64 and floats and not _is_sealed(op):
                yield _line(op, "a conversion may narrow it")
            elif name == "convert" and _narrows(op) and not _is_sealed(op):
                if not self.is_whole(op.operands[0]):
                    yield _line(op, "another conversion may undo it")
            elif (
                name == "custom_call"
                and stablehlo.in_text(op.attributes["call_target_name"]) not in _CALLS
            ):
                if floats:
                    yield _line(op, "a call of a library")
            elif name in _EXTREMES and floats and _bits(floats[0]) < 64 and _chooses_zeros(op):
                yield _line(op, "a zero may have either sign")
            elif name in _REDUCTIONS and _is_float(op.operands[0]) and "compare" in _combines(op):
                yield _line(op, "it may choose any of several equal elements, or NaN")
            elif name in _FOLDS and floats and _combines(op) & {"add", "multiply"}:
                yield from self._of_fold(op, floats)
            elif name in _FOLDS and name != "scatter" and _combines(op) & _EXTREMES:
                # Constants and magnitudes have one zero.
                owners = [getattr(each.owner, "name", "") for each in floats if _bits(each) < 64]
                if not {*owners} <= {"stablehlo.abs", "stablehlo.constant"}:
                    yield _line(op, "a zero may have either sign")
            elif name == "compare" and floats and _is_total(op):
                yield _line(op, "XLA has another order for constants")
            elif name in {"add", "subtract"} and floats and _bits(floats[0]) < 32:
                yield _line(op, "something else may use it before it is rounded")
            elif name in _PRODUCTS and floats:
                yield from self._of_product(op, floats)
            elif name == "multiply" and floats and _bits(floats[0]) < 64 and not _is_sealed(op):
                yield _line(op, "a product that something else may be fused with")

    def _of_fold(self, op: Any, floats: Sequence[Any]) -> Iterator[str]:
        if "multiply" in _combines(op):
            yield _line(op, "products are rounded in an order of the platform")
        elif not all(self.is_whole(value) for value in floats):
            yield _line(op, "sums are rounded in an order of the platform")

    def _of_product(self, op: Any, floats: Sequence[Any]) -> Iterator[str]:
        name = op.operation.name.partition(".")[2]
        if name == "convolution" and self.platform != "cpu":
            yield _line(op, "a library may transform it")
        elif not all(self.is_whole(value) for value in floats):
            yield _line(op, "sums are rounded in an order of the platform")

    def is_rounded(self, name: str, floats: Sequence[Any]) -> bool:
        """Returns whether the platform rounds a quotient or a root of floats to nearest."""
        # On a CPU, XLA may multiply by the reciprocal of a divisor, unless it is a selection.
        chosen = [getattr(each.owner, "name", "") == "stablehlo.select" for each in floats[1:]]
        on_cpu = self.platform == "cpu" and (name == "sqrt" or chosen == [True])
        return all(_bits(value) >= (32 if on_cpu else 64) for value in floats)

    def is_whole(self, value: Any) -> bool:
        """Returns whether all the floats of a value are whole numbers, infinite or NaN."""
        if not _is_float(value):
            return True
        if value in self.known:
            return self.known[value]
        self.known[value] = True  # A loop returns to itself, and changes nothing there.
        self.known[value] = result = all(
            source is not None and self.is_whole(source) for source in self._sources(value)
        )
        return result

    def _sources(self, value: Any) -> Iterator[Any]:
        """Yields the values that have to be whole numbers so that a value is; None is not."""
        owner = value.owner
        if not hasattr(owner, "attributes"):  # a block, of which the value is an argument
            yield from self._of_argument(value, owner)
            return
        name = owner.name.partition(".")[2]
        position = list(owner.results).index(value)
        if name == "constant":
            yield from () if _whole_constant(owner.attributes["value"]) else (None,)
        elif name in _ROUNDINGS:
            return
        elif name in _MOVES:
            yield owner.operands[position if name == "optimization_barrier" else 0]
        elif name in _CLOSED:
            yield from (each for each in owner.operands if _is_float(each))
        elif name == "select":
            yield from list(owner.operands)[1:]
        elif name in {"while", "case", "if"}:
            yield from self._of_regions(owner, position)
        elif name == "call":
            callee = self.functions[stablehlo.in_text(owner.attributes["callee"])]
            yield stablehlo.returned(callee.regions[0].blocks[0], position)
        else:
            yield None

    def _of_argument(self, value: Any, block: Any) -> Iterator[Any]:
        parent, position = block.owner, value.arg_number
        name = parent.operation.name
        if name == "func.func":
            calls = self.calls.get(stablehlo.in_text(parent.attributes["sym_name"]), [])
            yield from [call.operands[position] for call in calls] or [None]
        elif name == "stablehlo.while":
            yield parent.operands[position]
            yield stablehlo.returned(parent.regions[1].blocks[0], position)
        else:
            yield None

    def _of_regions(self, op: Any, position: int) -> Iterator[Any]:
        if op.name == "stablehlo.while":
            yield op.operands[position]
            yield stablehlo.returned(op.regions[1].blocks[0], position)
            return
        for region in op.regions:
            yield stablehlo.returned(region.blocks[0], position)


def _element(value: Any) -> str:
    """Returns the dtype of a value, in the words of the lowered program."""
    return str(value.type).removesuffix(">").rsplit("<", 1)[-1].rsplit("x", 1)[-1]


def _is_float(value: Any) -> bool:
    return _element(value).split(",")[0] in {"bf16", "f16", "f32", "f64"}


def _bits(value: Any) -> int:
    return int(_element(value).removeprefix("b")[1:])


def _combines(op: Any) -> set[str]:
    """Returns the operations by which a fold combines two numbers."""
    return {each.operation.name.partition(".")[2] for each in op.regions[0].blocks[0].operations}


def _is_total(op: Any) -> bool:
    """Returns whether a comparison has a total order. To print it would number a whole function."""
    return "compare_type" in op.attributes and "TOTAL" in str(op.attributes["compare_type"])


def _chooses_zeros(op: Any) -> bool:
    """Returns whether the sign of a zero in a result matters: its use is no selection or test."""
    uses = {use.owner.name for use in op.results[0].uses}
    return not uses <= {"stablehlo.select", "stablehlo.is_finite"}


def _is_sealed(op: Any) -> bool:
    """Returns whether each use is a barrier or a part of a seal, perhaps after a selection.

    Integer arithmetic corrects the divisions of the scope ``MENDED``.
    """
    if MENDED in str(op.location):
        return True
    uses = [use.owner for use in op.results[0].uses]
    return all(
        use.name in {"stablehlo.bitcast_convert", "stablehlo.optimization_barrier"}
        or (use.name == "stablehlo.select" and _is_sealed(use))
        or (use.name == "stablehlo.subtract" and _is_of_replica(use.operands[1]))
        for use in uses
    )


def _is_of_replica(value: Any) -> bool:
    """Returns whether a value is made of the number of the replica, which XLA does not know."""
    name = getattr(value.owner, "name", "").partition(".")[2]
    if name in {"bitcast_convert", "broadcast_in_dim", "convert"}:
        return _is_of_replica(value.owner.operands[0])
    return name == "replica_id"


def _narrows(op: Any) -> bool:
    """Returns whether a conversion rounds floats to fewer bits."""
    old, new = op.operands[0], op.results[0]
    return (
        _is_float(old)
        and _is_float(new)
        and _bits(new) < _bits(old)
        and not _was_narrow(old, _bits(new))
    )


def _was_narrow(value: Any, bits: int) -> bool:
    """Returns whether a value was a float of at most ``bits``, some perhaps replaced by zeros."""
    owner = value.owner
    name = getattr(owner, "name", "").partition(".")[2]
    if name == "convert":
        source = owner.operands[0]
        return _is_float(source) and _bits(source) <= bits
    return name == "select" and _was_narrow(owner.operands[2], bits)


def _whole_constant(attribute: Any) -> bool:
    values = [attribute.get_splat_value()] if attribute.is_splat else attribute
    numbers = [float(getattr(value, "value", value)) for value in values]
    return all(not math.isfinite(number) or number == math.floor(number) for number in numbers)


def _line(op: Any, why: str) -> str:
    results = ", ".join(str(each.type) for each in op.results)
    return f"{op.operation.name} to {results}: {why}"


def lowered(name: str, platforms: Sequence[str], *, plain: bool = False) -> dict[str, Any]:
    """Returns the step of a program, lowered for each platform under the guarantee ``portable``.

    The name is one of ``programs.PROGRAMS``. ``plain`` is whether to leave the mode off.
    """
    mode = impl.deterministic(not plain, guarantee="portable")
    with programs.in_its_dtypes(name), mode:
        step, (state, batch) = programs.PROGRAMS[name]()
        traced = jax.jit(step).trace(state, batch)
        return {each: traced.lower(lowering_platforms=(each,)).compiler_ir() for each in platforms}


def main(arguments: Sequence[str] | None = None) -> int:
    """Lists what may differ; returns the exit status."""
    parser = argparse.ArgumentParser(description="Reads lowered portable programs.")
    parser.add_argument("names", nargs="*", help="programs; default: all that are installed")
    parser.add_argument("--platform", action="append", choices=PLATFORMS)
    parser.add_argument("--plain", action="store_true", help="leave the mode off")
    options = parser.parse_args(arguments)
    count = 0
    for name in options.names or programs.installed():
        modules = lowered(name, options.platform or PLATFORMS, plain=options.plain)
        for platform, module in modules.items():
            lines = violations(module, platform)
            count += len(lines)
            print(f"{name} for {platform}: {len(lines)} operations may have other bits elsewhere")
            for line in lines:
                print(f"    {line}")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
