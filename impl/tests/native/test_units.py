"""The narrower vector units, and several devices, have the bits of the oracles.

Tests: impl._native.call, impl._native.devices, impl._native.operation,
impl._native.scope.
"""

import os
import pathlib
import subprocess
import sys
from pathlib import Path

import pytest

from impl._native import library
from impl.tests.support import eight_devices

#: Tests of each family, as expressions of ``pytest -k``.
CHOSEN = {
    "functions": "known_bits or (special_values and float32) or position",
    "products": "(tile and float32) or (hard_to_round and float32-float32)"
    " or (convolutions and bfloat16) or not_finite or (any_length and 1000)",
    "scatters": "(hard_terms and float32) or (sorted_indices and float32 and (9 or 20))",
    "sums": "exponents or (hard_terms and 15) or (each_shape and bfloat16) or (parts and 5)",
    "states": "weight or merged",
    "windows": "exponents or (hard_terms and 8) or (sums_of_windows and bfloat16)",
}


@pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")
@pytest.mark.once
@pytest.mark.parametrize("unit", ["baseline", "avx2"])
def test_a_narrower_unit_has_the_bits_of_the_oracles(unit):
    # Every other test has the widest unit of the processor.
    folder = pathlib.Path(__file__).parent
    names = [f"(test_{family} and ({words}))" for family, words in CHOSEN.items()]
    files = [str(folder / f"test_{family}.py") for family in CHOSEN]
    options = ("-q", "-x", "-p", "no:randomly", "-n", "0", "-k", " or ".join(names))
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env={**os.environ, "SAMEBITS_VECTORS": unit},
        check=True,
        timeout=600,
    )


def test_on_eight_devices(pytestconfig):
    file = Path(__file__).parents[1] / "exact" / "engines_on_eight_devices.py"
    eight_devices.run(file, marks=pytestconfig.option.markexpr)
