"""Quantized arrays: codes and floats have the bits of PyTorch's; ``resize`` and ``index_put``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits, bits

# They are made of ops, whose primitives have tests on every release of JAX.
pytestmark = pytest.mark.once

STORED = {"quint8": np.uint8, "qint8": np.int8, "qint32": np.int32}
POINTS = {
    "quint8": (0, 3, 100, 255),
    "qint8": (-128, 0, 5, 127),
    "qint32": (0, -5, 12345, -(2**31), 2**31 - 1),
}
SCALES = (0.1, 0.5, 1 / 3, 7.7)


def floats(dtype, scale, count=999):
    """Floats, many of which are halfway between two codes."""
    rng = np.random.default_rng((count, int(scale * 1000)))
    many = 100 if dtype != "qint32" else 2.0 ** rng.integers(0, 34, count)
    x = (rng.normal(size=count) * scale * many).astype(np.float32)
    x[::3] = (np.rint(x[::3] / np.float32(scale)) + np.float32(0.5)) * np.float32(scale)
    x[:6] = [np.nan, np.inf, -np.inf, 0, -0.0, 1e30]
    return x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("jitted", [False, True])
def test_codes_and_floats_are_those_of_torch(torch, dtype, jitted):
    def codes_and_floats(x, scale, point):
        q = impl.quantize_per_tensor(x, scale, point, dtype)
        return q.int_repr, impl.dequantize(q)

    run = jax.jit(codes_and_floats) if jitted else codes_and_floats
    for scale in SCALES if jitted else SCALES[2:3]:
        for point in POINTS[dtype]:
            x = floats(dtype, scale)
            expected = torch.quantize_per_tensor(
                torch.from_numpy(x), scale, point, getattr(torch, dtype)
            )
            result, floats_again = run(x, scale, point)
            assert_same_bits(result, expected.int_repr().numpy())
            assert_same_bits(floats_again, expected.dequantize().numpy())


@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_constants_are_not_folded_into_other_codes(dtype):
    x = jnp.asarray(floats(dtype, 0.1))
    point = POINTS[dtype][2]
    whole = jax.jit(lambda x: impl.quantize_per_tensor(x, 0.1, point, dtype).int_repr)(x)
    assert_same_bits(whole, impl.quantize_per_tensor(x, 0.1, point, dtype).int_repr)
    shifted = np.asarray(x, np.longdouble) * np.longdouble(np.float32(1) / np.float32(0.1)) + point
    shifted = np.rint(shifted[6:].astype(np.float32))
    limits = np.iinfo(STORED[dtype])
    np.testing.assert_array_equal(whole[6:], np.clip(shifted, limits.min, limits.max))


def test_a_product_is_not_contracted_with_a_later_sum():
    q = impl.quantize_per_tensor(jnp.linspace(-9, 9, 999), 0.1, 100, impl.quint8)
    y = jnp.asarray(np.random.default_rng(0).normal(size=999), jnp.float32)
    together = jax.jit(lambda q, y: impl.dequantize(q) + y)(q, y)
    assert_same_bits(together, np.asarray(impl.dequantize(q)) + np.asarray(y))


def test_it_is_a_pytree_with_a_shape():
    q = impl.quantize_per_tensor(np.ones((2, 3), np.float32), 0.5, 1, impl.qint8)
    assert (q.shape, q.ndim, q.dtype) == ((2, 3), 2, "qint8")
    assert [leaf.dtype for leaf in jax.tree.leaves(q)] == ["int8", "float32", "int32"]
    assert jax.tree.unflatten(jax.tree.structure(q), jax.tree.leaves(q)).dtype == "qint8"
    same = jax.jit(lambda q: q)(q)
    assert isinstance(same, impl.QuantizedArray)
    assert bits(same.int_repr) == bits(q.int_repr)


def test_under_vmap_each_has_its_own_scale():
    x, scales, points = jnp.ones((3, 2)), jnp.array([0.1, 0.2, 0.5]), jnp.array([0, 5, 9])
    make = jax.vmap(lambda x, s, z: impl.quantize_per_tensor(x, s, z, impl.quint8))
    q = make(x, scales, points)
    np.testing.assert_array_equal(q.int_repr, [[10, 10], [10, 10], [11, 11]])
    np.testing.assert_array_equal(jax.vmap(impl.dequantize)(q), x)
    impl.use_deterministic_algorithms(True, profile="complete")
    longer = jax.jit(jax.vmap(lambda q: impl.resize(q, 3)))(q)
    np.testing.assert_array_equal(longer.int_repr[:, 2], points)


def test_an_array_of_floats_is_converted_to_float32():
    assert bits(impl.dequantize(jnp.arange(3, dtype=jnp.float16))) == bits(np.float32([0, 1, 2]))


def test_codes_have_no_gradient():
    def loss(x):
        return impl.dequantize(impl.quantize_per_tensor(x, 0.5, 1, impl.quint8)).sum()

    np.testing.assert_array_equal(jax.grad(loss)(jnp.ones(3)), np.zeros(3))


CODES = impl.quantize_per_tensor(np.arange(6, dtype=np.float32).reshape(2, 3), 0.5, 7, impl.quint8)


def test_resize_raises_where_it_is_listed():
    message = r"quantized_resize_cpu_ does not have .*torch-2\.12.*R0164"
    resize = lambda: impl.resize(CODES, 3, 4).int_repr  # noqa: E731
    with impl.deterministic(profile="torch-2.12"):
        with pytest.raises(RuntimeError, match=message):
            resize()
        with pytest.raises(RuntimeError, match=message):
            jax.jit(resize)()
    with impl.deterministic(warn_only=True), pytest.warns(UserWarning, match="quantized_resize"):
        resize()
    with impl.deterministic(profile="torch-1.10"):
        resize()


@pytest.mark.parametrize("size", [(), (0,), (4,), (3, 4)])
@pytest.mark.parametrize("enabled", [False, True])
def test_resize_adds_the_zero_point(size, enabled):
    with impl.deterministic(enabled, profile="complete"):
        result = impl.resize(CODES, size)
    expected = np.concatenate([np.asarray(CODES.int_repr).reshape(-1), np.full(6, 7, np.uint8)])
    assert_same_bits(result.int_repr, expected[: int(np.prod(size))].reshape(size))
    assert (result.dtype, float(result.scale), int(result.zero_point)) == ("quint8", 0.5, 7)
    np.testing.assert_array_equal(impl.dequantize(result).reshape(-1)[6:], 0)


def test_the_setting_does_not_matter_to_a_quantized_array():
    impl.utils.deterministic.fill_uninitialized_memory = False
    with impl.deterministic(), pytest.raises(RuntimeError, match="quantized_resize_cpu_"):
        impl.resize(CODES, 9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("enabled", [False, True])
def test_index_put_is_that_of_torch(torch, enabled):
    def of_torch():
        x = torch.arange(6.0).reshape(2, 3)
        return torch.quantize_per_tensor(x, 0.5, 7, torch.quint8)

    rng = np.random.default_rng(0)
    several = ((np.array([0, 1, 0, 0]),), (4, 3))
    impl.use_deterministic_algorithms(enabled)
    for index, shape in [
        ((np.array([1, 0]),), (2, 3)),
        ((np.array([1]), np.array([-1])), (1,)),
        ((np.array([True, False]),), ()),
        *[several] * enabled,
    ]:
        values = (rng.normal(size=shape) * 60).astype(np.float32)
        expected = of_torch().index_put_(
            tuple(map(torch.from_numpy, index)), torch.from_numpy(np.asarray(values))
        )
        result = impl.index_put(CODES, index, values)
        assert_same_bits(result.int_repr, expected.int_repr().numpy())
        assert (result.dtype, float(result.scale), int(result.zero_point)) == ("quint8", 0.5, 7)


@pytest.mark.usefixtures("complete")
def test_index_put_under_jit_and_vmap():
    i, v = jnp.array([0, 0, 5]), jnp.array([[1.0], [2.0], [3.0]])
    out = jax.jit(lambda q, i, v: impl.index_put(q, (i,), v))(CODES, i, v)
    np.testing.assert_array_equal(out.int_repr, [[11, 11, 11], [13, 15, 17]])
    mask = jnp.array([True, False])
    out = jax.jit(lambda q, m: impl.index_put(q, (m,), jnp.float32(9)))(CODES, mask)
    np.testing.assert_array_equal(out.int_repr, [[25, 25, 25], [13, 15, 17]])
    each = jax.vmap(lambda i: impl.index_put(CODES, (i[None],), jnp.ones((1, 3))).int_repr)(i[:2])
    np.testing.assert_array_equal(each[:, 0], np.full((2, 3), 9))


X = np.ones((2, 3), np.float32)
Q = "quantize_per_tensor"
ERRORS = [
    (Q, (2.0, 0.5, 2, "quint8"), TypeError, "argument 'input' must be a jax.Array"),
    (Q, (X.astype(np.float64).astype(np.float16), 0.5, 2, "quint8"), RuntimeError, "of float32"),
    (Q, (X.astype(np.int32), 0.5, 2, "quint8"), RuntimeError, "float32, got int32"),
    (Q, (X, "a", 2, "quint8"), TypeError, "argument 'scale' must be a float .*not str"),
    (Q, (X, 1j, 2, "quint8"), TypeError, "argument 'scale' must be a float"),
    (Q, (X, np.ones(2), 2, "quint8"), TypeError, "argument 'scale' must be a float"),
    (Q, (X, 0.5, 2.5, "quint8"), TypeError, "argument 'zero_point' must be a int .*not float"),
    (Q, (X, 0.5, np.float32(2), "quint8"), TypeError, "argument 'zero_point' must be a int"),
    (Q, (X, 0.5, 300, "quint8"), RuntimeError, "'zero_point' must be from 0 to 255 .*got 300"),
    (Q, (X, 0.5, jnp.array(-1), "quint8"), RuntimeError, "from 0 to 255 for quint8, got -1"),
    (Q, (X, 0.5, -129, "qint8"), RuntimeError, "from -128 to 127 for qint8, got -129"),
    (Q, (X, 0.5, 2**31, "qint32"), RuntimeError, "for qint32, got 2147483648"),
    (Q, (X, 0.5, 2, "uint8"), RuntimeError, "'dtype' must be one of 'quint8', 'qint8', 'qint32'"),
    (Q, (X, 0.5, 2, np.uint8), TypeError, "argument 'dtype' must be str"),
    ("dequantize", (2,), TypeError, "argument 'input' must be a jax.Array"),
    ("resize", (CODES, -1), RuntimeError, "negative dimension -1"),
    ("index_put", (CODES, (np.array([0]),), X[:1], True), RuntimeError, "'accumulate' must be Fal"),
    ("index_put", (CODES, (np.array([0]),), CODES), RuntimeError, "'values' must not be quantized"),
    ("index_put", (CODES, (np.array([0]),), np.array([1])), RuntimeError, "'values' must be of fl"),
    ("index_put", (CODES, (np.array([0]),), 2.0), TypeError, "argument 'values' must be a jax.Arr"),
    ("index_put", (CODES, (np.array([5]),), X[:1]), IndexError, "index 5 is out of bounds"),
    ("index_put", (CODES, (np.array([0]),), X[:, :2]), RuntimeError, "shape mismatch"),
    ("index_put", (CODES, (np.array([0]),), X[:1], 1), TypeError, "'accumulate' must be bool"),
    ("empty_like", (CODES,), TypeError, "'input' must be a jax.Array.*not QuantizedArray"),
]


@pytest.mark.parametrize(("op", "args", "error", "message"), ERRORS)
def test_bad_arguments(op, args, error, message):
    with pytest.raises(error, match=message) as caught:
        getattr(impl, op)(*args)
    assert str(caught.value).startswith(f"{op}()")
