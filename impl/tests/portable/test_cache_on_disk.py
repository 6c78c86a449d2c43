"""A second process compiles nothing again: JAX's cache on disk has all programs of the first.

Tests: impl._portable.rule, impl._lowerings._partitioning.
"""

import json
import os
import subprocess
import sys

import pytest

#: A product, a convolution, sums, scatters and an op of impl, over two devices.
PROGRAM = """
import json
import sys

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl

counts = {}
jax.monitoring.register_event_listener(lambda e, **_: counts.update({e: counts.get(e, 0) + 1}))
impl.use_deterministic_algorithms(True, guarantee=sys.argv[1])
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))
x = jax.device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), sharding)
index = jnp.arange(8) % 3


@jax.jit
def step(w, x, index):
    def loss(w):
        rows = jnp.tanh(x @ w)
        sums = jax.ops.segment_sum(rows, index, 3)
        image = jnp.convolve(rows[:, 0], w[0])
        return (sums**2).mean() + image.sum() + impl.index_add(sums, 0, index, rows).sum()

    return jax.grad(loss)(w)


bits = np.asarray(step(jnp.eye(4), x, index)).tobytes().hex()
print(json.dumps([bits, counts.get("/jax/compilation_cache/cache_hits", 0),
                  counts.get("/jax/compilation_cache/cache_misses", 0)]))
"""


@pytest.mark.parametrize("guarantee", ["run_to_run", "portable"])
def test_a_second_process_compiles_nothing(tmp_path, guarantee):
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def run():
        text = subprocess.check_output(
            [sys.executable, "-c", PROGRAM, guarantee], env=environment, text=True
        )
        return json.loads(text.splitlines()[-1])

    bits, hits, misses = run()
    assert (hits, misses > 0) == (0, True)
    again, hits, missed = run()
    assert again == bits
    assert (hits, missed) == (misses, 0)
