"""Kernels, racing atomics and inexact arithmetic are found in the text of PTX files."""

import pytest

from conformance.lab.readers import ptx
from conformance.tests.lab.compiled.examples import PTX


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
