"""Tests of the examples: other processes, orders or devices give the same weights with the mode."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import impl
from impl.tests.support import processes

for module in ("optax", "sklearn"):
    pytest.importorskip(module, reason="the example needs it; `nox -s tests-3.11` has it")

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.py"
PORTABLE = EXAMPLE.with_name("portable.py")
POLICY = EXAMPLE.with_name("one_policy.py")
#: One worker is a second process; each process takes seconds to start.
SMALL = ("--images", "50", "--batch-size", "25", "--epochs", "1", "--workers", "1")
TINY = ("--images", "80", "--batch-size", "10", "--epochs", "1", "--workers", "0")


#: The digest of the weights after a step with the small model: on one device too, and on every
#: release of JAX.
DIGEST = "d7cf8d94c0c66baf"


#: The digest of the weights of the policy in float32 after two rounds, which the page shows.
POLICY_DIGEST = "4da64761155c1b23"


def weights(text: str) -> list[str]:
    """Returns the fingerprints that the example printed."""
    return re.findall(r"^epoch \d+: .* weights ([0-9a-f]{64})$", text, re.MULTILINE)


def test_two_processes_print_one_fingerprint() -> None:
    children = [
        subprocess.Popen(
            [sys.executable, EXAMPLE, *SMALL],
            # NPROC is the number of threads that XLA computes with on a CPU.
            env={**os.environ, "PYTHONHASHSEED": str(number), "NPROC": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 4)
    ]
    # Both processes end before the first assertion, so that none outlives the test.
    outputs = [child.communicate(timeout=600) for child in children]
    fingerprints = []
    for child, (out, err) in zip(children, outputs, strict=True):
        assert child.returncode == 0, err
        fingerprints += weights(out)
    assert len(fingerprints) == 2
    assert len(set(fingerprints)) == 1


def run(code: str, *arguments: str | Path, devices: int) -> str:
    """Runs code in the folder of the examples, on some devices, and returns its output."""
    variables = {"PYTHONPATH": str(processes.ROOT)}
    done = processes.run(
        "-c", code, *arguments, folder=EXAMPLE.parent, devices=devices, **variables
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def loaded(path: Path) -> ModuleType:
    """Returns the module of an example."""
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def test_a_policy_has_the_probabilities_of_its_sampler_and_one_digest() -> None:
    code = """
import impl
import one_policy as example
with impl.deterministic(guarantee="portable"):
    print(*example.run(example.CUTS[1], 2, "float32"))
"""
    digest, ratio, divergence = run(code, devices=4).split()
    assert float(ratio) == float(divergence) == 0
    assert digest.startswith(POLICY_DIGEST)


def test_the_policy_fails_if_a_cut_has_another_digest_or_a_drift(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = loaded(POLICY)
    monkeypatch.setattr(example.jax.config, "update", lambda *_: None)
    for drift, second, status in ((0.0, "a", 0), (0.0, "b", 1), (1e-7, "a", 1)):
        results = {example.CUTS[0]: ("a", 0.0, 0.0), example.CUTS[1]: (second, drift, 0.0)}
        monkeypatch.setattr(example, "run", lambda cut, *_, results=results: results[cut])
        assert example.main([]) == status
    assert "ratio 1 +- 1.0e-07, KL 0.0e+00, weights a" in capsys.readouterr().out


@pytest.mark.parametrize(("mode", "changes"), [("off", True), ("on", False)])
def test_other_orders_change_the_fingerprint_only_without_the_mode(
    mode: str, changes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    digits = loaded(EXAMPLE)
    try:
        for seed in ("0", "1", "3"):  # Two orders may give equal weights by chance.
            digits.main([*TINY, "--mode", mode, "--schedule", seed])
    finally:
        impl.use_deterministic_algorithms(False)
    fingerprints = weights(capsys.readouterr().out)
    assert len(fingerprints) == 3
    assert (len(set(fingerprints)) > 1) == changes


def test_a_portable_training_on_eight_devices_has_the_digest_of_all() -> None:
    code = """
import portable as example
example.WIDTH, example.HEADS, example.LAYERS, example.LENGTH = 8, 2, 1, 8
print(example.train(8, 1, "portable"))
"""
    assert run(code, devices=8).startswith(DIGEST)


def test_the_example_counts_the_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = loaded(PORTABLE)

    def varying(platform: str, devices: int, _: int, guarantee: str | None) -> str:
        return f"{devices if guarantee is None else platform}  loss 1"

    monkeypatch.setattr(example, "in_a_process", varying)
    assert example.main([]) == 0
    assert (
        "plain JAX: 4 results of 4 runs\nportable: 1 result of 4 runs\n" in capsys.readouterr().out
    )
    assert example.main(["--platforms", "cuda", "cpu", "--devices", "1"]) == 1
    out = capsys.readouterr().out
    assert "portable   1 cuda  cuda  loss 1" in out
    assert "portable: 2 results of 2 runs" in out


def test_micro_batches_of_any_number_give_one_digest() -> None:
    pytest.importorskip("orbax.checkpoint", reason="the example needs it")
    example = loaded(EXAMPLE.with_name("micro_batches.py"))
    with impl.deterministic(guarantee="portable", profile="complete"):
        assert example.train(1) == example.train(3)


def test_a_run_resumed_on_other_devices_has_the_log_of_the_whole_run(tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint", reason="the example needs it")
    # One process has two devices, of which each part of a run takes some.
    code = """
import sys
import resume as example
whole, cut = sys.argv[1:]
example.main([whole, "--steps", "4", "--devices", "1"])
example.main([cut, "--steps", "2", "--devices", "1"])
example.main([cut, "--steps", "4", "--devices", "2"])
"""
    folders = tmp_path / "whole", tmp_path / "cut"
    run(code, *folders, devices=2)
    compared = impl.digests.compare(*(folder / "log.jsonl" for folder in folders))
    assert compared.equal, compared.text()
    assert compared.steps == 4
