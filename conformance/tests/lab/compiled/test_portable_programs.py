"""The faults that are read from the code of a portable program, without compiling one."""

from conformance.lab.compiled import portable_programs
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.compiled.hlo_costs import Cost

CALL = '  %c = f32[9]{0} custom-call(%x), custom_call_target="__cudnn$convForward"'


def code(*instructions, hlo=""):
    return MachineCode("", hlo, {"k": "".join(f"\t{line} %r1, %r2;\n" for line in instructions)})


def test_exact_code_has_no_fault():
    right = code("add.rn.f64", "mul.rn.f32", "div.rn.f64", "atom.global.add.f64")
    assert portable_programs.faults(right) == []


def test_each_fault_is_named():
    wrong = ["fma.rn.f32", "div.full.f32", "ex2.approx.ftz.f32", "sqrt.approx.f32", "mul.f32"]
    for instruction in wrong:
        assert portable_programs.faults(code("add.rn.f32", instruction)) == [instruction]
    called = portable_programs.faults(code("add.rn.f32", hlo=CALL))
    assert called == ["a call of __cudnn$convForward"]
    assert portable_programs.faults(MachineCode("", "", {})) == ["it has no kernel"]


def test_a_row_has_the_ratios_to_plain():
    row = portable_programs.row("step", Cost(10, 2000), Cost(25, 3000))
    assert row == "| step | 10 | 25 (2.5) | 2,000 | 3,000 (1.5) |"
