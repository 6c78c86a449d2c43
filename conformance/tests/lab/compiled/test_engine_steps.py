"""The command that counts the float64 that an engine saves, with counts that are made up.

Tests: conformance.lab.compiled.engine_steps, spec.gpus.
"""

import contextlib
import json

import pytest

from conformance.lab.compiled import ENGINE_TARGETS, TARGETS, engine_steps
from spec import gpus

NAME = "example_512_wide"


@pytest.fixture
def counts(monkeypatch, tmp_path):
    """Returns the operations of float64 that stay with each engine; no code has a fault."""
    stays = {"float64": 900, "int8": 300}

    def compiled(_name, _target, engine):
        return {"launches": 1} | ({"float64": stays[engine]} if engine else {}), []

    monkeypatch.setattr(engine_steps, "compiled", compiled)
    monkeypatch.setattr(engine_steps.compiler, "prepared", lambda: contextlib.nullcontext(True))
    monkeypatch.setattr(engine_steps.records.report, "version", lambda name: f"{name} 1")
    monkeypatch.setattr(engine_steps, "DATA", tmp_path / "data.json")
    return stays


def run(*arguments):
    return engine_steps.main([*arguments, "--target", "l40s"])


def test_gpus_with_little_float64_have_programs_of_portable_alone():
    assert ENGINE_TARGETS == ("l40s", "rtx4090")
    assert set(TARGETS).isdisjoint(ENGINE_TARGETS)
    assert {gpus.capability(name) for name in ENGINE_TARGETS} == {"8.9"}
    assert gpus.capability("h100") == "9.0"
    with pytest.raises(ValueError, match="no GPU 'tpu'"):
        gpus.capability("tpu")


def test_a_step_keeps_a_third_of_its_float64_at_most(counts, capsys):
    assert run(NAME) == 0
    counts["int8"] = 301
    assert run(NAME) == 1
    assert "301 of 900 operations stay in float64, above 33%" in capsys.readouterr().out
    assert run("product") == 0


def test_only_the_code_for_the_engine_of_the_gpu_is_judged(monkeypatch, counts, capsys):
    side = {None: ["plain"], "float64": [], "int8": ["fma.rn.f32"]}
    monkeypatch.setattr(engine_steps, "compiled", lambda *_: (counts, side[_[2]]))
    assert run("product") == 1
    assert "FAILED product for l40s: fma.rn.f32" in capsys.readouterr().out
    side |= {"float64": ["fma.rn.f64"], "int8": []}
    assert run("product") == 0


def test_a_part_keeps_the_counts_of_other_programs(monkeypatch, counts):
    assert run("product", "--write") == run(NAME, "--write") == 0
    cases = json.loads(engine_steps.DATA.read_text(encoding="utf-8"))["cases"]
    assert list(cases) == ["product for l40s", f"{NAME} for l40s"]
    counts["int8"] = 200
    monkeypatch.setattr(engine_steps.records.report, "version", lambda name: f"{name} 2")
    assert run("convolution", "--write") == 0
    cases = json.loads(engine_steps.DATA.read_text(encoding="utf-8"))["cases"]
    assert list(cases) == ["convolution for l40s"]
    assert cases["convolution for l40s"]["int8"]["float64"] == 200


def test_the_report_is_of_these_programs_and_gpus():
    cases = json.loads(engine_steps.DATA.read_text(encoding="utf-8"))["cases"]
    names = {f"{name} for {target}" for name in engine_steps.PROGRAMS for target in ENGINE_TARGETS}
    assert set(cases) <= names
    for name, part in engine_steps.MOST.items():
        own = [sides for case, sides in cases.items() if case.startswith(f"{name} for ")]
        assert own
        assert all(each["int8"]["float64"] <= part * each["float64"]["float64"] for each in own)
