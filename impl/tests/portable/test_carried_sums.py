"""Sums that a ``scan`` carries have the bits of one sum; others say why they are not joined.

Tests: impl._portable.carried_sums.lower, impl._portable.carried_sums.functions,
impl._portable.carried_sums.write, impl._portable.carried_sums.plan,
impl._portable.carried_sums.stacked, impl._portable.carried_sums.steps.
"""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl import testing
from impl._exact.unrounded import states
from impl._mode import modes
from impl._portable.carried_sums import lower, stacked
from impl.tests.exact._sums import assert_same, rough

pytestmark = pytest.mark.usefixtures("portable")

ROWS = 12
#: The bytes of a sum with which a scan stacks all factors, and none.
ALL, NONE = 1 << 40, -1


def zeros(tree):
    return jax.tree.map(jnp.zeros_like, tree)


def accumulated(function, number, *arrays):
    """Returns the sum of a function of parts, which a scan carries."""
    parts = [a.reshape(number, -1, *a.shape[1:]) for a in arrays]
    empty = jax.eval_shape(function, *(part[0] for part in parts))
    start = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), empty)
    return lax.scan(lambda c, p: (jax.tree.map(jnp.add, c, function(*p)), None), start, parts)[0]


def assert_one_sum(function, *arrays, numbers=(1, 2, 3, 12)):
    """Raises unless scans over some numbers of parts give the bits of the whole.

    Every other scan stacks the factors, and the rest carry states; one number is tried both ways.
    """
    arrays = [jnp.asarray(a) for a in arrays]
    whole = jax.jit(function)(*arrays)
    assert any(np.asarray(leaf).any() for leaf in jax.tree.leaves(whole))
    several = numbers if len(numbers) > 1 else numbers * 2
    for number, room in zip(several, itertools.cycle((ALL, NONE))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stacked, "BYTES_OF_SUM", room)
            got = jax.jit(lambda *a, n=number: accumulated(function, n, *a))(*arrays)
        for one, another in zip(jax.tree.leaves(got), jax.tree.leaves(whole), strict=True):
            assert not np.isnan(np.asarray(one, np.float32)).any()
            assert_same(one, another, str(number))


def reasons(function, *args):
    """Returns, for each float that the scan in a function carries, why it is not joined."""
    jaxpr = jax.make_jaxpr(function)(*args)
    (scan,) = (e for e in jaxpr.eqns if e.primitive.name == "scan")
    return [each.reason for each in lower.carried_sums(scan.params, modes.current())[1]]


def test_products_sums_and_scatters(rng):
    x, y = (rough(rng, (ROWS, n), spread=8) for n in (3, 4))
    i = rng.integers(0, 5, ROWS)

    def sums(x, y, i):
        rows = x @ (jnp.arange(60.0).reshape(3, 20) / 7)
        scattered = jnp.zeros((5, 4)).at[i].add(y)
        # If a part has one row, its transpose adds the axis of the batch in a sum of its own.
        of_gain = jax.grad(lambda gain: jnp.tanh(x[:, None] * y[..., None] * gain / 3).sum())
        gains = of_gain(jnp.ones(3))
        return x.T @ y * 3, x.sum(0) / 7, scattered, (2 * x).sum(), rows.sum(0), gains

    assert_one_sum(sums, x, y, i)


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_floats(rng, dtype):
    x, y = rough(rng, (ROWS, 3), dtype, spread=2), rough(rng, (ROWS, 4), dtype, spread=2)
    with jax.enable_x64(dtype == "float64"):
        assert_one_sum(lambda x, y: (x.T @ y, x.sum(0)), x, y, numbers=(3, 12))


@pytest.mark.parametrize(
    "groups", ["feature_group_count", "batch_group_count", pytest.param("", marks=pytest.mark.once)]
)
def test_the_gradient_of_a_convolution_in_groups_has_stacked_factors(rng, monkeypatch, groups):
    images = jnp.asarray(rough(rng, (ROWS, 2, 2, 5), spread=4))
    kernel = jnp.asarray(rough(rng, (6, 2, 3), spread=4))

    def gradient(images):
        if groups == "batch_group_count":  # The first half of the batch is one group.
            images = images.swapaxes(0, 1).reshape(-1, 2, 5)
        else:
            images = images.reshape(-1, 4 if groups else 2, 5)
        options = {"window_strides": (1,), "padding": "SAME", **({groups: 2} if groups else {})}
        convolve = functools.partial(lax.conv_general_dilated, images, **options)
        return jax.grad(lambda w: jnp.sum(convolve(w) ** 2))(kernel)

    assert_one_sum(gradient, images, numbers=(3, 4))
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", ALL)
    text = jax.jit(lambda *a: accumulated(gradient, 3, *a)).lower(images).as_text()
    assert not re.search("tensor<6x[0-9x]*x3xui32>", text)  # A state has 6 words.


def test_the_gradient_of_a_ragged_product(rng):
    rows, groups = rough(rng, (ROWS, 5), spread=4), jnp.asarray(rough(rng, (3, 5, 4), spread=4))

    def gradient(rows, chosen):
        order = jnp.argsort(chosen, stable=True)
        sizes = jnp.bincount(chosen, length=3).astype(jnp.int32)
        return jax.grad(lambda w: jnp.sum(lax.ragged_dot(rows[order], w, sizes) ** 2))(groups)

    assert_one_sum(gradient, rows, rng.integers(0, 3, ROWS), numbers=(2, 3))


def weights(rng):
    shapes = {"embedding": (5, 4), "layers": {"w": (2, 4, 4), "b": (2, 4)}, "tied": (4, 4)}
    leaves, tree = jax.tree.flatten(shapes, is_leaf=lambda x: isinstance(x, tuple))
    return jax.tree.unflatten(tree, [jnp.asarray(rough(rng, s, spread=2)) / 4 for s in leaves])


def network(params, tokens, *, remat=False):
    """Returns the loss of a network with a scan over layers, and with tied weights."""

    def layer(h, own):
        return jnp.tanh(h @ own["w"] + own["b"]) @ params["tied"], None

    h = params["embedding"][tokens]
    h, _ = lax.scan(jax.checkpoint(layer) if remat else layer, h, params["layers"])
    return jnp.sum((h @ params["embedding"].T) ** 2) / ROWS


@pytest.mark.parametrize("remat", [False, True])
def test_a_scan_over_layers_tied_weights_and_remat(rng, remat):
    params = weights(rng)

    def step(tokens):
        return jax.value_and_grad(network)(params, tokens, remat=remat)

    assert_one_sum(step, rng.integers(0, 5, ROWS), numbers=(3,))


def test_a_condition(rng):
    x, y, i = rough(rng, (ROWS, 3)), rough(rng, (ROWS, 4)), np.arange(ROWS)

    def sums(x, y, i):
        return lax.cond(i[0] >= 0, lambda: x.T @ y, lambda: jnp.zeros((3, 4)))

    assert_one_sum(sums, x, y, i, numbers=(3,))


def test_a_loop_with_a_counter(rng):
    x = jnp.asarray(rough(rng, (ROWS, 3)))

    def loop(x):
        def add(i, total):
            part = lax.dynamic_slice_in_dim(x, 4 * i, 4)
            return total + part.T @ part

        return lax.fori_loop(0, 3, add, jnp.zeros((3, 3)))

    assert_same(jax.jit(loop)(x), jax.jit(lambda x: x.T @ x)(x))


def test_a_start_other_than_0_is_added_once(rng):
    x = jnp.asarray(rough(rng, (ROWS, 3)))

    def loop(start, x):
        return lax.scan(lambda c, p: (c + p.sum(0), None), start, x.reshape(3, 4, 3))[0]

    start = jnp.float32([1, 0, -5])
    assert_same(jax.jit(loop)(start, x), jax.jit(lambda s, x: s + x.sum(0))(start, x))


@pytest.mark.once
def test_elements_in_doubt_are_counted_again(rng, monkeypatch, real):
    calls = []
    original = states.folded

    def folded(*args):
        calls.append(args)
        return original(*args)

    x, y = rough(rng, (ROWS, 3), real), rough(rng, (ROWS, 4), real)
    x[ROWS // 2 :] = x[: ROWS // 2]
    y[ROWS // 2 :, 0] = -y[: ROWS // 2, 0]  # The first column of the product is 0.
    x, y = jnp.asarray(x), jnp.asarray(y)
    whole = jax.jit(lambda x, y: x.T @ y)(x, y)
    assert not np.asarray(whole)[:, 0].any()
    with monkeypatch.context() as patch:
        patch.setattr(stacked, "BYTES_OF_SUM", NONE)
        patch.setattr(states, "_SAFE", 2.0**80)  # All elements are in doubt.
        patch.setattr(states, "folded", folded)
        with testing.engine("float64"):
            got = jax.jit(lambda x, y: accumulated(lambda x, y: x.T @ y, 3, x, y))(x, y)
    assert calls
    assert_same(got, whole)
    assert_one_sum(lambda x, y: x.T @ y, x, y, numbers=(3,))


@pytest.mark.parametrize(("rows", "is_stacked"), [(12, True), (300, False)])
def test_factors_are_stacked_where_they_take_less_memory_than_states(rng, rows, is_stacked):
    x, y = (jnp.asarray(rough(rng, (2 * rows, 8))) for _ in range(2))
    step = jax.jit(lambda x, y: accumulated(lambda x, y: jnp.tanh(x).T @ jnp.tanh(y), 2, x, y))
    text = step.lower(x, y).as_text()
    assert ("tensor<6x8x8xui32>" in text) is not is_stacked


def clipped(total, part):
    g = part.T @ part
    return total + g / jnp.maximum(1, jnp.abs(g).max()), None


#: Bodies of a scan, and why the sum of each is not joined.
APART = {
    "momentum": (lambda c, p: (0.9 * c + p, None), "its next value is no sum of it and another"),
    "read": (lambda c, p: (c + p, c), "the body reads it elsewhere too"),
    "clipping": (clipped, "div is not linear in the sum, or has a factor of each iteration"),
}


@pytest.mark.parametrize("name", APART)
def test_a_carry_that_is_no_sum_keeps_its_meaning(name):
    body, expected = APART[name]
    (reason,) = reasons(lambda x: lax.scan(body, jnp.zeros((3, 3)), x), jnp.ones((3, 3, 3)))
    assert reason.startswith(expected)


def test_the_audit_names_the_sums_that_are_joined_and_why_others_are_not():
    def loop(x):
        def step(totals, part):
            whole, clipped, mean = totals
            g = part.T @ part
            clipped = clipped + g / jnp.maximum(1, jnp.abs(g).max())
            return (whole + g, clipped, 0.9 * mean + part.mean()), None

        return lax.scan(step, (jnp.zeros((3, 3)), jnp.zeros((3, 3)), jnp.float32(0)), x)[0]

    joined, apart = impl.audit(loop)(jnp.ones((4, 5, 3))).notes
    assert joined.startswith("A loop carries these sums without rounding them: f32[3,3] at ")
    assert joined.count("f32") == 1
    assert apart.startswith("A loop rounds these sums in each iteration: f32[3,3] at ")
    assert "because div is not linear in the sum, or has a factor of each iteration" in apart
    assert apart.count("f32") == 1


def test_a_scan_without_sums_is_lowered_as_it_is():
    def loop(x):
        return lax.scan(lambda c, p: (jnp.tanh(c + p), None), jnp.zeros(3), x)[0]

    x = jnp.ones((3, 3))
    text = str(jax.jit(loop).lower(x).as_text())
    assert set(re.findall(r"samebits_\w+", text)) <= {"samebits_mode", "samebits_function"}


def test_without_the_guarantee_nothing_changes(rng):
    x = jnp.asarray(rough(rng, (ROWS, 3)))
    with impl.deterministic(guarantee="run_to_run"):
        text = jax.jit(lambda x: accumulated(lambda p: p.sum(0), 3, x)).lower(x).as_text()
    assert "ui32" not in text
