"""Calls of the kernels of ``impl._kernels``, without an op around them, compiled for a GPU.

A row's program contains a kernel at the shapes of its samples. Here each kernel is compiled at
further shapes and dtypes: an ordered kernel must not race, and an atomic kernel must. If an atomic
kernel had no atomic, the reader of the machine code would have missed it, and its silence about
ordered kernels would prove nothing:

===================================  =======  =============  ==========================
call                                 ordered  an atomic      fault
===================================  =======  =============  ==========================
``scatter_runs.fold-add-1-float32``  yes      is not found   no fault
``scatter_runs.fold-add-1-float32``  yes      is found       it races: atom.global....
``scatter_atomic.combine-add-1-...`` no       is found       no fault
``scatter_atomic.combine-add-1-...`` no       is not found   it has no atomic of floats
===================================  =======  =============  ==========================

The words after the kernel are the reduction, the width of a row and the dtype. ``-k`` takes
``kernel-scatter_atomic.combine-add-1-float32``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from conformance.lab.compiled import DEVICE, compiler
from conformance.lab.compiled.row_calls import (
    CheckedCall,
    CompiledProgram,
    compile_program,
    is_selected,
)
from impl._kernels import scatter_atomic, scatter_runs
from impl._kernels.launch import ADD, MUL, Launch

Shape: TypeAlias = jax.ShapeDtypeStruct
FLOATS: tuple[DTypeLike, ...] = (jnp.float32, jnp.float16, jnp.bfloat16)


@dataclasses.dataclass(frozen=True)
class KernelCall:
    """A call of a kernel.

    Attributes:
        kernel: The kernel, as ``module.function`` of ``impl._kernels``.
        name: A name that no other call of the kernel has.
        ordered: True if nothing in it may depend on timing; else something must.
        call: A function of the arrays.
        inputs: The shapes and dtypes of the arrays.
    """

    kernel: str
    name: str
    ordered: bool
    call: Callable[..., Any]
    inputs: tuple[Shape, ...]

    def __str__(self) -> str:
        return f"kernel-{self.kernel}-{self.name}"


def kernel_calls() -> Iterator[KernelCall]:
    """Yields every call of every kernel."""
    ints = functools.partial(Shape, dtype=jnp.int32)
    sizes = ((7, 1), (1000, 96))
    for dtype, reduction, (size, width) in itertools.product(FLOATS, (ADD, MUL), sizes):
        label = f"{reduction.name}-{width}-{jnp.dtype(dtype).name}"
        options: dict[str, Any] = {"reduction": reduction, "launch": Launch()}
        operand, updates = Shape((size, width), dtype), Shape((2500, width), dtype)
        fold = functools.partial(scatter_runs.fold, **options)
        inputs = (operand, ints((2500,)), ints((2500,)), updates)
        yield KernelCall("scatter_runs.fold", label, True, fold, inputs)
        if dtype == jnp.float32:
            combine = functools.partial(scatter_atomic.combine, **options)
            of_one = operand, ints((2500,)), updates
            yield KernelCall("scatter_atomic.combine", label, False, combine, of_one)


def check_kernels(target: str, words: Sequence[str]) -> list[CheckedCall]:
    """Compiles and checks every kernel for a GPU; the arguments are as for ``check_op``."""
    return [_check(call, target) for call in kernel_calls() if is_selected(str(call), words)]


def _check(call: KernelCall, target: str) -> CheckedCall:
    program = compile_program(call.call, call.inputs, target, compiler.NO_AUTOTUNING)
    about = {"op": f"impl._kernels.{call.kernel}", "device": DEVICE, "behaviour": None}
    return CheckedCall(str(call), target, about, program, tuple(_faults(call, program)))


def _faults(call: KernelCall, program: CompiledProgram) -> Iterator[str]:
    if program.error is not None:
        yield f"it does not compile: {program.error}"
        return
    yield from (f"it has lost {part}" for part in program.lost)
    if call.ordered:
        yield from (f"it races: {race}" for race in program.races)
        yield from (f"it calls {target}" for target in program.library_calls)
    elif not program.races:
        yield "it has no atomic of floats"
