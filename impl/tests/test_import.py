"""``import impl`` loads nothing that most programs do without.

Tests: impl._kernels.pallas.
"""

import json
import os
import pkgutil

import pytest

import impl._kernels
from impl._kernels import pallas
from impl.tests.support import processes

#: The modules that rules for a CPU read too.
LAUNCHES = {"launch", "pallas", "triton"}
#: The files of kernels, which no CPU runs.
KERNELS = {file.name for file in pkgutil.iter_modules(impl._kernels.__path__)} - LAUNCHES

#: Modules that take long to import, and the use that may load each.
LATER = [
    *(f"impl._kernels.{file}" for file in KERNELS),
    "impl.diagnosis",
    "impl.digests",
    "impl.nn.functional",
    "impl.programs._auditing.audit",
    "impl._portable.register",
    "impl.testing",
    "impl.utils.data",
    *(() if pallas.has_cuda() else ("jax._src.pallas", "jax.experimental.pallas")),
    "jax.experimental.sparse",
    "jax.extend",
    *(() if pallas.has_cuda() else ("jaxlib.triton",)),
    "scipy",
    "spec.oracles",
]
#: Prints the modules that the import adds to the modules of JAX, and how often rows were read.
PROGRAM = """
import json, sys
import jax, jax.numpy
before = set(sys.modules)
import impl
from spec import loader
print(json.dumps([sorted(set(sys.modules) - before), loader.load.cache_info().currsize]))
"""


def test_import_leaves_out_what_takes_long_and_reads_no_rows():
    done = processes.run("-c", PROGRAM)
    modules, specs = json.loads(done.stdout)
    later = tuple(f"{module}." for module in LATER)
    assert [name for name in modules if f"{name}.".startswith(later)] == []
    assert specs == 0


#: Calls a program before and after a kernel is lowered, and prints whether Pallas is imported with
#: impl, and how often the program was traced.
CALLS = """
import sys
import jax
import impl

traces = []
is_loaded = "jax.experimental.pallas.triton" in sys.modules

@jax.jit
def run(x):
    traces.append(x)
    return x + 1

def program(x):
    return impl.index_reduce(x, 0, jax.numpy.arange(8) % 3, x, "prod")

x = jax.numpy.ones(8)
run(x)
with impl.deterministic(profile="complete"):
    text = impl.testing.lower(program, x, platform="cuda").as_text()
assert "triton" in text
run(x)
print(is_loaded, len(traces))
"""


@pytest.mark.triton
def test_a_kernel_makes_no_other_program_stale_on_a_machine_with_cuda(tmp_path):
    folder = tmp_path / "jax_plugins" / "xla_cuda13"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("def initialize(): pass", encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = processes.run("-c", CALLS, PYTHONPATH=path, JAX_PLATFORMS="cpu")
    assert done.stdout.strip() == "True 1", done.stderr
