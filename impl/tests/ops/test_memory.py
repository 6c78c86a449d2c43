"""empty and its relatives, and resize: shapes, dtypes, values.

Tests: impl.utils.deterministic.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits

complete = pytest.mark.usefixtures("complete")

#: For each op a call that makes an array of shape [2, 3] without a value of its own.
MAKERS = {
    "empty": lambda dtype: impl.empty(2, 3, dtype=dtype),
    "empty_like": lambda dtype: impl.empty_like(np.zeros((2, 3), np.int8), dtype=dtype),
    "empty_strided": lambda dtype: impl.empty_strided((2, 3), (1, 2), dtype=dtype),
    "empty_permuted": lambda dtype: impl.empty_permuted((2, 3), (1, 0), dtype=dtype),
    "new_empty": lambda dtype: impl.new_empty(jnp.zeros((1,), jnp.int8), 2, 3, dtype=dtype),
    "new_empty_strided": lambda dtype: impl.new_empty_strided(
        jnp.zeros((1,), jnp.int8), (2, 3), (1, 2), dtype=dtype
    ),
    "resize": lambda dtype: impl.resize(jnp.zeros((0,), dtype), 2, 3),
}
every_op = pytest.mark.parametrize("op", MAKERS)
KNOWN = {
    "float32": np.nan,
    "float16": np.nan,
    "bfloat16": np.nan,
    "float8_e4m3fn": np.nan,
    "complex64": complex(np.nan, 0),
    "int8": 127,
    "int16": 2**15 - 1,
    "int32": 2**31 - 1,
    "uint8": 255,
    "uint16": 2**16 - 1,
    "uint32": 2**32 - 1,
    "int4": 7,
    "bool": True,
}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@complete
@every_op
def test_fresh_memory_holds_the_known_value(op):
    compiled = jax.jit(lambda: {name: MAKERS[op](dtype_of(name)) for name in KNOWN})()
    eager = {"float32": MAKERS[op](np.float32), "int8": MAKERS[op](np.int8)}
    for name, got in [*compiled.items(), *eager.items()]:
        assert_same_bits(got, np.full((2, 3), KNOWN[name], dtype_of(name)), name)
    gpu_program = impl.testing.lower(lambda: MAKERS[op](np.float32)).as_text()
    assert "AllocateBuffer" not in gpu_program
    assert "0x7FC00000" in gpu_program
    with impl.deterministic(profile="torch-1.10"):  # Its rows do not list the op.
        assert np.isnan(MAKERS[op](np.float32)).all()


@complete
def test_wide_dtypes_hold_the_known_value():
    wide = {"int64": 2**63 - 1, "float64": np.nan, "complex128": np.nan + 0j}
    with jax.enable_x64(True):
        for name, got in jax.jit(lambda: {n: impl.empty(3, dtype=n) for n in wide})().items():
            assert_same_bits(got, np.full(3, wide[name], name))
        assert impl.empty(3).dtype == np.float64
    for name, half in {"int64": "int32", "float64": "float32", "complex128": "complex64"}.items():
        assert impl.empty(3, dtype=name).dtype == half
    assert impl.empty(3).dtype == np.float32


@complete
@pytest.mark.parametrize("name", ["float32", "bfloat16", "complex64", "int32", "uint8", "bool"])
def test_known_values_are_those_of_torch(deterministic_torch, name):
    torch, wide = deterministic_torch, np.complex64 if name == "complex64" else np.float64
    theirs = torch.empty(3, dtype=getattr(torch, name))
    want = (theirs.double() if name == "bfloat16" else theirs).numpy().astype(wide)
    np.testing.assert_array_equal(np.asarray(impl.empty(3, dtype=name)).astype(wide), want)


@every_op
@pytest.mark.parametrize("reason", ["mode off", "setting off"])
def test_memory_is_not_filled(op, reason):
    impl.utils.deterministic.fill_uninitialized_memory = reason != "setting off"
    with impl.deterministic(reason != "mode off", profile="complete"):
        gpu_program = impl.testing.lower(lambda: MAKERS[op](np.float32)).as_text()
        on_cpu = MAKERS[op](np.float32)
    # On a GPU the memory is not written to; on a CPU JAX has no such array.
    assert "AllocateBuffer" in gpu_program
    assert "0x7FC00000" not in gpu_program
    np.testing.assert_array_equal(on_cpu, np.zeros((2, 3)))


@complete
def test_a_change_of_the_setting_retraces():
    last = jax.jit(lambda x: impl.resize(x, 3)[2])
    filled = []
    for setting in (True, False, True):
        impl.utils.deterministic.fill_uninitialized_memory = setting
        filled.append(bool(jnp.isnan(last(jnp.ones(2)))))
    assert filled == [True, False, True]


@complete
def test_sizes_are_given_as_in_torch():
    x = jnp.arange(6)
    for shape in ((), (0,), (2,), (2, 0, 3)):
        assert impl.empty(shape).shape == impl.empty(size=shape).shape == shape
        assert impl.resize(x, size=shape).shape == impl.resize(x, shape).shape == shape
        assert impl.empty(list(shape)).shape == impl.new_empty(x, shape).shape == shape
    assert impl.empty(2, np.int64(3)).shape == impl.new_empty(x, 2, 3).shape == (2, 3)
    assert impl.new_empty(x, 2).dtype == impl.empty_like(x).dtype == x.dtype
    assert impl.empty_strided([2, 3], [0, 1]).shape == (2, 3)
    assert impl.new_empty_strided(x, [2, 3], [0, 1]).dtype == x.dtype
    assert impl.empty_permuted([2, 3, 5], [0, 2, 1]).shape == (2, 3, 5)
    assert impl.empty_strided((), ()).shape == impl.empty_permuted((), ()).shape == ()
    assert impl.empty(2, device=None, pin_memory=False, requires_grad=False).shape == (2,)


# resize.


@complete
def test_transformations_of_resize():
    x = jnp.arange(6.0).reshape(2, 3)
    rows = jax.vmap(lambda row: impl.resize(row, 5))(x)
    np.testing.assert_array_equal(rows, np.pad(x, ((0, 0), (0, 2)), constant_values=np.nan))
    gradient = jax.grad(lambda x: jnp.vdot(jnp.arange(1.0, 5.0), impl.resize(x, 8)[:4]))(x)
    np.testing.assert_array_equal(gradient, [[1, 2, 3], [4, 0, 0]])
    longer, tangent = jax.jvp(lambda x: impl.resize(x, 8), (x,), (x,))
    np.testing.assert_array_equal(tangent, [*range(6), 0, 0])
    assert np.isnan(longer[6:]).all()
