"""The stand-in: a scope for one thread, which ends with its scope."""

import threading

import pytest

from impl._mode import emulation
from impl._mode.emulation import Emulation, Seed

CUDA = Emulation("cuda")


def test_there_is_no_stand_in_by_default():
    assert emulation.current() is None
    assert Emulation("cuda", lowering="kernel", seed=None) == CUDA


def test_scopes_nest_and_end():
    inner = Emulation("rocm", "xla")
    with emulation.scope(CUDA):
        with emulation.scope(inner):
            assert emulation.current() == inner
        assert emulation.current() == CUDA
    assert emulation.current() is None


def test_a_scope_ends_with_an_exception():
    with pytest.raises(KeyError), emulation.scope(CUDA):
        raise KeyError
    assert emulation.current() is None


def test_a_scope_is_for_one_thread():
    in_thread = []
    with emulation.scope(CUDA):
        thread = threading.Thread(target=lambda: in_thread.append(emulation.current()))
        thread.start()
        thread.join()
    assert in_thread == [None]


def test_seeds_are_different_keys_whatever_their_values():
    first, second = Seed(), Seed()
    assert first.value == second.value == 0
    assert Emulation("cuda", seed=first) != Emulation("cuda", seed=second)
    assert Emulation("cuda", seed=first) == Emulation("cuda", seed=first)
