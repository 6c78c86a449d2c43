"""Trains small programs, and prints a digest of their results: the same one wherever it runs.

``python -m conformance.lab.portable.programs NAME`` trains one on every device that JAX has, with
the batch sharded over them. ``--plain`` does so with the mode off; ``--eager`` runs the equations
one by one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
from conformance import programs
from conformance.programs import plain


def _flax_cnn() -> programs.Program:
    """Returns the step of the convolutional net of Flax, without the value of its loss."""
    step, (*state, images, labels, key) = programs.build("flax_cnn", scale=4)
    return lambda state, batch: step(*state, *batch, key)[:3], (tuple(state), (images, labels))


#: The number of steps.
STEPS = 3
#: The programs, whose last argument is a batch.
PROGRAMS: Mapping[str, Callable[[], programs.Program]] = {
    "transformer": plain.transformer,
    "mixed_precision": functools.partial(plain.transformer, dtype=jnp.bfloat16),
    "recurrent": plain.recurrent,
    "conv_net": plain.conv_net,
    "flax_cnn": _flax_cnn,
    "curve_fit": plain.curve_fit,
}


def in_its_dtypes(name: str) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which a program is made and run: one has float64, which JAX turns on."""
    scope: contextlib.AbstractContextManager[Any] = jax.enable_x64(name == "curve_fit")
    return scope


def installed() -> list[str]:
    """Returns the programs whose libraries are installed."""
    missing = any(importlib.util.find_spec(name) is None for name in ("flax", "jraph", "optax"))
    return [name for name in PROGRAMS if not (missing and name.startswith("flax"))]


def trained(name: str, *, eager: bool = False) -> str:
    """Returns the SHA-256 of a program's parameters after some steps, under the mode that holds.

    Args:
        name: One of ``PROGRAMS``.
        eager: Whether to run the equations one by one; otherwise a step is one program.

    Examples:
        ``programs.toml`` has the digests that every device and every supported JAX must give. For
        the program ``recurrent`` the command printed, on one kind of CPU::

            mode           devices    digest
            portable       1          33742cac3f62745c...
            portable       8          33742cac3f62745c...
            off            1          2fe4f3f7591cc65c...
            off            8          8367d87ac56ef9ab...

        Over eight devices the batch is sharded, so plain JAX adds the gradients in another order.
    """
    with in_its_dtypes(name):
        return _digest(*PROGRAMS[name](), eager=eager)


def _digest(step: Callable[..., Any], arguments: tuple[Any, ...], *, eager: bool) -> str:
    state, batch = arguments
    mesh = Mesh(np.array(jax.devices()), ("data",))
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data")))
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    call = step if eager else jax.jit(step)
    for _ in range(STEPS):
        state = call(state, batch)
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the release of JAX, and the digest of each program that the command names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=tuple(PROGRAMS))
    parser.add_argument("--plain", action="store_true", help="leave the mode off")
    parser.add_argument("--eager", action="store_true", help="run the equations one by one")
    options = parser.parse_args(arguments)
    impl.use_deterministic_algorithms(not options.plain, guarantee="portable")
    print(f"jax {jax.__version__}")
    for name in options.names:
        print(f"{name} {trained(name, eager=options.eager)}", flush=True)


if __name__ == "__main__":
    main()
