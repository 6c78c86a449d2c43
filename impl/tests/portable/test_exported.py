"""Exported programs under ``portable``: for several platforms, and with sizes that are unknown.

Tests: impl._jax.lowering.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import impl
from impl._jax import lowering

pytestmark = pytest.mark.usefixtures("portable")

PLATFORMS = ("cpu", "cuda", "rocm")


@pytest.fixture
def x(rng):
    return jnp.asarray(rng.normal(size=(16, 8)).astype("float32"))


def sums(x):
    """Returns sums along either axis, and a running one of integers, which JAX lowers itself."""
    counts = jnp.cumsum(jnp.sign(x).astype(int), 0)
    return jnp.cumsum(x, 0), jnp.cumsum(x, 1), counts, (x @ x.T).std()


def assert_same(exported, program, x):
    """Compares an exported program with the program, with the mode off and on."""
    expected = jax.jit(program)(x)
    with impl.deterministic(False):
        results = [jax.jit(exported.call)(x)]
    results.append(jax.jit(exported.call)(x))
    for result in results:
        for one, other in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_a_program_for_several_platforms_has_the_bits_of_one(x):
    exported = export.export(jax.jit(sums), platforms=PLATFORMS)(x)
    assert_same(exported, sums, x)


def test_a_product_in_a_native_loop_is_exported_for_several_platforms(x):
    def squared(x):
        return lax.fori_loop(0, 2, lambda _, y: y @ y, x @ x.T)

    native = jax.jit(lowering.native(squared))
    exported = export.export(native, platforms=PLATFORMS)(x)
    assert np.asarray(exported.call(x)).tobytes() == np.asarray(native(x)).tobytes()


def test_ordered_functions_of_ours_are_exported_for_several_platforms(x):
    def program(x):
        index = jnp.arange(16) % 5
        return impl.index_add(x, 0, index, x), jnp.cumsum(index), jnp.cumsum(x, 0)

    for guarantee in ("run_to_run", "portable"):
        with impl.deterministic(profile="complete", guarantee=guarantee):
            exported = export.export(jax.jit(program), platforms=("cpu", "cuda"))(x)
            assert_same(exported, program, x)


def scaled(x):
    """Returns the gradient of a sum."""
    return jax.grad(lambda x: jnp.tanh(x * 3).std())(x)


def test_a_program_that_was_exported_with_the_guarantee_has_it(x):
    exported = export.export(jax.jit(scaled))(x)
    assert_same(exported, scaled, x)
    assert impl.audit(exported.call, device="cpu")(x).ok
    again = export.export(jax.jit(exported.call))(x)
    assert_same(again, scaled, x)


@pytest.mark.parametrize(
    "mode", [{"mode": False}, {"warn_only": True}, {"guarantee": "run_to_run"}], ids=str
)
def test_one_that_was_exported_without_it_is_refused(x, mode):
    with impl.deterministic(**{"guarantee": "portable", **mode}):
        exported = export.export(jax.jit(scaled))(x)
    (finding,) = impl.audit(exported.call, device="cpu")(x).findings
    assert finding.verdict == "raises"
    refused = r"call_exported of .* was exported without this .* Export it with `guarantee="
    with pytest.raises(RuntimeError, match=refused):
        jax.jit(exported.call)(x)
    with pytest.raises(RuntimeError, match=refused):
        export.export(jax.jit(exported.call))(x)


def test_a_call_on_many_devices_is_refused(x, monkeypatch):
    exported = export.export(jax.jit(scaled))(x)
    monkeypatch.setattr("impl._portable.exported._DEVICES", 1)
    with pytest.raises(RuntimeError, match=r"call_exported of .* wrong values .*`jax.shard_map`"):
        jax.jit(exported.call)(x)
    mesh = jax.make_mesh((1,), ("a",), devices=jax.devices()[:1])
    specs = {"in_specs": jax.sharding.PartitionSpec(), "out_specs": jax.sharding.PartitionSpec()}
    inside = jax.shard_map(exported.call, mesh=mesh, check_vma=False, **specs)
    assert np.asarray(jax.jit(inside)(x)).tobytes() == np.asarray(jax.jit(scaled)(x)).tobytes()


def of_any_length(function, *, constraints=()):
    (size,) = export.symbolic_shape("n", constraints=constraints)
    return export.export(jax.jit(function))(jax.ShapeDtypeStruct((size, 8), jnp.float32))


def test_what_needs_no_size_is_exported_with_unknown_sizes(x):
    at = jnp.array([3, 1])

    def program(x):
        y = jnp.tanh(x + 1.0) * x - jnp.where(x > 0, x, 3.0) / 7
        scattered = x.at[at].set(7, unique_indices=True), x.at[at].max(1), x.at[at].add(1.5)
        padded = jax.lax.pad(x, np.float32(1), [(1, 2, 0), (0, 1, 0)])
        windows = {"window_dimensions": (2, 2), "window_strides": (1, 2), "padding": "VALID"}
        most = jax.lax.reduce_window(x, -np.inf, jax.lax.max, **windows)
        counts = jax.lax.reduce_window(x.astype(int), 0, jax.lax.add, **windows)
        added = jnp.zeros(x.shape, int).at[at].add(1)
        plain = y, y.sum(1), y.max(0), y @ y.T, jnp.sort(y, 0)
        return *plain, *scattered, added, padded, most, counts

    assert_same(of_any_length(program), program, x)


@pytest.mark.once
def test_products_with_elements_in_doubt_are_exported_with_unknown_sizes(x):
    kernel = jnp.asarray(np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 2, 4, 3))

    def program(x):
        # The sum of each row is 0, or half of a last place of its terms.
        row = jnp.concatenate([x, -x, x[:, :1] * 2.0**-24], 1)
        images = jnp.stack([x, -x, x * 3, -x * 3], 1).reshape(-1, 4, 2, 4)
        convolved = lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return row @ jnp.ones((17, 40)), row @ row.T, convolved

    exported = of_any_length(program)
    for length in (1, 16):
        assert_same(exported, program, x[:length])


@pytest.mark.parametrize("engine", impl.testing.engines())
def test_a_running_sum_of_a_bounded_unknown_length_is_refused(engine):
    with (
        impl.testing.engine(engine),
        pytest.raises(RuntimeError, match=r"lax.cumsum of .* symbolic size is unknown"),
    ):
        of_any_length(lambda x: jnp.cumsum(x, 0), constraints=("n <= 64",))
    with impl.testing.engine(engine):
        of_any_length(lambda x: jnp.cumsum(x, 1))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x.sum(0), "lax.reduce_sum"),
        (lambda x: x.T @ x, "lax.dot_general"),
        (lambda x: jnp.cumprod(x, 0), "lax.cumprod"),
        (lambda x: jnp.zeros((5, 8)).at[lax.iota(int, x.shape[0]) % 5].add(x), "scatter_add"),
    ],
)
def test_what_needs_a_size_is_refused_by_name_and_line(function, name):
    refused = rf"{name} of .*n,8\].* at .*test_exported.py:\d+ has no .* symbolic size is unknown"
    with pytest.raises(RuntimeError, match=refused):
        of_any_length(function)


def test_with_warn_only_what_needs_a_size_is_exported():
    with (
        impl.deterministic(guarantee="portable", warn_only=True),
        pytest.warns(UserWarning, match=r"reduce_sum of .*n,8\].*symbolic size is unknown"),
    ):
        assert of_any_length(lambda x: x.sum(0))
    with (
        impl.deterministic(guarantee="portable", warn_only=True),
        pytest.warns(UserWarning, match="lax.cumprod of"),
        pytest.warns(UserWarning, match="lax.reduce_window of"),
    ):
        assert of_any_length(lambda x: jnp.cumprod(x, 0))


def test_a_bound_of_a_size_is_enough_for_a_sum(x):
    def program(x):
        return x.sum(0)

    exported = of_any_length(program, constraints=("n <= 1024",))
    assert_same(exported, program, x)


def test_other_errors_of_types_are_not_about_sizes():
    with pytest.raises(TypeError):
        jax.jit(lambda x: lax.add(x, jnp.ones(3, int)))(jnp.ones(3))


@pytest.mark.parametrize("mode", [True, False], ids=["portable", "off"])
def test_a_program_with_a_part_in_another_scope_is_not_marked(mode, x):
    """Wherever the part is, before equations with the guarantee or after them."""

    def program(x, inside):
        first = jnp.tanh(x)
        with impl.deterministic(inside, guarantee="portable"):
            return jnp.tanh(first * x) + jnp.tanh(jnp.tanh(x) - first)

    def exported(inside):
        with impl.deterministic(mode, guarantee="portable"):
            return export.export(jax.jit(program, static_argnums=1))(x, inside)

    with pytest.raises(RuntimeError, match="call_exported"):
        jax.jit(exported(not mode).call).lower(x)
    if mode:
        jax.jit(exported(True).call).lower(x)
