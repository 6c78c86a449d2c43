"""What tests of products and convolutions share."""

import jax
import numpy as np

import impl

#: The lowerings of one path that may differ in bits, where no sum is exact.
WAYS = ("native", "xla", "kernel")


def exact(rng, shape, most=8):
    """Small whole numbers: their products and sums are the same in every order."""
    return rng.integers(-most, most + 1, shape).astype(np.float32)


def random(rng, shape, dtype=np.float64):
    value = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * rng.standard_normal(shape)
    return value.astype(dtype)


def assert_as_torch(torch, ours, theirs, arrays, **close):
    """A result and all gradients; where PyTorch refuses, so do we."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    try:
        want = theirs(*tensors)
    except RuntimeError as refused:
        try:
            out = ours(*arrays)
        except RuntimeError:
            return
        raise AssertionError(f"gives {out.shape} where PyTorch says: {refused}") from refused
    out, pullback = jax.vjp(ours, *arrays)
    assert out.dtype == want.detach().numpy().dtype
    np.testing.assert_allclose(out, want.detach().resolve_conj().numpy(), **close)
    cotangent = random(np.random.default_rng(0), out.shape, out.dtype)
    # PyTorch's gradients of complex numbers are the conjugates of JAX's.
    given = torch.tensor(cotangent).conj()
    gradients = torch.autograd.grad(want, tensors, given)
    for got, gradient in zip(pullback(cotangent), gradients, strict=True):
        np.testing.assert_allclose(got, gradient.conj().resolve_conj().numpy(), **close)


def lowered(function, *arrays, on=True):
    """The program that a GPU would get."""
    with impl.deterministic(on, profile="complete"):
        return impl.testing.lower(function, *arrays).as_text()
