"""Sections 4 and 5 of the demo: training in two processes, and under several schedules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import jax

import impl
import spec
from impl._demo import model, training
from impl._demo.model import Settings, Weights
from impl._demo.report import Report, fingerprint

#: The settings under schedules: tiny, because interpreted kernels are slow.
TINY = Settings(steps=8, batch=32, width=8, hidden=16)
SEEDS = range(3)


def in_fresh_process(hash_seed: int) -> dict[str, Any]:
    """Trains in a new process with the mode on, and returns the fields of ``training.Outcome``.

    Raises:
        RuntimeError: The process failed.
    """
    child = subprocess.run(
        [sys.executable, "-m", "impl._demo.train_once"],
        capture_output=True,
        check=False,
        env=environment(os.environ, hash_seed, jax.devices()[0].platform),
        text=True,
    )
    if child.returncode != 0:
        raise RuntimeError(f"training failed in a process of its own:\n{child.stderr}")
    outcome: dict[str, Any] = json.loads(child.stdout)
    return outcome


def environment(current: Mapping[str, str], hash_seed: int, platform: str) -> dict[str, str]:
    """Returns the environment of a training process."""
    env = {
        **current,
        "PYTHONHASHSEED": str(hash_seed),
        # The process that starts it uses the same GPU.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    device = spec.load().backends.get(platform)
    if device is not None and device.races:
        env["XLA_FLAGS"] = f"{current.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0".strip()
    return env


def under_schedules(mode: bool, seeds: range) -> list[str]:
    """Returns, for each seed, the fingerprint of the weights after training under its schedule."""
    text, seed, fingerprints = model.load_text(), impl.testing.Seed(), []

    @jax.jit
    def run(start: Weights) -> Weights:
        return training.train(start, text, TINY)

    with jax.default_device(jax.devices("cpu")[0]):
        start = model.initial_weights(jax.random.key(0), TINY, text.alphabet)
        with impl.testing.schedule(seed), impl.deterministic(mode):
            for seed.value in seeds:
                fingerprints.append(fingerprint(run(start)))
    return fingerprints


def show_processes(report: Report) -> None:
    settings, text = Settings(), model.load_text()
    platform = jax.devices()[0].platform
    report.section(f"4. A training run, twice, in two processes on this machine's {platform}")
    report.text(
        f"A classifier tells the next character of the Python language reference "
        f"({len(text.train) + len(text.held_out):,} characters, from pydoc_data.topics) from the "
        f"{model.CONTEXT} before it: {settings.steps} steps of Adam. The training is plain "
        "jax.numpy, with one line added: impl.use_deterministic_algorithms(True). "
        f"Its gradient adds {settings.batch * model.CONTEXT:,} rows into {text.alphabet} at each "
        "step. The figures are of the last tenth of the text, which it does not train on."
    )
    device = spec.load().backends.get(platform)
    if device is not None and device.races:
        report.text(
            "Autotuning is off in both: it may pick another algorithm for a matrix product each "
            "time it compiles."
        )
    elif device is not None:
        report.text(
            "XLA's scatters on a CPU keep one order also without the mode. Sections 3 and 5 show "
            "the orders that a GPU may take."
        )
    first, second = outcomes = [in_fresh_process(hash_seed) for hash_seed in (1, 2)]
    for number, outcome in enumerate(outcomes, 1):
        report.line(
            f"    process {number}: loss {outcome['loss'][0]:.4f} -> {outcome['loss'][1]:.4f}, "
            f"accuracy {outcome['accuracy'][0]:.4f} -> {outcome['accuracy'][1]:.4f}"
        )
        report.line(f"    SHA-256 of the weights: {outcome['weights']}")
    report.claim("both processes end with the same weights and figures", holds=first == second)
    share = first["most_frequent"]
    report.claim(
        f"it has learnt: always saying the most frequent character is right in {share:.4f}",
        holds=first["accuracy"][1] > 1.5 * share,
    )


def show_schedules(report: Report) -> None:
    report.section("5. The same training, tiny, under other orders of the gradient's additions")
    report.text(
        f"{TINY.steps} steps on the CPU. With the mode off it adds the rows of the gradient in "
        "orders that a GPU may take; with the mode on it interprets the GPU's ordered kernel."
    )
    atomic, ordered = (under_schedules(mode, SEEDS) for mode in (False, True))
    for seed, off, on in zip(SEEDS, atomic, ordered, strict=True):
        report.line(f"    order {seed}: mode off {off[:16]}…  mode on {on[:16]}…")
    report.claim("with the mode off the weights differ", holds=len(set(atomic)) > 1)
    report.claim("with the mode on they are the same", holds=len(set(ordered)) == 1)
