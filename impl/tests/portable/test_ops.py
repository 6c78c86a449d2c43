"""Functions of impl are lowered under ``portable`` as their rows state.

Tests: impl._portable.register, impl._portable.rules.moves, impl._portable.shared,
impl._core.devices.
"""

import functools
from pathlib import Path

import jax
import pytest

import impl
import spec
from impl.tests.every_op.public_ops import named_samples, public_ops
from impl.tests.support import eight_devices

RULES = spec.load()


@pytest.mark.once
def test_every_op_is_lowered_with_equations_that_have_rules():
    samples = {name.partition("-")[0]: sample for name, sample in reversed(named_samples().items())}
    assert samples.keys() == public_ops().keys()
    for sample in samples.values():
        with impl.deterministic(profile="complete", guarantee="portable"):
            # No op is refused: the rows of this project's own profile refuse nothing.
            assert jax.jit(functools.partial(sample.call, impl)).lower(*sample.arrays)


def test_on_eight_devices(pytestconfig):
    # One process for all, since to start one takes three seconds.
    room = Path(__file__).parent
    files = [
        *room.glob("*_on_eight_devices.py"),
        *(room.parent / "exact").glob("*_on_eight_devices.py"),
    ]
    eight_devices.run(*sorted(files), marks=pytestconfig.option.markexpr)


def test_a_path_of_primitives_is_refused_for_other_floats():
    with jax.enable_x64(True), impl.deterministic(profile="complete", guarantee="portable"):
        x = jax.ShapeDtypeStruct((2, 2), "float64")
        with pytest.raises(RuntimeError, match=r"dot_general of .*float64"):
            jax.jit(impl.mm).lower(x, x)
        assert jax.jit(lambda x: impl.cumsum(x, 0)).lower(x)
