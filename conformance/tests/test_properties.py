"""Drawn calls of ops with many contributions to one destination.

Under ``portable`` the bits are the oracle's. Under ``run_to_run`` a GPU has one result in every
schedule. Under any profile a call gives its value or its alert. Where PyTorch is installed, the
value is PyTorch's. ``HYPOTHESIS_PROFILE=thorough`` draws more calls.
"""

import functools
import importlib.util
import os
import warnings

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impl
import spec
from conformance.adapters import samebits
from conformance.tests._draws import EVERY

settings.register_profile("brief", max_examples=2, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", max_examples=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))

ADAPTER = samebits.Samebits()
HAS_TORCH = importlib.util.find_spec("torch") is not None
#: The device and the lowering or stand-in, by name.
LOWERINGS = {
    "native": ("cpu", "native"),
    "kernel": ("cuda", "kernel"),
    "xla": ("cuda", "xla"),
}
#: Schedules of interpreted kernels. Nothing else reads them.
SEEDS = (1, 6)
PROFILES = sorted(spec.load().profiles)


def of(drawn, namespace):
    """Returns the function of a drawn call, and its arrays."""
    function = functools.partial(drawn.call, namespace)
    if drawn.cotangent is None:
        return function, drawn.arrays

    def gradient(ct, x, *rest):
        return jax.vjp(lambda x: function(x, *rest), x)[1](ct)[0]

    return gradient, (drawn.cotangent, *drawn.arrays)


@pytest.mark.once  # Bits of ops and tests of kernels try each release.
@pytest.mark.parametrize("op", EVERY)
@given(data=st.data())
def test_bits_are_the_oracles_or_the_same_in_every_schedule(op, data):
    drawn = data.draw(EVERY[op])
    function, arrays = of(drawn, impl)
    for name, (device, lowering) in LOWERINGS.items():
        run = jax.jit(function)
        guarantee = "portable" if device == "cpu" else "run_to_run"
        expected = drawn.expected if guarantee == "portable" else None
        for samebits.SEED.value in (*SEEDS, 0):
            mode = impl.deterministic(profile="complete", guarantee=guarantee)
            with mode, ADAPTER.running(device, lowering):
                result = np.asarray(run(*arrays))
            assert (result.dtype, result.shape) == (drawn.expected.dtype, drawn.expected.shape)
            close(result, drawn.expected)
            expected = result if expected is None else expected
            same = result.tobytes() == np.ascontiguousarray(expected).tobytes()
            assert same, f"{name}: {np.argwhere(result != expected)[:3]}\n{result}\n{expected}"


@pytest.mark.parametrize("op", EVERY)
@settings(max_examples=max(1, settings().max_examples // 2))
@given(data=st.data())
def test_every_profile_gives_the_value_or_its_alert(op, data):
    drawn = data.draw(EVERY[op])
    profile, warn_only = data.draw(st.sampled_from(PROFILES)), data.draw(st.booleans())
    device, lowering = data.draw(st.sampled_from(list(LOWERINGS.values())))
    function, arrays = of(drawn, impl)
    with (
        impl.deterministic(profile=profile, warn_only=warn_only),
        ADAPTER.running(device, lowering),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", ".*does not have a deterministic", UserWarning)
        try:
            result = jax.jit(function)(*arrays)
        except RuntimeError as error:
            if warn_only or "have a deterministic implementation in the profile" not in str(error):
                raise
            return
    if drawn.racy:
        assert (result.dtype, result.shape) == (drawn.expected.dtype, drawn.expected.shape)
    else:
        close(result, drawn.expected)


def close(result, expected):
    narrow = expected.dtype.itemsize < 4 and expected.dtype.kind in "fV"
    loose = 2e-2 if narrow else 2e-4
    result, expected = (np.asarray(value).astype(np.float64) for value in (result, expected))
    np.testing.assert_allclose(result, expected, rtol=loose, atol=loose * 10)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("op", EVERY)
@settings(max_examples=settings().max_examples * 5)
@given(data=st.data())
def test_pytorch_has_the_same_values(op, data):
    torch = pytest.importorskip("torch")
    from conformance.adapters.torch import IMPLEMENTATION  # noqa: PLC0415  # it imports PyTorch

    drawn = data.draw(EVERY[op])
    arrays = [to_torch(torch, a) for a in drawn.arrays]
    call = functools.partial(drawn.call, IMPLEMENTATION.namespace)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of several writes of put_, PyTorch's threads leave any
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # alerts, beta and deprecated functions
            result = in_torch(torch, call, arrays, drawn)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    close(result.double().numpy(), drawn.expected)


def in_torch(torch, call, arrays, drawn):
    if drawn.cotangent is None:
        return call(*arrays)
    arrays[0].requires_grad_(True)
    out = call(*arrays)
    return torch.autograd.grad(out, arrays[0], to_torch(torch, drawn.cotangent))[0]


def to_torch(torch, array):
    # PyTorch would round each sum of float16 or bfloat16, so they are added in float32.
    narrow = array.dtype.itemsize < 4 and array.dtype.kind in "fV"
    return torch.from_numpy(array.astype(np.float32) if narrow else array.copy())
