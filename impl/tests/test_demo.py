"""The demo: each part of it, and the whole command.

Tests: impl._demo.alerts, impl._demo.devices, impl._demo.model, impl._demo.report, impl._demo.runs,
impl._demo.schedules, impl._demo.sums, impl._demo.train_on_devices, impl._demo.training.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import _demo
from impl._demo import alerts, devices, model, runs, schedules, sums, training
from impl._demo.report import Report, fingerprint

ROOT = Path(impl.__file__).parents[1]


def printed(show):
    out = io.StringIO()
    report = Report(out)
    show(report)
    return report, out.getvalue()


@pytest.mark.once
def test_the_command_succeeds_and_every_claim_of_every_section_holds():
    done = subprocess.run(
        [sys.executable, "-m", "impl", "demo"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    _, *sections = re.split(r"\n(?=\d\. )", done.stdout)
    assert [section[:2] for section in sections] == ["1.", "2.", "3.", "4.", "5.", "6."]
    assert all("[ok]" in section and "[FAILED]" not in section for section in sections)
    assert re.search(r"All \d+ claims hold", sections[-1])
    hashes = re.findall(r"SHA-256 of the weights: ([0-9a-f]{64})", done.stdout)
    assert len(hashes) == 2
    assert len(set(hashes)) == 1


def test_a_claim_that_does_not_hold_is_an_exit_status():
    def show(report):
        report.claim("two and two are four", holds=True)
        report.claim("two and two are five", holds=False)

    out = io.StringIO()
    assert _demo.run(out, [show]) == 1
    assert "[ok] two and two are four" in out.getvalue()
    assert "[FAILED] two and two are five" in out.getvalue()
    assert "1 of 2 claims do not hold" in out.getvalue()


def test_the_sums_are_those_of_pytorchs_tutorial_on_every_python():
    assert sums.three_orders([1e-30] * 10_000, [1e-29] * 10_000) == {
        "separate": 1.100000000000168e-25,
        "combined": 1.1000000000002118e-25,
        "interleaved": 1.0999999999998715e-25,
    }


def test_left_to_right_rounds_at_each_addition():
    assert sums.left_to_right([1.0, 1e100, 1.0, -1e100]) == 0.0


def test_kthvalue_section():
    report, text = printed(alerts.show)
    assert report.failed == []
    assert "kthvalue CUDA" in text
    assert "lowers to stablehlo.sort" in text


def test_schedules_change_the_atomic_path_only():
    assert len(set(schedules.under_schedules(False, range(3)))) > 1
    assert len(set(schedules.under_schedules(True, range(3)))) == 1
    assert len(set(schedules.exact())) == 1


def test_the_section_fails_where_the_ordered_path_is_not_ordered(monkeypatch):
    under = schedules.under_schedules
    monkeypatch.setattr(schedules, "ORDERS", 3)
    monkeypatch.setattr(schedules, "under_schedules", lambda _, seeds: under(False, seeds))
    report, _ = printed(schedules.show)
    assert "the ordered path gives one" in report.failed


def test_fingerprint_is_of_bits():
    assert fingerprint({"a": np.zeros(2)}) != fingerprint({"a": -np.zeros(2)})
    assert fingerprint({"a": np.zeros(2), "b": np.ones(1)}) == fingerprint(
        {"b": np.ones(1), "a": np.zeros(2)}
    )


def test_windows_are_contexts_and_the_next_characters():
    contexts, following = model.windows(jnp.arange(100), jnp.array([3, 50]))
    np.testing.assert_array_equal(contexts, [np.arange(3, 11), np.arange(50, 58)])
    np.testing.assert_array_equal(following, [11, 58])


def test_the_text_is_split_without_overlap():
    text = model.load_text()
    assert len(text.train) > 300_000
    assert len(text.train) / len(text.held_out) == pytest.approx(9, rel=1e-3)
    assert text.train.max() < text.alphabet
    assert 0.1 < text.most_frequent < 0.5


def test_the_training_is_a_plain_program_whose_gradient_the_mode_orders():
    assert not hasattr(model, "impl")
    assert not hasattr(training, "impl")
    settings, text = runs.TINY, model.load_text()
    weights = model.initial_weights(jax.random.key(0), settings, text.alphabet)
    batch = model.windows(jnp.asarray(text.train), jnp.arange(64))
    gradient = jax.jit(jax.grad(model.loss))
    expected = gradient(weights, *batch)["table"]
    (racing,) = impl.audit(gradient)(weights, *batch).select("varies")
    assert racing.primitive == "lax.scatter_add"
    with impl.deterministic():
        result = gradient(weights, *batch)["table"]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-7)


def test_training_lowers_the_loss():
    with impl.deterministic():
        outcome = training.run(runs.TINY)
    assert outcome.loss[1] < outcome.loss[0]


def test_the_environment_of_a_process():
    env = runs.environment({"XLA_FLAGS": "--a", "HOME": "/h"}, 7, "gpu")
    assert env["PYTHONHASHSEED"] == "7"
    assert env["HOME"] == "/h"
    assert env["XLA_FLAGS"] == "--a --xla_gpu_autotune_level=0"
    assert "XLA_FLAGS" not in runs.environment({}, 7, "cpu")


def test_the_error_of_a_process_is_shown(monkeypatch):
    monkeypatch.setattr(runs, "environment", lambda *_: {**os.environ, "JAX_PLATFORMS": "nowhere"})
    with pytest.raises(RuntimeError, match=r"(?s)process of its own.*nowhere"):
        runs.in_fresh_process(1)


def test_processes_that_differ_fail_their_section(monkeypatch):
    outcome = {"loss": (2.0, 1.0), "accuracy": (0.1, 0.9), "most_frequent": 0.2}
    monkeypatch.setattr(runs, "in_fresh_process", lambda seed: {**outcome, "weights": str(seed)})
    report, _ = printed(runs.show_processes)
    assert report.failed == ["both processes end with the same weights and figures"]


def test_an_own_device_is_compared_with_the_cpu(monkeypatch):
    monkeypatch.setattr(devices.jax, "devices", lambda: [SimpleNamespace(platform="gpu")])
    assert devices.settings() == [("cpu", 1), ("cpu", 8), ("gpu", 1)]
    env = devices.environment({"JAX_PLATFORMS": "cuda", "XLA_FLAGS": "--a"}, "cpu", 8)
    assert env["JAX_PLATFORMS"] == "cpu"
    assert env["XLA_FLAGS"].startswith("--a --xla_force_host_platform_device_count=8 ")
    assert devices.environment({"JAX_PLATFORMS": "cuda"}, "gpu", 1)["JAX_PLATFORMS"] == "cuda"


def test_devices_that_differ_fail_their_section(monkeypatch):
    def trainings(where):
        return [{"plain": "same", "portable": f"{devices}"} for _, devices in where]

    monkeypatch.setattr(devices, "trainings", trainings)
    report, text = printed(devices.show)
    assert report.failed == ["plain JAX gives several results", "the guarantee portable gives one"]
    assert "8 cpus  plain same…  portable 8…" in text


def test_the_example_of_the_readme_prints_the_output_that_the_readme_shows(capsys):
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("only a checkout has a README")
    code, output = re.search(
        r"```python\n(.*?)```.*?```text\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL
    ).groups()
    exec(compile(code, str(readme), "exec"), {})
    assert capsys.readouterr().out.split() == output.split()
