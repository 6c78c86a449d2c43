"""Promises of random numbers: seeds, generators, and scopes that restore a generator."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from conformance.suite.promise import Promise

SEED = 0x0123_4567_89AB_CDEF
#: Threefry-2x32 of 0, 1 and 2 under the seed; impl/tests/test_random.py has the oracle.
KEYS = [[0x4D884901, 0xDC0E5397], [0x674AD376, 0x032ABCDB], [0x3BDB6692, 0x6BE05423]]

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


def promises() -> Mapping[str, Sequence[Promise]]:
    return {
        "manual_seed": (
            Promise("R0210", "devices", _on_each_device),
            Promise("R0210", "processes", _in_another_process),
        ),
        "Generator": (
            Promise("R0211", "streams", _streams),
            Promise("R0211", "state", _state),
            Promise("R0211", "threads", _threads),
        ),
        "fork_rng": (Promise("R0212", "draws", _draws), Promise("R0212", "exception", _exception)),
        "seed_everything": (Promise("R0213", "all three", _repeats),),
    }


def drawn(generator: Any, count: int = len(KEYS)) -> list[list[int]]:
    """Draws keys from a generator, and returns their words."""
    import jax  # noqa: PLC0415  # Implementations without such rows do without JAX.

    return [jax.random.key_data(generator.key()).tolist() for _ in range(count)]


def _on_each_device(namespace: ModuleType) -> None:
    import jax  # noqa: PLC0415  # As above.

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


def _streams(namespace: ModuleType) -> None:
    one, same, other = (namespace.Generator(seed) for seed in (SEED, SEED, SEED + 1))
    keys = []
    for _ in KEYS:  # In turns: a draw from one generator must not change another.
        keys += drawn(one, 1)
        assert drawn(other, 1)[0] not in KEYS
    assert keys == drawn(same) == KEYS


def _state(namespace: ModuleType) -> None:
    generator = namespace.Generator(SEED)
    drawn(generator, 1)
    state = np.array(generator.get_state())
    copy = pickle.loads(pickle.dumps(generator))  # noqa: S301  # This line pickled it.
    for restored in (generator, copy, namespace.Generator().set_state(state)):
        assert drawn(restored, len(KEYS) - 1) == KEYS[1:]
        assert restored.initial_seed() == SEED


def _threads(namespace: ModuleType) -> None:
    threads, draws = 8, 50
    generator, same = namespace.Generator(SEED), namespace.Generator(SEED)
    with ThreadPoolExecutor(threads) as pool:
        shares = list(pool.map(lambda _: drawn(generator, draws), range(threads)))
    assert sorted(itertools.chain.from_iterable(shares)) == sorted(drawn(same, threads * draws))


def _draws(namespace: ModuleType) -> None:
    with namespace.fork_rng():
        generator = namespace.manual_seed(SEED)
        with namespace.fork_rng():
            assert drawn(generator) == KEYS
            namespace.manual_seed(SEED + 1)
            drawn(generator)
        assert namespace.initial_seed() == SEED
        assert drawn(generator) == KEYS


def _exception(namespace: ModuleType) -> None:
    with namespace.fork_rng():
        generator = namespace.manual_seed(SEED)
        with contextlib.suppress(KeyError), namespace.fork_rng():
            drawn(generator)
            raise KeyError
        assert drawn(generator) == KEYS


def _repeats(namespace: ModuleType) -> None:
    with _restored(namespace):
        draws = _seeded_draws(namespace, SEED)
        others = _seeded_draws(namespace, SEED + 1)
        assert draws[0] == KEYS
        assert _seeded_draws(namespace, SEED) == draws
        assert all(draw != other for draw, other in zip(draws, others, strict=True))


def _seeded_draws(namespace: ModuleType, seed: int) -> list[Any]:
    generator = namespace.seed_everything(seed)
    keys = drawn(namespace.default_generator)
    return [keys, random.random(), np.random.random(), generator.random()]  # noqa: NPY002, S311


@contextlib.contextmanager
def _restored(namespace: ModuleType) -> Iterator[None]:
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    with namespace.fork_rng():
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002
