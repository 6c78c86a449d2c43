"""Six programs as users write them, with nothing but JAX: each trains a model or samples.

Each function returns a step and its arguments. They are small, so that a test can compile them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) * 0.3, jnp.float32)


def _integers(seed, below, *shape):
    return jnp.asarray(np.random.default_rng(seed).integers(0, below, shape), jnp.int32)


def _cross_entropy(logits, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -chosen.mean()


def _trained(loss, rate=0.1):
    """A step of gradient descent with momentum."""

    def step(params, momentum, *batch):
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - rate * m, params, momentum), momentum, value

    return step


def _conv(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _max_pool(x, size, stride):
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")


def image_classifier():
    """Convolutions with batch norm, overlapping max pools and dropout."""
    params = {"first": _normal(0, 3, 3, 3, 4), "second": _normal(1, 3, 3, 4, 8)}
    params |= {"head": _normal(2, 8, 5)}

    def loss(params, images, labels, key):
        x = images
        for name in ("first", "second"):
            x = _conv(x, params[name])
            x = (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)
            x = _max_pool(jax.nn.relu(x), 3, 2)
        x = x.mean((1, 2))
        x = jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)
        return _cross_entropy(x @ params["head"], labels)

    args = (_normal(3, 4, 12, 12, 3), _integers(4, 5, 4), jax.random.key(0))
    return _trained(loss), (params, jax.tree.map(jnp.zeros_like, params), *args)


def graph_network():
    """Messages over edges, weighted by a softmax over the edges of each node."""
    nodes, edges, width, graphs = 30, 120, 6, 3
    params = {"message": _normal(0, 2 * width, width), "score": _normal(1, 2 * width)}
    params |= {"node": _normal(2, 2 * width, width), "out": _normal(3, width)}

    def layer(params, x, senders, receivers):
        pairs = jnp.concatenate([x[senders], x[receivers]], -1)
        score = pairs @ params["score"]
        score = score - jax.ops.segment_max(score, receivers, nodes)[receivers]
        weight = jnp.exp(score)
        weight = weight / jax.ops.segment_sum(weight, receivers, nodes)[receivers]
        sent = jnp.tanh(pairs @ params["message"]) * weight[:, None]
        gathered = jax.ops.segment_sum(sent, receivers, nodes)
        return jnp.tanh(jnp.concatenate([x, gathered], -1) @ params["node"])

    def loss(params, x, senders, receivers, targets):
        for _ in range(2):
            x = layer(params, x, senders, receivers)
        pooled = jax.ops.segment_sum(x, jnp.arange(nodes) // (nodes // graphs), graphs)
        return jnp.mean((pooled @ params["out"] - targets) ** 2)

    args = (_normal(4, nodes, width), _integers(5, nodes, edges), _integers(6, nodes, edges))
    momentum = jax.tree.map(jnp.zeros_like, params)
    return _trained(loss), (params, momentum, *args, _normal(7, graphs))


def sampler():
    """Hamiltonian Monte Carlo on a regression with an offset for each group."""
    groups, points = 7, 60

    def density(state, group, x, y):
        centre = state["offset"][group] + state["slope"] * x
        prior = jnp.sum((state["offset"] - state["mean"]) ** 2) + state["mean"] ** 2
        return -jnp.sum((y - centre) ** 2) - prior - state["slope"] ** 2

    def step(state, key, group, x, y):
        keys = jax.random.split(key, len(state) + 1)
        leaves, tree = jax.tree.flatten(state)
        drawn = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=False)]
        momentum = jax.tree.unflatten(tree, drawn)

        def leapfrog(carry, _):
            state, momentum = carry
            slope = jax.grad(density)(state, group, x, y)
            momentum = jax.tree.map(lambda m, s: m + 0.01 * s, momentum, slope)
            return (jax.tree.map(lambda p, m: p + 0.01 * m, state, momentum), momentum), None

        (moved, _), _ = lax.scan(leapfrog, (state, momentum), None, length=4)
        better = density(moved, group, x, y) - density(state, group, x, y)
        accepted = jnp.log(jax.random.uniform(keys[-1])) < better
        return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), moved, state)

    state = {"mean": jnp.zeros(()), "offset": _normal(0, groups), "slope": jnp.ones(())}
    args = (jax.random.key(1), _integers(1, groups, points), _normal(2, points), _normal(3, points))
    return step, (state, *args)


def language_model():
    """An embedding and a recurrent cell in a scan, over a batch, with rematerialization."""
    words, width = 11, 6
    params = {"table": _normal(0, words, width), "gates": _normal(1, 2 * width, 2 * width)}
    params |= {"new": _normal(2, 2 * width, width), "out": _normal(3, width, words)}

    def loss(params, text):
        def cell(state, x):
            gates = jax.nn.sigmoid(jnp.concatenate([state, x]) @ params["gates"])
            reset, update = jnp.split(gates, 2)
            new = jnp.tanh(jnp.concatenate([reset * state, x]) @ params["new"])
            state = update * state + (1 - update) * new
            return state, state

        def of_one(words):
            inputs = params["table"][words[:-1]]
            _, states = lax.scan(jax.checkpoint(cell), jnp.zeros(width), inputs)
            return _cross_entropy(states @ params["out"], words[1:])

        return jax.vmap(of_one)(text).mean()

    momentum = jax.tree.map(jnp.zeros_like, params)
    return _trained(loss), (params, momentum, _integers(4, words, 3, 9))


def segmenter():
    """Convolutions at two scales: both kinds of pool, and both kinds of resize."""
    params = {"fine": _normal(0, 3, 3, 3, 4), "coarse": _normal(1, 3, 3, 4, 4)}
    params |= {"deep": _normal(2, 3, 3, 4, 4), "up": _normal(3, 2, 2, 4, 4)}
    params |= {"out": _normal(4, 1, 1, 4, 3)}

    def normed(x):
        return (x - x.mean((1, 2), keepdims=True)) * lax.rsqrt(x.var((1, 2), keepdims=True) + 1e-5)

    def loss(params, images, labels):
        fine = jax.nn.relu(normed(_conv(images, params["fine"])))
        coarse = jax.nn.relu(normed(_conv(_max_pool(fine, 2, 2), params["coarse"])))
        deep = jax.nn.relu(_conv(_max_pool(coarse, 3, 2), params["deep"]))
        coarse = coarse + jax.image.resize(deep, coarse.shape, "bilinear")
        up = lax.conv_transpose(coarse, params["up"], (2, 2), "SAME")
        small = lax.reduce_window(up, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        up = fine + up + jax.image.resize(small / 4, up.shape, "nearest")
        return _cross_entropy(_conv(up, params["out"]), labels)

    momentum = jax.tree.map(jnp.zeros_like, params)
    args = (_normal(5, 2, 8, 8, 3), _integers(6, 3, 2, 8, 8))
    return _trained(loss), (params, momentum, *args)


def mixture_of_experts():
    """Tokens go to their two best experts, sorted, up to a capacity, and come back weighted."""
    tokens, width, experts, chosen = 24, 5, 4, 2
    capacity = tokens * chosen // experts
    params = {"route": _normal(0, width, experts), "up": _normal(1, experts, width, 2 * width)}
    params |= {"down": _normal(2, experts, 2 * width, width)}

    def layer(params, x):
        probabilities = jax.nn.softmax(x @ params["route"])
        weights, expert = lax.top_k(probabilities, chosen)
        expert = expert.reshape(-1)
        order = jnp.argsort(expert)
        token = order // chosen
        load = jnp.bincount(expert, length=experts)
        position = jnp.arange(expert.size) - (jnp.cumsum(load) - load)[expert[order]]
        slot = jnp.where(position < capacity, expert[order] * capacity + position, -1)
        slot = jnp.where(slot < 0, experts * capacity, slot)
        buffer = jnp.zeros((experts * capacity, width)).at[slot].set(x[token], mode="drop")
        hidden = jax.nn.silu(
            jnp.einsum("ecd,edf->ecf", buffer.reshape(experts, capacity, width), params["up"])
        )
        result = jnp.einsum("ecf,efd->ecd", hidden, params["down"]).reshape(-1, width)
        back = result.at[slot].get(mode="fill", fill_value=0)
        back = back * weights.reshape(-1)[order][:, None]
        importance = jnp.zeros(experts).at[expert].add(weights.reshape(-1))
        spread = jnp.histogram(probabilities, bins=4, weights=probabilities)[0]
        return jnp.zeros_like(x).at[token].add(back), jnp.var(importance) + spread.mean()

    def loss(params, x, targets):
        out, penalty = layer(params, x)
        return jnp.mean((out - targets) ** 2) + 0.01 * penalty

    momentum = jax.tree.map(jnp.zeros_like, params)
    return _trained(loss), (params, momentum, _normal(3, tokens, width), _normal(4, tokens, width))


PROGRAMS = (
    image_classifier,
    graph_network,
    sampler,
    language_model,
    segmenter,
    mixture_of_experts,
)
