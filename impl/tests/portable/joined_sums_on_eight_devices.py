"""Data-parallel programs and micro-batches on 1 to 8 devices; ``test_engines`` runs it."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._portable.carried_sums import stacked
from impl.tests.exact._sums import assert_same, rough
from impl.tests.portable import test_carried_sums

pytestmark = pytest.mark.usefixtures("portable")

SAME = P()


def on(count, function, *args, specs, check=False, out=SAME, shape=None, names=("d",)):
    """Returns what a ``shard_map`` of a function returns on some devices."""
    devices = np.array(jax.devices()[:count]).reshape(shape or (count,))
    mapped = jax.shard_map(
        function, mesh=Mesh(devices, names), in_specs=specs, out_specs=out, check_vma=check
    )
    return jax.jit(mapped)(*args)


def assert_equal(results):
    first, *others = (jax.tree.leaves(result) for result in results)
    assert any(np.asarray(leaf).any() for leaf in first)
    for other in others:
        for one, another in zip(first, other, strict=True):
            assert_same(np.asarray(one), np.asarray(another))


def loss(params, x):
    """Returns the loss of a network with a table, a product and a bias."""
    h = jnp.tanh(params["table"][x] @ params["w"] + params["b"])
    return jnp.mean(h**2) + 0.1 * jnp.sum(params["w"] ** 2)


def network(rng):
    shapes = {"table": (7, 5), "w": (5, 4), "b": (4,)}
    params = {name: jnp.asarray(rough(rng, shape)) / 8 for name, shape in shapes.items()}
    return params, jnp.asarray(rng.integers(0, 7, (64, 2)))


def outside(params, x):
    return jax.grad(lambda params: lax.pmean(loss(params, x), "d"))(params)


def inside(params, x):
    return lax.pmean(jax.grad(loss)(params, x), "d")


def test_gradients_of_parameters(rng):
    params, x = network(rng)
    options = {"specs": (P(), P("d"))}
    checked = on(8, outside, params, x, check=True, **options)
    assert_equal([on(n, inside, params, x, **options) for n in (1, 4)] + [checked])


def normed(params, x):
    """Returns a product, normalized by the statistics of all devices, by the formula of Flax."""
    x = x @ params["w"]
    mean, square = lax.pmean((x.mean(0), (x**2).mean(0)), "d")
    return (x - mean) * lax.rsqrt(square - mean**2 + 1e-5) * params["scale"]


def mean_inside(params, x):
    return lax.pmean(jnp.mean(normed(params, x) ** 3), "d")


def gradients_of_batch_norm(rng, *, inside, check):
    """Returns the gradients on 1 and 8 devices, with the mean in or outside of ``shard_map``."""
    params = {"w": rng.normal(size=(3, 4)), "scale": rng.normal(size=4)}
    params = jax.tree.map(jnp.float32, params)
    x = jnp.float32(rng.normal(size=(64, 3)))
    options = {"specs": (P(), P("d")), "check": check}

    def loss(count, params):
        if inside:
            return on(count, mean_inside, params, x, **options)
        return jnp.mean(on(count, normed, params, x, out=P("d"), **options) ** 3)

    return [jax.jit(jax.grad(functools.partial(loss, n)))(params) for n in (1, 8)]


@pytest.mark.parametrize("inside", [pytest.param(True, marks=pytest.mark.once), False])
def test_batch_norm_has_the_gradient_of_one_device(rng, inside):
    assert_equal(gradients_of_batch_norm(rng, inside=inside, check=True))


@pytest.mark.once
def test_batch_norm_without_check_vma_shows_the_number_of_devices(rng):
    one, eight = gradients_of_batch_norm(rng, inside=False, check=False)
    np.testing.assert_allclose(one["w"], eight["w"], 1e-3, 1e-5)
    # docs/not-covered.md says so, and has to change if this does.
    assert (np.asarray(one["w"]) != np.asarray(eight["w"])).any()


def test_a_device_may_have_one_row(rng):
    shapes = (8, 5), (5, 40), (8, 17, 40), (40,)
    x, w, y, gain = (jnp.asarray(rough(rng, shape, spread=3)) for shape in shapes)

    def add(x, y):
        of_gain = jax.grad(lambda gain: jnp.sum(jnp.tanh(y * jnp.exp(gain) / gain)))
        return lax.psum(((x @ w).sum(0), of_gain(gain)), "d")

    assert_equal([on(n, add, x, y, specs=(P("d"), P("d"))) for n in (1, 8)])


def momentum(x, w):
    def step(carry, _):
        speed, place = carry
        speed = 0.9 * speed + x.sum(0)
        return (speed, place - 0.1 * speed), place

    return lax.scan(step, (0 * w[0], 0 * w[0]), None, length=3)


def in_the_body(x, w):
    """Returns the sums over devices of a value, after each iteration."""

    def step(speed, k):
        speed = 0.9 * speed + (k * x).sum(0)
        return speed, lax.psum(speed, "d")

    return lax.scan(step, 0 * w[0], jnp.arange(3.0))[1]


def in_turn(x, w):
    return lax.fori_loop(0, 3, lambda _, c: (c[1], c[0] + x.sum(0)), (0 * w[0], 0 * w[0]))


def from_outside(x, w):
    """Returns sums of values that a scan gets as its first carry, a constant and slices."""
    total = x.sum(0)
    _, rows = lax.scan(lambda _, k: (0.0, (k * x).sum(0)), 0.0, jnp.arange(3.0))
    first = lax.fori_loop(0, 3, lambda _, c: c @ w, total)
    constant = lax.fori_loop(0, 3, lambda _, c: c / 3 + total, 0 * w[0])
    return first, constant, lax.scan(lambda c, row: (c / 3 + row, c @ w), 0 * w[0], rows)


def in_scans(x, w):
    def outer(carry, k):
        carry, rows = lax.scan(lambda c, j: (c / 3 + (x * j).sum(0) * k, c), carry, jnp.arange(3.0))
        return carry / 2, rows.sum(0)

    return lax.scan(outer, 0 * w[0], jnp.arange(1.0, 3.0))


def in_branches(x, w):
    def step(carry, k):
        grown = jax.checkpoint(lambda c: c @ w + x.sum(0))
        return lax.cond(k > 1, lambda c: c * 3.3, grown, carry), None

    chosen = lax.cond(w[0, 0] > 0, lambda s: s * 3.3, lambda s: s @ w, x.sum(0))
    return chosen, lax.scan(step, 0 * w[0], jnp.arange(3.0))


@pytest.mark.parametrize("check", [True, pytest.param(False, marks=pytest.mark.once)])
def test_what_loops_and_branches_make_of_sums(rng, check):
    x, w = (jnp.asarray(rough(rng, shape)) for shape in ((16, 4), (4, 4)))
    programs = (momentum, in_turn, from_outside, in_scans, in_branches)

    def sums(x, w):
        # With `check_vma`, a carry has to vary over devices from the start.
        own = lax.pcast(w, ("d",), to="varying") if check else w
        return lax.psum([program(x, own) for program in programs], "d"), in_the_body(x, own)

    assert_equal([on(n, sums, x, w, specs=(P("d"), P()), check=check) for n in (1, 8)])


def test_a_network_whose_weights_are_cut_has_the_bits_of_the_whole(rng):
    x, a, b = (jnp.asarray(rough(rng, shape)) for shape in ((6, 5), (5, 16), (16, 3)))

    def layers(x, a, b):
        return jnp.maximum(x @ a, 0) @ b

    def cut(x, a, b):
        return lax.psum(layers(x, a, b), "m")

    specs = (P("d"), P(None, "m"), P("m"))
    options = {"shape": (2, 4), "names": ("d", "m"), "out": P("d")}
    assert_equal([jax.jit(layers)(x, a, b), on(8, cut, x, a, b, specs=specs, **options)])


@pytest.mark.parametrize("check", [True, pytest.param(False, marks=pytest.mark.once)])
def test_a_convolution_whose_features_are_cut_has_the_bits_of_the_whole(rng, check):
    shapes = (3, 4, 7), (8, 4, 3), (3, 8, 7)
    images, kernel, cotangent = (jnp.asarray(rough(rng, shape)) for shape in shapes)

    def convolved(images, kernel, cotangent):
        result, pull = jax.vjp(
            lambda *a: lax.conv_general_dilated(*a, (1,), "SAME"), images, kernel
        )
        return result, pull(cotangent)[1]

    parts = {"specs": (SAME, P("d"), P(None, "d")), "out": (P(None, "d"), P("d"))}
    args = (images, kernel, cotangent)
    assert_equal([on(n, convolved, *args, check=check, **parts) for n in (1, 8 if check else 2)])


def cancelling(rng, axis):
    """Returns images, a kernel and a cotangent, whose sums along an axis of the images cancel.

    Only the terms of one element remain.
    """
    images, kernel, cotangent = (rough(rng, shape) for shape in ((8, 8, 16), (8, 8, 3), (8, 8, 16)))
    images[4:], images[:, 4:] = images[:4], images[:, :4]
    if axis == 0:
        cotangent[4:] = -cotangent[:4]
    else:
        kernel[:, 4:] = -kernel[:, :4]
    images[5, 6, 7] = 2.0**-40
    return images, kernel, cotangent


def convolutions(images, kernel, cotangent, groups=1):
    """Returns a convolution and both gradients."""

    def convolved(images, kernel):
        return lax.conv_general_dilated(images, kernel, (1,), "SAME", feature_group_count=groups)

    result, pull = jax.vjp(convolved, images, kernel)
    return result, *pull(cotangent)


@pytest.mark.parametrize(
    ("spec", "groups", "shape"),
    [
        (P("d"), 1, (8, 1)),
        # XLA's own partitioner adds the terms of a kernel with groups as often as there are devices
        # along the other axis.
        (P("d"), 4, (2, 4)),
        pytest.param(P(None, "d"), 1, (8, 1), marks=pytest.mark.once),
        pytest.param(P(None, "d"), 4, (2, 1), marks=pytest.mark.once),
        (P(None, None, "d"), 4, (2, 1)),
    ],
    ids=str,
)
def test_convolutions_that_xla_partitions(rng, spec, groups, shape):
    images, kernel, cotangent = cancelling(rng, 0 if spec == P("d") else 1)
    kernel = kernel[:, : 8 // groups]

    def on_mesh(*shape):
        devices = np.array(jax.devices()[: np.prod(shape)]).reshape(shape)
        sharding = NamedSharding(Mesh(devices, ("d", "m")), spec)
        placed = (jax.device_put(each, sharding) for each in (images, cotangent))
        run = jax.jit(functools.partial(convolutions, groups=groups))
        return run(next(placed), kernel, next(placed))

    assert_equal([on_mesh(1, 1), on_mesh(*shape)])


@pytest.mark.once
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("groups", [1, 4])
def test_the_gradient_of_a_kernel_is_one_sum_of_all_images(rng, groups, check):
    images, kernel, cotangent = cancelling(rng, 0)
    kernel = kernel[:, : 8 // groups]

    def gradient(images, kernel, cotangent):
        def loss(kernel):
            return jnp.sum(convolutions(images, kernel, cotangent, groups)[0] * cotangent)

        if check:
            return jax.grad(lambda kernel: lax.psum(loss(kernel), "d"))(kernel)
        return lax.psum(jax.grad(loss)(kernel), "d")

    options = {"specs": (P("d"), SAME, P("d")), "check": check}
    args = (images, kernel, cotangent)
    results = [on(n, gradient, *args, **options) for n in (1, 2 if check else 8)]
    alone = jax.jit(lambda *args: convolutions(*args, groups)[2])
    assert_equal([alone(*args), *results])


@pytest.mark.parametrize("check", [True, pytest.param(False, marks=pytest.mark.once)])
def test_a_convolution_whose_channels_are_cut_is_one_sum(rng, check):
    images, kernel, _ = cancelling(rng, 1)
    kernel[2, 1, 0], kernel[3, 7, 2] = np.inf, np.nan  # On one device each.
    images[1, 2, 3] = -np.inf

    def convolved(images, kernel):
        return lax.psum(lax.conv_general_dilated(images, kernel, (1,), "SAME"), "d")

    options = {"specs": (P(None, "d"), P(None, "d")), "check": check}
    results = [on(n, convolved, images, kernel, **options) for n in (1, 2 if check else 8)]
    alone = jax.jit(lambda *args: convolutions(*args)[0])
    assert_equal([alone(images, kernel, images), *results])
    assert np.isnan(np.asarray(results[0])[:, 2:4]).all()


def test_the_extremes_of_devices():
    x = np.array([-0.0, 0.0, 1.0, np.inf, -1.0, -np.inf, 2.0, np.nan], np.float32)

    def extremes(x):
        return lax.pmax(x, "d"), lax.pmin(x, "d")

    for most, least, part in ((2, -np.inf, x[:7]), (np.nan, np.nan, x[4:])):
        parts = np.resize(part[part != np.inf], 8)
        got = np.concatenate(on(8, extremes, parts, specs=P("d")))
        assert_same(got, np.array([most, least], np.float32))
    zeros = np.concatenate(on(2, extremes, x[:2], specs=P("d")))
    assert np.signbit(zeros).tolist() == [False, True]


def test_infinities_and_nans_of_one_device(rng):
    x, y = rough(rng, (16, 3)), rough(rng, (16, 4))
    x[9, 1], x[3, 2], y[12, 0] = np.inf, -np.inf, np.nan

    def product(x, y):
        return lax.psum(x.T @ y, "d"), lax.psum(x.sum(0), "d")

    results = [on(n, product, x, y, specs=(P("d"), P("d"))) for n in (1, 8)]
    assert_equal(results)
    assert np.isnan(results[0][0]).any()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(7)
    return test_carried_sums.weights(rng), jnp.asarray(rng.integers(0, 5, 48))


of_layers = functools.partial(test_carried_sums.network, remat=True)


def accumulated(params, tokens, number, *, varies=False):
    """Returns the gradient of micro-batches, added in a scan."""
    start = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
    if varies:  # With check_vma, the zeros of ``params`` vary as ``params`` do.
        start = lax.pcast(start[0], ("d",), to="varying"), start[1]

    def add(total, part):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(of_layers)(params, part)), None

    return lax.scan(add, start, tokens.reshape(number, -1))[0]


@pytest.fixture(scope="module")
def want(problem):
    with impl.deterministic(guarantee="portable", profile="complete"):
        return jax.jit(jax.value_and_grad(of_layers))(*problem)


@pytest.mark.parametrize(
    ("devices", "number", "room"), [(8, 6, 1 << 40), pytest.param(8, 1, -1, marks=pytest.mark.once)]
)
def test_micro_batches_sharded_by_jit(problem, want, monkeypatch, devices, number, room):
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", room)  # Whether the scan stacks factors.
    params, tokens = problem
    mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
    placed = jax.device_put(tokens, NamedSharding(mesh, P("d")))
    params = jax.device_put(params, NamedSharding(mesh, P()))
    step = jax.jit(functools.partial(accumulated, number=number))
    assert_equal([step(params, placed), want])


@pytest.mark.parametrize(
    ("devices", "number", "check", "room"),
    [
        pytest.param(2, 12, False, -1, marks=pytest.mark.once),
        (4, 3, False, 1 << 40),
        (8, 2, True, 1 << 40),
    ],
)
def test_micro_batches_in_a_shard_map(problem, want, monkeypatch, devices, number, check, room):
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", room)

    def step(params, tokens):
        if check:
            params = lax.pcast(params, ("d",), to="varying")
        return lax.psum(accumulated(params, tokens, number, varies=check), "d")

    text = jax.jit(functools.partial(on, devices, step, specs=(P(), P("d")), check=check))
    assert ("tensor<6x5x4xui32>" in text.lower(*problem).as_text()) is (room < 0)  # Of the table.
    assert_equal([on(devices, step, *problem, specs=(P(), P("d")), check=check), want])


def test_accumulators_of_devices_are_merged(problem, want):
    params, tokens = problem
    step = jax.value_and_grad(of_layers)
    empty = impl.Accumulator.like(want, step, params, tokens[:6])

    def own(params, tokens):
        return jax.tree.map(lambda array: array[None], empty.add(step, params, tokens))

    several = on(8, own, params, tokens, specs=(P(), P("d")), out=P("d"))
    each = [jax.tree.map(lambda array, n=n: array[n], several) for n in range(8)]
    assert_equal([functools.reduce(operator.add, each).value(), want])


def test_a_second_count_on_some_devices(monkeypatch, real):
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", -1)  # The scan carries states.
    # Of the columns of devices along "m", only the first two cancel, and are in doubt. All devices
    # count again, since they wait for each other in the body.
    rng = np.random.default_rng(1)
    x, y = (rough(rng, shape, real, spread=3) for shape in ((16, 3), (16, 8)))
    x[1::2], y[1::2, :2] = x[::2], -y[::2, :2]
    x, y = jnp.asarray(x), jnp.asarray(y)

    def step(x, y):
        def add(total, part):
            return total + lax.psum(part[0] / 4, "m").T @ part[1], None

        parts = x.reshape(2, -1, 3), y.reshape(2, -1, y.shape[1])
        total, _ = lax.scan(add, jnp.zeros((3, y.shape[1])), parts)
        return lax.psum(total, "d")

    axes = {"shape": (2, 4), "names": ("d", "m"), "out": P(None, "m")}
    got = on(8, step, x, y, specs=(P("d"), P("d", "m")), **axes)
    assert not np.asarray(got)[:, :2].any()
    assert_same(got, jax.jit(lambda x, y: x.T @ y)(x, y))
