"""The adapter of this project."""

import os

import jax
import numpy as np
import pytest

import impl
import spec
from conformance.adapters import base
from conformance.adapters import jax as samebits
from impl import _jax
from impl._mode import emulation


@pytest.mark.parametrize("lowering", samebits.STAND_INS["cuda"])
def test_a_stand_in_runs_the_lowering_of_the_device(lowering):
    with samebits.Samebits().running("cuda", lowering):
        current = emulation.current()
    assert current is not None
    assert current.platform == "cuda"
    options = samebits.STAND_INS["cuda"][lowering]
    assert {name: getattr(current, name) for name in options} == options
    assert emulation.current() is None


def test_the_mode_of_the_adapter_gives_xla_no_flags(monkeypatch):
    # The suite compares with the mode off in the same process.
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(_jax, "backend_has_started", lambda: False)
    samebits.Samebits().set_mode(True)
    assert impl.are_deterministic_algorithms_enabled()
    assert "XLA_FLAGS" not in os.environ


def test_this_implementation_is_held_to_all_that_the_spec_says():
    adapter = base.load("impl")
    assert adapter.of_this_project
    assert adapter.keeps_orders
    assert adapter.can_lower
    assert adapter.keeps_promises
    assert min(map(adapter.repeats, spec.DEVICES)) >= 2
    if jax.default_backend() == "cpu":
        assert set(adapter.lowerings("cuda")) == set(samebits.STAND_INS["cuda"])


def test_schedules_change_the_bits_of_an_atomic_path_and_not_of_an_ordered_one():
    adapter = samebits.Samebits()
    if adapter.devices()[0] != "cpu":
        pytest.skip("the CPU stands in for a GPU only where there is none")
    source = np.random.default_rng(0).normal(size=500).astype(np.float32)
    arrays = np.zeros(2, np.float32), np.zeros(500, np.int32), source

    def digests(**mode):
        def call(x, i, s):
            return impl.index_add(x, 0, i, s)

        with adapter.mode(**mode), adapter.running("cuda", "kernel"):
            return adapter.digests_by_schedule(call, arrays)

    assert len(set(digests(mode=False))) > 1
    assert len(set(digests(profile="complete"))) == 1
    assert samebits.SEED.value == 0
