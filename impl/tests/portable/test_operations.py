"""Operations on special values give the same bits, however much XLA knows of their operands.

XLA removes an operation that it proves to do nothing, and it can prove more where a number is a
constant, or where a mesh has one device. Each primitive of the spec's classes that takes one float
or two, and gives one for each, is tried.

Tests: impl._exact.arithmetic, impl._portable.rules.exact, impl._portable.rules.extremes,
impl._portable.rules.rounding.
"""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import impl
import spec
from impl._exact import arithmetic
from impl._exact.elementary import complex_numbers
from impl._jax import lowering
from impl._portable.rules import rounding
from impl.tests.support.programs import evaluated
from spec import oracles

pytestmark = pytest.mark.usefixtures("portable")

VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, -1.5, 6e4, -1e-4, np.inf, -np.inf, np.nan)
CONSTANTS = (0.0, -0.0, 1.0, -1.0)
#: The answers whose primitives compute something, by their dtypes.
CLASSES = [
    found
    for found in spec.load().portable.values()
    if found.answer != "refused" and found.dtypes is not None
]
#: For each primitive that rounds as IEEE 754 says, NumPy's function.
IEEE = {
    "add": "add",
    "add_any": "add",
    "div": "divide",
    "mul": "multiply",
    "rem": "fmod",
    "sqrt": "sqrt",
    "sub": "subtract",
}


@functools.cache
def elementwise(dtype, number):
    """Returns by name the functions of ``number`` arrays whose result has the arrays' shape."""
    primitives = {primitive.name: primitive for primitive in lowering.primitives()}
    found = {}
    for each in CLASSES:
        if each.dtypes is not None and dtype not in each.dtypes:
            continue
        for name in each.primitives & primitives.keys():
            function = getattr(lax, name, primitives[name].bind)
            if is_elementwise(function, dtype, number):
                found[name] = function
    return found


def is_elementwise(function, dtype, number):
    array = jax.ShapeDtypeStruct((3,), dtype)
    try:
        result = jax.eval_shape(function, *[array] * number)
    except Exception:  # noqa: BLE001  # A primitive may raise anything for operands that it does not take.
        return False
    return getattr(result, "shape", None) == (3,)


def bits(value):
    """Returns an array with one NaN, as bytes that can be compared."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return bits(array.real) + bits(array.imag)
    wide = array.astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide).tobytes()


def with_constants(functions, x, known=lax.full_like):
    """Returns the results of functions of two operands, of which one is a constant."""
    return {
        (name, number): (function(x, known(x, number)), function(known(x, number), x))
        for name, function in functions.items()
        for number in CONSTANTS
    }


def on_one_device(function):
    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    shard = jax.shard_map(function, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    return jax.jit(shard)


def proved(value, number):
    """Returns a number that XLA knows where a mesh has one device."""
    other = lax.full_like(value, 3)
    return jnp.where(lax.axis_index("a") >= 8, other, lax.full_like(value, number))


def different(found, expected):
    pairs = {name: zip(found[name], expected[name], strict=True) for name in expected}
    return {name for name, both in pairs.items() if any(bits(a) != bits(b) for a, b in both)}


@pytest.mark.parametrize(
    "dtype",
    ["float32", pytest.param("bfloat16", marks=pytest.mark.once), "complex64", "complex128"],
)
def test_what_xla_knows_of_an_operand_changes_no_bit(dtype):
    with jax.enable_x64(dtype == "complex128"):
        check_what_xla_knows(dtype)


def check_what_xla_knows(dtype):
    functions = elementwise(dtype, 2)
    assert {"add", "sub", "mul", "add_any"} <= functions.keys()
    x = jnp.array(VALUES, dtype)
    # The constants are arguments here, so that XLA does not know their values.
    tried = jax.jit(lambda x, known: with_constants(functions, x, lambda _, n: known[n]))
    expected = tried(x, {n: jnp.full(x.shape, n, dtype) for n in CONSTANTS})
    constant = jax.jit(functools.partial(with_constants, functions))
    assert different(constant(x), expected) == set()
    local = functools.partial(with_constants, functions, known=proved)
    assert different(on_one_device(local)(x), expected) == set()


def test_a_zero_that_xla_knows_is_added_to_a_scalar():
    assert not np.signbit(jax.jit(lambda x: x + 0.0)(jnp.float32(-0.0)))


def test_a_zero_that_xla_knows_is_added_to_the_parts_of_a_complex_number():
    @jax.jit
    def with_zero(x):
        with arithmetic.wide():
            return complex_numbers.add(x, lax.full_like(x, 0))

    with impl.deterministic(False):  # The mode would seal the sum too.
        total = np.asarray(with_zero(np.full(3, complex(-0.0, -0.0), np.complex64)))
    assert not np.signbit(total.view(np.float32)).any()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    "inside",
    [
        jax.vmap,
        jax.pmap,
        on_one_device,
        lambda function: functools.partial(lax.map, function),
        lambda function: lambda x: x.at[np.arange(len(x))].apply(function),
        lambda function: lambda x: lax.cond(x[0, 0] < 9, function, jnp.sin, x),
    ],
)
def test_products_are_sealed_wherever_xla_compiles_them(inside, dtype):
    x = np.random.default_rng(0).normal(size=(1, 99)).astype(dtype)
    np.testing.assert_array_equal(jax.jit(inside(lambda x: x * x + x))(x), x * x + x)


@pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.once), 2])
def test_constants_have_the_bits_of_arguments(number):
    functions = elementwise("float32", number)
    values = [
        np.array(each, np.float32)
        for each in zip(*itertools.product(VALUES, repeat=number), strict=True)
    ]

    def tried(*operands):
        return {name: [function(*operands)] for name, function in functions.items()}

    expected = jax.jit(tried)(*values)
    found = jax.jit(lambda: tried(*map(jnp.asarray, values)))()
    assert different(found, expected) == set()
    with np.errstate(all="ignore"):
        for name in IEEE.keys() & expected.keys():
            by_numpy = getattr(np, IEEE[name])(*values)
            assert bits(expected[name][0]) == bits(by_numpy), name


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_constants_of_integers_have_the_bits_of_arguments(dtype):
    values = np.array([0, 1, 3, 100, 127, 128, 255, 2**16 - 1, 2**32 - 1], np.uint32)
    values = values.astype(dtype)
    for function in (lax.clz, lax.population_count, lax.bitwise_not, lax.neg):
        constants = jax.jit(lambda function=function: function(values))()
        np.testing.assert_array_equal(jax.jit(function)(values), constants, err_msg=str(function))
    bits = values.dtype.itemsize * 8
    unsigned = values.view(f"uint{bits}")
    np.testing.assert_array_equal(
        jax.jit(lambda: lax.clz(values))(), [bits - int(each).bit_length() for each in unsigned]
    )


def test_extremes_of_windows_have_one_sign_of_zero():
    values = np.array(list(itertools.product(VALUES, repeat=2)), np.float32)

    def tried(x):
        window = {"window_dimensions": (1, 2), "window_strides": (1, 1), "padding": "VALID"}
        greatest = lax.reduce_window(x, -np.inf, lax.max, **window)
        return greatest, lax.reduce_window(x, np.inf, lax.min, **window)

    expected = jax.jit(tried)(values)
    found = jax.jit(lambda: tried(jnp.asarray(values)))()
    for got, want, function in zip(found, expected, (jnp.maximum, jnp.minimum), strict=True):
        assert bits(got) == bits(want)
        assert bits(want[:, 0]) == bits(function(values[:, 0], values[:, 1]))
    nothing = lax.reduce_window(jnp.ones(2), -np.inf, lax.max, (1,), (1,), [(2, 0)])
    assert nothing.tolist() == [-np.inf, -np.inf, 1, 1]


def test_a_loop_of_one_step_adds_to_its_first_value():
    total = jax.jit(lambda x: lax.scan(lambda c, r: (c + r, None), jnp.zeros(()), x)[0])
    assert not np.signbit(total(jnp.array([-0.0])))
    assert np.signbit(jax.jit(lambda x: x + -0.0)(jnp.array([-0.0])))


def test_elements_that_are_equal_keep_their_order(rng):
    keys = rng.integers(0, 3, 300).astype(np.int32)
    zeros = np.where(keys > 0, np.float32(0), np.float32(-0.0))
    order = jax.jit(lambda k: jnp.argsort(k, stable=False))
    for each in (keys, keys.astype(np.float32)):
        assert np.array_equal(order(each), np.argsort(keys, kind="stable"))
    both = jax.jit(lambda *x: lax.sort(x, num_keys=1, is_stable=False))(keys, np.arange(300))
    assert np.array_equal(both[1], np.argsort(keys, kind="stable"))
    assert bits(jax.jit(lambda x: jnp.sort(x, stable=False))(zeros)) == bits(zeros)
    traced = jax.jit(lambda k: jnp.argsort(k, stable=False)).trace(keys)
    assert "is_stable = false" not in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "uint8"])
def test_the_sign_of_a_nan_does_not_move_the_greatest_elements(dtype):
    # Infinity - infinity has the sign bit on an x86 CPU, and lacks it where XLA knows it.
    x = np.array([1, np.nan, -0.0, 0, -np.nan, np.inf, 2, np.nan, -0.0, 0, 2, -np.inf])
    x = np.nan_to_num(x, posinf=99, neginf=5) if "int" in dtype else x
    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(x, dtype)
        greatest = jax.jit(lambda x: lax.top_k(x, 9))
        found = *greatest(x), *jax.jit(lambda: lax.top_k(x, 9))()
    numbers = np.nan_to_num(np.asarray(x, np.float64))
    order = np.lexsort((np.signbit(numbers), -numbers, ~np.isnan(x)))[:9]
    for values, index in (found[:2], found[2:]):
        np.testing.assert_array_equal(index, order)
        assert bits(values) == bits(np.asarray(x)[order])
    if dtype == "float32":  # XLA's kernel for a GPU compares floats in another way.
        text = greatest.trace(x).lower(lowering_platforms=("cuda",)).as_text()
        assert re.search(r"chlo.top_k.*tensor<12xi32>", text)


def test_a_sum_below_the_normal_numbers_has_its_own_sign():
    a, b = np.float32(1.2e-38), np.float32(1.3e-38)
    assert bits(jax.jit(lax.sub)(a, b)) == bits(np.float32(-0.0))
    assert bits(jax.jit(lax.sub)(b, a)) == bits(np.float32(0))


def test_a_remainder_is_no_subnormal():
    a, b = np.float32(1.5e-38), np.float32(1.2e-38)
    assert 0 < np.fmod(a, b) < np.finfo(np.float32).tiny
    assert bits(jax.jit(lax.rem)(a, b)) == bits(np.float32(0))
    assert bits(jax.jit(lax.rem)(-a, b)) == bits(np.float32(-0.0))


#: In units of half of the last bit of a float below the least normal one.
STEPS = np.concatenate([np.linspace(-4, 4, 65), np.random.default_rng(0).uniform(-4, 4, 2000)])
BELOW_AND_ABOVE = 2.0**-126 * (1 + STEPS * 2.0**-25)

#: A CPU flushes the subnormals of every program, so NumPy stands in for a device that keeps them.
NUMPY = {
    "abs": np.abs,
    "and": np.bitwise_and,
    "lt": np.less,
    "min": np.minimum,
    "mul": np.multiply,
    "select_n": lambda chosen, other, one: np.where(chosen, one, other),
}
WITH_PARAMETERS = {
    "bitcast_convert_type": lambda x, new_dtype: x.view(new_dtype),
    "broadcast_in_dim": lambda x, shape, **_: np.broadcast_to(x, shape),
    "convert_element_type": lambda x, new_dtype, **_: x.astype(new_dtype),
}


def by_numpy(equation, *operands):
    """Computes an equation with NumPy, which keeps subnormal floats."""
    if equation.primitive.name in NUMPY:
        return [NUMPY[equation.primitive.name](*operands)]
    return [WITH_PARAMETERS[equation.primitive.name](*operands, **equation.params)]


def product_by_numpy(a, b):
    with arithmetic.wide():
        return evaluated(lambda a, b: rounding.product(a, b, flushes=True), (a, b), by_numpy)[0]


def test_products_where_subnormals_are_kept():
    a = np.random.default_rng(1).uniform(1, 2, STEPS.size).astype(np.float32)
    b = (BELOW_AND_ABOVE / a * 2.0**63).astype(np.float32)
    a *= np.float32(2.0**-63)
    of_cpu = np.asarray(jax.jit(jax.lax.mul)(a, b))
    found = product_by_numpy(a, b)
    assert np.array_equal(found, of_cpu)
    assert 0 < np.count_nonzero(found) < found.size
    special = np.array([0.0, -0.0, 3e38, np.inf, -np.inf, np.nan, 1.5], np.float32)
    a, b = (each.ravel() for each in np.meshgrid(special, np.float32([0, -2, 3e38, np.inf])))
    with np.errstate(all="ignore"):
        found = product_by_numpy(a, b)
        expected = a * b
    assert np.array_equal(found, expected, equal_nan=True)
    finite = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found)[finite], np.signbit(expected)[finite])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_once_where_subnormals_are_kept(dtype):
    results = []
    for are_kept in (True, False):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=are_kept):
            results.append(jax.jit(lambda x: arithmetic.narrow(x, dtype))(BELOW_AND_ABOVE))
    kept, flushed = (np.asarray(result).astype(np.float64) for result in results)
    assert np.array_equal(kept, flushed)
    assert 0 < np.count_nonzero(kept) < kept.size
    of_oracle = oracles.nearest(BELOW_AND_ABOVE[None], dtype)
    assert np.array_equal(kept, of_oracle.astype(np.float64))
