"""The settings of the tests of every op: the mode, and a setting of JAX that finds faults."""

import jax
import pytest

import impl


@pytest.fixture(autouse=True)
def complete_mode():
    """Turns the mode on, under the profile in which every op is ordered."""
    with impl.deterministic(profile="complete"):
        yield


@pytest.fixture(autouse=True)
def no_rank_promotion():
    """Refuses operands of two numbers of dimensions, as a user's program may be set to do."""
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(scope="session")
def torch():
    """The adapter of PyTorch, whose namespace has PyTorch's functions by the names of rows."""
    pytest.importorskip("torch", reason="compares with PyTorch")
    from conformance.adapters.torch import IMPLEMENTATION  # noqa: PLC0415  # it imports PyTorch

    return IMPLEMENTATION
