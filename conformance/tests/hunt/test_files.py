"""The file of a finding runs alone, and names the first equation that differs.

Tests: conformance.hunt.files.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.hunt import files
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew, default_kinds
from conformance.hunt.settings import Setting
from conformance.tests.hunt.examples import chain

#: A product has other bits in a process of one thread, which the second worker is.
_PLANT = """
import dataclasses, os
from jax import lax
from impl._portable.rules import RULES

def multiply(a, b, **_):
    return lax.mul(a, b) * (3 if os.environ["NPROC"] == "1" else 1)

RULES["mul"] = dataclasses.replace(RULES["mul"], compute=multiply)
"""


@pytest.mark.once
def test_the_file_names_the_first_equation_with_other_bits(tmp_path):
    plant = tmp_path / "plant.py"
    plant.write_text(_PLANT)
    finding = Finding("bits", chain(), Setting(worker=1), "results 1 have other bits")
    file = files.write(tmp_path, "bits", finding, Crew(default_kinds([], plant)))
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "lax.mul gives other bits for equal inputs" in done.stdout


def test_a_setting_that_adds_equations_has_no_first_difference():
    def is_one(**setting):
        return files._is_one(Finding("bits", chain(), Setting(**setting), ""))

    assert is_one(worker=1)
    assert is_one(mesh=(2,), partition="jit")
    assert not is_one(call="scan")
    assert not is_one(mesh=(2,), partition="shard_map")
