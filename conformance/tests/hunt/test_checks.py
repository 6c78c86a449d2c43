"""Which answers of workers are findings.

Tests: conformance.hunt.checks, conformance.hunt.program.
"""

import dataclasses

import numpy as np
import pytest

from conformance.hunt import checks
from conformance.hunt.crew import Crew
from conformance.hunt.program import Input, Program
from conformance.hunt.settings import BASE, Setting, base_of
from conformance.hunt.workers import Kind
from conformance.tests.hunt.examples import chain

CONSTANTS = Setting("constants", 1)
TINY = Input.of(np.array([1e-30, 0.5], np.float32))


@pytest.mark.parametrize(
    ("differing", "call"),
    [
        (lambda program, setting: setting.call == "constants" and program.inputs == (TINY,), None),
        (lambda _, setting: setting.call == "constants", "constants"),
        (lambda _, setting: setting.worker == 1, "jit"),
    ],
    ids=["near subnormal numbers", "as constants", "in another process"],
)
def test_bits_of_constants_are_a_finding_far_from_subnormal_numbers(monkeypatch, differing, call):
    def run(_, program, setting):
        return {"digests": ["other" if differing(program, setting) else "same"]}

    monkeypatch.setattr(Crew, "run", run)
    program = Program((TINY,), (), (0,), "none", 1)
    crew = Crew((Kind(), Kind(flags="")))
    answers = [run(crew, program, each) for each in (BASE, CONSTANTS)]
    monkeypatch.setattr(Crew, "run_all", lambda *_: answers)
    found, _ = checks.check(crew, program, [CONSTANTS])
    assert (found and found.setting.call) == call
    if found:
        assert checks.again(crew, found) == found


def test_ordinary_values_are_far_from_subnormal_numbers():
    values = np.array([1e-30, -1e-45, 9.0, -0.5, -0.0, np.inf, np.nan], np.float32)
    right = np.array([1, -1, 1, -0.5, -0.0, np.inf, np.nan], np.float32)
    numbers = np.array([2**20, 0], np.int32)
    inputs = (Input.of(values, rows=True), Input.of(values + 0j), Input.of(numbers))
    reals, complexes, integers = Program(inputs, (), ()).with_ordinary_values().inputs
    assert reals == Input.of(right, rows=True)
    np.testing.assert_array_equal(complexes.values().real, right)
    assert integers == inputs[2]


def test_a_derivative_is_compared_with_the_same_constraints_on_one_device():
    program = dataclasses.replace(chain(), derivative="reverse")
    setting = Setting("nested", 1, (2, 4), "jit", constraints=((3, (("a", "b"),)),))
    alone = Setting("jit", 0, (1, 1), "jit", constraints=setting.constraints)
    assert base_of(setting, program) == alone
    assert base_of(setting, chain()) == BASE
    assert base_of(dataclasses.replace(setting, constraints=()), program) == BASE
