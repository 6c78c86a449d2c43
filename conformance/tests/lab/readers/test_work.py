"""The arithmetic that is counted in the text of an optimised program.

Tests: conformance.lab.readers.work.
"""

import pytest

from conformance.lab.readers import work

ADD = """
%add (a: f64[], b: f64[]) -> f64[] {
  %a = f64[] parameter(0)
  %b = f64[] parameter(1)
  ROOT %c = f64[] add(%a, %b)
}
"""


def entry(*lines, result="f64[8]"):
    text = "\n".join(f"  {line}" for line in lines)
    return f"{ADD}\nENTRY %main (x: f64[8,4]) -> {result} {{\n{text}\n}}\n"


X = "%x = f64[8,4]{1,0} parameter(0)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["ROOT %y = f64[8,4]{1,0} multiply(%x, %x)"], work.Work(float64=32)),
        (["ROOT %y = pred[8,4]{1,0} compare(%x, %x), direction=LT"], work.Work(float64=32)),
        (["ROOT %y = f32[8,4]{1,0} convert(%x)"], work.Work(float64=32)),
        (["ROOT %y = f64[4,8]{1,0} transpose(%x), dimensions={1,0}"], work.Work()),
        (
            ["%z = f64[] constant(0)", "ROOT %y = f64[8]{0} reduce(%x, %z), to_apply=%add"],
            work.Work(float64=32),
        ),
        (
            ["ROOT %y = f64[8,8]{1,0} dot(%x, %x), lhs_contracting_dims={1}"],
            work.Work(float64=8 * 8 * 4),
        ),
        (
            [
                "%d = s8[8,4]{1,0} convert(%x)",
                "ROOT %y = s32[8,8]{1,0} dot(%d, %d), lhs_contracting_dims={1}",
            ],
            work.Work(float64=32, int8=8 * 8 * 4),
        ),
        (
            ["ROOT %y = f64[5,4]{1,0} reduce-window(%x), window={size=4x1}, to_apply=%add"],
            work.Work(float64=5 * 4 * 4),
        ),
    ],
)
def test_the_arithmetic_of_an_instruction(lines, expected):
    assert work.work_of(entry(X, *lines)) == expected


def test_a_loop_repeats_the_arithmetic_of_a_fusion():
    text = """
%fused (p: f64[8]) -> f64[8] {
  %p = f64[8]{0} parameter(0)
  %q = f64[8]{0} add(%p, %p)
  ROOT %r = f64[8]{0} multiply(%q, %q)
}

%body (s: (f64[8])) -> (f64[8]) {
  %s = (f64[8]{0}) parameter(0)
  %t = f64[8]{0} get-tuple-element(%s), index=0
  %u = f64[8]{0} fusion(%t), kind=kLoop, calls=%fused
  ROOT %v = (f64[8]{0}) tuple(%u)
}

%condition (s.1: (f64[8])) -> pred[] {
  %s.1 = (f64[8]{0}) parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (x: f64[8]) -> (f64[8]) {
  %x = f64[8]{0} parameter(0)
  %init = (f64[8]{0}) tuple(%x)
  ROOT %w = (f64[8]{0}) while(%init), condition=%condition, body=%body, KNOWN
}
"""
    known = 'backend_config={"known_trip_count":{"n":"5"}}'
    assert work.work_of(text.replace("KNOWN", known)) == work.Work(float64=5 * 2 * 8)


def test_a_library_that_computes_in_float64_is_no_zero():
    call = 'ROOT %y = f64[8,8]{1,0} custom-call(%x, %x), custom_call_target="__cublas$gemm"'
    with pytest.raises(ValueError, match=r"__cublas\$gemm computes in float64"):
        work.work_of(entry(X, call))
