"""The floats of the C++, compiled for the least processor, and compared with integers.

``nox -s native`` runs the same program for each vector unit, with sanitizers.
"""

import shutil
import subprocess
from pathlib import Path

import jax
import pytest

import impl

FOLDER = Path(impl.__file__).parent / "_native"
COMPILER = shutil.which("c++")


@pytest.mark.once
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.skipif(not (FOLDER / "tests").is_dir(), reason="needs a checkout")
def test_results_equal_those_of_integers(tmp_path):
    program = tmp_path / "test_numbers"
    options = ["-std=gnu++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    folders = ["-I", str(FOLDER / "src"), "-isystem", jax.ffi.include_dir(), "-pthread"]
    source = FOLDER / "tests" / "test_numbers.cc"
    command = [COMPILER, *options, *folders, str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
