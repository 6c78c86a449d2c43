"""Findings get smaller while the fault stays, and their programs stay well formed.

Tests: conformance.hunt.shrink.
"""

import numpy as np
import pytest

from conformance.hunt import checks, shrink
from conformance.hunt.checks import Finding
from conformance.hunt.program import packed
from conformance.hunt.settings import BASE, Setting
from conformance.tests.hunt.examples import chain, drawn

pytestmark = pytest.mark.once


def test_what_no_result_needs_goes_with_its_shardings():
    setting = Setting("jit", 0, (2,), "jit", specs=((("a",),), ((),), (("a",),)))
    program, setting = shrink.rebuilt(chain(), setting, outputs=(3,))
    assert [each.token for each in program.equations] == ["add"]
    assert (program.primals, program.outputs) == (2, (2,))
    assert setting.specs == ((("a",),), ((),))


def test_a_variable_becomes_an_argument():
    value = chain().inputs[0]
    program, _ = shrink.rebuilt(chain(), BASE, outputs=(5,), arguments={4: value})
    assert [each.token for each in program.equations] == ["sum"]
    assert program.inputs == (value,)


@pytest.mark.parametrize("derivative", ["none", "reverse", "forward", "mixed"])
def test_tangents_and_cotangents_follow_the_variables(derivative):
    for program in drawn(8, 60):
        if program.derivative != derivative:
            continue
        smaller, _ = shrink.rebuilt(program, BASE, outputs=program.outputs[-1:])
        seeds = [each.aval.shape for each in smaller.inputs[smaller.primals :]]
        outputs = [smaller.avals()[v].shape for v in smaller.outputs]
        if derivative in ("reverse", "mixed"):
            assert seeds[: len(outputs)] == outputs


class _Crew:
    """A stand-in for workers: every variable is four ones."""

    def run(self, program, *_, **__):
        ones = [np.ones(each.aval.shape, each.aval.dtype) for each in program.equations]
        return {"values": [packed(each) for each in ones]}


def test_a_program_shrinks_to_the_equation_at_fault(monkeypatch):
    def again(_, finding):
        tokens = [each.token for each in finding.program.equations]
        outputs = [
            finding.program.equations[v - finding.program.primals].token
            for v in finding.program.outputs
            if v >= finding.program.primals
        ]
        return finding if "mul" in tokens and outputs else None

    monkeypatch.setattr(checks, "again", again)
    setting = Setting("vmap", 1)
    finding = shrink.shrink(_Crew(), Finding("bits", chain(), setting, ""), 10.0)
    assert [each.token for each in finding.program.equations] == ["mul"]
    assert finding.setting == BASE
    assert {each.aval.shape for each in finding.program.inputs} == {(1,)}
