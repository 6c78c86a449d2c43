"""XLA's compiler for a GPU that is absent, and the text of the code that it compiles.

XLA accepts a description of a GPU instead of a device. It writes the PTX of kernels to files,
and only flags of the environment can ask for that, so ``prepare`` comes first in a process.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from conformance.lab.readers import ptx
from impl._reading.tracing import NO_AUTOTUNING as NO_AUTOTUNING
from impl._reading.tracing import mesh_of as mesh_of

#: The environment of a process, to be set before JAX starts a backend.
_ENVIRONMENT = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
_FOLDER_VARIABLE = "SAMEBITS_COMPILED"


@dataclasses.dataclass(frozen=True)
class MachineCode:
    """The text of a program at three stages: as XLA received it, optimised, and PTX.

    Each kernel has its PTX by name, XLA's own kernels included.
    """

    lowered: str
    hlo: str
    kernels: Mapping[str, str]


def prepare(folder: Path) -> None:
    """Has XLA write the PTX of this process to a folder. Call it before JAX starts a backend."""
    flags = f"--xla_dump_to={folder} --xla_dump_emitter_re=ptx"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    os.environ.update(_ENVIRONMENT)
    os.environ[_FOLDER_VARIABLE] = str(folder)
    jax.config.update("jax_platforms", "cpu")  # Do not look for a GPU.


def compile_call(
    function: Callable[..., Any], inputs: tuple[Any, ...], target: str, options: Mapping[str, Any]
) -> MachineCode:
    """Compiles a call for a GPU, under the mode of the calling thread.

    The inputs are trees of arrays, or of shapes and dtypes. ``options`` go to XLA's compiler. JAX
    and XLA may raise any error.
    """
    mesh = mesh_of(target)
    sharding = NamedSharding(mesh, PartitionSpec())

    def shape_of(array: Any) -> jax.ShapeDtypeStruct:
        dtype = jax.dtypes.canonicalize_dtype(array.dtype)
        return jax.ShapeDtypeStruct(array.shape, dtype, sharding=sharding)

    shapes = jax.tree.map(shape_of, inputs)
    with jax.set_mesh(mesh), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Under warn_only, alerts are warnings.
        lowered = jax.jit(function).trace(*shapes).lower()
    folder = Path(os.environ[_FOLDER_VARIABLE])
    shutil.rmtree(folder)  # It has the files of the program that was compiled last.
    folder.mkdir()
    compiled = lowered.compile(compiler_options=dict(options))
    return MachineCode(lowered.as_text(), compiled.as_text() or "", _read_kernels(folder))


def _read_kernels(folder: Path) -> dict[str, str]:
    kernels = {}
    for path in sorted(folder.glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        kernels.update(dict.fromkeys(ptx.entries(text), text))
    return kernels
