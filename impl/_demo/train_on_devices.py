"""``python -m impl._demo.train_on_devices``: trains on all devices, and writes two fingerprints.

The batch is cut over the devices. The first training is plain JAX, the second is the same program
with the guarantee ``portable``. The demo starts this in processes with 1 and with 8 devices.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
from impl._demo import model
from impl._demo.model import Settings, Weights
from impl._demo.report import fingerprint

#: One step is compiled twice, which takes most of the time.
SETTINGS = Settings(steps=5, batch=64, width=8, hidden=16, rate=0.5)


@jax.jit
def step(weights: Weights, contexts: jax.Array, following: jax.Array) -> Weights:
    """Returns the weights after one step down the gradient."""
    gradient = jax.grad(model.loss)(weights, contexts, following)
    moved: Weights = jax.tree.map(lambda w, g: w - SETTINGS.rate * g, weights, gradient)
    return moved


def trained() -> str:
    """Returns the fingerprint of the weights after some steps under the mode that holds."""
    text = model.load_text()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    whole, cut = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("data",)))
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(
        lambda: model.initial_weights(jax.random.key(0), SETTINGS, text.alphabet)
    )
    weights = jax.device_put(
        jax.tree.map(lambda x: np.float32(rng.normal(size=x.shape) / 4), shapes), whole
    )
    for _ in range(SETTINGS.steps):
        starts = rng.integers(0, len(text.train) - model.CONTEXT, SETTINGS.batch)
        batch = model.windows(jnp.asarray(text.train), jnp.asarray(starts))
        weights = step(weights, *jax.device_put(batch, cut))
    return fingerprint(weights)


if __name__ == "__main__":
    plain = trained()
    impl.use_deterministic_algorithms(True, guarantee="portable")
    json.dump({"plain": plain, "portable": trained()}, sys.stdout)
