"""Traces programs for the audit, and compiles them for a device at hand or for an absent GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import spec
from impl import _jax
from impl._core import arguments
from impl._jax import jaxprs
from impl._mode import compilation, modes
from impl._mode.modes import Mode
from spec import gpus

#: Options without autotuning: on a GPU that is absent, XLA cannot time kernels.
NO_AUTOTUNING: Mapping[str, Any] = {"xla_gpu_autotune_level": 0}

#: The kinds of NumPy's arrays that JAX does not take: of texts, bytes, objects, times and spans.
_NOT_NUMBERS = "USOMm"


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], mode: Mode
) -> tuple[Any, list[Any], Mapping[str, Any]]:
    """Returns the closed jaxpr of a program, the shardings of its inputs, and its compiler options.

    The program is traced with the mode on, so that the ops of ``impl`` ask the rows. JAX
    lowers no equation that no output needs, so such equations are left out.
    """
    profile = mode.profile if mode.enabled else spec.load().own_profile
    options = function.options() if isinstance(function, compilation.Jitted) else None
    with modes.deterministic(True, warn_only=mode.warn_only, profile=profile):
        traced = _traced(function, args, kwargs)
    own = _jax.traced_options(traced)
    closed = jaxprs.without_refs(traced.jaxpr)
    closed = closed.replace(jaxpr=_jax.without_dead_code(closed.jaxpr))
    return closed, _jax.traced_shardings(traced), own if options is None else options


def arrays_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., list[Any]], list[Any]]:
    """Returns a program as a function of arrays alone, which returns arrays, and its arguments."""
    leaves, tree = jax.tree.flatten((args, dict(kwargs)))
    arrays = [i for i, leaf in enumerate(leaves) if is_array(leaf)]

    def of_arrays(*values: Any) -> list[Any]:
        full = list(leaves)
        for i, value in zip(arrays, values, strict=True):
            full[i] = value
        positional, named = jax.tree.unflatten(tree, full)
        return [leaf for leaf in jax.tree.leaves(function(*positional, **named)) if is_array(leaf)]

    return of_arrays, [leaves[i] for i in arrays]


def is_array(leaf: Any) -> bool:
    """Returns whether a leaf of the arguments is an array that JAX takes, or stands for one."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in _NOT_NUMBERS
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)


def check_values(caller: str, args: Any, otherwise: str = "") -> None:
    """Raises TypeError if an argument of a program that is to run is a shape without values."""
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(args)):
        raise TypeError(
            f"{caller}(): an argument is a jax.ShapeDtypeStruct, with which a program can be "
            f"audited, not run. Pass arrays{otherwise}"
        )


def platform_at_hand() -> str:
    """Returns the platform of the default device of JAX, as a lowering names it."""
    at_hand = jax.devices()[0]
    if at_hand.platform != "gpu":
        return str(at_hand.platform)
    return "rocm" if "rocm" in at_hand.client.platform_version.lower() else "cuda"


def check_device(device: str) -> None:
    """Raises if the default device of JAX is another one."""
    platform = platform_at_hand()
    if platform not in spec.load().devices[device].platforms:
        raise RuntimeError(
            f"audit(): level='compiled' compiles for the device at hand, which is {platform!r}, "
            f"not device={device!r}. Run it where there is one, name a GPU with gpu=, or pass "
            "level='program', which needs none"
        )


def check_gpu(device: str, level: str, gpu: str) -> None:
    """Raises if no program can be compiled for this GPU."""
    arguments.check_choice("audit", "gpu", gpu, gpus.NAMES)
    if "cuda" not in spec.load().devices[device].platforms or level != "compiled":
        raise ValueError(
            f"audit(): gpu={gpu!r} needs device='cuda' and level='compiled', and got "
            f"device={device!r} and level={level!r}"
        )
    try:
        mesh_of(gpu)
    except Exception as error:
        raise RuntimeError(
            f"audit(): this process cannot compile for gpu={gpu!r}: {error}. Install JAX's plugins "
            "for CUDA too (the packages jax-cuda13-plugin, jax-cuda13-pjrt, "
            "nvidia-cuda-nvcc and nvidia-nvvm, as in the group `gpu` of pyproject.toml), and "
            "start Python with JAX_PLATFORMS=cpu where there is no GPU"
        ) from error


@functools.cache
def mesh_of(gpu: str) -> Mesh:
    """Returns a mesh of one GPU of this name, which need not be there."""
    topology = topologies.get_topology_desc(
        gpu, "cuda", topology="1x1x1", target_config=gpus.description(gpu)
    )
    return Mesh(np.array(topology.devices), ("_",))


def compiled_text(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], gpu: str | None
) -> str:
    """Returns the program that XLA makes of a function, under the mode of the calling thread.

    ``gpu`` is the name of the GPU to compile for; None compiles for the device at hand.
    """
    if gpu is None:
        return _traced(function, args, kwargs).lower().compile().as_text() or ""
    mesh = mesh_of(gpu)
    sharding = NamedSharding(mesh, PartitionSpec())

    def shape(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype, allow_extended_dtype=True)
        return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=sharding)

    args, kwargs = jax.tree.map(shape, (args, dict(kwargs)))
    with jax.set_mesh(mesh):
        lowered = _traced(function, args, kwargs).lower()
    return lowered.compile(compiler_options=dict(NO_AUTOTUNING)).as_text() or ""


def _traced(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> jax.stages.Traced:
    if isinstance(function, jax.stages.Wrapped | compilation.Jitted):
        traced = function.trace(*args, **kwargs)
        # The result of Flax's `nnx.jit` wraps JAX's.
        return getattr(traced, "traced", traced)
    of_arrays, arrays = arrays_of(function, args, kwargs)
    return jax.jit(of_arrays).trace(*arrays)
