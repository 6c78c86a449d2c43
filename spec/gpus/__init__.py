"""Descriptions of GPUs, from which XLA compiles programs where no such GPU is.

A file is a ``stream_executor.GpuTargetConfigProto`` in text form.
"""

from __future__ import annotations

import re
from importlib.resources import files

_SUFFIX = ".txtpb"
#: The names of the GPUs, which are all of CUDA.
NAMES: tuple[str, ...] = tuple(
    sorted(
        entry.name.removesuffix(_SUFFIX)
        for entry in files(__name__).iterdir()
        if entry.name.endswith(_SUFFIX)
    )
)


def capability(name: str) -> str:
    """Returns the compute capability of a GPU, such as "8.9"."""
    fields = re.search(
        r"cuda_compute_capability \{ major: (\d+)(?: minor: (\d+))?", description(name)
    )
    if fields is None:
        raise ValueError(f"the description of the GPU {name!r} has no compute capability")
    return f"{fields[1]}.{fields[2] or 0}"


def description(name: str) -> str:
    """Returns the description of a GPU."""
    if name not in NAMES:
        raise ValueError(f"no GPU {name!r}; there are {', '.join(map(repr, NAMES))}")
    return (files(__name__) / f"{name}{_SUFFIX}").read_text("utf-8")
