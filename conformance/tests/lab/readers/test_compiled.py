"""Races, approximations, libraries and sorts are found in the text of compiled programs.

Tests: conformance.lab.readers.hlo, conformance.lab.readers.ptx, conformance.lab.readers.tpu.
"""

import pytest

from conformance.lab.readers import hlo, ptx, tpu
from conformance.tests.lab.compiled.examples import (
    ADD,
    MAXIMUM,
    PTX,
    SECOND,
    hlo_instruction,
    scatter,
)
from impl._core.numerics import MENDED


@pytest.mark.parametrize(
    ("text", "races"),
    [
        (scatter(ADD), ["scatter to f32[8,5] (by add, indices may repeat)"]),
        (scatter(ADD, unique="unique_indices=true, "), []),
        (scatter(ADD, unique="indices_are_sorted=true, "), [...]),
        (scatter(ADD, type="s32"), []),
        (scatter(ADD, type="c64"), [...]),
        (scatter(SECOND, type="s32"), ["scatter to s32[8,5] (by assignment, indices may repeat)"]),
        (scatter(MAXIMUM), []),
        (scatter("f32[] multiply(%a.1, %b.1)", type="bf16"), [...]),
        (scatter("f32[] subtract(%a.1, %b.1)", type="s32"), [...]),
        # The result of a scatter of several operands is a tuple.
        (
            scatter(ADD).replace("= f32[8,5]{1,0} scatter", "= (f32[8]{0}, s32[8]{0}) scatter"),
            ["scatter to (f32[8], s32[8]) (by add, indices may repeat)"],
        ),
        (
            "  %s = f32[9]{0} select-and-scatter(%x, %y, %z), select=%ge, scatter=%add",
            ["select-and-scatter to f32[9]"],
        ),
        ("  %s = s32[9]{0} select-and-scatter(%x, %y, %z), select=%ge, scatter=%add", []),
        ('  %c = f32[9]{0} add(%x, %y), metadata={op_name="jit(f)/scatter-add"}', []),
    ],
)
def test_scatters_that_race(text, races):
    actual = hlo.races(text)
    assert (len(actual) == 1) if races == [...] else (actual == races)


@pytest.mark.parametrize(
    ("opcode", "type", "scope", "approximate"),
    [
        ("divide", "f32", "", True),
        ("divide", "bf16", "", True),
        ("divide", "f64", "", False),
        ("divide", "s32", "", False),
        ("sqrt", "f32", "", True),
        ("sqrt", "f32", f"{MENDED}/", False),
        ("divide", "f32", f"jit(g)/{MENDED}/", False),
        ("rsqrt", "f64", "", True),
        ("exponential", "f32", "", True),
        ("add", "f32", "", False),
        ("multiply", "f32", "", False),
    ],
)
def test_approximations_outside_of_the_scope_that_corrects_them(opcode, type, scope, approximate):
    text = hlo_instruction(opcode, type, scope)
    assert hlo.approximations(text) == ([f"{opcode} to {type}[9]"] if approximate else [])


def test_sorts():
    cub = (
        "  %c.1 = (f32[4]{0}, s8[0]{0}) custom-call(%x, %y), "
        'custom_call_target="__cub$DeviceRadixSort"'
    )
    assert hlo.sorts(hlo_instruction("sort", "s32") * 2) == ["XLA"]
    assert hlo.sorts(f"{cub}\n{hlo_instruction('sort')}") == ["CUB", "XLA"]
    assert hlo.sorts(hlo_instruction("add")) == []


def test_calls_of_libraries():
    targets = [
        "__gpu$xla.gpu.triton",
        "__cublas$gemm",
        "__cudnn$convBackwardInput",
        "__cublas$gemm",
        "__cub$DeviceRadixSort",
    ]
    text = "\n".join(
        f"  %c.{n} = (f32[4]{{0}}, s8[0]{{0}}) custom-call(%x, %y), "
        f'custom_call_target="{target}", operand_layout_constraints={{f32[4]{{0}}}}'
        for n, target in enumerate(targets)
    )
    assert hlo.library_calls(text) == ["__cublas$gemm", "__cudnn$convBackwardInput"]


@pytest.mark.parametrize(
    ("instruction", "races"),
    [
        ("@%p2 atom.global.gpu.acq_rel.add.f32 %r3, [ %rd4 + 0 ], %r5;", True),
        ("atom.relaxed.sys.global.add.f32 	%r9, [%rd11], %r8;", True),
        ("atom.shared.add.f64 	%rd1, [%rd2], %rd3;", True),
        ("@%p1 red.global.add.noftz.bf16x2 [%rd1], %r1;", True),
        ("red.relaxed.gpu.global.v4.f32.add [%rd1], {%r1, %r2, %r3, %r4};", True),
        ("atom.global.cas.b32 	%r1, [%rd1], %r2, %r3;", True),
        ("atom.acq_rel.gpu.global.exch.b32 	%r1, [%rd1], %r2;", True),
        ("red.async.relaxed.cluster.shared::cluster.add.u32 	[%rd1], %r1;", False),
        ("red.relaxed.cluster.shared::cluster.add.f32 	[%rd1], %r1;", True),
        ("red.global.add.s32 	[%rd1], %r1;", False),
        ("atom.global.add.u64 	%rd4, [%rd1], %rd2;", False),
        ("atom.global.max.f32 	%r1, [%rd1], %r2;", False),
        ("ld.global.b32 	%r1, [%rd1];", False),
    ],
)
def test_atomics_that_race(instruction, races):
    atomics = ptx.racing_atomics(PTX.format(instruction=instruction))
    assert atomics == ([word for word in instruction.split() if "." in word][:1] if races else [])


@pytest.mark.parametrize(
    ("instruction", "contracted", "approximate"),
    [
        ("fma.rn.f32 	%r4, %r1, %r2, %r3;", True, False),
        ("@%p1 fma.rn.bf16x2 %r4, %r1, %r2, %r3;", True, False),
        ("fma.rz.f64 %rd4, %rd1, %rd2, %rd3;", True, False),
        ("add.ftz.f32 	%r3, %r1, %r2;", True, False),
        ("mul.rn.ftz.f32 	%r3, %r1, %r2;", True, False),
        ("div.full.f32 	%r3, %r1, %r2;", False, True),
        ("sqrt.approx.f32 	%r3, %r1;", False, True),
        ("rsqrt.approx.f64 	%rd3, %rd1;", False, True),
        ("rcp.approx.ftz.f32 	%r3, %r1;", True, True),
        ("mad.lo.s32 	%r4, %r1, %r2, %r3;", False, False),
        ("mul.rn.f32 	%r3, %r1, %r2;", False, False),
        ("div.rn.f64 	%rd3, %rd1, %rd2;", False, False),
        ("sqrt.rn.f32 	%r3, %r1;", False, False),
        ("red.global.add.noftz.bf16x2 [%rd1], %r1;", False, False),
    ],
)
def test_arithmetic_that_differs_between_devices(instruction, contracted, approximate):
    text = PTX.format(instruction=instruction)
    name = next(word for word in instruction.split() if "." in word)
    assert ptx.contractions(text) == ([name] if contracted else [])
    assert ptx.approximations(text) == ([name] if approximate else [])


def test_the_kernels_of_a_ptx_file():
    text = PTX.format(instruction="") + ".entry second_1(\n)\n{\n	ret;\n}\n"
    kernels = ptx.entries(text)
    assert list(kernels) == ["scatter_add_atomic", "second_1"]
    assert "second_1" not in kernels["scatter_add_atomic"]
    assert ptx.entries(".version 9.0\n.target sm_80\n.global .align 4 .b8 constants[4];") == {}


SUM = """\
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
    assert tpu.faults(SUM + LOOP) == []


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
    assert tpu.faults(SUM + LOOP.replace(old, new)) == INEXACT


def test_a_sum_with_a_bound_of_its_errors_is_no_fault():
    unknown = LOOP.replace("tuple(%bits, %m)", "tuple(%x, %m)")
    bounded = unknown.replace(
        "to_apply=%add.1", 'to_apply=%add.1, frontend_attributes={samebits_any_order="bounded"}'
    )
    assert tpu.faults(SUM + bounded) == []
    assert tpu.bounded_sums(SUM + bounded) == ["reduce to f32[8]"]
    exact = bounded.replace("tuple(%x, %m)", "tuple(%bits, %m)")
    assert tpu.bounded_sums(SUM + exact) == tpu.bounded_sums(SUM + unknown) == []


def test_a_maximum_needs_no_order():
    text = SUM.replace("add(", "maximum(") + LOOP.replace("tuple(%bits", "tuple(%x")
    assert tpu.faults(text) == []


def test_counts():
    assert tpu.counts(SUM + LOOP) == {"operations": 23, "fusions": 1}
    assert tpu.arithmetic(SUM + LOOP) == {"add": 1}
