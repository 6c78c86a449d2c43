"""A program whose arrays two processes share; ``test_two_processes`` runs it."""

import hashlib
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl.tests.support import two_processes

RNG = np.random.default_rng(0)
WEIGHTS = {
    "table": RNG.normal(size=(8, 5)).astype(np.float32),
    "w": RNG.normal(size=(5, 6)).astype(np.float32),
}
TOKENS = RNG.integers(0, 6, (16, 2), np.int32)


def loss(weights, tokens):
    logits = jnp.tanh(weights["table"][tokens[:, 0]]) @ weights["w"]
    return impl.nn.functional.cross_entropy(logits, tokens[:, 1])


def programs(mesh):
    """Returns a training step that XLA partitions, and one that adds over devices itself."""

    def partitioned(weights, tokens):
        return jax.value_and_grad(loss)(weights, tokens)

    def mapped(weights, tokens):
        return lax.pmean(jax.value_and_grad(loss)(weights, tokens), "d")

    specs = {"in_specs": (P(), P("d")), "out_specs": P()}
    by_hand = jax.shard_map(mapped, mesh=mesh, check_vma=False, **specs)
    return {"jit": jax.jit(partitioned), "shard_map": jax.jit(by_hand)}


def digests(*names):
    """Returns a digest of each named program for all devices, and the tokens that they share."""
    mesh = Mesh(np.array(jax.devices()), ("d",))

    def placed(array, *axes):
        sharding = NamedSharding(mesh, P(*axes))
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    weights, tokens = jax.tree.map(placed, WEIGHTS), placed(TOKENS, "d")
    found = {}
    for name in names:
        leaves = jax.tree.leaves(programs(mesh)[name](weights, tokens))
        found[name] = hashlib.sha256(b"".join(map(bytes, map(np.asarray, leaves)))).hexdigest()
    return found, tokens


def failure(call):
    """Returns the type and the text of the error that a call raises."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return [type(error).__name__, str(error)]
    return None


def main():
    two_processes.join()
    facts = {"before": failure(impl.testing.assert_processes_agree)}
    if jax.process_index():
        impl.use_deterministic_algorithms(True, guarantee="portable")
    facts["apart"] = failure(impl.testing.assert_processes_agree)
    impl.use_deterministic_algorithms(True, guarantee="portable")
    facts["digests"], tokens = digests("jit", "shard_map")
    flat = jax.jit(jnp.ravel)(tokens)
    double = jax.jit(lambda x: 2 * x)
    away = next(each for each in jax.devices() if each.process_index != jax.process_index())
    facts |= {
        "away": failure(lambda: impl.first_difference(double, 1.0, between=(None, away))),
        "shared": not flat.is_fully_addressable,
        "length": failure(lambda: impl.bincount(flat)),
        "counts": np.asarray(impl.bincount(flat, length=8)).tolist(),
        "same": failure(lambda: impl.testing.assert_deterministic(double, flat, schedules=2)),
    }
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    main()
