"""Programs of JAX's own functions under the guarantee ``portable``.

Tests: impl._portable.lower, impl._portable.rules.products, impl._portable.rules.rounding,
impl._portable.rules.sums, impl._run_to_run.ordered.
"""

import functools
import hashlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._exact.sums import reduction

pytestmark = pytest.mark.usefixtures("portable")

HERE = __file__.rpartition("/")[2]


def digest(tree):
    arrays = jax.tree.leaves(tree)
    return hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest()


def text(function, *args, platform="cpu"):
    return jax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).as_text()


def test_a_ragged_product_has_the_bits_of_the_products_of_its_groups(rng):
    sizes = np.array([3, 0, 8, 5], np.int32)
    rows, groups = (rng.normal(size=s).astype(np.float32) for s in ((16, 8), (4, 8, 6)))
    got = jax.jit(lax.ragged_dot)(rows, groups, sizes)
    parts = zip(np.split(rows, np.cumsum(sizes)[:-1]), groups, strict=True)
    assert digest(got) == digest(np.concatenate([part @ group for part, group in map(_put, parts)]))
    gradient = jax.grad(lambda rows: (lax.ragged_dot(rows, groups, sizes) ** 2).sum())
    assert "ragged" not in text(gradient, rows, platform="cuda")


def _put(arrays):
    return map(jnp.asarray, arrays)


REFUSED = {
    "lax.linalg.eig": (lambda: jnp.linalg.eigvals(jnp.eye(3)), "its own library"),
    "lax.igamma": (lambda: lax.igamma(jnp.ones(3), jnp.ones(3)), "its own approximation"),
    "lax.sin": (lambda: jnp.sin(jnp.ones(3, "complex64")), "no portable path for complex64"),
    "lax.sign": (lambda: lax.sign(jnp.ones(3, "complex64")), "no portable path for complex64"),
    "lax.sort": (lambda: jnp.sort(jnp.ones(3, "complex64")), "no portable path for complex64"),
    "lax.lt": (lambda: lax.lt(*[jnp.ones(3, "float8_e5m2")] * 2), "no portable path for float8"),
    "lax.rng_bit_generator": (
        lambda: jax.random.bits(jax.random.key(0, impl="rbg"), (3,)),
        "random bits differ",
    ),
    "jax.pure_callback": (
        lambda: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), "float32"), jnp.ones(3)),
        "does not see",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_portable_path_is_refused_by_name_and_line(name):
    function, reason = REFUSED[name]
    with pytest.raises(RuntimeError, match="has no portable path") as error:
        jax.jit(function)()
    message = str(error.value)
    assert reason in message
    assert f"{HERE}:" in message
    assert "warn_only=True" in message
    report = impl.audit(function, device="cpu")()
    assert {finding.verdict for finding in report.findings} == {"raises"}
    assert any(reason in finding.remedy for finding in report.findings)
    assert all(HERE in finding.source for finding in report.findings)
    assert "guarantee='portable'" in report.mode


def test_the_audit_points_at_sums_of_parts_and_at_what_releases_write_otherwise():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    parts = jax.sharding.PartitionSpec("data")

    def program(x):
        def local(x):
            passed = lax.ppermute(x, "data", [(0, 0)])
            return lax.psum((x + passed).sum(), "data"), lax.psum(1, "data")

        whole = jax.sharding.PartitionSpec()
        total, _ = jax.shard_map(local, mesh=mesh, in_specs=parts, out_specs=whole)(x)
        return jnp.linspace(0, total, 5), jax.lax.empty((3,), "float32")

    report = impl.audit(program)(jnp.ones(4))
    sums, passed, functions = report.notes
    assert report.ok
    assert "A device passes values on" in passed
    assert f"{HERE}:" in passed
    assert f"{HERE}:" in sums
    assert "a mesh of another size gives other bits" in sums
    assert "jax.numpy.linspace at " in functions
    assert f"{HERE}:" in functions
    assert impl.audit(jax.jit(jnp.sin))(jnp.ones(4)).notes == ()


def test_without_rules_a_warning_says_that_the_guarantee_has_no_effect():
    impl.programs.disable()
    try:
        with pytest.warns(RuntimeWarning, match="no effect on JAX's own primitives"):
            impl.deterministic(guarantee="portable")
    finally:
        impl.programs.enable()


def test_with_warn_only_a_refused_program_runs():
    with (
        impl.deterministic(warn_only=True),
        pytest.warns(UserWarning, match="eig of float32.3,3. at .*has no portable path"),
    ):
        result = jax.jit(jnp.linalg.eigvals)(jnp.eye(3))
    assert np.array_equal(result, np.ones(3))


def test_a_cpu_calls_what_has_many_equations_as_a_function_of_its_own(rng):
    def f(w, x):
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=2)

    w, x = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((8, 8), (16, 8)))
    with impl.testing.engine("float64"):
        compiled = jax.jit(f).lower(w, x).compile().as_text()
    assert len(re.findall(r" call\(.*to_apply=%portable_", compiled)) == 3
    # On a GPU, a call would keep XLA from fusing these equations.
    assert "inlineable" not in text(f, w, x, platform="cuda")


def test_a_sum_of_one_element_and_a_first_power_are_no_functions():
    def both(x):
        return lax.reduce_sum(x, (1,)), lax.integer_pow(x, 1)

    x = jnp.float32([[-0.0], [0.1], [np.inf], [np.nan]])
    assert "portable_" not in text(both, x)
    total, power = jax.jit(both)(x)
    np.testing.assert_array_equal(total, x[:, 0])
    np.testing.assert_array_equal(power, x)
    assert not np.signbit(total[0])
    assert np.signbit(power[0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_sign_keeps_its_zero_also_of_a_constant(dtype):
    zeros = jnp.full(3, -0.0, dtype)
    others = jnp.array([-0.0, 0.0, 2.0, -3.0, np.inf, -np.inf, np.nan], dtype)
    for value in (zeros, -zeros, others):
        want = np.sign(np.asarray(value, np.float32))
        of_constant = jax.jit(lambda value=value: lax.sign(value))()
        for each in (of_constant, jax.jit(lax.sign)(value)):
            got = np.asarray(each, np.float32)
            np.testing.assert_array_equal(got, want)
            numbers = ~np.isnan(want)
            assert (np.signbit(got) == np.signbit(np.asarray(value, np.float32)))[numbers].all()


def test_zeros_have_one_order():
    negative, zero = jnp.array([-0.0, 0.0]), jnp.array([0.0, -0.0])
    assert not np.signbit(jax.jit(jnp.maximum)(negative, zero)).any()
    assert np.signbit(jax.jit(jnp.minimum)(negative, zero)).all()
    assert not np.signbit(jnp.max(negative))
    # This CPU orders zeros so by itself; other devices may not.
    assert "stablehlo.and" in text(jnp.maximum, negative, zero)
    assert np.isnan(jnp.max(jnp.array([1.0, np.nan])))
    assert np.isnan(jnp.min(jnp.array([1.0, -np.nan])))
    assert jnp.max(jnp.array([-np.inf, -3.0])) == -3


def test_the_first_place_of_several_is_found():
    x = jnp.array([[1.0, 3, 3, 0], [-0.0, 0, -1, 0], [1, np.nan, 2, np.nan], [-np.inf] * 4])
    assert jax.jit(lambda x: jnp.argmax(x, 1))(x).tolist() == [1, 0, 1, 0]
    assert jax.jit(lambda x: jnp.argmin(x, 1))(x).tolist() == [3, 2, 1, 0]
    assert jnp.argmax(x.astype("bfloat16")) == 9


def test_operands_are_repeated_to_one_shape(rng):
    x = jnp.asarray(rng.normal(size=5) ** 2, "float32")
    powers, angles = jax.jit(lambda x: (2.0**x, jnp.arctan2(x[:, None], x[None])))(x)
    assert np.allclose(powers, np.exp2(x))
    assert np.allclose(angles, np.arctan2(x[:, None], x))
    assert np.allclose(jnp.vander(x), np.vander(x))


def test_subnormals_are_dropped_where_the_device_keeps_them():
    x = jnp.ones(3)

    def function(x):
        return x + x

    on_cpu, on_cuda = text(function, x), text(function, x, platform="cuda")
    assert "1.17549435E-38" in on_cuda
    assert "1.17549435E-38" not in on_cpu


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float32", "bfloat16"),
        ("float32", "float16"),
        ("int32", "bfloat16"),
        ("bfloat16", "float16"),
    ],
)
def test_conversions_round_once(rng, old, new):
    values = rng.normal(size=512) * 1000
    x = values.astype(old) if old != "bfloat16" else jnp.asarray(values, "bfloat16")
    wide = np.asarray(x).astype(np.float64)
    expected = (
        np.asarray(jnp.asarray(wide.astype(np.float32), new))
        if new == "bfloat16"
        else wide.astype(new)
    )
    found = jax.jit(lambda x: x.astype(new).astype("float32"))(x)
    assert np.array_equal(found, expected.astype("float32"))


def test_terms_that_devices_hold_are_refused():
    mesh = AbstractMesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    array = jax.ShapeDtypeStruct((4, 4), "float32", sharding=NamedSharding(mesh, P("x", None)))

    @jax.jit
    def total(x):
        held = jnp.einsum("ij,ik->jk", x, x, out_sharding=P(None, None, unreduced={"x"}))
        return jax.reshard(held, P(None, None))

    with jax.sharding.use_abstract_mesh(mesh), impl.deterministic(guarantee="portable"):
        found = impl.audit(total)(array).select("raises")
        assert [finding.primitive for finding in found] == ["lax.dot_general", "jax.reshard"]
        with pytest.raises(RuntimeError, match="one part of a sum over devices"):
            total.trace(array).lower(lowering_platforms=("cpu",))


def test_products_of_operands_of_two_kinds(rng):
    x = rng.normal(size=(5, 4)).astype(np.float32)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    whole = rng.integers(-(10**6), 10**6, (4, 5)).astype(np.int32)

    def program(x, z, whole):
        return z @ x.T, x @ z.T, x @ whole, whole @ x, whole @ z, z @ whole

    with impl.deterministic(False):
        expected = jax.jit(program)(x, z, whole)
    for got, want in zip(jax.jit(program)(x, z, whole), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_nans_of_a_product_whose_axes_are_moved(rng):
    # XLA for a CPU joins the product and the transposition to one operation, which does not support
    # bfloat16.
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((40, 3, 4), (40, 50)))
    a[1, 2, 3], b[5, 6] = np.nan, np.inf
    product = jax.jit(lambda a, b: jnp.einsum("abc,ad->cdb", a, b, precision="highest"))(a, b)
    want = np.einsum("abc,ad->cdb", a, b)
    np.testing.assert_allclose(product, want, rtol=1e-4, atol=1e-5)


#: Orders in which exact atomics have to give the same bits.
ORDERS = 21


def of_rows(table, index, weights):
    """Adds rows where indices repeat, as the gradient of an embedding does."""
    return jax.grad(lambda table: (table[index] * weights).sum())(table)


def by_schedule(**mode):
    """Returns the bits on this device, and the different ones under the schedules of a mode."""
    rng = np.random.default_rng(0)
    index = jnp.asarray(rng.integers(0, 3, 60))
    weights = np.float32(rng.normal(size=(60, 2)) * 2.0 ** rng.integers(-20, 20, (60, 2)))
    # They cancel, so that errors of float64 are not small in the result.
    weights[:20:2], weights[1:20:2] = 2.0**60, -(2.0**60)
    operands = jnp.zeros((3, 2)), index, jnp.asarray(weights)
    seed, results = impl.testing.Seed(), set()
    with impl.deterministic(**mode):
        program = jax.jit(functools.partial(of_rows))
        on_device = np.asarray(program(*operands)).tobytes()
        with impl.testing.emulate("cuda", lowering="xla", seed=seed):
            for seed.value in range(ORDERS):
                results.add(np.asarray(program(*operands)).tobytes())
    return on_device, results


def test_exact_atomics_have_one_result_in_every_order_of_their_updates():
    on_device, results = by_schedule(guarantee="portable")
    assert results == {on_device}


def test_schedules_reach_the_atomics_of_a_portable_program(monkeypatch):
    _, results = by_schedule(mode=False)
    assert len(results) > 1

    def rounding(operand, indices, updates, *, dimension_numbers, **_):
        """Adds terms that are not whole numbers, whose sums are rounded."""
        wide = (lax.convert_element_type(each, np.float64) for each in (operand, updates))
        first, second = wide
        sums = lax.scatter_add(first, indices, second, dimension_numbers)
        return lax.convert_element_type(sums, operand.dtype)

    monkeypatch.setattr(reduction, "scatter_add", rounding)
    _, results = by_schedule(guarantee="portable")
    assert len(results) > 1
