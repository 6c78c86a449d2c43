"""All forms of the ops have PyTorch's results and gradients, or are refused as PyTorch does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance.cases._calls import Call, calls
from conformance.cases.table import table

#: The share of the greatest number by which a result of a dtype may differ from PyTorch's.
TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 1e-5, "complex64": 2e-5}
#: The ops with a form that PyTorch has as well.
OPS = [op for op in table() if any(call.torch for call in calls(op))]
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid:UserWarning"),
    pytest.mark.filterwarnings("ignore:Default grid_sample and affine_grid:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning"),
    pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning"),
]


@pytest.mark.parametrize("op", OPS)
def test_pytorch(torch, op):
    assert_like_torch(torch, op, calls(op))


@pytest.mark.parametrize("op", [op for op in OPS if table()[op].wide])
def test_float64(torch, op):
    with jax.enable_x64(True):
        assert_like_torch(torch, op, [Call(op, form) for form in widened(table()[op])])


def widened(info):
    """Returns the forms to try in float64, with arrays of float64 and of complex128."""
    forms = list(info.forms())
    of_integers = [
        form for form in forms[info.wide :] if any(map(_is_int32, jax.tree.leaves(form.arguments)))
    ]
    return [
        form.having(arguments=jax.tree.map(_wide, form.arguments))
        for form in [*forms[: info.wide], *of_integers]
    ]


def _is_int32(value):
    return isinstance(value, np.ndarray) and value.dtype == np.int32


def _wide(value):
    if _is_int32(value):
        return value.astype(np.int64) << 40  # More than 32 bits hold.
    wider = {"float32": np.float64, "complex64": np.complex128}
    name = value.dtype.name if isinstance(value, np.ndarray) else ""
    return value.astype(wider[name]) if name in wider else value


def assert_like_torch(torch, op, every_call):
    """Requires the results and the gradients of PyTorch for all calls, in one compiled program."""
    accepted, refused, wanted = [], [], []
    for call in every_call:
        if not call.torch:
            continue
        try:
            wanted.append(_of_torch(torch, call))
            accepted.append(call)
        except REFUSALS as refusal:
            refused.append((type(refusal), call))
    for error, call in refused:
        with pytest.raises(error) as raised:
            call.run(impl, *call.arrays)
        assert raised.type is error
    weights = [[_weight(out) for out in outs] for outs, _ in wanted]

    @jax.jit
    def program(floats, weights):
        each = zip(accepted, floats, weights, strict=True)
        return [_values_and_gradients(*call_and_arrays) for call_and_arrays in each]

    results = program([call.floats for call in accepted], weights)
    for call, got, want in zip(accepted, results, wanted, strict=True):
        label = f"{op} of {call.arguments} {call.options}"
        for one, other in zip(got[0], want[0], strict=True):
            _assert_close(one, other, label, table()[op].tolerance)
        if call.torch_gradient:
            for one, other in zip(got[1], want[1], strict=True):
                _assert_close(one, other, f"gradient of {label}", table()[op].tolerance)


def _is_inexact(array):
    return jnp.issubdtype(array.dtype, jnp.inexact)


def _weight(out):
    """Returns the cotangent of a result."""
    numbers = np.random.default_rng(out.shape).standard_normal(out.shape)
    return np.asarray(numbers).astype(out.dtype if _is_inexact(out) else np.float32)


def _values_and_gradients(call, floats, weights):
    def smooth(*floats):
        outs = call.outputs(*call.with_floats(floats))
        return [out for out in outs if _is_inexact(out)], outs

    smooth_outs, pullback, outs = jax.vjp(smooth, *floats, has_aux=True)
    of_floats = [w for w, out in zip(weights, outs, strict=True) if out.dtype == w.dtype]
    return outs, pullback([w.astype(o.dtype) for w, o in zip(of_floats, smooth_outs, strict=True)])


def _of_torch(torch, call):
    """Returns PyTorch's results, and its gradients by the arrays of floats."""
    tensors = [torch.into(array) for array in call.arrays]
    floats = [tensors[position] for position in call.float_positions]
    for tensor in floats:
        tensor.requires_grad_(call.torch_gradient)
    outs = call.run(torch.namespace, *tensors)
    outs = jax.tree.leaves(tuple(outs) if isinstance(outs, tuple) else outs)
    smooth = [out for out in outs if out.requires_grad]
    gradients = [np.zeros(tensor.shape) for tensor in floats]
    if smooth and floats:
        weights = [torch.into(_weight(torch.out(out))) for out in smooth]
        for position, gradient in enumerate(_gradients(smooth, floats, weights)):
            if gradient is not None:
                # PyTorch's gradient of a complex number is the conjugate of JAX's.
                gradients[position] = np.conj(torch.out(gradient))
    return [torch.out(out) for out in outs], gradients


def _gradients(outs, floats, weights):
    import torch  # noqa: PLC0415  # the tests run without it

    return torch.autograd.grad(outs, floats, weights, allow_unused=True)


def _assert_close(got, want, label, factor):
    got = np.asarray(got)
    assert got.shape == want.shape, label
    if "gradient" not in label:
        assert got.dtype == jax.dtypes.canonicalize_dtype(want.dtype), label
    tolerance = factor * TOLERANCES.get(got.dtype.name, 1e-12 if _is_inexact(got) else 0)
    wide = np.complex128 if np.iscomplexobj(got) else np.float64 if _is_inexact(got) else got.dtype
    got, want = got.astype(wide), want.astype(wide)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1.0) if _is_inexact(got) else 0
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * largest, err_msg=label)
