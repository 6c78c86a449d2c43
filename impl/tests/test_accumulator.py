"""``impl.Accumulator`` holds exact sums of trees, and rounds them once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact.unrounded import states
from impl.tests.exact._sums import assert_same, rough
from spec import oracles

pytestmark = pytest.mark.usefixtures("portable")

ROWS = 24


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    shapes = {"layers": (2, 3, 3), "bias": (3,), "out": (3, 4), "table": (5, 3)}
    params = {name: jnp.asarray(rough(rng, s, spread=3)) / 4 for name, s in shapes.items()}
    return params, rng.integers(0, 5, ROWS), rough(rng, (ROWS, 4), spread=3)


def loss(params, i, x):
    @jax.checkpoint
    def layer(h, own):
        return jnp.tanh(h @ own) + params["bias"], None

    h, _ = lax.scan(layer, params["table"][i], params["layers"])
    return jnp.sum((h @ params["out"] - x) ** 2) / ROWS


def sums(params, i, x):
    """Returns the gradient of the loss, and sums with what may follow them."""
    w, narrow = params["table"], x.astype(jnp.bfloat16)

    def tied(w, times):
        h = jnp.tanh(w[i] * w[(i + 1) % 5] ** (times - 2))
        return jnp.sum(jnp.tanh(h @ w.T) ** 2) / ROWS

    def sliced(v):
        return jnp.sum(jnp.tanh(x[:, :3] @ v[0].T / 64) @ v[1])

    return {
        "loss": jax.grad(loss)(params, i, x),
        "mean": [x.sum(0) / ROWS, 0.3 * x.sum(0), x.sum() / ROWS - (x**2).sum() / 3],
        "moves": [*jnp.split(x.T @ x, 2), jnp.cumsum(x.sum(0)), jnp.tril(x.T @ x) / 3],
        "narrow": [(narrow.T @ narrow).astype(jnp.float32), narrow.T @ narrow, narrow.sum(0) / 7],
        "negative": -(jnp.arange(4) // 2 * x).sum(0),
        "slices": jax.grad(sliced)(jnp.stack([w, -w])),
        "tied": [jax.grad(tied)(w, 2), jax.grad(tied)(w, 3) / 7],
    }


def added(total, params, *parts):
    for part in parts:
        total = step(total, params, *part)
    return total


@jax.jit
def step(total, params, i, x):
    return total.add(sums, params, i, x)


def cut(i, x, number):
    return [*zip(np.split(i, number), np.split(x, number), strict=True)]


def assert_equal(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, another in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.asarray(another).any()
        assert_same(one, another)


@pytest.fixture(scope="module")
def want(problem):
    with impl.deterministic(guarantee="portable", profile="complete"):
        return jax.jit(sums)(*problem)


@pytest.fixture(scope="module")
def empty(problem, want):
    with impl.deterministic(guarantee="portable", profile="complete"):
        return impl.Accumulator.like(want, sums, *problem)


# Other tests have three parts too, so that they share the program.
@pytest.mark.parametrize("number", [1, 3, pytest.param(24, marks=pytest.mark.once)])
def test_the_value_does_not_depend_on_the_parts(problem, want, empty, number):
    params, i, x = problem
    start = impl.Accumulator.like(want) if number == 1 else empty
    assert_equal(added(start, params, *cut(i, x, number)).value(), want)


@pytest.mark.once
def test_sums_are_merged_in_any_order(problem, want, empty):
    params, i, x = problem
    parts = [added(empty, params, part) for part in cut(i, x, 3)]
    total = parts[2] + (parts[0] + parts[1])
    assert_equal((impl.Accumulator.like(want) + total).value(), want)
    assert_equal(jax.jit(lambda a, b, c: (a + b + c).value())(*parts), want)


def test_a_scan_over_parts_carries_it_and_has_its_bits(problem):
    params, i, x = problem

    def function(*part):  # Parts decide otherwise.
        chosen = lax.cond(part[1][0, 0] > 0, lambda x: x.sum(0), lambda x: (x**2).sum(0), part[1])
        return sums(params, *part), chosen

    @jax.jit
    def run(*parts):
        first = [part[0] for part in parts]
        tree = jax.eval_shape(function, *first)
        zeros = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), tree)

        def add(carry, part):
            total, carried = carry[0].add(function, *part), function(*part)
            return (total, jax.tree.map(jnp.add, carry[1], carried)), None

        return lax.scan(add, (impl.Accumulator.like(tree, function, *first), zeros), parts)[0]

    total, carried = run(i.reshape(3, -1), x.reshape(3, -1, 4))
    assert_equal(total.value(), carried)


@pytest.mark.once
def test_a_state_takes_24_bytes_and_a_checkpoint_keeps_the_sum(problem, want, empty, tmp_path):
    params, i, x = problem
    first, *rest = cut(i, x, 3)
    total = added(empty, params, first)
    leaves, tree = jax.tree.flatten(total)
    parts = {name: [each.nbytes for each in jax.tree.leaves(total.sums[name])] for name in want}
    # The two slices of a weight have a state each; and so has each part of a tied one's gradient.
    assert sum(parts["slices"]) == 24 * want["slices"].size
    numbers = {"loss": 4, "mean": 4, "moves": 4, "narrow": 3, "negative": 1, "slices": 2, "tied": 5}
    assert {name: len(each) for name, each in parts.items()} == numbers
    np.savez(tmp_path / "sum.npz", *leaves)
    with np.load(tmp_path / "sum.npz") as file:
        again = jax.tree.unflatten(tree, [file[name] for name in file.files])
    assert_equal(added(again, params, *rest).value(), want)


def test_each_operation_that_adds_is_rounded_once(real):
    rng = np.random.default_rng(4)
    x, y = (rough(rng, (ROWS, n), real, spread=3) for n in (7, 40))
    i, zeros = rng.integers(0, 40, ROWS), np.zeros((40, 7), real)
    total = impl.Accumulator.like(zeros)
    for part in zip(*(np.split(each, 3) for each in (x, y, i)), strict=True):
        total = total.add(
            lambda x, y, i: (jnp.zeros((40, 7), real).at[i].add(x) + y.T @ x) / 3, *part
        )
    both = oracles.nearest_scatter(zeros, i, x) + oracles.nearest_product(y.T, x, real)
    assert_same(total.value(), both / x.dtype.type(3))


def test_what_is_no_sum_is_added_as_it_is(real):
    total = impl.Accumulator.like(np.zeros(2, real))
    x, ones = np.array([2.0**-60, 3], real), np.ones(2, real)
    for each in (x, ones, -x):
        total = total.add(lambda v: v / 1, each)
    assert_same(total.value(), ones)


def test_a_sum_that_each_part_rounds_is_named():
    def masked(w, x, mask):
        return {"a": jnp.sum(x @ w * mask) / mask.sum(), "b": jnp.sum(x @ w), "c": w + x.sum(0)}

    args = jnp.ones(3) / 3, jnp.arange(12.0).reshape(4, 3), jnp.ones(4)
    total = impl.Accumulator.like(jax.jit(masked)(*args))
    with pytest.warns(
        UserWarning, match=r"each part rounds \['a'\], \['c'\]: .* div at .*:\d+ with"
    ):
        total = total.add(masked, *args)
    assert_equal(total.value(), jax.jit(masked)(*args))


@pytest.mark.once
def test_an_element_in_doubt_is_an_error_or_a_nan_and_is_counted_again(monkeypatch):
    rng = np.random.default_rng(2)
    x, y = rough(rng, (8, 2), spread=4), rough(rng, (8, 3), spread=4)

    def product(x, y):
        return {"third": x.T @ y / 3, "w": x.T @ y}

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
    with pytest.raises(TypeError, match=r"Accumulator\.like\(tree, function, \*args\)"):
        lax.scan(lambda c, x: (c.add(lambda: {"a": x.sum(0) / 7}), x), total, jnp.ones((3, 4, 2)))
    with pytest.raises(TypeError, match="unsupported operand"):
        total + 1
    assert repr(total) == "Accumulator({'a': 'float32[2]'})"


@pytest.mark.once
def test_sums_of_vmapped_steps():
    def own(x):
        return (x.T @ x + x.sum(0)) / 7

    x = rough(np.random.default_rng(4), (3, ROWS, 2), spread=3)
    empty = impl.Accumulator.like(jnp.zeros((2, 2)), own, x[0])
    assert_equal(
        jax.jit(jax.vmap(lambda x: empty.add(own, x).value()))(x), jax.jit(jax.vmap(own))(x)
    )
