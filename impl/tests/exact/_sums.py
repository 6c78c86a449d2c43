"""Helpers of the tests of exact sums: numbers of many magnitudes, and comparison with oracles."""

import jax
import ml_dtypes
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from impl._exact import arithmetic

DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
}


def rough(rng, shape, dtype="float32", spread=20):
    """Returns numbers over a range of binades, whose plain sums depend on the order."""
    exponents = rng.integers(-spread, spread + 1, shape)
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * 2.0**exponents).astype(DTYPES[dtype])


def run(function, *args):
    """Returns the result of a function under jit, called as functions of impl._exact are."""
    with arithmetic.wide():
        return jax.tree.map(np.asarray, jax.jit(function)(*args))


def assert_same(got, want, label=""):
    """Raises if a bit differs, except in the payload of a NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, label
    assert got.shape == want.shape, label
    words = f"u{got.dtype.itemsize}"
    got, want = np.atleast_1d(got), np.atleast_1d(want)
    same = got.view(words) == want.view(words)
    both_nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    differs = ~(same | both_nan)
    where = np.argwhere(differs)
    assert len(where) == 0, f"{label}: at {where[0]}: {got[differs][:3]} for {want[differs][:3]}"


def lowered(function, *args):
    """Returns the result of a primitive whose lowering rule is ``function``.

    The 64 bits are allowed inside the rule alone.
    """
    primitive = Primitive("samebits_test")
    shapes = run_shapes(function, *args)
    primitive.def_abstract_eval(lambda *_: jax.core.ShapedArray(shapes.shape, shapes.dtype))

    def rule(context, *operands):
        with arithmetic.wide():
            return mlir.lower_fun(function, multiple_results=False)(context, *operands)

    mlir.register_lowering(primitive, rule)
    return jax.jit(primitive.bind)(*args)


def run_shapes(function, *args):
    with arithmetic.wide():
        return jax.eval_shape(function, *args)
