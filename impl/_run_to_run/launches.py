"""The choice of kernels for a platform: on CUDA, and for the stand-in of tests that has kernels."""

from __future__ import annotations

from impl._core.jax_internals import lowering
from impl._kernels.launch import Launch
from impl._mode import emulation, modes


def for_platform(platform: str) -> Launch | None:
    """Returns how kernels run on a platform; None if they do not.

    JAX lowers no kernel for a GPU of which it knows nothing, neither a device nor its kind.

    Args:
        platform: The name of a platform.
    """
    stand_in = emulation.current()
    launch = None
    if platform == "cpu" and stand_in is not None and stand_in.lowering == "kernel":
        launch = Launch(True, stand_in.seed, fill=modes.fills())
    elif platform == "cuda" and any(lowering.gpu()):
        launch = Launch()
    return launch if launch is not None and launch.possible().has_kernels else None
