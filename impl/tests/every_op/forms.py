"""Calls of the ops in all forms: shapes, dimensions, options, dtypes, and arrays without elements.

A form is what PyTorch's OpInfo calls a sample input. PyTorch is the reference of each of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl.tests.support.refusals import function_of

#: The positional arguments of a call, and its keywords.
Form: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]

#: The share of the greatest number by which a result of a dtype may differ from PyTorch's.
_TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 1e-5, "complex64": 2e-5}


@dataclasses.dataclass(frozen=True)
class Forms:
    """The forms of an op.

    Attributes:
        calls: The calls. PyTorch refuses some of them, and impl has to refuse the same ones.
        torch: The function of PyTorch, ``torch(torch, *arguments, **keywords)``, if it has another
            name or other arguments.
        tolerance: A factor of the allowed differences.
        has_gradient: Whether PyTorch has the same gradient.
        wide: The number of calls that are tried in float64 too, from the first one on. Calls of
            int32 are tried in int64.
        traced: The number of arrays of floats to trace and to differentiate by, from the first one
            on; further ones are constants. None for all.
    """

    calls: Sequence[Form]
    torch: Callable[..., Any] | None = None
    tolerance: float = 1.0
    has_gradient: bool = True
    wide: int = 1
    traced: int | None = None

    def widened(self) -> Forms:
        """Returns the calls to try in float64, with arrays of float64 and of complex128."""
        of_integers = [
            call for call in self.calls[self.wide :] if any(map(_is_int32, jax.tree.leaves(call)))
        ]
        calls = jax.tree.map(_wide, [*self.calls[: self.wide], *of_integers])
        return dataclasses.replace(self, calls=calls)


def form(*arguments: Any, **options: Any) -> Form:
    """Returns a form."""
    return arguments, options


def assert_like_torch(torch: Any, op: str, forms: Forms) -> None:
    """Requires the results and the gradients of PyTorch for all forms, in one compiled program."""
    ours = function_of(op)
    theirs = forms.torch or (lambda torch, *a, **k: function_of(op, torch)(*a, **k))
    calls, wanted, refused = [], [], []
    for arguments, options in forms.calls:
        try:
            want = _of_torch(torch, theirs, (arguments, options), forms)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as refusal:
            refused.append((type(refusal), arguments, options))
            continue
        calls.append((arguments, options))
        wanted.append(want)
    for error, arguments, options in refused:
        with pytest.raises(error) as raised:
            ours(*arguments, **options)
        assert raised.type is error
    weights = [[_weight(out) for out in outs] for outs, _ in wanted]

    @jax.jit
    def program(floats, weights):
        return [
            _values_and_gradients(ours, call, *each)
            for call, *each in zip(calls, floats, weights, strict=True)
        ]

    floats = [
        [leaf for leaf in jax.tree.leaves(call) if _is_float(leaf)][: forms.traced]
        for call in calls
    ]
    for call, got, want in zip(calls, program(floats, weights), wanted, strict=True):
        for one, other in zip(got[0], want[0], strict=True):
            _assert_close(one, other, f"{op} of {call}", forms.tolerance)
        if forms.has_gradient:
            for one, other in zip(got[1], want[1], strict=True):
                _assert_close(one, other, f"gradient of {op} of {call}", forms.tolerance)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and jnp.issubdtype(value.dtype, jnp.inexact)


def _is_int32(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.int32


def _wide(value: Any) -> Any:
    if _is_int32(value):
        return value.astype(np.int64) << 40  # More than 32 bits hold.
    wider = {"float32": np.float64, "complex64": np.complex128}
    name = value.dtype.name if isinstance(value, np.ndarray) else ""
    return value.astype(wider[name]) if name in wider else value


def _weight(out: np.ndarray) -> np.ndarray:
    """Returns the cotangent of a result."""
    numbers = np.random.default_rng(out.shape).standard_normal(out.shape)
    return np.asarray(numbers).astype(out.dtype if _is_float(out) else np.float32)


def _values_and_gradients(function: Any, call: Form, floats: Any, weights: Any) -> Any:
    leaves, tree = jax.tree.flatten(call)

    def smooth(*floats: Any) -> Any:
        rest = iter(floats)
        given = [next(rest, leaf) if _is_float(leaf) else leaf for leaf in leaves]
        arguments, options = jax.tree.unflatten(tree, given)
        outs = jax.tree.leaves(function(*arguments, **options))
        return [out for out in outs if jnp.issubdtype(out.dtype, jnp.inexact)], outs

    smooth_outs, pullback, outs = jax.vjp(smooth, *floats, has_aux=True)
    of_floats = [w for w, out in zip(weights, outs, strict=True) if out.dtype == w.dtype]
    return outs, pullback([w.astype(o.dtype) for w, o in zip(of_floats, smooth_outs, strict=True)])


def _of_torch(torch: Any, function: Any, call: Form, forms: Forms) -> Any:
    leaves, tree = jax.tree.flatten(call)
    tensors = [_tensor(torch, leaf) for leaf in leaves]
    floats = [tensor for tensor, leaf in zip(tensors, leaves, strict=True) if _is_float(leaf)]
    floats = floats[: forms.traced]
    for tensor in floats:
        tensor.requires_grad_(forms.has_gradient)
    arguments, options = jax.tree.unflatten(tree, tensors)
    outs = function(torch, *arguments, **options)
    outs = [outs] if isinstance(outs, torch.Tensor) else list(outs)
    smooth = [out for out in outs if out.requires_grad]
    gradients = [np.zeros(tensor.shape) for tensor in floats]
    if smooth and floats:
        weights = [_tensor(torch, _weight(_array(torch, out))) for out in smooth]
        of_floats = torch.autograd.grad(smooth, floats, weights, allow_unused=True)
        for position, gradient in enumerate(of_floats):
            if gradient is not None:
                # PyTorch's gradient of a complex number is the conjugate of JAX's.
                gradients[position] = np.conj(_array(torch, gradient))
    return [_array(torch, out) for out in outs], gradients


def _tensor(torch: Any, value: Any) -> Any:
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(value, np.float32)).bfloat16()
    return torch.from_numpy(np.array(value))


def _array(torch: Any, tensor: Any) -> np.ndarray:
    tensor = tensor.detach().resolve_conj()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.float().numpy().astype(jnp.bfloat16))
    return np.asarray(tensor.numpy())


def _assert_close(got: Any, want: np.ndarray, label: str, factor: float) -> None:
    got = np.asarray(got)
    assert got.shape == want.shape, label
    if "gradient" not in label:
        assert got.dtype == jax.dtypes.canonicalize_dtype(want.dtype), label
    tolerance = factor * _TOLERANCES.get(got.dtype.name, 1e-12 if _is_float(got) else 0)
    wide = np.complex128 if np.iscomplexobj(got) else np.float64 if _is_float(got) else got.dtype
    got, want = got.astype(wide), want.astype(wide)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1.0) if _is_float(got) else 0
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * largest, err_msg=label)
