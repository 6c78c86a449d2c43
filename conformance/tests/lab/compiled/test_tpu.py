"""The command that compiles programs for TPUs, with another command in place of the compiler.

Tests: conformance.lab.compiled.tpu, conformance.lab.compiled.programs.
"""

import json
import re
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance.lab.compiled import programs, tpu
from conformance.reporting import report

RECORD = {"faults": [], "code": "7 operations (3 with the mode off)"}


def child(code):
    return (sys.executable, "-c", code)


def test_the_last_line_of_the_process_is_the_record():
    for faults, answer in (([], ("passed", RECORD["code"])), (["a", "b"], ("failed", "a; b"))):
        record = json.dumps({**RECORD, "faults": faults})
        code = f"import sys; print('libtpu speaks'); print({record!r})"
        assert tpu.compiled("sum", "v5e", 60, child(code)) == answer


def test_the_process_knows_the_program_and_has_a_cpu():
    code = (
        "import json, os, sys;"
        "code = ' '.join([*sys.argv[1:], os.environ['JAX_PLATFORMS']]);"
        "print(json.dumps({'faults': [], 'code': code}))"
    )
    assert tpu.compiled("sum", "v6e", 60, child(code)) == ("passed", "sum v6e cpu")


def test_a_slow_process_is_ended_and_a_failure_has_its_error():
    slow = tpu.compiled("sum", "v5e", 0.5, child("import time; time.sleep(60)"))
    assert slow == ("skipped", "it had not compiled after 0.5 s")
    failed = tpu.compiled("sum", "v5e", 60, child("raise ValueError('no such chip')"))
    assert failed == ("failed", "ValueError: no such chip")


def test_a_process_that_the_system_kills_is_out_of_memory():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    outcome, detail = tpu.compiled("sum", "v5e", 60, child(code))
    assert outcome == "skipped"
    assert re.fullmatch(r"it needs more memory than \d+ GiB", detail)
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert tpu.compiled("sum", "v5e", 60, child(code))[0] == "failed"


def test_a_report_keeps_what_it_has_of_other_programs(tmp_path, monkeypatch):
    answers = {"sum": ("passed", "7 operations"), "tanh": ("skipped", "it is slow")}
    monkeypatch.setattr(tpu, "compiled", lambda name, *_: answers[name])
    monkeypatch.setattr(report, "version", lambda name: f"{name} 1")
    file = tmp_path / "tpu.json"
    assert tpu.main(["--only", "sum", "--chips", "v5e", "--report", str(file)]) == 0
    assert tpu.main(["--only", "tanh", "--chips", "v6e", "--report", str(file)]) == 1
    written = report.read(file)
    assert written.environment["libtpu"] == "libtpu 1"
    assert [(r.op, r.lowering, r.outcome, r.detail) for r in written.records] == [
        ("sum", "v5e", "passed", "7 operations"),
        ("tanh", "v6e", "skipped", "it is slow"),
    ]
    monkeypatch.setattr(report, "version", lambda name: f"{name} 2")
    assert tpu.main(["--only", "sum", "--chips", "v6e", "--report", str(file)]) == 0
    assert [record.op for record in report.read(file).records] == ["sum"]


def test_without_libtpu_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(report, "version", lambda _: "not installed")
    assert tpu.main([]) == 2
    assert "nox -s tpu_compile" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["exponential", "product", "attention", "regression"])
def test_the_programs_have_results(name):
    function, arguments = programs.PROGRAMS[name]()
    assert jax.tree.leaves(jax.eval_shape(function, *arguments))


@pytest.fixture
def on_a_cpu(monkeypatch):
    """Compiles for a CPU in place of a TPU."""
    topology = types.SimpleNamespace(devices=jax.devices())
    monkeypatch.setattr(tpu.topologies, "get_topology_desc", lambda **_: topology)
    monkeypatch.setattr(tpu, "_PLATFORM", "cpu")


@pytest.mark.usefixtures("on_a_cpu")
def test_the_record_of_a_program():
    record = tpu.record("exponential", "v5e")
    assert any("of float64" in fault for fault in record["faults"])  # It is the engine of a CPU.
    pattern = r"([\d,]+) operations \(([\d,]+) with the mode off\), "
    portable, plain = (int(n.replace(",", "")) for n in re.match(pattern, record["code"]).groups())
    assert portable > 10 * plain > 0
    with impl.testing.engine("integers"):
        without_float64 = tpu.record("exponential", "v5e")
    assert without_float64["faults"] == []


@pytest.mark.usefixtures("on_a_cpu")
def test_a_check_that_sees_no_float_fails(monkeypatch):
    call = lambda: (lambda x: x + 1, (jax.ShapeDtypeStruct((4,), "int32"),))  # noqa: E731
    monkeypatch.setattr(tpu.programs, "PROGRAMS", {"sum": call})
    faults = tpu.record("sum", "v5e")["faults"]
    assert faults == ["the check finds no float in the plain program"]


@pytest.mark.usefixtures("on_a_cpu")
def test_the_process_prints_the_record(capsys):
    tpu.print_record("exponential", "v6e")
    assert json.loads(capsys.readouterr().out).keys() == RECORD.keys()
    assert tpu.print_record.__name__ in tpu._CHILD[-1]


def test_the_text_has_the_numbers_of_long_constants():
    numbers = np.sin(np.arange(64, dtype=np.float32))
    compiled = jax.jit(lambda x: x * numbers).lower(jnp.ones(64)).compile()
    assert "{...}" in compiled.as_text()
    assert "0.84147" in tpu._text(compiled)
