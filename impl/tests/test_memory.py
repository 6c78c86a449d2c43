"""empty and its kin, and resize: shapes, dtypes, what fresh memory holds, and bad arguments."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import impl
from impl._mode import modes
from impl.tests._support import bits

MAKERS = {
    "empty": lambda dtype: impl.empty(2, 3, dtype=dtype),
    "empty_like": lambda dtype: impl.empty_like(np.zeros((2, 3), np.int8), dtype=dtype),
    "empty_strided": lambda dtype: impl.empty_strided((2, 3), (1, 2), dtype=dtype),
    "empty_permuted": lambda dtype: impl.empty_permuted((2, 3), (1, 0), dtype=dtype),
    "new_empty": lambda dtype: impl.new_empty(jnp.zeros((1,), jnp.int8), 2, 3, dtype=dtype),
    "resize": lambda dtype: impl.resize(jnp.zeros((0,), dtype), 2, 3),
}
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


@pytest.fixture
def torch():
    module = pytest.importorskip("torch", reason="compares with PyTorch")
    module.use_deterministic_algorithms(True)
    yield module
    module.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize("op", MAKERS)
@pytest.mark.parametrize("name", KNOWN)
def test_fresh_memory_holds_the_known_value(op, name):
    dtype = dtype_of(name)
    assert bits(MAKERS[op](dtype)) == bits(np.full((2, 3), KNOWN[name], dtype))


@pytest.mark.usefixtures("complete")
def test_wide_dtypes_hold_the_known_value():
    for name, value in {"int64": 2**63 - 1, "float64": np.nan, "complex128": np.nan + 0j}.items():
        with jax.enable_x64(True):
            assert bits(impl.empty(3, dtype=name)) == bits(np.full(3, value, name))
            assert impl.empty(3).dtype == np.float64
        half = {"int64": "int32", "float64": "float32", "complex128": "complex64"}[name]
        assert impl.empty(3, dtype=name).dtype == half
    assert impl.empty(3).dtype == np.float32


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize("name", ["float32", "bfloat16", "complex64", "int32", "uint8", "bool"])
def test_known_values_are_those_of_torch(torch, name):
    wide = np.complex64 if name == "complex64" else np.float64
    wanted = torch.empty(3, dtype=getattr(torch, name))
    wanted = (wanted.double() if name == "bfloat16" else wanted).numpy().astype(wide)
    np.testing.assert_array_equal(np.asarray(impl.empty(3, dtype=name)).astype(wide), wanted)


@pytest.mark.parametrize("op", MAKERS)
@pytest.mark.parametrize("reason", ["mode off", "setting off", "not listed"])
def test_memory_is_not_filled_where_the_mode_does_not_say_so(op, reason):
    profile = "torch-1.10" if reason == "not listed" else "complete"
    impl.utils.deterministic.fill_uninitialized_memory = reason != "setting off"
    with impl.deterministic(reason != "mode off", profile=profile):
        lowered = impl.testing.lower(lambda: MAKERS[op](np.float32)).as_text()
        here = MAKERS[op](np.float32)
    # On a GPU nobody writes to it; on a CPU JAX has no such array.
    assert "AllocateBuffer" in lowered
    assert "0x7FC00000" not in lowered
    np.testing.assert_array_equal(here, np.zeros((2, 3)))


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize("op", MAKERS)
def test_on_a_gpu_memory_is_filled_where_the_mode_says_so(op):
    lowered = impl.testing.lower(lambda: MAKERS[op](np.float32)).as_text()
    assert "AllocateBuffer" not in lowered
    assert "0x7FC00000" in lowered


@pytest.mark.usefixtures("complete")
def test_a_change_of_the_setting_retraces():
    made = jax.jit(lambda x: impl.resize(x, 3)[2])
    found = []
    for setting in (True, False, True):
        impl.utils.deterministic.fill_uninitialized_memory = setting
        found.append(bool(jnp.isnan(made(jnp.ones(2)))))
    assert found == [True, False, True]


@pytest.mark.parametrize("fill", [True, False])
def test_whether_memory_is_filled_takes_the_mode_and_the_setting(fill):
    modes.set_fill_uninitialized_memory(fill)
    assert not modes.fills()
    with impl.deterministic():
        assert modes.fills() == fill


def test_sizes_are_given_as_in_torch():
    x = jnp.arange(6)
    for shape in ((), (0,), (2,), (2, 0, 3)):
        assert impl.empty(shape).shape == impl.empty(size=shape).shape == shape
        assert impl.empty(list(shape)).shape == impl.new_empty(x, shape).shape == shape
        assert impl.resize(x, size=shape).shape == impl.resize(x, shape).shape == shape
    assert impl.empty(2, np.int64(3)).shape == impl.new_empty(x, 2, 3).shape == (2, 3)
    assert impl.new_empty(x, 2).dtype == impl.empty_like(x).dtype == x.dtype
    assert impl.empty_strided([2, 3], [0, 1]).shape == (2, 3)
    assert impl.empty_permuted([2, 3, 5], [0, 2, 1]).shape == (2, 3, 5)
    assert impl.empty_strided((), ()).shape == impl.empty_permuted((), ()).shape == ()
    assert impl.empty(2, device=None, pin_memory=False, requires_grad=False).shape == (2,)


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "bool"])
def test_resize_is_that_of_torch(torch, dtype):
    for old in ((), (5,), (2, 3), (2, 0)):
        x = np.random.default_rng(0).normal(size=old).astype(dtype)
        for new in ((), (0,), (4,), (3, 3), (1, 2, 2)):
            wanted = torch.from_numpy(np.array(x)).clone().resize_(new).numpy()
            np.testing.assert_array_equal(impl.resize(x, new), wanted, err_msg=f"{old} to {new}")


@pytest.mark.usefixtures("complete", "lowering")
def test_resize_goes_by_rows_and_adds_the_new_tail_alone():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)).T
    wanted = np.concatenate([np.asarray(x).reshape(-1), [np.nan] * 6]).astype(np.float32)
    assert bits(impl.resize(x, 3, 4)) == bits(wanted.reshape(3, 4))
    assert bits(impl.resize(x, 2, 2)) == bits(wanted[:4].reshape(2, 2))


@pytest.mark.usefixtures("complete")
def test_under_transformations():
    x = jnp.arange(6.0).reshape(2, 3)
    each = jax.vmap(lambda row: impl.resize(row, 5))(x)
    np.testing.assert_array_equal(each, np.pad(x, ((0, 0), (0, 2)), constant_values=np.nan))
    np.testing.assert_array_equal(jax.vmap(impl.empty_like)(x), x + np.nan)

    def some(x):
        longer = impl.resize(x, 8)
        return jnp.vdot(jnp.arange(1.0, 5.0), longer[:4])

    wanted = [[1, 2, 3], [4, 0, 0]]
    np.testing.assert_array_equal(jax.grad(some)(x), wanted)
    np.testing.assert_array_equal(jax.jit(jax.grad(jax.checkpoint(some)))(x), wanted)
    longer, tangent = jax.jvp(lambda x: impl.resize(x, 8), (x,), (x,))
    np.testing.assert_array_equal(tangent, [*range(6), 0, 0])
    assert np.isnan(longer[6:]).all()


@pytest.mark.usefixtures("complete")
def test_inside_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    longer = jax.shard_map(lambda x: impl.resize(x, 3), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(jax.jit(longer)(jnp.ones(2)), [1, 1, np.nan])


X = jnp.zeros((2, 3))
ERRORS = [
    ("empty", (), {}, TypeError, "takes argument 'size' once"),
    ("empty", (2,), {"size": (2,)}, TypeError, "takes argument 'size' once"),
    ("empty", (2.5,), {}, TypeError, "argument 'size' must be tuple of ints, not float"),
    ("empty", (True,), {}, TypeError, "argument 'size' must be tuple of ints, not bool"),
    ("empty", ("a",), {}, TypeError, "argument 'size' must be tuple of ints, not str"),
    ("empty", (None,), {}, TypeError, "argument 'size' must be tuple of ints, not NoneType"),
    ("empty", ((2,), (3,)), {}, TypeError, r"argument 'size\[0\]' must be int, not tuple"),
    ("empty", (2, 3.0), {}, TypeError, r"argument 'size\[1\]' must be int, not float"),
    ("empty", (-1,), {}, RuntimeError, r"negative dimension -1 in argument 'size': \[-1\]"),
    ("empty", ((2, -3),), {}, RuntimeError, r"negative dimension -3 .*: \[2, -3\]"),
    ("empty", (2,), {"dtype": "text"}, TypeError, "'dtype' must be a dtype of numbers or bool"),
    ("empty", (2,), {"dtype": object}, TypeError, "'dtype' must be a dtype of numbers or bool"),
    ("empty", (2,), {"dtype": "M8[s]"}, TypeError, "'dtype' must be a dtype of numbers or bool"),
    ("empty", (2,), {"device": "cuda"}, TypeError, "'device' must be None or False.*device_put"),
    ("empty", (2,), {"requires_grad": True}, TypeError, "'requires_grad' .*jax.grad"),
    ("empty", (2,), {"colour": 1}, TypeError, "unexpected keyword argument 'colour'"),
    ("empty_like", (2,), {}, TypeError, "argument 'input' must be a jax.Array"),
    ("empty_like", (X,), {"memory_format": "channels_last"}, TypeError, "'memory_format'"),
    ("new_empty", (X,), {}, TypeError, "takes argument 'size' once"),
    ("new_empty", (X, -1), {}, RuntimeError, "negative dimension -1"),
    ("empty_strided", (2, 3), {}, TypeError, "argument 'size' must be tuple of ints, not int"),
    ("empty_strided", ((2,), 3), {}, TypeError, "argument 'stride' must be tuple of ints, not int"),
    ("empty_strided", ((2,), (1.0,)), {}, TypeError, r"argument 'stride\[0\]' must be int"),
    ("empty_strided", ((2, 3), (1,)), {}, RuntimeError, r"sizes \(2\) must match .* \(1\)"),
    ("empty_strided", ((2, 3), (-1, 2)), {}, RuntimeError, "'stride' must not be negative"),
    ("empty_strided", ((2, -3), (1, 1)), {}, RuntimeError, "negative dimension -3"),
    ("empty_permuted", ((2, 3), 0), {}, TypeError, "'physical_layout' must be tuple of ints"),
    ("empty_permuted", ((2, 3), (0,)), {}, RuntimeError, r"len\(size\) = 2 is not equal to"),
    ("empty_permuted", ((2, 3), (0, 0)), {}, RuntimeError, "Duplicate dim .* 0 again at index 1"),
    ("empty_permuted", ((2, 3), (0, 2)), {}, RuntimeError, "between 0 and 1, but got 2 at index 1"),
    ("empty_permuted", ((2, 3), (0, -1)), {}, RuntimeError, "but got -1 at index 1"),
    ("resize", (X,), {}, TypeError, "takes argument 'size' once"),
    ("resize", (X, -1), {}, RuntimeError, "negative dimension -1"),
    ("resize", (X, "a"), {}, TypeError, "argument 'size' must be tuple of ints, not str"),
    ("resize", ([1], 2), {}, TypeError, "argument 'input' must be a jax.Array"),
    ("resize", (X, 2), {"memory_format": "channels_last"}, TypeError, "'memory_format'"),
]


@pytest.mark.parametrize(("op", "args", "keywords", "error", "message"), ERRORS)
def test_bad_arguments(op, args, keywords, error, message):
    with pytest.raises(error, match=message) as caught:
        getattr(impl, op)(*args, **keywords)
    assert str(caught.value).startswith(f"{op}()")
