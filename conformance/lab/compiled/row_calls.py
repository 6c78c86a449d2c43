"""The programs of the rows' calls, compiled for a GPU and checked against their rows.

A row claims that its path does not depend on timing, and perhaps that its bits are the same on
every device. The machine code shows both without a GPU. Suppose that a program has an atomic
addition of floats, a fused multiply-add in a kernel of Pallas, and a call of a library. The claims
of the row decide which of them are faults:

=========================  ===========================================================
row                        faults
=========================  ===========================================================
deterministic, portable    it races: atom.global.gpu.acq_rel.add.f32 in the kernel ...
                           it is not portable: fma.rn.f32 in the kernel fold
                           it calls __cublas$gemm, and its guarantee is portable
deterministic, run_to_run  it races: atom.global.gpu.acq_rel.add.f32 in the kernel ...
raise                      no fault: the call may race, since it gives an alert
=========================  ===========================================================

A program that does not compile, or that lost a kernel, has a fault whatever its row claims.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import impl
import spec
from conformance.adapters._jax_programs import remembered
from conformance.lab.compiled import DEVICE, compiler
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.compiled.launches import Cost, cost_of
from conformance.lab.readers import hlo, ptx, stablehlo
from conformance.suite.cells import Cell

#: The calls of libraries that a row with the guarantee ``run_to_run`` may make: products of
#: matrices, and convolutions.
_PRODUCTS = ("__cublas$", "__cublas$lt$", "__cudnn$conv")

#: With the options of ``impl.jit``, XLA asks a device how to tile its own kernels of products.
_NO_TRITON = {"xla_gpu_enable_triton_gemm": False}


@dataclasses.dataclass(frozen=True)
class CompiledProgram:
    """The facts that were read from a program, or the error of its compilation.

    Attributes:
        error: Why it could not be compiled; None if it could.
        races: The instructions that depend on timing.
        library_calls: The calls of libraries.
        inexact: The instructions whose result has other bits on other devices.
        sorts: The names of the sorts: ``CUB``, ``XLA``.
        lost: The code that its lowered form has and its machine code lacks.
        kernels: The names of the Pallas kernels.
        cost: The launches and bytes of a run.
    """

    error: str | None = None
    races: tuple[str, ...] = ()
    library_calls: tuple[str, ...] = ()
    inexact: tuple[str, ...] = ()
    sorts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    cost: Cost = dataclasses.field(default_factory=Cost)


def compiled(cell: Cell, target: str) -> Iterator[tuple[bool, CompiledProgram]]:
    """Yields whether ``impl.jit`` sets the options of a program, and the program of a cell's call.

    Profiles that give the same answers share a program. Only a call that the mode makes
    deterministic is compiled a second time, and under the profile with the most options: without a
    GPU, other options have no effect.
    """
    function, inputs = cell.sample.function(impl, cell.direction), cell.inputs

    def program(options: Mapping[str, Any]) -> Any:
        key = cell.call(target), tuple(options.items())
        return remembered(lambda: compile_program(function, inputs, target, options), DEVICE, key)

    with impl.deterministic(True, profile=cell.profile, warn_only=cell.behaviour == "raise"):
        yield False, program(compiler.NO_AUTOTUNING)
        if cell.behaviour == "deterministic" and cell.profile == _profile_with_most_options():
            yield True, program({**impl.compile_options(), **compiler.NO_AUTOTUNING, **_NO_TRITON})


@functools.cache
def _profile_with_most_options() -> str:
    """Returns the profile under which ``impl.jit`` sets the most options."""

    def option_count(profile: str) -> int:
        with impl.deterministic(True, profile=profile):
            return len(impl.compile_options())

    return max(spec.load().profiles, key=option_count)


def compile_program(
    function: Callable[..., Any], inputs: tuple[Any, ...], target: str, options: Mapping[str, Any]
) -> CompiledProgram:
    """Compiles a call and reads its code; the arguments are as for ``compiler.compile_call``."""
    try:
        code = compiler.compile_call(function, inputs, target, options)
    except Exception as error:  # noqa: BLE001  # compilers raise many errors, which a record reports
        return CompiledProgram(error=f"{type(error).__name__}: {error}")
    return CompiledProgram(
        None,
        tuple(races(code)),
        tuple(hlo.library_calls(code.hlo)),
        tuple(inexact(code)),
        tuple(hlo.sorts(code.hlo)),
        tuple(lost_code(code)),
        tuple(_kernels(code)),
        cost_of(code.hlo),
    )


def races(code: MachineCode) -> Iterator[str]:
    """Yields the parts of a program that depend on timing: XLA's instructions, kernels' atomics."""
    yield from hlo.races(code.hlo)
    bounded = hlo.kernels_in_any_order(code.hlo)
    for name, text in code.kernels.items():
        atomics = () if name in bounded else ptx.racing_atomics(text)
        if atomics:
            yield f"{', '.join(atomics)} in the kernel {name}"


def inexact(code: MachineCode) -> Iterator[str]:
    """Yields the arithmetic of a program whose result has other bits on other devices.

    XLA's program shows which approximations of its own kernels are corrected; a kernel of Pallas
    has none.
    """
    yield from (f"approximate {part}" for part in hlo.approximations(code.hlo))
    pallas_names = stablehlo.kernels(code.lowered)
    for name, text in code.kernels.items():
        instructions = ptx.contractions(text)
        if any(_is_same_kernel(pallas_name, name) for pallas_name in pallas_names):
            instructions += ptx.approximations(text)
        if instructions:
            yield f"{', '.join(instructions)} in the kernel {name}"


def lost_code(code: MachineCode) -> Iterator[str]:
    """Yields the kernels and atomics that the lowered program has and the machine code lacks."""
    for name in dict.fromkeys(stablehlo.kernels(code.lowered)):
        if not any(_is_same_kernel(name, xla_name) for xla_name in code.kernels):
            yield f"the code of the kernel {name}"
    for name in dict.fromkeys(stablehlo.races(code.lowered)):
        texts = [text for xla_name, text in code.kernels.items() if _is_same_kernel(name, xla_name)]
        if texts and not any(map(ptx.racing_atomics, texts)):
            yield f"the atomics of the kernel {name}"


def _is_same_kernel(name: str, xla_name: str) -> bool:
    """Returns whether XLA's name of a kernel is ``name``, or ``name`` with a number."""
    return xla_name == name or xla_name.removeprefix(name).lstrip("_").isdigit()


def _kernels(code: MachineCode) -> Iterator[str]:
    pallas_names = stablehlo.kernels(code.lowered)
    for xla_name in code.kernels:
        if any(_is_same_kernel(name, xla_name) for name in pallas_names):
            yield xla_name


def in_words(programs: Sequence[CompiledProgram]) -> str:
    """Returns the numbers of programs, kernels and launches, in words."""
    # XLA chooses CUB's radix sort by timing, or for large arrays, where there is a device.
    sorting = any("XLA" in program.sorts for program in programs)
    sort = " (XLA's own sort stands in for CUB's, which a device may take)" if sorting else ""
    kernels = sum(len(program.kernels) for program in programs)
    launches = max(program.cost.launches for program in programs)
    counted = f", at most {launches} launches" if launches else ""
    return f"{len(programs)} programs{sort}, {kernels or 'no'} kernels{counted}"


def faults(cell: Cell, program: CompiledProgram) -> Iterator[str]:
    """Yields the faults of a program, by the claims of the cell's row."""
    if program.error is not None:
        yield f"it does not compile: {program.error}"
    for part in program.lost:
        yield f"it has lost {part}"
    if cell.behaviour == "deterministic" and cell.row is not None:
        yield from (f"it races: {race}" for race in program.races)
        if cell.row.guarantee == "portable":
            yield from (f"it is not portable: {part}" for part in program.inexact)
        allowed = _PRODUCTS if cell.row.guarantee == "run_to_run" else ()
        for call in program.library_calls:
            if not call.startswith(allowed or ("\0",)):
                yield f"it calls {call}, and its guarantee is {cell.row.guarantee}"
