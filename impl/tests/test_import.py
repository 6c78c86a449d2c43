"""What ``import impl`` loads: nothing that most programs do without.

Tests: impl.
"""

import json
import pkgutil
import subprocess
import sys

import pytest

import impl._kernels

#: What lowerings for a CPU read too: how a kernel is launched, and by what.
LAUNCHES = {"launch", "pallas", "triton"}
#: The files of kernels, which no CPU runs.
KERNELS = {file.name for file in pkgutil.iter_modules(impl._kernels.__path__)} - LAUNCHES

#: What takes long to import, and the use of it that may load it.
LATER = [
    *(f"impl._kernels.{file}" for file in KERNELS),
    "impl.diagnosis",
    "impl.digests",
    "impl.nn.functional",
    "impl.programs._auditing.audit",
    "impl._portable.register",
    "impl.testing",
    "impl.utils.data",
    "jax._src.pallas",
    "jax.experimental.pallas",
    "jax.experimental.sparse",
    "jax.extend",
    "jaxlib.triton",
    "scipy",
    "spec.oracles",
]
#: Prints the modules that the import adds to those of JAX, and how often rows were read.
PROGRAM = """
import json, sys
import jax, jax.numpy
before = set(sys.modules)
import impl
from spec import loader
print(json.dumps([sorted(set(sys.modules) - before), loader.load.cache_info().currsize]))
"""


@pytest.fixture(scope="module")
def loaded():
    command = [sys.executable, "-c", PROGRAM]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.parametrize("module", LATER)
def test_import_leaves_out(module, loaded):
    modules, _ = loaded
    assert [name for name in modules if f"{name}.".startswith(f"{module}.")] == []


def test_import_reads_no_rows(loaded):
    _, specs = loaded
    assert specs == 0
