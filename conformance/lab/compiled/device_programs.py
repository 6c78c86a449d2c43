"""Programs as they run on a device: with CUB's sort where XLA takes it, and with each launch.

Without a device XLA does not know how much memory CUB's sort needs, and takes its own sort. It has
tables of that for a few GPUs and one release of CUB. The name of such a GPU, in a description that
is otherwise the target's, makes XLA decide as it does with a device. It cannot make a program of
the result, which needs a device, but it has written the optimised program by then.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from conformance.lab.compiled import compiler
from spec import gpus

#: The GPU for which XLA has a table, by the name of the target.
_MEASURED = {
    "a100": "NVIDIA A100-SXM4-40GB",
    "b200": "NVIDIA B200",
    "h100": "NVIDIA H100 80GB HBM3",
    "h200": "NVIDIA H100 80GB HBM3",
}
#: The release of CUB of the tables of jaxlib 0.11.2.
_CUB = "3.1.2"
#: XLA's answer to a table that lacks a sort is an error.
_WITH_CUB = {"xla_gpu_deviceless_cub_mode": "DEVICELESS_CUB_NO_FALLBACK"}
_NAME = re.compile(r'^((?:  name|device_description_str): )"[^"]*"', re.MULTILINE)
_NAMES = 2
_SORT = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = .* sort\(", re.MULTILINE)
_LAUNCH = re.compile(
    r"\] (\S+) grid: \[(\d+), (\d+), (\d+)\] threads: \[(\d+), (\d+), (\d+)\]\s+"
    r"shared_memory: (\d+) bytes"
)


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """The size of a launch.

    Attributes:
        programs: The number of thread blocks.
        warps: The warps of each.
        shared: The bytes of shared memory that each gets beside what its code states.
    """

    programs: int
    warps: int
    shared: int


@dataclasses.dataclass(frozen=True)
class DeviceProgram:
    """A program as a device would run it.

    Attributes:
        hlo: The optimised program, with CUB's sort.
        kernels: The PTX of each kernel, by the kernel's name.
        dimensions: The sizes of the launches, by the kernel's name.
        with_cub: Whether a sort of it is CUB's.
    """

    hlo: str
    kernels: Mapping[str, str]
    dimensions: Mapping[str, Dimensions]
    with_cub: bool


def compile_for_device(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    target: str,
    known: MutableMapping[str, DeviceProgram],
) -> DeviceProgram:
    """Compiles a call as it runs on a device, under the mode of the calling thread.

    The process has to be prepared with ``stages``.

    Args:
        function: The function to compile.
        inputs: Its arguments: arrays, or shapes and dtypes.
        target: The name of the GPU.
        known: The programs that were compiled for this target, by their lowered text. A program
            of the same text is not compiled again.

    Raises:
        ValueError: XLA chooses among sorts, and does not say which a device would run.
        Exception: JAX or XLA could not compile it.
    """
    lowered = compiler.lower_call(function, inputs, compiler.mesh_of(target))
    text = lowered.as_text()
    if text in known:
        return known[text]
    code = compiler.compile_lowered(lowered, compiler.NO_AUTOTUNING)
    dimensions = parse_dimensions(_read(compiler.dump_files("*thunk_sequence.txt")))
    hlo = code.hlo
    if _SORT.search(hlo):
        hlo = _with_cub(function, inputs, target)
    known[text] = DeviceProgram(hlo, code.kernels, dimensions, "cub_sort" in hlo)
    return known[text]


def parse_dimensions(text: str) -> dict[str, Dimensions]:
    """Returns the sizes of the launches in XLA's list of them, by the kernel's name."""
    found = {}
    for name, *numbers in _LAUNCH.findall(text):
        x, y, z, a, b, c, shared = map(int, numbers)
        found[name] = Dimensions(x * y * z, -(-a * b * c // 32), shared)
    return found


def _with_cub(function: Callable[..., Any], inputs: tuple[Any, ...], target: str) -> str:
    """Returns the optimised program in which XLA took CUB's sort where a device would run it."""
    lowered = compiler.lower_call(function, inputs, _mesh_with_table(target))
    try:
        return compiler.compile_lowered(lowered, {**compiler.NO_AUTOTUNING, **_WITH_CUB}).hlo
    except jax.errors.JaxRuntimeError as error:
        text = _read(compiler.dump_files("*gpu_after_optimizations.txt"))
        if "cub_sort" not in text:
            raise ValueError(f"XLA does not say which sort a device would run: {error}") from error
        return text


@functools.cache
def _mesh_with_table(target: str) -> Mesh:
    text = description_with_table(target)
    topology = topologies.get_topology_desc(target, "cuda", topology="1x1x1", target_config=text)
    return Mesh(np.array(topology.devices), ("_",))


def description_with_table(target: str) -> str:
    """Returns the description of a GPU, with the name and the CUB for which XLA has a table.

    Raises:
        ValueError: The description does not have its name where it is expected.
    """
    name, release = _MEASURED[target], _CUB
    text, count = _NAME.subn(rf'\g<1>"{name}"', gpus.description(target))
    if count != _NAMES:
        raise ValueError(f"the description of {target} has the name of the GPU {count} times")
    return text.replace("gpu_device_info {", f'gpu_device_info {{\n  cub_version: "{release}"')


def _read(paths: list[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)
