"""``impl.Accumulator`` holds exact sums of trees, and rounds them once."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact.unrounded import states
from impl.tests.exact._sums import assert_same, rough

pytestmark = pytest.mark.usefixtures("portable")

ROWS = 24


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    shapes = {"layers": (2, 3, 3), "bias": (3,), "out": (3, 2), "table": (5, 3)}
    params = {name: jnp.asarray(rough(rng, s, spread=3)) / 4 for name, s in shapes.items()}
    return params, rng.integers(0, 5, ROWS), rough(rng, (ROWS, 2), spread=3)


def loss(params, x, y):
    @jax.checkpoint
    def layer(h, own):
        return jnp.tanh(h @ own) + params["bias"], None

    h, _ = lax.scan(layer, params["table"][x], params["layers"])
    return jnp.sum((h @ params["out"] - y) ** 2) / ROWS


@jax.jit
def step(total, params, x, y):
    return total.add(jax.grad(loss), params, x, y)


def added(params, *parts):
    total = impl.Accumulator.like(params)
    for x, y in parts:
        total = step(total, params, x, y)
    return total


def assert_equal(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, another in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.asarray(another).any()
        assert_same(one, another)


@pytest.fixture(scope="module")
def want(problem):
    with impl.deterministic(guarantee="portable", profile="complete"):
        return jax.jit(jax.grad(loss))(*problem)


# Other tests have three parts too, so that they share the program.
@pytest.mark.parametrize(
    "number", [pytest.param(1, marks=pytest.mark.once), 3, pytest.param(24, marks=pytest.mark.once)]
)
def test_the_gradient_does_not_depend_on_the_parts(problem, want, number):
    params, x, y = problem
    parts = zip(np.split(x, number), np.split(y, number), strict=True)
    assert_equal(added(params, *parts).value(), want)


@pytest.mark.once
def test_sums_are_merged_in_any_order(problem, want):
    params, x, y = problem
    parts = [added(params, (x[i::3], y[i::3])) for i in range(3)]
    assert_equal((parts[2] + (parts[0] + parts[1])).value(), want)
    assert_equal(jax.jit(lambda a, b, c: (a + b + c).value())(*parts), want)


def test_it_is_carried_by_a_scan(problem, want):
    params, x, y = problem

    @jax.jit
    def run(x, y):
        total = impl.Accumulator.like(params)
        parts = x.reshape(3, -1), y.reshape(3, -1, 2)
        return lax.scan(lambda a, p: (a.add(jax.grad(loss), params, *p), None), total, parts)[0]

    assert_equal(run(x, y).value(), want)


@pytest.mark.once
def test_an_element_takes_24_bytes_and_a_checkpoint_keeps_the_sum(problem, want, tmp_path):
    params, x, y = problem
    first, *rest = zip(np.split(x, 3), np.split(y, 3), strict=True)
    total = added(params, first)
    leaves, tree = jax.tree.flatten(total)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert sum(leaf.nbytes for leaf in leaves) == 24 * size + 4
    np.savez(tmp_path / "sum.npz", *leaves)
    with np.load(tmp_path / "sum.npz") as file:
        again = jax.tree.unflatten(tree, [file[name] for name in file.files])
    for part in rest:
        again = step(again, params, *part)
    assert_equal(again.value(), want)


@pytest.mark.once
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_floats_of_16_bits(dtype):
    x = rough(np.random.default_rng(1), (ROWS, 3), np.dtype(dtype).name, spread=2)

    def product(x):
        return x.T @ x

    total = impl.Accumulator.like(jax.ShapeDtypeStruct((3, 3), dtype))
    for part in np.split(x, 4):
        total = total.add(product, part)
    assert_equal(total.value(), jax.jit(product)(x))


def test_what_is_no_sum_is_added_as_it_is():
    total = impl.Accumulator.like(jnp.zeros(2))
    x = np.float32([2.0**-30, 3])
    for each in (x, np.float32([1, 1]), -x):
        total = total.add(lambda v: v / 1, each)
    assert_same(total.value(), np.float32([1, 1]))
    total = total.add(lambda v: -(v.sum(0) + v[0]), np.float32([[1, 2], [3, 4]]))
    assert_same(total.value(), np.float32([-4, -7]))


@pytest.mark.once
def test_an_element_in_doubt_is_an_error_or_a_nan_and_is_counted_again(monkeypatch):
    rng = np.random.default_rng(2)
    x, y = rough(rng, (8, 2), spread=4), rough(rng, (8, 3), spread=4)

    def product(x, y):
        return {"w": x.T @ y}

    @jax.jit
    def both(total):
        for part in (slice(0, 5), slice(5, 8)):
            total = total.add(product, x[part], y[part])
        return total

    want = jax.jit(product)(x, y)
    empty = impl.Accumulator.like(want)
    total = both(empty)
    assert_equal(total.value(), want)
    # All elements with a slack are in doubt from here on.
    monkeypatch.setattr(states, "_SAFE", 2.0**80)
    jax.clear_caches()
    with pytest.raises(ArithmeticError, match=r"6 elements of .*'w'.* in doubt.*again="):
        total.value()
    assert np.isnan(jax.jit(lambda t: t.value())(total)["w"]).all()
    assert_equal(total.value(again=both), want)
    with pytest.raises(TypeError, match="returned another accumulator"):
        total.value(again=lambda _: empty)
    with pytest.raises(TypeError, match=r"inside jax\.jit"):
        jax.jit(lambda t: t.value(again=both))(total)
    jax.clear_caches()


def test_trees_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match=r"got a leaf of int32\[2\]; allowed are bfloat16"):
        impl.Accumulator.like([jnp.zeros(2), jnp.zeros(2, jnp.int32)])
    total = impl.Accumulator.like({"a": jnp.zeros(2)})
    with pytest.raises(TypeError, match=r"returns \{'a': 'float32\[3\]'\}; the sum has"):
        total.add(lambda: {"a": jnp.zeros(3)})
    with pytest.raises(TypeError, match="got sums of"):
        total + impl.Accumulator.like({"b": jnp.zeros(2)})
    with pytest.raises(TypeError, match="unsupported operand"):
        total + 1
    assert repr(total) == "Accumulator({'a': 'float32[2]'})"


def test_the_gradient_of_slices_of_a_weight():
    rng = np.random.default_rng(6)
    w, x = jnp.asarray(rough(rng, (2, 3, 3), spread=3)), rough(rng, (ROWS, 3), spread=2)

    def gradient(w, x):
        return jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w[0]) @ w[1]))(w)

    total = impl.Accumulator.like(w)
    for part in np.split(x, 4):
        total = jax.jit(lambda t, x: t.add(gradient, w, x))(total, part)
    assert_equal(total.value(), jax.jit(gradient)(w, x))


@pytest.mark.once
def test_sums_of_vmapped_steps():
    x = rough(np.random.default_rng(4), (3, ROWS, 2), spread=3)

    def product(x):
        return x.T @ x

    empty = impl.Accumulator.like(jnp.zeros((2, 2)))
    values = jax.jit(jax.vmap(lambda x: empty.add(product, x).value()))(x)
    assert_same(values, jax.jit(jax.vmap(product))(x))
