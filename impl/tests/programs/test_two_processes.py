"""Programs of two processes, which share their arrays: the bits of one, and clear errors.

Tests: impl.diagnosis._processes.
"""

import json
import os
import socket
import sys
from concurrent import futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl.tests.support import processes

pytestmark = pytest.mark.once

#: The variables that tell a process its number and the port.
_PORT, _NUMBER = "SAMEBITS_TEST_PORT", "SAMEBITS_TEST_PROCESS"

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
    return {n: impl.digest(programs(mesh)[n](weights, tokens)) for n in names}, tokens


def failure(call):
    """Returns the type and the text of the error that a call raises."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return [type(error).__name__, str(error)]
    return None


def main():
    """Writes what this process computes and refuses, once it has joined the other one."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ[_PORT]}", 2, int(os.environ[_NUMBER]))
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


@pytest.fixture(scope="module")
def facts():
    """The facts that each of two processes of one device writes, which run this file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(number):
        variables = {_PORT: str(port), _NUMBER: str(number)}
        return processes.run("-m", "impl.tests.programs.test_two_processes", devices=1, **variables)

    with futures.ThreadPoolExecutor(2) as pool:
        both = list(pool.map(run, range(2)))
    for done in both:
        assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(done.stdout.splitlines()[-1]) for done in both]


def test_two_processes_have_the_bits_of_one(facts):
    with impl.deterministic(guarantee="portable"):
        alone = digests("jit")[0]["jit"]
    assert [each["digests"] for each in facts] == [{"jit": alone, "shard_map": alone}] * 2


def test_processes_that_differ_are_told_so(facts):
    assert [each["before"] for each in facts] == [None, None]
    (kind, text), other = (each["apart"] for each in facts)
    assert [kind, text] == other
    assert kind == "RuntimeError"
    assert "guarantee, by the number of the process: run_to_run in 0; portable in 1" in text
    assert "deterministic algorithms, by the number of the process: off in 0; on in 1" in text


def test_a_value_of_which_another_process_has_a_part_is_unknown(facts):
    counts = np.bincount(TOKENS.ravel(), minlength=8).tolist()
    for each in facts:
        assert each["shared"]
        assert each["length"][0] == "TypeError"
        assert "other processes have a part of it; pass length=" in each["length"][1]
        assert each["counts"] == counts
        assert each["same"] is None


def test_a_device_of_another_process_is_refused_by_name(facts):
    for number, each in enumerate(facts):
        kind, text = each["away"]
        assert kind == "ValueError"
        assert f"a device of process {1 - number}, and this is {number}: pass one of" in text


def test_a_process_alone_agrees_with_itself():
    impl.testing.assert_processes_agree()


if __name__ == "__main__":
    main()
