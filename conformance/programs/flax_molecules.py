"""A graph network of Flax Linen and Jraph that tells properties of molecules.

The structure follows Flax's example ``ogbg_molpcba`` (Apache-2.0), with both of its models in
turn: https://github.com/google/flax/blob/main/examples/ogbg_molpcba/models.py
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
from flax import linen as nn

from conformance.programs._data import normal, weights

OPTIMIZER = optax.adam(1e-3)
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


def molecules(scale: int) -> Any:
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


def build(scale: int = 1) -> Any:
    """Returns a step of training by Adam, and its arguments."""
    net, graph = MoleculeNet(), molecules(scale)
    labels = (normal(1, 3 * scale + 1, TASKS) > 0).astype(jnp.float32).at[1, 2].set(jnp.nan)
    params = weights(jax.eval_shape(net.init, jax.random.key(0), graph))

    def loss(params: Any, graph: Any, labels: Any) -> Any:
        logits = net.apply(params, graph)
        known = ~jnp.isnan(labels) & jraph.get_graph_padding_mask(graph)[:, None]
        losses = optax.sigmoid_binary_cross_entropy(logits, jnp.where(known, labels, 0))
        return jnp.sum(jnp.where(known, losses, 0)) / known.sum()

    def step(params: Any, state: Any, graph: Any, labels: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, graph, labels)
        updates, state = OPTIMIZER.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), graph, labels)
