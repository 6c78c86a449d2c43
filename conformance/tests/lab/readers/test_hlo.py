"""Races, approximations, libraries and sorts are found in the text of optimised programs."""

import pytest

from conformance.lab.readers import hlo
from conformance.tests.lab.compiled.examples import (
    ADD,
    MAXIMUM,
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
