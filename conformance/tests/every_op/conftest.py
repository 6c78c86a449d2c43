"""The settings of the tests of every op: the mode, and a setting of JAX that finds faults."""

import hypothesis
import jax
import pytest

import impl

#: Two calls of each op, the same in each run; ``--hypothesis-profile=many`` draws others.
FEW = hypothesis.settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile("few", FEW)
hypothesis.settings.register_profile("many", FEW, max_examples=100, derandomize=False)
hypothesis.settings.load_profile("few")


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
