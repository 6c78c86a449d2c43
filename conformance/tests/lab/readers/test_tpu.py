"""The faults that are read from the code of a portable program for a TPU, without compiling one."""

import pytest

from conformance.lab.readers import tpu

ADD = """\
%add.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""
#: A loop whose fusion adds the terms that it chooses among the numbers of a constant.
LOOP = """\
%fused (p.0: pred[8,4], p.1: f32[4]) -> f32[8] {
  %p.0 = pred[8,4]{1,0} parameter(0)
  %p.1 = f32[4]{0:T(128)} parameter(1)
  %wide = f32[8,4]{1,0} broadcast(%p.1), dimensions={1}
  %zero = f32[] constant(0)
  %zeros = f32[8,4]{1,0} broadcast(%zero), dimensions={}
  %choice = f32[8,4]{1,0} select(%p.0, %wide, %zeros)
  ROOT %masks = f32[8]{0} reduce(%choice, %zero), dimensions={1}, to_apply=%add.1
}

%body (state: (f32[4], pred[8,4])) -> (f32[4], pred[8,4]) {
  %state = (f32[4]{0}, pred[8,4]{1,0}) parameter(0)
  %numbers = f32[4]{0} get-tuple-element(%state), index=0
  %marks = pred[8,4]{1,0} get-tuple-element(%state), index=1
  %halves = f32[4]{0} constant({0.5, 1, 1.5, 2})
  %sums = f32[8]{0} fusion(%marks, %numbers), kind=kLoop, calls=%fused
  ROOT %next = (f32[4]{0}, pred[8,4]{1,0}) tuple(%numbers, %marks)
}

%condition (state.1: (f32[4], pred[8,4])) -> pred[] {
  %state.1 = (f32[4]{0}, pred[8,4]{1,0}) parameter(0)
  ROOT %go = pred[] constant(true)
}

ENTRY %main (x: f32[4], m: pred[8,4]) -> (f32[4], pred[8,4]) {
  %x = f32[4]{0} parameter(0)
  %m = pred[8,4]{1,0} parameter(1)
  %bits = f32[4]{0} constant({8, 4, 2, 1})
  %start = (f32[4]{0}, pred[8,4]{1,0}) tuple(%bits, %m)
  ROOT %loop = (f32[4]{0}, pred[8,4]{1,0}) while(%start), condition=%condition, body=%body
}
"""
INEXACT = ["reduce to f32[8]: sums are rounded in an order of the TPU"]


@pytest.mark.parametrize(
    "opcode", ["exponential", "log", "tanh", "sine", "power", "rsqrt", "sqrt", "divide"]
)
def test_functions_that_a_tpu_approximates(opcode):
    assert tpu.faults(f"  %y = f32[8]{{0}} {opcode}(%x)") == [
        f"{opcode} to f32[8]: a function of the TPU"
    ]
    assert tpu.faults(f"  %y = s32[8]{{0}} {opcode}(%x)") == []


def test_products_of_floats():
    product = "  %y = {0}[4,4]{{1,0}} convolution(%a, %b), dim_labels=bf_io->bf"
    assert tpu.faults(product.format("f32")) == ["convolution to f32[4,4]: a product of floats"]
    assert tpu.faults(product.format("bf16")) == ["convolution to bf16[4,4]: a product of floats"]
    assert tpu.faults(product.format("s32")) == []


def test_float64_is_a_fault_wherever_it_is():
    text = "  %y = (f64[2]{0}, s32[2]{0}) tuple(%a, %b)"
    assert tpu.faults(text) == ["tuple to f64[2], s32[2]: it is of float64"]


def test_a_sum_of_whole_numbers_is_exact():
    assert tpu.faults(ADD + LOOP) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{8, 4, 2, 1}", "{8, 4, 2, 0.5}"),
        ("{8, 4, 2, 1}", "{...}"),
        ("tuple(%bits, %m)", "tuple(%x, %m)"),
        ("tuple(%numbers, %marks)\n}", "tuple(%halves, %marks)\n}"),
    ],
)
def test_a_sum_of_other_numbers_is_a_fault(old, new):
    assert old in LOOP
    assert tpu.faults(ADD + LOOP.replace(old, new)) == INEXACT


def test_a_sum_with_a_bound_of_its_errors_is_no_fault():
    unknown = LOOP.replace("tuple(%bits, %m)", "tuple(%x, %m)")
    bounded = unknown.replace(
        "to_apply=%add.1", 'to_apply=%add.1, frontend_attributes={samebits_any_order="bounded"}'
    )
    assert tpu.faults(ADD + bounded) == []
    assert tpu.bounded_sums(ADD + bounded) == ["reduce to f32[8]"]
    exact = bounded.replace("tuple(%x, %m)", "tuple(%bits, %m)")
    assert tpu.bounded_sums(ADD + exact) == tpu.bounded_sums(ADD + unknown) == []


def test_a_maximum_needs_no_order():
    text = ADD.replace("add(", "maximum(") + LOOP.replace("tuple(%bits", "tuple(%x")
    assert tpu.faults(text) == []


def test_counts():
    assert tpu.counts(ADD + LOOP) == {"operations": 23, "fusions": 1}
    assert tpu.arithmetic(ADD + LOOP) == {"add": 1}
