"""Functions of impl are lowered under ``portable`` as their rows state.

Tests: impl._portable.register, impl._portable.rules.moves, impl._portable.shared,
impl._core.devices.
"""

from pathlib import Path

import jax
import pytest

import conformance
import impl
import spec
from impl.tests.support import eight_devices

RULES = spec.load()


def test_on_eight_devices(pytestconfig):
    # One process for all, since to start one takes three seconds.
    room = Path(__file__).parent
    files = [
        *room.glob("*_on_eight_devices.py"),
        *(room.parent / "exact").glob("*_on_eight_devices.py"),
        *Path(conformance.__file__).parent.glob("tests/every_op/*_on_eight_devices.py"),
    ]
    eight_devices.run(*sorted(files), marks=pytestconfig.option.markexpr)


def test_a_path_of_primitives_is_refused_for_other_floats():
    with jax.enable_x64(True), impl.deterministic(profile="complete", guarantee="portable"):
        x = jax.ShapeDtypeStruct((2, 2), "float64")
        with pytest.raises(RuntimeError, match=r"dot_general of .*float64"):
            jax.jit(impl.mm).lower(x, x)
        assert jax.jit(lambda x: impl.cumsum(x, 0)).lower(x)
