"""The races of a program, the code that it lost, and the faults by the claims of a row."""

import dataclasses
import types

import pytest

from conformance.lab.compiled import row_calls
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.compiled.row_calls import CompiledProgram
from conformance.tests.lab.compiled.examples import ADD, ATOMIC, PTX, hlo_instruction, scatter
from impl._core.numerics import ANY_ORDER

TRITON = """
func.func @main(%x: tensor<7xf32>) -> tensor<7xf32> {{
  %0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%x) {{mhlo.backend_config = \
{{ir = "{ir}", name = "{name}"}}}} : (tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}}
"""


def code(name="scatter_add_atomic", instruction="", entry=None, ir="atomic_rmw", optimised=""):
    text = PTX.format(instruction=instruction)
    return MachineCode(TRITON.format(name=name, ir=ir), optimised, {entry or name: text})


def test_the_races_of_a_program():
    assert list(row_calls.races(code(instruction=ATOMIC, optimised=scatter(ADD)))) == [
        "scatter to f32[8,5] (by add, indices may repeat)",
        "atom.global.gpu.acq_rel.add.f32 in the kernel scatter_add_atomic",
    ]
    assert list(row_calls.races(code(name="fold", ir=""))) == []


def test_a_bounded_sum_may_have_atomics():
    mark = f'frontend_attributes={{{ANY_ORDER}="bounded"}}'
    bounded = f"  %sums.3 = f32[9]{{0}} fusion(%x), calls=%scatter, {mark}\n"
    program = code(instruction=ATOMIC, entry="sums_3", optimised=bounded)
    assert list(row_calls.races(program)) == []
    (race,) = row_calls.races(dataclasses.replace(program, hlo=bounded.replace(ANY_ORDER, "no")))
    assert race.endswith("in the kernel sums_3")
    # A kernel of Pallas, and of another instruction, has no bound.
    (race,) = row_calls.races(code(instruction=ATOMIC, entry="sums_4", optimised=bounded))
    assert race.endswith("in the kernel sums_4")


def test_the_arithmetic_of_a_program_that_differs_between_devices():
    contracted = code(
        instruction="fma.rn.f32 %r4, %r1, %r2, %r3;", optimised=hlo_instruction("sqrt")
    )
    assert list(row_calls.inexact(contracted)) == [
        "approximate sqrt to f32[9]",
        "fma.rn.f32 in the kernel scatter_add_atomic",
    ]
    # A division in a kernel of XLA is read in XLA's program, which has its scope.
    division = "div.full.f32 %r3, %r1, %r2;"
    mended = hlo_instruction("divide", scope="samebits_mended/")
    assert (
        list(row_calls.inexact(code(instruction=division, entry="fusion", optimised=mended))) == []
    )
    (fault,) = row_calls.inexact(code(instruction=division, optimised=mended))
    assert fault == "div.full.f32 in the kernel scatter_add_atomic"


def test_the_code_that_a_program_lost():
    assert list(row_calls.lost_code(code(instruction=ATOMIC))) == []
    assert list(row_calls.lost_code(code(instruction=ATOMIC, entry="scatter_add_atomic_1"))) == []
    assert list(row_calls.lost_code(code())) == ["the atomics of the kernel scatter_add_atomic"]
    lost = list(row_calls.lost_code(code(instruction=ATOMIC, entry="scatter_add_atomic_else")))
    assert lost == ["the code of the kernel scatter_add_atomic"]


def cell(behaviour="deterministic", guarantee="portable"):
    row = types.SimpleNamespace(guarantee=guarantee)
    return types.SimpleNamespace(behaviour=behaviour, row=row)


@pytest.mark.parametrize(
    ("cell", "program", "count"),
    [
        (cell(), CompiledProgram(), 0),
        (cell(), CompiledProgram(races=("an atomic",)), 1),
        (cell("raise"), CompiledProgram(races=("an atomic",)), 0),
        (cell("raise"), CompiledProgram(lost=("its atomics",)), 1),
        (cell(), CompiledProgram(inexact=("fma.rn.f32",)), 1),
        (cell(guarantee="run_to_run"), CompiledProgram(inexact=("fma.rn.f32",)), 0),
        (cell("raise"), CompiledProgram(error="XlaRuntimeError: no"), 1),
        (cell(), CompiledProgram(library_calls=("__cublas$gemm",)), 1),
        (cell(guarantee="run_to_run"), CompiledProgram(library_calls=("__cublas$gemm",)), 0),
        (
            cell(guarantee="run_to_run"),
            CompiledProgram(library_calls=("__cudnn$fmhaSoftmaxBackward",)),
            1,
        ),
    ],
)
def test_the_faults_of_a_program_by_the_claims_of_its_row(cell, program, count):
    assert len(list(row_calls.faults(cell, program))) == count
