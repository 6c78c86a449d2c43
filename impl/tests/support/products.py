"""Comparison of products and convolutions with PyTorch."""

import jax
import numpy as np

from impl.tests.support.numbers import normal


def assert_like_torch(torch, ours, theirs, arrays, **tolerance):
    """Compares a result and all gradients; a call that PyTorch refuses must be refused."""
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    try:
        want = theirs(*tensors)
    except RuntimeError as refusal:
        try:
            out = ours(*arrays)
        except RuntimeError:
            return
        raise AssertionError(f"gives {out.shape}; PyTorch refuses: {refusal}") from refusal
    out, pullback = jax.vjp(ours, *arrays)
    assert out.dtype == want.detach().numpy().dtype
    np.testing.assert_allclose(out, want.detach().resolve_conj().numpy(), **tolerance)
    cotangent = normal(np.random.default_rng(0), out.shape, out.dtype)
    # PyTorch's gradients of complex numbers are the conjugates of JAX's.
    gradients = torch.autograd.grad(want, tensors, torch.tensor(cotangent).conj())
    for got, gradient in zip(pullback(cotangent), gradients, strict=True):
        np.testing.assert_allclose(got, gradient.conj().resolve_conj().numpy(), **tolerance)
