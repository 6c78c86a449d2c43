"""Findings get smaller while the fault stays, and their programs stay well formed.

Tests: conformance.hunt.edits, conformance.hunt.shrink, conformance.hunt.known.
"""

import dataclasses

import numpy as np
import pytest

from conformance.hunt import checks, edits, known, shrink
from conformance.hunt.checks import Finding
from conformance.hunt.program import packed
from conformance.hunt.settings import BASE, Setting
from conformance.tests.hunt.examples import chain, drawn

pytestmark = pytest.mark.once


def test_what_no_result_needs_goes_with_its_shardings():
    setting = Setting("jit", 0, (2,), "jit", specs=((("a",),), ((),), (("a",),)))
    program, setting = edits.rebuilt(chain(), setting, outputs=(3,))
    assert [each.token for each in program.equations] == ["add"]
    assert (program.primals, program.outputs) == (2, (2,))
    assert setting.specs == ((("a",),), ((),))


def test_a_variable_becomes_an_argument():
    value = chain().inputs[0]
    program, _ = edits.rebuilt(chain(), BASE, outputs=(5,), arguments={4: value})
    assert [each.token for each in program.equations] == ["sum"]
    assert program.inputs == (value,)


@pytest.mark.parametrize("derivative", ["none", "reverse", "forward", "mixed"])
def test_tangents_and_cotangents_follow_the_variables(derivative):
    for program in drawn(8, 60):
        if program.derivative != derivative:
            continue
        smaller, _ = edits.rebuilt(program, BASE, outputs=program.outputs[-1:])
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
    finding = shrink.shrink(_Crew(), Finding("bits", chain(), setting, ""), 10.0, print)
    assert [each.token for each in finding.program.equations] == ["mul"]
    assert finding.setting == BASE
    assert {each.aval.shape for each in finding.program.inputs} == {(1,)}


def test_known_faults_are_recognised_by_all_of_their_fields():
    program = drawn(1, 1, only="pad")[0]
    message = "Check failed: get_first_valid_element_offset_on_dilated_shard(0) == low (1 vs. -1)"
    finding = Finding("crash", program, Setting(partition="jit", mesh=(2,)), message)
    (fault,) = [each for each in known.load() if "pad" in each.primitives]
    assert fault.matches(finding)
    assert not fault.matches(dataclasses.replace(finding, kind="bits"))
    assert not fault.matches(dataclasses.replace(finding, setting=BASE))
    assert not fault.matches(dataclasses.replace(finding, detail="Check failed: of something else"))


def test_an_entry_with_an_unknown_field_is_an_error(tmp_path):
    (file := tmp_path / "known.toml").write_text('[[fault]]\nname = "x"\nreason = "y"\n')
    with pytest.raises(ValueError, match="an entry has the fields"):
        known.load(file)
