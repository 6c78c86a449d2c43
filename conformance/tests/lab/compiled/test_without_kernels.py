"""Calls with kernels and without them: the cases, and programs that launch the wrong ones."""

import json

import jax
import pytest

import impl
from conformance.lab.compiled import compiler, without_kernels
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.readers import stablehlo

HLO = """HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %y = f32[4]{0} negate(%x)
}
"""


def test_the_data_has_each_call_with_its_replacement():
    cases = json.loads(without_kernels.DATA.read_text(encoding="utf-8"))["cases"]
    assert list(cases) == list(without_kernels.cases()) == list(without_kernels.REPLACEMENTS)
    for name, case in cases.items():
        assert case["replacement"] == without_kernels.REPLACEMENTS[name]


@pytest.mark.triton
def test_kernels_are_hidden_in_a_scope():
    case = without_kernels.cases()["mode-512-1024"]

    def kernels():
        with impl.deterministic(profile="complete"):
            return stablehlo.kernels(impl.testing.lower(case.call, *case.inputs).as_text())

    assert kernels()
    jax.clear_caches()
    with without_kernels.hidden():
        assert not kernels()
    jax.clear_caches()


def test_a_program_with_the_wrong_kernels_is_a_fault(monkeypatch):
    monkeypatch.setattr(compiler, "compile_call", lambda *_: MachineCode("", HLO, {}))
    case = without_kernels.cases()["mode-512-1024"]
    counts, faults = without_kernels.measured(case, "h200")
    side = {"launches": 1, "bytes": 32, "sorts": 0}
    assert counts == {"with": side, "without": side}
    assert faults == ["mode-512-1024, with kernels: it launches []"]
