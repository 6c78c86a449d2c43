"""The kernels of the narrower vector units give the same bits."""

import os
import pathlib
import subprocess
import sys

import pytest

from impl._native import library

#: Tests of each family, as expressions of ``pytest -k``.
CHOSEN = {
    "functions": "known_bits or special_values or position",
    "products": "tile or hard_to_round or convolutions or not_finite or (any_length and 1000)",
    "scatters": "hard_terms or exponents or sorted_indices or (promise and float32)",
    "sums": "exponents or (hard_terms and 15) or (each_shape and bfloat16) or (parts and 5)",
    "states": "weight or wide or merged",
    "windows": "exponents or (hard_terms and 8) or (windows_have and float32)",
}


@pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")
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
