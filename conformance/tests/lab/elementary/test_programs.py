"""The programs of the elementary functions that the engine ``native`` interprets."""

import json
import pathlib
import re

import numpy as np
import pytest
from jax import lax

from conformance.lab.elementary import programs
from impl._native import functions


def test_the_file_has_the_programs_of_the_equations():
    assert json.loads(programs.text()) == json.loads(functions.PROGRAMS.read_text("utf-8"))


def test_the_steps_in_c_plus_plus_are_the_ones_in_python():
    text = (pathlib.Path(functions.__file__).parent / "src/functions.h").read_text("utf-8")
    assert tuple(re.findall(r" STEP\((\w+)\)", text)) == programs.STEPS


def test_an_equation_without_a_step_is_named():
    with pytest.raises(NotImplementedError, match="nextafter of float32"):
        programs.assembled(lambda x: lax.nextafter(x, x), [np.dtype(np.float32)])
