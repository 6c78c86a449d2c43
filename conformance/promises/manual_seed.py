"""Promises of manual_seed: the same keys on each device and under all settings of JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import jax

from conformance.promise import Promise
from conformance.promises._keys import KEYS, SEED, drawn

_CHILD = f"""
import importlib, sys
import jax
namespace = importlib.import_module(sys.argv[1])
generator = namespace.manual_seed({SEED})
print([jax.random.key_data(generator.key()).tolist() for _ in range({len(KEYS)})])
"""
_SETTINGS = {
    "JAX_DEFAULT_PRNG_IMPL": "rbg",
    "JAX_ENABLE_X64": "1",
    "JAX_PLATFORMS": "cpu",
    "JAX_THREEFRY_PARTITIONABLE": "0",
    "PYTHONHASHSEED": "1",
}


def promises() -> Sequence[Promise]:
    """Returns tests of fixed keys, on each device and in a process with other settings."""
    return [
        Promise("R0210", "devices", _on_each_device),
        Promise("R0210", "processes", _in_another_process),
    ]


def _on_each_device(namespace: ModuleType) -> None:
    with namespace.fork_rng():
        for device in (*jax.devices(), *jax.devices("cpu")):
            with jax.default_device(device):
                assert drawn(namespace.manual_seed(SEED)) == KEYS, device
            assert namespace.initial_seed() == SEED


def _in_another_process(namespace: ModuleType) -> None:
    process = subprocess.run(  # noqa: S603  # This interpreter runs the code above.
        [sys.executable, "-c", _CHILD, namespace.__name__],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **_SETTINGS},
        text=True,
        timeout=300,
    )
    assert process.stdout.strip() == str(KEYS)
