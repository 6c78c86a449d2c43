"""The fixture that restores global state: it restores each part, also after a failure."""

import os
import random
import sys
import warnings
from operator import eq
from pathlib import Path

import jax
import numpy as np
import pytest

import impl
from impl._mode import compilation
from impl.tests import _state


def state():
    return {
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "path": list(sys.path),
        "arguments": list(sys.argv),
        "filters": list(warnings.filters),
        "random": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002  # The global one.
        "errors": np.geterr(),
        "printing": np.get_printoptions(),
        "mode": (
            impl.get_deterministic_debug_mode(),
            impl.is_deterministic_algorithms_warn_only_enabled(),
            impl.get_deterministic_profile(),
        ),
        "warned": set(compilation._warned),
        "fill": impl.utils.deterministic.fill_uninitialized_memory,
        "switches": (impl.backends.cudnn.benchmark, impl.backends.cudnn.deterministic),
        "generator": impl.get_rng_state().tolist(),
        "seeded": impl.default_generator.seeded,
        "libraries seed": impl.random.libraries_seed(),
        "jax": dict(jax.config.values),
    }


def change_everything(folder):
    os.environ["SAMEBITS_OF_A_TEST"] = "1"
    os.environ.pop("HOME", None)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.argv[:] = ["changed"]
    warnings.simplefilter("ignore", ImportWarning)
    np.seterr(over="raise")
    np.set_printoptions(precision=3)
    impl.use_deterministic_algorithms(True, warn_only=True, profile="complete")
    impl.utils.deterministic.fill_uninitialized_memory = False
    compilation._warned.add("a warning")
    impl.backends.cudnn.benchmark = impl.backends.cudnn.deterministic = True
    impl.seed_everything(7)
    jax.config.update("jax_enable_x64", not jax.config.jax_enable_x64)
    jax.config.update("jax_default_matmul_precision", "highest")


def test_every_part_is_restored_after_an_error(tmp_path):
    before = state()
    changed = {}

    def failing_test():
        change_everything(tmp_path)
        changed.update(state())
        raise KeyError

    with pytest.raises(KeyError), _state.everything():
        failing_test()
    assert [name for name in before if before[name] == changed[name]] == []
    assert state() == before


def test_the_state_of_pytorch_is_restored(torch):
    cudnn, deterministic = torch.backends.cudnn, torch.utils.deterministic

    def state():
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            (cudnn.enabled, cudnn.benchmark, cudnn.deterministic),
            deterministic.fill_uninitialized_memory,
            torch.get_num_threads(),
            torch.initial_seed(),
        )

    before = state()
    with _state.everything():
        torch.use_deterministic_algorithms(True, warn_only=True)
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic = False, True, True
        deterministic.fill_uninitialized_memory = False
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.manual_seed(before[-1] + 1)
        assert not any(map(eq, state(), before))
    assert state() == before


def test_the_programs_of_tests_do_not_add_up(monkeypatch):
    monkeypatch.setattr(_state, "_FEW", 0)
    with _state.everything():
        program = jax.jit(lambda x: x + 1)
        program(np.float32(1))
        assert all(cache.cache_info().currsize > 0 for cache in _state._LOWERED)
    assert not any(cache.cache_info().currsize for cache in _state._LOWERED)
