"""Reads a lowered program: its kernels, its races and its loops.

A race or a serial loop shows in the program that JAX gives to XLA, so these checks need no GPU. JAX
writes StableHLO (https://openxla.org/stablehlo/spec), which MLIR parses. Of

    %3 = "stablehlo.scatter"(%x, %i, %u) <{unique_indices = false}> ({ ... stablehlo.add ... })
      : (tensor<4x3xf32>, tensor<2x1xi32>, tensor<2x3xf32>) -> tensor<4x3xf32>

``races`` returns ``["stablehlo.scatter"]``: two updates of one row are added in the order in which
they arrive. ``walk``, ``in_text`` and ``returned`` serve other readers of lowered programs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

_KERNEL = "__gpu$xla.gpu.triton"
_CODE = re.compile(r' ir = "[^"]*"')
_INEXACT = re.compile(r"\b(?:\d+x)*(?:complex<)?b?f\d+")
#: ``impl._core.numerics.ANY_ORDER``. A program of a library without JAX is read without JAX.
_ANY_ORDER = "samebits_any_order"
#: The number of steps of the longest search: one for each bit of a number. Samples have hundreds of
#: updates.
_BITS = 64


@functools.lru_cache(maxsize=8)
def parse(text: str) -> Any:
    """Returns the module of a lowered program."""
    # The suite imports this module, and also tests libraries without JAX.
    from jaxlib.mlir import ir  # noqa: PLC0415

    with _context():
        return ir.Module.parse(text)


@functools.cache
def _context() -> Any:
    from jax.interpreters import mlir  # noqa: PLC0415

    return mlir.make_ir_context()  # It takes as long as to parse a program, and serves them all.


def walk(op: Any, closed: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Yields the operations within one, in their order, without the bodies of ``closed`` ones."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner
                if inner.operation.name not in closed:
                    yield from walk(inner.operation, closed)


def in_text(attribute: Any) -> str:
    """Returns a name or a string that an attribute has."""
    return str(attribute).strip('@"')


def returned(block: Any, position: int = 0) -> Any:
    """Returns a value that a block returns."""
    *_, last = block.operations
    return last.operands[position]


def is_inexact(value: Any) -> bool:
    """Returns whether a value has floats, or complex numbers."""
    return _INEXACT.search(str(value.type)) is not None


def _named(module: Any, name: str) -> Iterator[Any]:
    return (op for op in walk(module.operation) if op.operation.name == name)


def _kernels(module: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the calls of Pallas kernels, with the attribute that has the name and the code."""
    for op in _named(module, "stablehlo.custom_call"):
        if in_text(op.attributes["call_target_name"]) == _KERNEL:
            yield op, op.attributes["mhlo.backend_config"]


def kernels(text: str) -> list[str]:
    """Returns the names of the Pallas kernels in a program lowered for CUDA, in order."""
    if _KERNEL not in text:
        return []  # Most programs have none, and need not be parsed.
    return [config["name"].value for _, config in _kernels(parse(text))]


def has_schedule(text: str) -> bool:
    """Returns whether a schedule may reorder a part of a program: a kernel, or a race."""
    return _KERNEL in text or bool(races(text))


def without_kernel_code(text: str) -> str:
    """Returns the program with the code of its kernels removed. Names and shapes stay.

    The code of a kernel contains line numbers of the source that JAX traced. These depend on the
    programs that JAX traced before.
    """
    return _CODE.sub("", text)


def races(text: str) -> list[str]:
    """Returns the operations of a program lowered for CUDA whose results may depend on timing.

    These are kernels that update floats atomically, and XLA scatters whose indices may repeat, if
    they overwrite or combine floats. A sum whose error has a bound does not count
    (``impl._core.numerics.in_any_order``).
    """
    if _KERNEL not in text and "stablehlo.scatter" not in text:
        return []
    module = parse(text)
    racing = [config["name"].value for op, config in _kernels(module) if _is_racing(op, config)]
    scatters = _named(module, "stablehlo.scatter")
    return racing + ["stablehlo.scatter" for op in scatters if _may_collide(op)]


def is_in_any_order(op: Any) -> bool:
    """Returns whether an operation is marked by ``impl._core.numerics.in_any_order``."""
    marks = "mhlo.frontend_attributes"
    return marks in op.attributes and _ANY_ORDER in str(op.attributes[marks])


def _is_racing(kernel: Any, config: Any) -> bool:
    return b"atomic_rmw" in config["ir"].value_bytes and any(map(is_inexact, kernel.results))


def _may_collide(scatter: Any) -> bool:
    attributes = scatter.attributes
    if "unique_indices" in attributes and str(attributes["unique_indices"]) == "true":
        return False
    if is_in_any_order(scatter):
        return False
    results = list(scatter.results)
    body = scatter.regions[0].blocks[0]
    # The first arguments of a body are elements, and the rest are updates.
    overwrites = set(list(body.arguments)[len(results) :])
    return any(
        returned(body, number) in overwrites or is_inexact(result)
        for number, result in enumerate(results)
    )


def long_loops(text: str) -> list[str]:
    """Returns the loops of a program that may take a step for each update.

    A serial scatter has such a loop. These are loops with an unknown number of steps, or with more
    steps than a search. Loops inside a kernel do not count, because many instances of a kernel run
    at a time. Loops that ``impl._core.numerics.in_any_order`` marks end as soon as the rounding of
    all results is decided, so they do not count either.
    """
    if "stablehlo.while" not in text:
        return []
    loops = []
    for op in _named(parse(text), "stablehlo.while"):
        if is_in_any_order(op):
            continue
        steps = _steps(op.regions[0].blocks[0])
        if steps is None:
            loops.append("a loop of an unknown number of steps")
        elif steps > _BITS:
            loops.append(f"a loop of {steps} steps")
    return loops


def _steps(condition: Any) -> int | None:
    """Returns the number that a loop counts up to. None if the condition does not state it."""
    for op in condition.operations:
        is_compare = op.operation.name == "stablehlo.compare"
        if is_compare and "LT" in str(op.attributes["comparison_direction"]):
            return _number(op.operands[1])
    return None


def _number(value: Any) -> int | None:
    """Returns the integer that a value is; None for a value that is not a constant."""
    source = value.owner
    # JAX 0.12 and later may constrain the sharding of a constant.
    if getattr(source, "name", "") == "sdy.sharding_constraint":
        source = source.operands[0].owner
    if getattr(source, "name", "") != "stablehlo.constant":
        return None
    constant = re.match(r"dense<(\d+)> ", str(source.attributes["value"]))
    return int(constant[1]) if constant else None
