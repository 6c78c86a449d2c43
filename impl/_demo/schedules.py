"""Section 3 of the demo: a scatter-add in the orders that a GPU may take, shown on a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import impl
from impl._demo.report import Report, fingerprint

COUNT = 4096
DESTINATIONS = 4
ORDERS = 20


def inputs() -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the arguments of the scatter-add: initial values, index and source."""
    source = jax.random.normal(jax.random.key(0), (COUNT,), jnp.float32)
    index = jnp.arange(COUNT, dtype=jnp.int32) % DESTINATIONS
    return jnp.zeros(DESTINATIONS, jnp.float32), index, source


def under_schedules(mode: bool, seeds: range) -> list[str]:
    """Returns, for each seed, the fingerprint of the sums under its schedule."""
    seed, fingerprints = impl.testing.Seed(), []

    @jax.jit
    def run(initial: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
        return impl.scatter_add(initial, 0, index, source)

    with jax.default_device(jax.devices("cpu")[0]):
        arguments = inputs()
        with impl.testing.schedule(seed), impl.deterministic(mode, profile="complete"):
            for seed.value in seeds:
                fingerprints.append(fingerprint(run(*arguments)))
    return fingerprints


def exact() -> list[str]:
    """Returns the fingerprints of the exact sums on the default device, of two source orders."""
    initial, index, source = inputs()
    with impl.deterministic(profile="complete", guarantee="portable"):
        forward = impl.scatter_add(initial, 0, index, source)
        backward = impl.scatter_add(initial, 0, index[::-1], source[::-1])
    return [fingerprint(forward), fingerprint(backward)]


def show(report: Report) -> None:
    report.section(f"3. scatter_add of {COUNT} float32 values into {DESTINATIONS} sums")
    report.text(
        f"The kernels for the GPU are interpreted on the CPU, under {ORDERS} orders of programs "
        "and of atomic updates: a GPU may take any of them."
    )
    atomic = under_schedules(False, range(ORDERS))
    ordered = under_schedules(True, range(ORDERS))
    report.line(f"    mode off, atomic path   {len(set(atomic)):>2} different results")
    report.line(f"    mode on, ordered path   {len(set(ordered)):>2}  SHA-256 {ordered[0][:16]}…")
    report.claim("the atomic path gives several results", holds=len(set(atomic)) > 1)
    report.claim("the ordered path gives one", holds=len(set(ordered)) == 1)
    sums = exact()
    report.line(f"    guarantee portable         SHA-256 {sums[0][:16]}…")
    report.claim("under portable the source may have another order", holds=len(set(sums)) == 1)
