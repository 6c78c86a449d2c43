"""The switches of ``impl.backends.cudnn``: their checks and scopes, and what they reach.

Tests: impl._core.modules, impl.backends.cudnn.
"""

import threading

import pytest

import impl
from impl._mode import switches
from impl._mode.decide import decide


def test_switches_are_checked_and_scoped():
    cudnn = impl.backends.cudnn
    assert (cudnn.benchmark, cudnn.deterministic) == (False, False)
    cudnn.benchmark = True
    with cudnn.flags(deterministic=True):
        assert (cudnn.benchmark, cudnn.deterministic) == (False, True)
        seen = []
        thread = threading.Thread(
            target=lambda: seen.append((cudnn.benchmark, cudnn.deterministic))
        )
        thread.start()
        thread.join()
        assert seen == [(True, False)]
    assert (cudnn.benchmark, cudnn.deterministic) == (True, False)
    with pytest.raises(RuntimeError, match="set_cudnn_benchmark expects a bool, but got int"):
        cudnn.benchmark = 1
    scope = cudnn.flags(deterministic=None)
    with pytest.raises(RuntimeError, match="set_cudnn_deterministic expects a bool"), scope:
        pass
    with pytest.raises(TypeError, match="enabled"):
        cudnn.flags(enabled=True)
    assert switches.current() == switches.Switches(cudnn_benchmark=True)


def test_cudnn_deterministic_reaches_convolutions_and_nothing_else():
    assert decide("nn.functional.conv1d").on("cuda").row is None
    impl.backends.cudnn.deterministic = True
    assert decide("nn.functional.conv1d").on("cuda").row == "R0032"
    assert decide("index_add", dtype="floating").on("cuda").row is None
    assert decide("nn.functional.conv1d").on("cpu").row is None
    with impl.deterministic():
        assert decide("index_add", dtype="floating").on("cuda").row == "R0001"
