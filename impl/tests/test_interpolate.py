"""interpolate: values and gradients, positions and weights."""

import itertools
import os

import jax
import numpy as np
import pytest

import impl
from impl.nn.functional._resampling import Axis
from impl.tests._resampling import applied, array, matrices, outputs

interpolate = impl.nn.functional.interpolate
pytestmark = pytest.mark.usefixtures("complete")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
#: HYPOTHESIS_PROFILE=thorough tries as many as PyTorch is compared with.
DRAWN = 45
TRIED = DRAWN if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 3
#: Factors that floats round badly, beside some that they do not.
FACTORS = (1 / 3, 2.6, 0.7, 1.1, 2 / 3, 0.3, 3.3, 1.7, 2.0, 0.5, 1.0, 2.05)
KINDS = [
    ("nearest", (5,), {}),
    ("nearest", (4, 7), {}),
    ("nearest-exact", (4, 7), {}),
    ("nearest-exact", (3, 4, 2), {}),
    ("linear", (9,), {}),
    ("linear", (9,), {"align_corners": True}),
    ("bilinear", (6, 5), {}),
    ("bilinear", (6, 5), {"align_corners": True}),
    ("bilinear", (9, 8), {"antialias": True}),
    ("bicubic", (6, 5), {}),
    ("bicubic", (6, 5), {"align_corners": True}),
    ("bicubic", (9, 8), {"antialias": True}),
    ("bicubic", (9, 8), {"antialias": True, "align_corners": True}),
    ("trilinear", (3, 4, 2), {}),
    ("area", (7,), {}),
    ("area", (6, 5), {}),
    ("area", (3, 4, 2), {}),
]


def drawn(kind):
    """Shapes and keywords."""
    mode, sizes, options = KINDS[kind]
    rng = np.random.default_rng(kind)
    calls = []
    while len(calls) < DRAWN:
        shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *sizes)
        given = {"mode": mode, **options}
        choice = len(calls) % 4
        if choice == 0:
            given["size"] = tuple(int(m) for m in rng.integers(1, 2 * max(sizes), len(sizes)))
        elif choice == 1:
            given["size"] = int(rng.integers(1, 9))
        else:
            factors = tuple(float(f) for f in rng.choice(FACTORS, len(sizes)))
            given["scale_factor"] = factors if choice == 2 else factors[0]
            given["recompute_scale_factor"] = [True, False, None][rng.integers(3)]
        if min(outputs(sizes, given)[0]) > 0:
            calls.append((shape, given))
    return calls


@pytest.mark.parametrize("part", range(3))
def test_values_and_gradients(part):
    calls = [call for kind in range(part, len(KINDS), 3) for call in drawn(kind)[:TRIED]]

    # One program for all: compiling each takes longer.
    @jax.jit
    def run(arrays, cotangents):
        results = []
        for x, ct, (_, given) in zip(arrays, cotangents, calls, strict=True):
            out, pullback = jax.vjp(lambda x, given=given: interpolate(x, **given), x)
            results.append((out, pullback(ct)[0]))
        return results

    arrays = [array(shape) for shape, _ in calls]
    every = [matrices(shape[2:], given) for shape, given in calls]
    wanted = [applied(x, ms) for x, ms in zip(arrays, every, strict=True)]
    cotangents = [array(out.shape, 1) for out in wanted]
    results = run(arrays, cotangents)
    for got, want, ct, ms, call in zip(results, wanted, cotangents, every, calls, strict=True):
        assert got[0].dtype == np.float32
        np.testing.assert_allclose(got[0], want, err_msg=str(call), **CLOSE)
        np.testing.assert_allclose(
            got[1], applied(ct, [m.T for m in ms]), err_msg=str(call), **CLOSE
        )


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_reference_is_pytorch(kind):
    torch = pytest.importorskip("torch")
    for shape, given in drawn(kind):
        if one_of_many(shape[2:], given):
            continue
        x = torch.tensor(array(shape), requires_grad=True)
        ms = matrices(shape[2:], given)
        out = torch.nn.functional.interpolate(x, **given)
        want = applied(array(shape), ms)
        np.testing.assert_allclose(out.detach(), want, err_msg=str((shape, given)), **CLOSE)
        ct = array(out.shape, 1)
        got = torch.autograd.grad(out, x, torch.tensor(ct))[0]
        want = applied(ct, [m.T for m in ms])
        np.testing.assert_allclose(got, want, err_msg=str((shape, given)), **CLOSE)


def one_of_many(sizes, given):
    """Whether PyTorch has several answers: by the number of dimensions, and for the gradient."""
    asked, factors = outputs(sizes, given)
    if given.get("antialias"):
        # A dimension that keeps its size is not scaled, but the gradient is. And where the last
        # size of several is 1, what is read are the elements of other rows.
        same = any(f and f != 1 and n == m for n, m, f in zip(sizes, asked, factors, strict=True))
        return same or asked[-1] == 1
    # Where a factor leaves or doubles the size, and is not their ratio, some kernels go by that.
    return given["mode"].startswith("nearest") and any(
        f and f != m / n and m in (n, 2 * n) for n, m, f in zip(sizes, asked, factors, strict=True)
    )


AXES = [
    (n, int(n * f), f if given else None)
    for n, f, given in itertools.product((1, 3, 10, 56, 199), FACTORS, (False, True))
    if int(n * f)
]


@pytest.mark.parametrize("precision", [np.float32, np.float64], ids=lambda p: p.__name__)
def test_positions_and_weights_are_those_of_pytorch(precision):
    torch = pytest.importorskip("torch")
    close = {"rtol": 0, "atol": 4e-6 if precision is np.float32 else 1e-13}

    def dense(table):
        out = np.zeros((table.outputs, table.inputs))
        for t in range(table.shape[1]):
            weight = 1 if table.weight is None else table.weight[:, t]
            rows = np.arange(table.outputs)
            out[rows, table.index[:, t]] += np.where(table.index[:, t] >= 0, weight, 0)
        return out

    for (n, m, factor), aligned in itertools.product(AXES, (False, True)):
        axis = Axis(n, m, factor, aligned, precision)
        tables = [("linear", {}, axis.linear()), ("bicubic", {}, axis.cubic())]
        for cubic in (False, True):
            mode = "bicubic" if cubic else "bilinear"
            tables.append((mode, {"antialias": True}, axis.antialiased(cubic=cubic)))
        if not aligned:
            tables += [
                (mode, None, axis.nearest(exact="exact" in mode))
                for mode in ("nearest", "nearest-exact")
                if not one_of_many((n,), {"mode": mode, "scale_factor": factor or m / n})
            ]
        for mode, options, table in tables:
            x = torch.eye(n, dtype=torch.float32 if precision is np.float32 else torch.float64)
            by = {"size": m} if factor is None else {"scale_factor": factor}
            if mode.startswith("bi"):
                x = x[:, None, None]
                by = {name: (1, value) for name, value in by.items()}
            else:
                x = x[:, None]
            by |= {} if options is None else {"align_corners": aligned, **options}
            want = torch.nn.functional.interpolate(x, mode=mode, **by)
            want = want.reshape(n, m).T.numpy()
            where = str((mode, n, m, factor, aligned))
            if "nearest" in mode:
                np.testing.assert_array_equal(dense(table), want, err_msg=where)
            else:
                np.testing.assert_allclose(dense(table), want, err_msg=where, **close)


def test_the_nearest_element_goes_by_the_precision_of_the_dtype():
    wanted = {
        d: Axis(98, 166, None, False, d).nearest(exact=False) for d in (np.float32, np.float64)
    }
    wanted = {dtype: table.index[:, 0].tolist() for dtype, table in wanted.items()}
    assert wanted[np.float32] != wanted[np.float64]
    with jax.enable_x64(True):
        for dtype, index in wanted.items():
            assert interpolate(np.arange(98, dtype=dtype)[None, None], 166)[0, 0].tolist() == index
    narrow = interpolate(np.arange(98, dtype=np.float16)[None, None], 166)[0, 0]
    assert narrow.tolist() == wanted[np.float32]
