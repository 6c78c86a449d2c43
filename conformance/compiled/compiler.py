"""XLA's compiler for a GPU that is not there, and what it leaves to be read."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from conformance.compiled import TARGETS, ptx

#: There is nothing to time candidates on.
UNTIMED: Mapping[str, Any] = {"xla_gpu_autotune_level": 0}
#: What the environment of a process must hold before JAX starts a backend, beside a folder.
_ENVIRONMENT = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
_FOLDER = "SAMEBITS_COMPILED"


@dataclasses.dataclass(frozen=True)
class Code:
    """What was made of a program.

    Attributes:
        lowered: What XLA was given, as text.
        hlo: The optimised program, as text.
        kernels: The PTX file of each kernel, by name; XLA's own are among them.
    """

    lowered: str
    hlo: str
    kernels: Mapping[str, str]


def prepare(within: Path) -> None:
    """Has this process keep the code of kernels. Call it before JAX starts a backend.

    Args:
        within: A folder in which to make one of this process's own.
    """
    folder = tempfile.mkdtemp(dir=within)
    dump = f"--xla_dump_to={folder} --xla_dump_emitter_re=ptx"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {dump}".strip()
    os.environ.update(_ENVIRONMENT)
    os.environ[_FOLDER] = folder
    jax.config.update("jax_platforms", "cpu")  # no GPU is looked for


@functools.cache
def _sharding(target: str) -> tuple[Mesh, NamedSharding]:
    text = (files("conformance.compiled") / "targets" / f"{target}.txtpb").read_text("utf-8")
    topology = topologies.get_topology_desc(target, "cuda", topology="1x1x1", target_config=text)
    mesh = Mesh(np.array(topology.devices), ("_",))
    return mesh, NamedSharding(mesh, PartitionSpec())


def missing() -> str | None:
    """Why nothing can be compiled in this process, or None."""
    try:
        _sharding(TARGETS[0])
    except Exception as error:  # noqa: BLE001  # of a plugin, it may be anything
        return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
    return None


def compiled(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    target: str,
    options: Mapping[str, Any],
) -> Code:
    """Compiles a call to machine code for one of the GPUs, under the mode that holds.

    Args:
        function: What to compile.
        inputs: Arrays, or shapes and dtypes.
        target: Name of the GPU.
        options: XLA's compiler options.

    Raises:
        Exception: Whatever JAX or XLA raises where it cannot be compiled.
    """
    folder = Path(os.environ[_FOLDER])
    shutil.rmtree(folder)  # what XLA left of the program before, which is more than is read
    folder.mkdir()
    mesh, sharding = _sharding(target)
    shapes = [
        jax.ShapeDtypeStruct(one.shape, jax.dtypes.canonicalize_dtype(one.dtype), sharding=sharding)
        for one in inputs
    ]
    with jax.set_mesh(mesh), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warn_only warns
        lowered = jax.jit(function).trace(*shapes).lower()
        made = lowered.compile(compiler_options=dict(options))
    return Code(lowered.as_text(), made.as_text() or "", _kernels(folder))


def _kernels(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        found.update(dict.fromkeys(ptx.entries(text), text))
    return found
