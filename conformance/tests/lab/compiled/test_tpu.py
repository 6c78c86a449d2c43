"""The command that compiles programs for TPUs, with another command in place of the compiler.

Tests: conformance.lab.compiled.tpu_child, conformance.lab.compiled.small_programs.
"""

import json
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance.lab.compiled import small_programs, tpu, tpu_child

FIGURES = {"operations": 7, "fusions": 1, "bytes": 64, "code": 512}
RECORD = {
    "plain": FIGURES,
    "portable": FIGURES,
    "float_arithmetic": {},
    "bounded_sums": [],
    "faults": [],
}


def child(code):
    return (sys.executable, "-c", code)


def test_the_last_line_of_the_process_is_the_record():
    code = f"import sys; print('libtpu speaks'); print({json.dumps(json.dumps(RECORD))})"
    assert tpu.compiled("sum", "v5e", 60, child(code)) == {"status": "compiled", **RECORD}


def test_the_process_knows_the_program_and_has_a_cpu():
    code = (
        "import json, os, sys;"
        "print(json.dumps({'argv': sys.argv[1:], 'platforms': os.environ['JAX_PLATFORMS']}))"
    )
    record = tpu.compiled("sum", "v6e", 60, child(code))
    assert record == {"status": "compiled", "argv": ["sum", "v6e"], "platforms": "cpu"}


def test_a_slow_process_is_ended_and_a_failure_has_its_error():
    slow = tpu.compiled("sum", "v5e", 0.5, child("import time; time.sleep(60)"))
    assert slow == {"status": "time limit", "limit": 0.5}
    failed = tpu.compiled("sum", "v5e", 60, child("raise ValueError('no such chip')"))
    assert failed == {"status": "failed", "error": "ValueError: no such chip"}


def test_a_process_that_the_system_kills_is_out_of_memory(monkeypatch):
    monkeypatch.setattr(tpu, "_memory", lambda: 16 << 30)
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    killed = tpu.compiled("sum", "v5e", 60, child(code))
    assert killed == {"status": "out of memory", "gib": 16}
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert tpu.compiled("sum", "v5e", 60, child(code))["status"] == "failed"


@pytest.fixture
def compiled(monkeypatch):
    """Returns the records that the command gets, by program; by default without a fault."""
    records = {}
    monkeypatch.setattr(tpu.report, "version", lambda name: f"{name} 1")
    monkeypatch.setattr(
        tpu,
        "compiled",
        lambda name, _chip, _limit: records.get(name, {"status": "compiled", **RECORD}),
    )
    return records


def test_a_report_keeps_what_it_has_of_other_programs(tmp_path, compiled, capsys):
    file = tmp_path / "tpu.json"
    assert tpu.main(["--only", "sum", "--chips", "v5e", "--report", str(file)]) == 0
    compiled["tanh"] = {"status": "time limit", "limit": 600}
    assert tpu.main(["--only", "tanh", "--chips", "v6e", "--report", str(file)]) == 1
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data["libtpu"] == "libtpu 1"
    assert list(data["cases"]) == list(small_programs.PROGRAMS)
    assert data["cases"]["sum"]["v5e"] == {"status": "compiled", **RECORD}
    assert data["cases"]["sum"]["v6e"] == {"status": "not tried"}
    assert data["cases"]["tanh"]["v6e"]["status"] == "time limit"
    out = capsys.readouterr().out
    assert "sum for v5e: 7 operations (7 plain), 1 fusions" in out
    assert "tanh for v6e: time limit" in out


@pytest.mark.usefixtures("compiled")
def test_a_report_of_other_releases_is_written_anew(tmp_path, monkeypatch):
    file = tmp_path / "tpu.json"
    assert tpu.main(["--only", "sum", "--chips", "v5e", "--report", str(file)]) == 0
    monkeypatch.setattr(tpu.report, "version", lambda name: f"{name} 2")
    assert tpu.read(file) == {}


def test_a_fault_fails(compiled, capsys):
    compiled["sum"] = {"status": "compiled", **RECORD, "faults": ["log to f32[8]: a function"]}
    assert tpu.main(["--only", "sum", "exponential", "--chips", "v5e"]) == 1
    assert "FAILED sum for v5e: log to f32[8]: a function" in capsys.readouterr().out


def test_without_libtpu_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(tpu.report, "version", lambda _: "not installed")
    assert tpu.main([]) == 2
    assert "nox -s tpu_compile" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        *("exponential", "product", "attention", "regression", "example_processes"),
        *("example_digits", "example_one_policy"),
    ],
)
def test_the_programs_have_results(name):
    if name == "example_digits":
        pytest.importorskip("sklearn", reason="`nox -s tests-3.11` has scikit-learn")
    function, arguments = small_programs.PROGRAMS[name]()
    assert jax.tree.leaves(jax.eval_shape(function, *arguments))


def test_the_step_of_the_example_has_the_shapes_of_its_state():
    function, (state, words) = small_programs.PROGRAMS["example_portable"]()
    after, loss = jax.eval_shape(function, state, words)
    assert [x.shape for x in jax.tree.leaves(after)] == [x.shape for x in jax.tree.leaves(state)]
    assert len(state[0]["blocks"]) == 1
    assert loss.shape == ()


@pytest.fixture
def on_a_cpu(monkeypatch):
    """Compiles for a CPU in place of a TPU."""
    topology = types.SimpleNamespace(devices=jax.devices())
    monkeypatch.setattr(tpu_child.topologies, "get_topology_desc", lambda **_: topology)
    monkeypatch.setattr(tpu_child, "_PLATFORM", "cpu")


@pytest.mark.usefixtures("on_a_cpu")
def test_the_record_of_a_program():
    record = tpu_child.record("exponential", "v5e")
    assert any("of float64" in fault for fault in record["faults"])  # It is the engine of a CPU.
    assert set(record["plain"]) == set(record["portable"]) == set(FIGURES)
    assert record["portable"]["operations"] > 10 * record["plain"]["operations"] > 0
    with impl.testing.engine("integers"):
        without_float64 = tpu_child.record("exponential", "v5e")
    assert without_float64["faults"] == []
    assert without_float64["bounded_sums"] == []


@pytest.mark.usefixtures("on_a_cpu")
def test_a_check_that_sees_no_float_fails(monkeypatch):
    call = lambda: (lambda x: x + 1, (jax.ShapeDtypeStruct((4,), "int32"),))  # noqa: E731
    monkeypatch.setattr(tpu_child.small_programs, "PROGRAMS", {"sum": call})
    faults = tpu_child.record("sum", "v5e")["faults"]
    assert faults == ["the check finds no float in the plain program"]


def test_the_text_has_the_numbers_of_long_constants():
    numbers = np.sin(np.arange(64, dtype=np.float32))
    compiled = jax.jit(lambda x: x * numbers).lower(jnp.ones(64)).compile()
    assert "{...}" in compiled.as_text()
    assert "0.84147" in tpu_child._text(compiled)


def test_the_command_of_the_process_names_the_chips(capsys):
    with pytest.raises(SystemExit):
        tpu_child.main(["sum", "v1"])
    assert "v5e" in capsys.readouterr().err


def test_the_report_has_every_program_and_no_fault():
    data = json.loads(tpu.DATA.read_text(encoding="utf-8"))
    assert list(data["cases"]) == list(small_programs.PROGRAMS)
    records = [record for chips in data["cases"].values() for record in chips.values()]
    assert {record["status"] for record in records} <= {
        *("compiled", "out of memory", "time limit", tpu.NOT_TRIED)
    }
    assert [record["faults"] for record in records if record.get("faults")] == []
