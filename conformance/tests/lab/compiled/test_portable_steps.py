"""The faults that are read from the code of a portable program, without compiling one."""

from conformance.lab.compiled import portable_steps
from conformance.lab.compiled.compiler import MachineCode

CALL = '  %c = f32[9]{0} custom-call(%x), custom_call_target="__cudnn$convForward"'


def code(*instructions, hlo=""):
    return MachineCode("", hlo, {"k": "".join(f"\t{line} %r1, %r2;\n" for line in instructions)})


def test_exact_code_has_no_fault():
    right = code("add.rn.f64", "mul.rn.f32", "div.rn.f64", "atom.global.add.f64")
    assert portable_steps.faults(right) == []


def test_each_fault_is_named():
    wrong = ["fma.rn.f32", "div.full.f32", "ex2.approx.ftz.f32", "sqrt.approx.f32", "mul.f32"]
    for instruction in wrong:
        assert portable_steps.faults(code("add.rn.f32", instruction)) == [instruction]
    called = portable_steps.faults(code("add.rn.f32", hlo=CALL))
    assert called == ["a call of __cudnn$convForward"]
    assert portable_steps.faults(MachineCode("", "", {})) == ["it has no kernel"]
