"""A second process compiles nothing again: JAX's cache on disk has all programs of the first.

Tests: impl._portable.rule, impl._core.partitioning, impl._jax.partitions.
"""

import json

from impl.tests.support import processes

#: A product, a convolution, sums, scatters and ops of impl, over two devices. The running sums and
#: products are alike but for what they compute. The argument is a version. A line of the output is
#: about one guarantee.
PROGRAM = """
import json

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl

counts = {}
jax.monitoring.register_event_listener(lambda e, **_: counts.update({e: counts.get(e, 0) + 1}))
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))
x = jax.device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), sharding)
index = jnp.arange(8) % 3


def loss(w, x, index):
    rows = jnp.tanh(x @ w)
    sums = jax.ops.segment_sum(rows, index, 3)
    image = jnp.convolve(rows[:, 0], w[0])
    running = impl.cumsum(rows, 0) - impl.cumprod(rows, 0)
    added = impl.index_add(sums, 0, index, rows)
    return (sums**2).mean() + image.sum() + added.sum() + (running**2).sum()


w = jnp.eye(4)
for guarantee in ("run_to_run", "portable"):
    counts.clear()
    with impl.deterministic(guarantee=guarantee):
        bits = np.asarray(jax.jit(jax.grad(loss))(w, x, index)).tobytes().hex()
        products = np.asarray(jax.jit(lambda x: impl.cumprod(x, 0))(x)).tolist()
        sums = np.asarray(jax.jit(lambda x: impl.cumsum(x, 0))(x)).tolist()
    assert products == np.cumprod(np.asarray(x), 0).tolist()
    assert sums == np.cumsum(np.asarray(x), 0).tolist()
    print(json.dumps([bits, counts.get("/jax/compilation_cache/cache_hits", 0),
                      counts.get("/jax/compilation_cache/cache_misses", 0)]))
"""


def test_a_second_process_compiles_nothing(tmp_path):
    variables = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def run():
        done = processes.run("-c", PROGRAM, devices=2, **variables)
        assert done.returncode == 0, done.stderr
        return map(json.loads, done.stdout.splitlines()[-2:])

    for first, second in zip(run(), run(), strict=True):
        bits, hits, misses = first
        assert hits < misses
        assert second == [bits, hits + misses, 0]
