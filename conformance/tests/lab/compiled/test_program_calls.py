"""The faults and the budgets of whole programs, without compiling one.

Tests: conformance.lab.compiled.program_calls, conformance.lab.compiled.programs, spec.gpus.
"""

import jax
import pytest

import impl
from conformance.lab.compiled import PROGRAM_TARGETS, TARGETS, compiler, program_calls, programs
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.readers import stablehlo
from impl._kernels import pallas
from spec import gpus

CALL = '  %c = f32[9]{0} custom-call(%x), custom_call_target="__cudnn$convForward"'
DOT = "  %d = f64[9,9]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
HLO = """HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %y = f32[4]{0} negate(%x)
}
"""


def code(*instructions, hlo="", lowered=""):
    text = "".join(f"\t{line} %r1, %r2;\n" for line in instructions)
    return MachineCode(lowered, hlo, {"k": text})


def test_exact_code_has_no_fault():
    right = code("add.rn.f64", "mul.rn.f32", "div.rn.f64", "add.s64", "atom.global.add.f64")
    assert program_calls.faults_of(right, "h200") == []


def test_each_fault_is_named():
    wrong = ["fma.rn.f32", "div.full.f32", "ex2.approx.ftz.f32", "sqrt.approx.f32", "mul.f32"]
    for instruction in (*wrong, "add.f64"):
        right_and_wrong = code("add.rn.f32", instruction)
        assert program_calls.faults_of(right_and_wrong, "h200") == [instruction]
    called = program_calls.faults_of(code("add.rn.f32", hlo=CALL), "h200")
    assert called == ["a call of __cudnn$convForward"]
    assert program_calls.faults_of(MachineCode("", "", {}), "h200") == ["it has no kernel"]


def test_a_product_of_float64_is_a_fault_where_the_engine_is_another():
    assert program_calls.faults_of(code("add.rn.f32", hlo=DOT), "h200") == []
    (fault,) = program_calls.faults_of(code("add.rn.f32", hlo=DOT), "l40s")
    assert fault == "a product of float64 to f64[9,9]"


def test_gpus_with_little_float64_have_whole_programs_alone():
    assert PROGRAM_TARGETS == ("h200", "l40s", "rtx4090")
    assert set(TARGETS).isdisjoint(PROGRAM_TARGETS[1:])
    assert {gpus.capability(name) for name in PROGRAM_TARGETS[1:]} == {"8.9"}
    with pytest.raises(ValueError, match="no GPU 'tpu'"):
        gpus.capability("tpu")


def test_each_program_has_a_budget_for_each_gpu():
    on_gpus = {name: tuple(budgets) for name, budgets in programs.BUDGETS.items()}
    of_one = ("conv_net", *programs.CALLS, *(name for name in on_gpus if name.endswith("_float64")))
    right = dict.fromkeys(programs.PROGRAMS, PROGRAM_TARGETS)
    assert on_gpus == right | dict.fromkeys(of_one, PROGRAM_TARGETS[:1])


@pytest.fixture
def compiled(monkeypatch):
    """Returns the programs that the compiler gives, one after another."""
    codes = []
    monkeypatch.setattr(compiler, "compile_call", lambda *_: codes.pop(0))
    return codes


@pytest.mark.parametrize(
    ("budget", "fault"),
    [
        ({"launches": 1, "bytes": 32}, None),
        ({"launches": 0, "bytes": 32}, "1 launches, 32 bytes, and its budget in budgets.toml is 0"),
        ({"launches": 1, "bytes": 31}, "1 launches, 32 bytes, and its budget in budgets.toml is 1"),
    ],
)
def test_a_program_above_its_budget_has_a_fault(monkeypatch, compiled, budget, fault):
    monkeypatch.setattr(programs, "BUDGETS", {"sum": {"h200": budget}})
    compiled += [code("add.rn.f32", hlo=HLO), code(hlo=HLO)]
    faults, detail = program_calls.check_program("sum", "h200")
    assert [each.startswith(str(fault)) for each in faults] == [True] * (fault is not None)
    assert detail == "1 launches, 32 bytes; with the mode off 1 launches, 32 bytes"


def test_a_blind_check_is_a_fault(compiled):
    compiled += [code("add.rn.f32", hlo=HLO)] * 2
    ((blind,), _) = program_calls.check_program("recurrent", "h200")
    assert blind.startswith("the check finds no fault in the code with the mode off")


def test_a_program_that_does_not_compile_is_a_fault(compiled):
    ((fault,), _) = program_calls.check_program("sum", "h200")
    assert fault.startswith("it does not compile: IndexError")
    assert compiled == []


def test_the_elementary_functions_are_checked_one_by_one(monkeypatch, compiled):
    names = ("exp of float32", "tanh of float16")
    chosen = {name: programs.elementary()[name] for name in names}
    monkeypatch.setattr(programs, "elementary", lambda: chosen)
    compiled += [code("fma.rn.f64"), code("add.rn.f64")]
    faults = ["exp of float32: fma.rn.f64"]
    assert program_calls.check_elementary("h200") == (faults, 2)


@pytest.mark.triton
def test_a_call_is_compiled_without_its_kernels_too(monkeypatch):
    seen = []

    def compile_call(function, arguments, *_):
        lowered = impl.testing.lower(function, *arguments).as_text()
        seen.append((bool(stablehlo.kernels(lowered)), pallas.reason_missing()))
        return code(hlo=HLO, lowered=lowered)

    monkeypatch.setattr(compiler, "compile_call", compile_call)
    _, detail = program_calls.check_program("scatter_reduce, product", "h200")
    jax.clear_caches()
    assert seen == [(True, None), (True, None), (False, "it is hidden")]
    assert detail.endswith("; without kernels 1 launches, 32 bytes")
