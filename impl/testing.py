"""Tools that let a machine without a GPU test what a GPU would do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
from jax.sharding import AbstractDevice, AbstractMesh

from impl._mode import emulation
from impl._mode.decide import questions as questions
from impl._mode.emulation import Emulation
from impl._mode.emulation import Seed as Seed


@contextlib.contextmanager
def emulate(
    platform: str,
    *,
    lowering: Literal["kernel", "xla", "native"] = "kernel",
    seed: int | Seed | None = None,
) -> Iterator[None]:
    """Inside, the CPU carries out what ``platform`` would: its rows, alerts and lowerings.

    For this thread only, as ``impl.deterministic``.

    Args:
        platform: "cuda", "rocm" or "cpu".
        lowering: "kernel" runs the Pallas kernels for CUDA in interpret mode, "xla" the plain XLA
            operations that serve where there is no kernel, "native" those of the CPU.
        seed: Permutes the order in which programs run and atomic updates are applied, unless it is
            0. A ``Seed`` is read whenever a compiled program runs.
    """
    with emulation.scope(Emulation(platform, lowering, seed)):
        yield


def schedule(seed: int | Seed) -> contextlib.AbstractContextManager[None]:
    """Inside, kernels for CUDA run interpreted, in an order of programs that ``seed`` permutes.

    What the atomic path computes may then change from seed to seed; what the ordered path
    computes must not. A function under ``jax.jit`` is compiled anew for each number; for many of
    them pass one ``Seed``, and set its ``value`` before each run.
    """
    return emulate("cuda", seed=seed)


def lower(
    function: Callable[..., Any],
    *args: Any,
    platform: str = "cuda",
    device_kind: str = "NVIDIA H200",
) -> jax.stages.Lowered:
    """Lowers ``function`` for a platform that need not be present.

    Alerts for that platform are raised here. ``lower(...).as_text()`` shows the kernels by name.
    """
    with jax.sharding.use_abstract_mesh(_mesh(device_kind)):
        # jax 0.11 and later lower Triton kernels only in sight of a device of a known kind.
        lowered: jax.stages.Lowered = (
            jax.jit(function).trace(*args).lower(lowering_platforms=(platform,))
        )
    return lowered


def _mesh(device_kind: str) -> AbstractMesh:
    kind: dict[str, Any] = {"device_kind": device_kind, "num_cores": None}
    try:
        device = AbstractDevice(**kind, platform="gpu")
    except TypeError:  # jax 0.10 has no such argument
        device = AbstractDevice(**kind)
    return AbstractMesh((1,), ("_",), abstract_device=device)
