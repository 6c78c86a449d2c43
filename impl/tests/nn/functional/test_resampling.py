"""Window tables of ``interpolate``, compared with PyTorch's weights, and tangents of linear ops."""

import itertools

import jax
import numpy as np
import pytest

import impl
from impl.nn.functional._resampling import Axis
from impl.tests.nn.support.arrays import normal
from impl.tests.nn.support.resampling import FACTORS, torch_is_ambiguous
from impl.tests.support.bits import assert_same_bits

F = impl.nn.functional
interpolate = F.interpolate
pytestmark = pytest.mark.usefixtures("complete")

#: Length of the input, length of the result, the caller's factor or None.
AXES = [
    (n, int(n * factor), factor if by_factor else None)
    for n, factor, by_factor in itertools.product((1, 3, 10, 56, 199), FACTORS, (False, True))
    if int(n * factor)
]


def dense(table):
    """Returns a window table as a matrix of weights."""
    out = np.zeros((table.outputs, table.inputs))
    rows = np.arange(table.outputs)
    for column in range(table.shape[1]):
        weight = 1 if table.weight is None else table.weight[:, column]
        index = table.index[:, column]
        out[rows, index] += np.where(index >= 0, weight, 0)
    return out


def tables_of(axis):
    """Yields a mode, its options and its window table."""
    n, m, factor = axis.inputs, axis.outputs, axis.factor
    yield "linear", {}, axis.linear()
    yield "bicubic", {}, axis.cubic()
    yield "bilinear", {"antialias": True}, axis.antialiased(cubic=False)
    yield "bicubic", {"antialias": True}, axis.antialiased(cubic=True)
    for mode in ("nearest", "nearest-exact"):
        options = {"mode": mode, "scale_factor": factor or m / n}
        if not axis.aligned and not torch_is_ambiguous((n,), options):
            yield mode, None, axis.nearest(exact="exact" in mode)


@pytest.mark.parametrize("precision", [np.float32, np.float64], ids=lambda p: p.__name__)
def test_indices_and_weights_of_interpolate_are_those_of_pytorch(precision):
    torch = pytest.importorskip("torch")
    close = {"rtol": 0, "atol": 4e-6 if precision is np.float32 else 1e-13}
    dtype = torch.float32 if precision is np.float32 else torch.float64
    for (n, m, factor), aligned in itertools.product(AXES, (False, True)):
        for mode, options, table in tables_of(Axis(n, m, factor, aligned, precision)):
            # PyTorch's result for a unit matrix is the matrix of its weights.
            x = torch.eye(n, dtype=dtype)
            size = {"size": m} if factor is None else {"scale_factor": factor}
            if mode.startswith("bi"):
                x = x[:, None, None]
                size = {name: (1, value) for name, value in size.items()}
            else:
                x = x[:, None]
            keywords = {} if options is None else {"align_corners": aligned, **options}
            want = torch.nn.functional.interpolate(x, mode=mode, **size, **keywords)
            want = want.reshape(n, m).T.numpy()
            message = str((mode, n, m, factor, aligned))
            if "nearest" in mode:
                np.testing.assert_array_equal(dense(table), want, err_msg=message)
            else:
                np.testing.assert_allclose(dense(table), want, err_msg=message, **close)


def test_the_nearest_element_of_interpolate_depends_on_the_precision():
    wanted = {
        dtype: Axis(98, 166, None, False, dtype).nearest(exact=False).index[:, 0].tolist()
        for dtype in (np.float32, np.float64)
    }
    assert wanted[np.float32] != wanted[np.float64]
    with jax.enable_x64(True):
        for dtype, index in wanted.items():
            assert interpolate(np.arange(98, dtype=dtype)[None, None], 166)[0, 0].tolist() == index
    narrow = interpolate(np.arange(98, dtype=np.float16)[None, None], 166)[0, 0]
    assert narrow.tolist() == wanted[np.float32]


@pytest.mark.parametrize(
    "op",
    [
        lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1),
        lambda x: interpolate(x, scale_factor=1.7, mode="bicubic"),
        lambda x: F.pad(x, (4, 3, 2, 4), "reflect"),
    ],
    ids=["avg_pool2d", "interpolate", "pad"],
)
def test_the_tangent_of_a_linear_op_has_its_bits(op):
    x, t = normal((3, 2, 5, 6)), normal((3, 2, 5, 6), 1)
    want, tangent = jax.jit(lambda x, t: (op(t), jax.jvp(op, (x,), (t,))[1]))(x, t)
    assert_same_bits(tangent, want)
