"""The mode, the profile and the emulation are part of the key of jit's caches."""

import contextlib
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.programs import kernels

ATOMIC: set[str] = set()
ORDERED = {"scatter_add_runs"}


class Counted:
    """A jitted index_add that counts how often it is traced."""

    def __init__(self):
        self.traces = 0
        self.index = np.array([0, 2, 2])
        self.arguments = (jnp.zeros(3), jnp.ones(3))
        self.jitted = jax.jit(self.function)

    def function(self, input, source):
        self.traces += 1
        return impl.index_add(input, 0, self.index, source)

    def kernels(self):
        return kernels(impl.testing.lower(self.jitted, *self.arguments))

    def run(self):
        assert self.jitted(*self.arguments).tolist() == [1, 0, 2]
        return self.traces


def by_setter(enabled, **options):
    impl.use_deterministic_algorithms(enabled, **options)
    return contextlib.nullcontext()


@pytest.mark.parametrize("switch", [by_setter, impl.deterministic], ids=["setter", "scope"])
def test_toggling_the_mode_changes_the_path_of_one_jitted_function(switch):
    counted = Counted()
    for enabled, path, traces in [
        (False, ATOMIC, 1),
        (True, ORDERED, 2),
        (False, ATOMIC, 2),
        (True, ORDERED, 2),
    ]:
        with switch(enabled):
            assert counted.kernels() == path
            assert counted.traces == traces


@pytest.mark.parametrize("switch", [by_setter, impl.deterministic], ids=["setter", "scope"])
def test_toggling_the_mode_retraces_between_calls_and_going_back_does_not(switch):
    counted = Counted()
    traces = []
    for enabled in (False, True, False, True):
        with switch(enabled):
            traces.append(counted.run())
    assert traces == [1, 2, 2, 2]


def test_a_scope_and_the_setter_share_the_cache():
    counted = Counted()
    with impl.deterministic(True):
        assert counted.run() == 1
    impl.use_deterministic_algorithms(True)
    assert counted.run() == 1


def test_toggling_the_profile_changes_the_path():
    index = np.zeros((3, 3), int)
    jitted = jax.jit(lambda x, s: impl.scatter_add(x, 0, index, s))
    arguments = jnp.zeros((3, 3)), jnp.ones((3, 3))
    # Here a row raises. With warn_only it warns, and JAX's scatter is ordered all the same.
    with (
        impl.deterministic(warn_only=True, profile="torch-1.10"),
        pytest.warns(UserWarning, match="scatter_add_cuda_kernel"),
    ):
        assert kernels(impl.testing.lower(jitted, *arguments)) == ORDERED
    for _ in range(2):
        with impl.deterministic(profile="complete"):
            assert kernels(impl.testing.lower(jitted, *arguments)) == ORDERED
        with (
            impl.deterministic(profile="torch-1.10"),
            pytest.raises(RuntimeError, match="scatter_add_cuda_kernel"),
        ):
            impl.testing.lower(jitted, *arguments)


def test_every_part_of_the_state_is_in_the_key():
    counted = Counted()
    steps = [
        lambda: impl.use_deterministic_algorithms(True),
        lambda: impl.use_deterministic_algorithms(True, warn_only=True),
        lambda: impl.use_deterministic_algorithms(True, profile="complete"),
        lambda: setattr(impl.utils.deterministic, "fill_uninitialized_memory", False),
    ]
    assert counted.run() == 1
    for number, step in enumerate(steps, start=2):
        step()
        assert counted.run() == number
        assert counted.run() == number
    scopes = [
        impl.testing.emulate("cuda"),
        impl.testing.emulate("cuda", lowering="xla"),
        impl.testing.emulate("rocm"),
        impl.testing.schedule(1),
        impl.testing.schedule(2),
    ]
    for number, scope in enumerate(scopes, start=2 + len(steps)):
        with scope:
            assert counted.run() == number


def test_the_decision_is_that_of_the_trace_around_an_inner_jit():
    counted = Counted()
    outer = jax.jit(lambda x, s: counted.jitted(x, s) + 1)
    for enabled, path in [(True, ORDERED), (False, ATOMIC), (True, ORDERED)]:
        with impl.deterministic(enabled):
            assert kernels(impl.testing.lower(outer, *counted.arguments)) == path


def test_a_scope_inside_the_traced_function_decides_for_its_part_alone():
    counted = Counted()

    @impl.deterministic(False)
    def loose(x, s):
        return counted.function(x, s)

    with impl.deterministic():
        assert kernels(impl.testing.lower(loose, *counted.arguments)) == ATOMIC
        both = impl.testing.lower(lambda x, s: counted.function(loose(x, s), s), *counted.arguments)
        assert kernels(both) == ATOMIC | ORDERED


def test_a_second_thread_in_its_own_scope_keeps_its_path():
    counted = Counted()
    entered, switched = threading.Event(), threading.Event()
    seen = []

    def worker():
        with impl.deterministic(True):
            seen.append(counted.kernels())
            entered.set()
            assert switched.wait(60)
            seen.append(counted.kernels())
        seen.append(counted.kernels())

    thread = threading.Thread(target=worker)
    thread.start()
    assert entered.wait(60)
    impl.use_deterministic_algorithms(False)
    assert counted.kernels() == ATOMIC
    switched.set()
    thread.join()
    assert seen == [ORDERED, ORDERED, ATOMIC]
