"""Calls of the kernels of ``impl._kernels``, without an op around them, compiled for a GPU.

A row's program contains a kernel at the shapes of its samples. Here each kernel is compiled at
further shapes and dtypes: an ordered kernel must not race, and an atomic kernel must. If an atomic
kernel had no atomic, the reader of the machine code would have missed it, and its silence about
ordered kernels would prove nothing:

===================================  =======  =============  ==========================
call, in ``scatter_accumulate``      ordered  an atomic      fault
===================================  =======  =============  ==========================
``fold_panels-add-1-float32``        yes      is not found   no fault
``fold_panels-add-1-float32``        yes      is found       it races: atom.global....
``atomic-add-1-float32``             no       is found       no fault
``atomic-add-1-float32``             no       is not found   it has no atomic of floats
===================================  =======  =============  ==========================

The words after the kernel are the reduction, the width of a row and the dtype. ``-k`` takes
``kernel-scatter_accumulate.atomic-add-1-float32``.
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
from impl._exact import arithmetic
from impl._families.convolution_window import ConvolutionWindow
from impl._families.reductions import ADD, MUL
from impl._kernels import (
    _sorted_rows,
    convolution,
    matmul,
    scatter_accumulate,
    scatter_accumulate_rows,
    select_kth,
    select_kth_sample,
    sort_frequent,
    sort_top,
)
from impl._kernels.launch import Launch

Shape: TypeAlias = jax.ShapeDtypeStruct
FLOATS: tuple[DTypeLike, ...] = (jnp.float32, jnp.float16, jnp.bfloat16)
_LAUNCH = Launch()


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
    for dtype in FLOATS:
        yield from _scatters(dtype)
        yield from _rows(dtype)
        yield from _products(dtype)
    yield from _runs()
    yield from _selects()


def _scatters(dtype: DTypeLike) -> Iterator[KernelCall]:
    name = jnp.dtype(dtype).name
    ints = functools.partial(Shape, dtype=jnp.int32)
    for reduction, (size, inner) in itertools.product((ADD, MUL), ((7, 1), (1000, 96))):
        options: dict[str, Any] = {"reduction": reduction, "launch": _LAUNCH}
        label = f"{reduction.name}-{inner}-{name}"
        operand, updates = Shape((2, size, inner), dtype), Shape((2, 2500, inner), dtype)
        if reduction is ADD or dtype == jnp.float32:  # narrower dtypes multiply in float32
            call = functools.partial(scatter_accumulate.atomic, **options)
            inputs = (operand, ints((2, 2500, 1)), updates)
            yield KernelCall("scatter_accumulate.atomic", label, False, call, inputs)
        rows = Shape((5000, inner), dtype)
        yield KernelCall(
            "scatter_accumulate.fold_chains",
            label,
            True,
            functools.partial(scatter_accumulate.fold_chains, **options),
            (ints((30,)), ints((30,)), ints((5000,)), rows),
        )
        yield KernelCall(
            "scatter_accumulate.fold_panels",
            label,
            True,
            functools.partial(scatter_accumulate.fold_panels, **options),
            (Shape((size, 3, inner), dtype), Shape((size, inner), dtype)),
        )


def _rows(dtype: DTypeLike) -> Iterator[KernelCall]:
    """Yields calls of the kernels of wide rows, with terms that take few instructions."""
    ints = functools.partial(Shape, dtype=jnp.int32)
    for width in (5, 300):
        parts = -(-500 // _sorted_rows.PART)
        runs = (ints((500,)), ints((500,)), ints((2 * parts,)), Shape((500,), jnp.float32))
        updates, operand = Shape((500, width), dtype), Shape((70, width), dtype)
        label = f"{width}-{jnp.dtype(dtype).name}"
        yield KernelCall(
            "scatter_accumulate_rows.add_whole_runs",
            label,
            True,
            _whole_runs,
            (*runs, updates, operand),
        )
        yield KernelCall(
            "scatter_accumulate_rows.add_from_zeros",
            label,
            True,
            _runs_from_zeros,
            (*runs, updates),
        )


def _runs() -> Iterator[KernelCall]:
    """Yields calls of the search for cut runs, which reads keys and no floats."""
    for dtype in (jnp.uint16, jnp.int32):
        kernel = "scatter_accumulate_rows.cuts"
        yield KernelCall(kernel, jnp.dtype(dtype).name, True, _cuts, (Shape((500,), dtype),))


def _cuts(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    with arithmetic.wide():
        return scatter_accumulate_rows.cuts(keys, 70, launch=_LAUNCH)


def _whole_runs(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    *runs, updates, operand = arrays
    with arithmetic.wide():
        whole = scatter_accumulate_rows.add_whole_runs(
            _sorted_rows.Runs(*runs),
            updates,
            operand,
            _arithmetic(operand.dtype),
            launch=_LAUNCH,
        )
    return whole.out, whole.doubts, *whole.parts


def _runs_from_zeros(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    *runs, updates = arrays
    with arithmetic.wide():
        whole = scatter_accumulate_rows.add_from_zeros(
            _sorted_rows.Runs(*runs),
            updates,
            Shape((70, updates.shape[1]), updates.dtype),
            _arithmetic(updates.dtype),
            launch=_LAUNCH,
        )
    return whole.out, whole.doubts, *whole.parts


def _arithmetic(dtype: DTypeLike) -> scatter_accumulate_rows.Arithmetic:
    return scatter_accumulate_rows.Arithmetic(
        lambda values: [values.astype(jnp.float32), values.astype(jnp.int32)],
        ("add", "max"),
        lambda sums, count: ((sums[0] + count).astype(dtype), sums[1] > count),
    )


def _products(dtype: DTypeLike) -> Iterator[KernelCall]:
    name = jnp.dtype(dtype).name
    for tf32 in (False, True) if dtype == jnp.float32 else (False,):
        for rows, terms, columns in ((5, 7, 3), (130, 2000, 70)):
            yield KernelCall(
                "matmul.matrices",
                f"{rows}x{terms}x{columns}-{name}{'-tf32' if tf32 else ''}",
                True,
                functools.partial(matmul.matrices, launch=_LAUNCH, tf32=tf32),
                (Shape((2, rows, terms), dtype), Shape((2, terms, columns), dtype)),
            )
    strides = ConvolutionWindow((9, 9), (7, 7), (3, 3), (1, 1), (1, 1), (0, 0), 1)
    image, weights = Shape((2, 5, 9, 9), dtype), Shape((4, 5, 3, 3), dtype)
    result = Shape((2, 4, 7, 7), dtype)
    inputs = {"result": (image, weights), "image": (result, weights), "weights": (image, result)}
    for output, arrays in inputs.items():
        call = functools.partial(
            convolution.convolution, role=output, window=strides, tf32=False, launch=_LAUNCH
        )
        yield KernelCall("convolution.convolution", f"{output}-{name}", True, call, arrays)


def _selects() -> Iterator[KernelCall]:
    # A row that one program holds, and one that programs share.
    for dtype, length in ((jnp.uint8, 50_000), (jnp.float16, 70), (jnp.float64, 5000)):
        inputs = (Shape((3, length), dtype), Shape((3,), jnp.int32))
        call = functools.partial(select_kth.first_position, launch=_LAUNCH, nan_first=True)
        kernel = "select_kth.first_position"
        yield KernelCall(kernel, jnp.dtype(dtype).name, True, call, inputs)
    values, ranks = Shape((2, 50_000), jnp.float32), Shape((2,), jnp.int32)
    call = functools.partial(select_kth.by_digits, launch=_LAUNCH)
    yield KernelCall("select_kth.by_digits", "float32", True, call, (values, ranks))
    for dtype in (jnp.float32, jnp.float64):
        sampled = functools.partial(
            select_kth_sample.first_position, most=4096, launch=_LAUNCH, nan_first=True
        )
        inputs = (Shape((2, 50_000), dtype), ranks)
        kernel = "select_kth_sample.first_position"
        yield KernelCall(kernel, jnp.dtype(dtype).name, True, sampled, inputs)
    for length, parts in ((5000, 1), (50_000, 7)):
        call = functools.partial(
            sort_top.top_positions, count=16, descending=True, parts=parts, launch=_LAUNCH
        )
        values = Shape((3, length), jnp.float32)
        yield KernelCall("sort_top.top_positions", f"{parts}-float32", True, call, (values,))
    for dtype, length in ((jnp.float16, 70), (jnp.uint64, 300)):
        call = functools.partial(sort_frequent.first_position, launch=_LAUNCH)
        kernel = "sort_frequent.first_position"
        yield KernelCall(kernel, jnp.dtype(dtype).name, True, call, (Shape((9, length), dtype),))


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
