"""XLA's compiler for a GPU that is absent, and the text of the code that it compiles.

XLA accepts a description of a GPU instead of a device. It writes the PTX of kernels to files,
and only flags of the environment can ask for that, so ``prepare`` comes first in a process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from conformance.lab.compiled import TARGETS, ptx_reader
from impl._reading.tracing import NO_AUTOTUNING as NO_AUTOTUNING
from impl._reading.tracing import mesh_of as mesh_of

#: The environment of a process, to be set before JAX starts a backend.
_ENVIRONMENT = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
_FOLDER_VARIABLE = "SAMEBITS_COMPILED"


@dataclasses.dataclass(frozen=True)
class MachineCode:
    """The text of a program at three stages.

    Attributes:
        lowered: The program that XLA received.
        hlo: The program that XLA optimised.
        kernels: The PTX file of each kernel, by the kernel's name, XLA's own kernels included.
    """

    lowered: str
    hlo: str
    kernels: Mapping[str, str]


def prepare(parent: Path, *, stages: bool = False) -> None:
    """Has XLA write the PTX of this process to a folder. Call it before JAX starts a backend.

    Args:
        parent: The folder in which to make a folder for this process.
        stages: Whether XLA also writes the program and the launches that it made of it.
    """
    folder = tempfile.mkdtemp(dir=parent)
    flags = f"--xla_dump_to={folder} --xla_dump_emitter_re=ptx"
    flags += " --xla_dump_hlo_as_text" if stages else ""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    os.environ.update(_ENVIRONMENT)
    os.environ[_FOLDER_VARIABLE] = folder
    jax.config.update("jax_platforms", "cpu")  # Do not look for a GPU.


def unavailable_reason() -> str | None:
    """Returns why this process cannot compile for a GPU, or None if it can."""
    try:
        mesh_of(TARGETS[0])
    except Exception as error:  # noqa: BLE001  # a plugin may raise anything
        return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
    return None


@contextlib.contextmanager
def prepared() -> Iterator[bool]:
    """Prepares this process for as long as the scope lasts.

    Yields:
        Whether something can be compiled for a GPU; if not, the reason was printed.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        prepare(Path(folder))
        reason = unavailable_reason()
        if reason:
            print(f"nothing can be compiled for a GPU here: {reason}", file=sys.stderr)
        yield not reason


def compile_call(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    target: str,
    options: Mapping[str, Any],
) -> MachineCode:
    """Compiles a call for a GPU, under the mode of the calling thread.

    Args:
        function: The function to compile.
        inputs: Its arguments: arrays, or shapes and dtypes.
        target: The name of the GPU.
        options: XLA's compiler options.

    Raises:
        Exception: JAX or XLA could not compile it.
    """
    return compile_lowered(lower_call(function, inputs, mesh_of(target)), options)


def compile_lowered(lowered: jax.stages.Lowered, options: Mapping[str, Any]) -> MachineCode:
    """Compiles a call that was lowered for a GPU.

    Raises:
        Exception: XLA could not compile it.
    """
    folder = Path(os.environ[_FOLDER_VARIABLE])
    shutil.rmtree(folder)  # It holds the files of the program before.
    folder.mkdir()
    compiled = lowered.compile(compiler_options=dict(options))
    return MachineCode(lowered.as_text(), compiled.as_text() or "", _read_kernels(folder))


def dump_files(pattern: str) -> list[Path]:
    """Returns the files that XLA wrote for the last program, by a pattern of their names."""
    return sorted(Path(os.environ[_FOLDER_VARIABLE]).glob(pattern))


def lower_call(
    function: Callable[..., Any], inputs: tuple[Any, ...], mesh: Mesh
) -> jax.stages.Lowered:
    """Lowers a call for the GPU of a mesh, under the mode of the calling thread."""
    sharding = NamedSharding(mesh, PartitionSpec())
    shapes = [
        jax.ShapeDtypeStruct(
            array.shape, jax.dtypes.canonicalize_dtype(array.dtype), sharding=sharding
        )
        for array in inputs
    ]
    with jax.set_mesh(mesh), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Under warn_only, alerts are warnings.
        lowered: jax.stages.Lowered = jax.jit(function).trace(*shapes).lower()
        return lowered


def _read_kernels(folder: Path) -> dict[str, str]:
    kernels = {}
    for path in sorted(folder.glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        kernels.update(dict.fromkeys(ptx_reader.entries(text), text))
    return kernels
