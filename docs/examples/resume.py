"""Trains a small net with Orbax's checkpoints and a log of digests; run again, it resumes.

    python docs/examples/resume.py run --steps 10
    python -m impl compare run/log.jsonl other/log.jsonl

Under ``portable`` it may resume on another number of devices.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl


@jax.jit
def train(state: Any, batch: jax.Array) -> tuple[Any, jax.Array]:
    """Returns the state after a step of momentum, and the loss before it."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state["key"]), state["step"])
    noisy = batch + 0.1 * jax.random.normal(key, batch.shape)

    def loss(params: Any) -> jax.Array:
        hidden = jax.nn.gelu(noisy @ params["in"])
        error: jax.Array = hidden @ params["out"] - batch
        return (error**2).mean()

    value, gradient = jax.value_and_grad(loss)(state["params"])
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradient)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], momentum)
    new = {**state, "params": params, "momentum": momentum, "step": state["step"] + 1}
    return new, value


def first_state() -> Any:
    """Returns all that the next step reads: without one of these, a resumed run differs."""
    first, second = jax.random.split(jax.random.key(0))
    params = {
        "in": jax.random.normal(first, (8, 16)) / 4,
        "out": jax.random.normal(second, (16, 8)) / 4,
    }
    momentum = jax.tree.map(jnp.zeros_like, params)
    key = jax.random.key_data(jax.random.key(1))
    return {"params": params, "momentum": momentum, "key": key, "step": jnp.int32(0)}


def main(arguments: list[str] | None = None) -> None:
    """Trains until a step, from the last checkpoint of the folder if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--devices", type=int, default=jax.device_count())
    options = parser.parse_args(arguments)
    impl.use_deterministic_algorithms(True, guarantee="portable")
    mesh = Mesh(np.array(jax.devices()[: options.devices]), ("data",))
    whole = NamedSharding(mesh, PartitionSpec())
    state = jax.device_put(first_state(), whole)
    folder = options.folder.resolve()
    with (
        ocp.CheckpointManager(folder / "checkpoints") as checkpoints,
        impl.DigestLog(folder / "log.jsonl", keep=["loss"]) as log,
    ):
        last = checkpoints.latest_step()
        if last is not None:
            # The target has the shardings, so the arrays come back on the devices of this run.
            target = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
            state = checkpoints.restore(last, args=ocp.args.StandardRestore(target))
        for step in range(int(state["step"]), options.steps):
            batch = np.random.default_rng(step).normal(size=(16, 8)).astype(np.float32)
            sharded = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data")))
            state, loss = train(state, sharded)
            log.log(step, state=state, loss=loss)
        log.flush()  # The log then has every step that the checkpoint has.
        if last != int(state["step"]):
            checkpoints.save(int(state["step"]), args=ocp.args.StandardSave(state))
            checkpoints.wait_until_finished()


if __name__ == "__main__":
    main()
