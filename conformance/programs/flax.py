"""Nets of Flax Linen, which are trained by optimizers of Optax.

The step of ``flax_unet`` and the shapes of its data::

    step(params, state, images, labels)    the next params and state, and the loss
    images, labels                         float32[12, 12, 12, 3], int32[12, 12, 12]
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
from flax import linen as nn

from conformance.programs import trained
from conformance.programs._data import integers, normal, weights

_trained = functools.partial(trained, jax.value_and_grad, optax.apply_updates)


class ConvNet(nn.Module):
    """Two blocks of a convolution, a batch norm and a pool; then a linear layer."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (4, 8):
            x = nn.Conv(features, (3, 3), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
            x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        x = nn.Dropout(0.2, deterministic=False)(x.mean((1, 2)))
        return nn.Dense(5)(x)


def cnn(scale: int = 1) -> Any:
    """Returns a step of a convolutional net with overlapping max pools, by momentum."""
    net, key = ConvNet(), jax.random.key(0)
    optimizer = optax.sgd(0.05, momentum=0.9)
    images, labels = normal(0, 4 * scale, 12, 12, 3), integers(1, 5, 4 * scale)
    variables = weights(jax.eval_shape(net.init, {"params": key, "dropout": key}, images))

    def loss(params: Any, stats: Any, images: Any, labels: Any, key: Any) -> Any:
        logits, changed = net.apply(
            {"params": params, "batch_stats": stats},
            images,
            mutable=["batch_stats"],
            rngs={"dropout": key},
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), changed["batch_stats"]

    def step(params: Any, stats: Any, state: Any, images: Any, labels: Any, key: Any) -> Any:
        of_loss = jax.value_and_grad(loss, has_aux=True)
        (value, stats), gradients = of_loss(params, stats, images, labels, key)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), stats, state, value

    params = variables["params"]
    return step, (params, variables["batch_stats"], optimizer.init(params), images, labels, key)


class Block(nn.Module):
    """A convolution with group norm."""

    features: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.relu(nn.GroupNorm(num_groups=2)(nn.Conv(self.features, (3, 3))(x)))


class UNet(nn.Module):
    """Three scales on the left, and two on the right, which also see the left outputs."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        fine = Block(4)(x)
        middle = Block(6)(nn.max_pool(fine, (2, 2), (2, 2)))
        coarse = Block(8)(nn.max_pool(middle, (3, 3), (2, 2), padding="SAME"))
        up = jax.image.resize(coarse, (*middle.shape[:3], 8), "bilinear")
        up = Block(6)(jnp.concatenate([up, middle], -1))
        up = nn.ConvTranspose(4, (2, 2), (2, 2))(up)
        up = Block(4)(jnp.concatenate([up, fine], -1))
        small = nn.avg_pool(up, (2, 2), (2, 2))
        return nn.Conv(3, (1, 1))(up + jax.image.resize(small, up.shape, "nearest"))


def unet(scale: int = 1) -> Any:
    """Returns a step of a U-Net: pools of both kinds, transposed convolutions and resizes."""
    net = UNet()
    images, labels = normal(0, 12 * scale, 12, 12, 3), integers(1, 3, 12 * scale, 12, 12)
    params = weights(jax.eval_shape(net.init, jax.random.key(0), images))

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logits = net.apply(params, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return _trained(loss, optax.adamw(1e-3), params, images, labels)


EXPERTS, CHOSEN = 4, 2


class Experts(nn.Module):
    """A router, and a hidden layer for each expert. Returns the result and a penalty."""

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        count, width = tokens.shape
        capacity = count * CHOSEN // EXPERTS
        shares = nn.softmax(nn.Dense(EXPERTS, use_bias=False, name="router")(tokens))
        weights, expert = jax.lax.top_k(shares, CHOSEN)
        flat = expert.reshape(-1)
        by_expert = jnp.argsort(flat)
        token = by_expert // CHOSEN
        load = jnp.bincount(flat, length=EXPERTS)
        rank = jnp.arange(flat.size) - (jnp.cumsum(load) - load)[flat[by_expert]]
        slot = jnp.where(rank < capacity, flat[by_expert] * capacity + rank, EXPERTS * capacity)
        sent = jnp.zeros((EXPERTS * capacity, width)).at[slot].set(tokens[token], mode="drop")
        init = nn.initializers.lecun_normal(batch_axis=0)
        into = self.param("into", init, (EXPERTS, width, 2 * width))
        out = self.param("out", init, (EXPERTS, 2 * width, width))
        hidden = nn.silu(jnp.einsum("ecd,edf->ecf", sent.reshape(EXPERTS, capacity, width), into))
        answers = jnp.einsum("ecf,efd->ecd", hidden, out).reshape(-1, width)
        back = answers.at[slot].get(mode="fill", fill_value=0)
        back = back * weights.reshape(-1)[by_expert][:, None]
        importance = jnp.zeros(EXPERTS).at[flat].add(weights.reshape(-1))
        spread, _ = jnp.histogram(shares, bins=4, weights=shares)
        return jnp.zeros_like(tokens).at[token].add(back), jnp.var(importance) + spread.std()


def experts(scale: int = 1) -> Any:
    """Returns a step of experts: tokens go to their two best ones, up to a capacity."""
    net = Experts()
    tokens, targets = normal(0, 24 * scale, 6), normal(1, 24 * scale, 6)
    params = weights(jax.eval_shape(net.init, jax.random.key(0), tokens))

    def loss(params: Any, tokens: Any, targets: Any) -> Any:
        result, penalty = net.apply(params, tokens)
        return optax.l2_loss(result, targets).mean() + 0.01 * penalty

    return _trained(loss, optax.adam(1e-3), params, tokens, targets)


WORDS, END = 12, 1


class Writer(nn.RNNCellBase):
    """An LSTM that draws a word from its own scores at each step."""

    @nn.compact
    def __call__(self, carry: Any, x: Any) -> Any:
        state, _ = carry
        state, hidden = nn.LSTMCell(6)(state, x)
        scores = nn.Dense(WORDS)(hidden)
        word = jax.random.categorical(self.make_rng("words"), scores)
        return (state, word), (scores, word)

    @property
    def num_feature_axes(self) -> int:
        return 1


class Translator(nn.Module):
    """The reader's state after the last word of each sequence is the writer's first state."""

    @nn.compact
    def __call__(self, read: Any, written: Any) -> Any:
        embed = nn.Embed(WORDS, 5)
        reader = nn.RNN(nn.LSTMCell(6), return_carry=True)
        writer = nn.RNN(Writer(), split_rngs={"params": False, "words": True})
        lengths = jnp.argmax(read == END, axis=-1)
        state, _ = reader(embed(read), seq_lengths=lengths)
        return writer(embed(written[:, :-1]), initial_carry=(state, written[:, 0]))


def seq2seq(scale: int = 1) -> Any:
    """Returns a step of two LSTMs that read a sequence and write another.

    The structure follows Flax's example ``seq2seq`` (Apache-2.0), with an embedding where that one
    has one-hot vectors: https://github.com/google/flax/blob/main/examples/seq2seq/models.py
    """
    net, key = Translator(), jax.random.key(0)
    read = integers(0, WORDS - 2, 4 * scale, 6).at[:, 4].set(END - 2) + 2
    written = integers(1, WORDS, 4 * scale, 5)
    params = weights(jax.eval_shape(net.init, {"params": key, "words": key}, read, written))

    def loss(params: Any, read: Any, written: Any, key: Any) -> Any:
        scores, _ = net.apply(params, read, written, rngs={"words": key})
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, written[:, 1:])
        lengths = jnp.argmax(written == END, axis=-1)
        seen = (
            jnp.arange(losses.shape[1]) < jnp.where(lengths == 0, losses.shape[1], lengths)[:, None]
        )
        return jnp.sum(losses * seen) / jnp.sum(seen)

    return _trained(loss, optax.adam(3e-3), params, read, written, key)


WIDTH, TASKS = 6, 3


class Perceptron(nn.Module):
    """Two hidden layers."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(2):
            x = nn.relu(nn.Dense(WIDTH)(x))
        return x


class MoleculeNet(nn.Module):
    """Messages over bonds, then a convolution over atoms; each with a skip and a layer norm."""

    @nn.compact
    def __call__(self, graph: Any) -> Any:
        embed = jraph.GraphMapFeatures(nn.Dense(WIDTH), nn.Dense(WIDTH), nn.Dense(WIDTH))
        graph = embed(graph)
        network = jraph.GraphNetwork(
            update_edge_fn=jraph.concatenated_args(Perceptron()),
            update_node_fn=jraph.concatenated_args(Perceptron()),
            update_global_fn=jraph.concatenated_args(Perceptron()),
        )
        sent = network(graph)
        graph = sent._replace(
            nodes=nn.LayerNorm()(graph.nodes + sent.nodes),
            globals=nn.LayerNorm()(graph.globals + sent.globals),
        )
        convolved = jraph.GraphConvolution(Perceptron(), add_self_edges=True)(graph)
        nodes = nn.LayerNorm()(graph.nodes + convolved.nodes)
        graphs = len(graph.n_node)
        of_node = jnp.repeat(jnp.arange(graphs), graph.n_node, total_repeat_length=len(nodes))
        pooled = jraph.segment_mean(nodes, of_node, graphs)
        return nn.Dense(TASKS)(jnp.concatenate([pooled, graph.globals], -1))


def drawn_molecules(scale: int) -> Any:
    """Returns molecules in one graph, with one more that pads it."""
    rng = np.random.default_rng(0)
    parts = []
    for atoms, bonds in ((6, 14), (9, 20), (5, 10)) * scale:
        ends = rng.integers(0, atoms, (2, bonds)).astype(np.int32)
        atom, bond = rng.normal(size=(atoms, 4)), rng.normal(size=(bonds, 3))
        parts.append(
            jraph.GraphsTuple(
                nodes=np.float32(atom),
                edges=np.float32(bond),
                senders=ends[0],
                receivers=ends[1],
                globals=np.zeros((1, 2), np.float32),
                n_node=np.array([atoms], np.int32),
                n_edge=np.array([bonds], np.int32),
            )
        )
    padded = jraph.pad_with_graphs(jraph.batch_np(parts), 24 * scale, 48 * scale, len(parts) + 1)
    return jax.tree.map(jnp.asarray, padded)


def molecules(scale: int = 1) -> Any:
    """Returns a step of a graph network, also of Jraph, that tells properties of molecules.

    The structure follows Flax's example ``ogbg_molpcba`` (Apache-2.0), with both of its models in
    turn: https://github.com/google/flax/blob/main/examples/ogbg_molpcba/models.py
    """
    net, graph = MoleculeNet(), drawn_molecules(scale)
    labels = (normal(1, 3 * scale + 1, TASKS) > 0).astype(jnp.float32).at[1, 2].set(jnp.nan)
    params = weights(jax.eval_shape(net.init, jax.random.key(0), graph))

    def loss(params: Any, graph: Any, labels: Any) -> Any:
        logits = net.apply(params, graph)
        known = ~jnp.isnan(labels) & jraph.get_graph_padding_mask(graph)[:, None]
        losses = optax.sigmoid_binary_cross_entropy(logits, jnp.where(known, labels, 0))
        return jnp.sum(jnp.where(known, losses, 0)) / known.sum()

    return _trained(loss, optax.adam(1e-3), params, graph, labels)


SIZE = 8


class AugmentedNet(nn.Module):
    """Two convolutions with batch norm and max pool, dropout, and a linear layer."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (4, 8):
            x = nn.Conv(features, (3, 3), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.Dropout(0.2, deterministic=False)(x.reshape(len(x), -1))
        return nn.Dense(5)(x)


def changed(key: Any, images: Any) -> Any:
    """Returns each image, perhaps mirrored, moved by up to two pixels, and brighter or darker."""
    mirror, move, light = jax.random.split(key, 3)
    count = len(images)
    mirrored = jax.random.bernoulli(mirror, 0.5, (count, 1, 1, 1))
    images = jnp.where(mirrored, images[:, :, ::-1], images)
    padded = jnp.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    corners = jax.random.randint(move, (count, 2), 0, 5)

    def window(image: Any, corner: Any) -> Any:
        return jax.lax.dynamic_slice(image, (*corner, 0), (SIZE, SIZE, 3))

    lights = jax.random.uniform(light, (count, 1, 1, 1), minval=0.8, maxval=1.2)
    return jax.vmap(window)(padded, corners) * lights


def augmented(scale: int = 1) -> Any:
    """Returns a step over augmented images (flips, shifts, brightness), by Nesterov's momentum."""
    net, key = AugmentedNet(), jax.random.key(0)
    optimizer = optax.sgd(0.05, momentum=0.9, nesterov=True)
    images, labels = normal(0, 8 * scale, SIZE, SIZE, 3), integers(1, 5, 8 * scale)
    variables = weights(jax.eval_shape(net.init, {"params": key, "dropout": key}, images))
    params = variables["params"]
    state = {
        "params": params,
        "stats": variables["batch_stats"],
        "optimizer": optimizer.init(params),
        "step": jnp.int32(0),
    }

    def step(state: Any, images: Any, labels: Any) -> Any:
        own = jax.random.fold_in(jax.random.key(1), state["step"])
        augment, drop = jax.random.split(own)
        images = changed(augment, images)

        def loss(params: Any) -> Any:
            both = {"params": params, "batch_stats": state["stats"]}
            logits, new = net.apply(both, images, rngs={"dropout": drop}, mutable=["batch_stats"])
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return losses.mean(), new["batch_stats"]

        (value, stats), gradients = jax.value_and_grad(loss, has_aux=True)(state["params"])
        updates, moments = optimizer.update(gradients, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        count = state["step"] + 1
        return {"params": params, "stats": stats, "optimizer": moments, "step": count}, value

    return step, (state, images, labels)
