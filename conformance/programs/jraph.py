"""A graph network of Jraph with attention: sums, means and softmaxes over segments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jraph
import optax

from conformance.programs._data import integers, normal

OPTIMIZER = optax.adam(1e-3)
NODES, EDGES, GRAPHS, WIDTH = 30, 100, 3, 5


def joined(params: Any, *parts: Any) -> Any:
    """Returns a hidden layer's and a linear layer's result on features side by side."""
    into, out = params
    return jax.nn.relu(jnp.concatenate(parts, -1) @ into) @ out


def network(params: Any, graph: Any) -> Any:
    """Returns a number for each graph, after two rounds of messages."""
    layer = jraph.GraphNetwork(
        update_edge_fn=lambda *parts: joined(params["edge"], *parts),
        update_node_fn=lambda *parts: joined(params["node"], *parts),
        update_global_fn=lambda *parts: joined(params["graph"], *parts),
        attention_logit_fn=lambda *parts: joined(params["attention"], *parts),
        attention_reduce_fn=lambda edges, weights: edges * weights,
        aggregate_nodes_for_globals_fn=jraph.segment_mean,
    )
    return joined(params["out"], layer(layer(graph)).globals)[:, 0]


def attention(scale: int = 1) -> Any:
    """Returns a step of training by Adam, and its arguments."""
    nodes, edges, graphs = NODES * scale, EDGES * scale, GRAPHS * scale
    ends = {"edge": (4, WIDTH), "node": (4, WIDTH), "graph": (3, WIDTH)}
    ends |= {"attention": (4, 1), "out": (1, 1)}
    params = {
        name: (0.3 * normal(2 * i, inputs * WIDTH, 8), 0.3 * normal(2 * i + 1, 8, outputs))
        for i, (name, (inputs, outputs)) in enumerate(ends.items())
    }
    graph = jraph.GraphsTuple(
        nodes=normal(20, nodes, WIDTH),
        edges=normal(21, edges, WIDTH),
        senders=integers(22, nodes, edges),
        receivers=integers(23, nodes, edges),
        globals=jnp.zeros((graphs, WIDTH)),
        n_node=jnp.full(graphs, NODES // GRAPHS),
        n_edge=jnp.tile(jnp.array([33, 33, 34]), scale),
    )

    def step(params: Any, state: Any, graph: Any, targets: Any) -> Any:
        value, gradients = jax.value_and_grad(
            lambda params: optax.l2_loss(network(params, graph), targets).mean()
        )(params)
        updates, state = OPTIMIZER.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), graph, normal(24, graphs))
