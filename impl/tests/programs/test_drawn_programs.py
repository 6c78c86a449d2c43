"""Gradients of random programs: the same values with the mode on, the same bits in any order."""

import jax
import jax.numpy as jnp
import numpy as np

import impl
from impl.tests.programs.drawn_programs import SHAPE, draw
from impl.tests.programs.texts import OPTIONS, compared, races, text
from impl.tests.support.bits import assert_same_bits

PROGRAMS, SCHEDULES = 5, 4


def test_random_programs_have_the_values_of_jax_and_bits_of_their_own(rng):
    drawn = [draw(rng) for _ in range(PROGRAMS)]

    def program(x):
        return [gradient(x) for gradient in drawn]

    x = jnp.asarray(rng.normal(size=SHAPE), jnp.float32)
    compiled = jax.jit(program, compiler_options=OPTIONS)
    plain = compiled(x)
    runs = {}
    for mode in (True, False):
        seed = impl.testing.Seed()
        with impl.deterministic(mode), impl.testing.emulate("cuda", lowering="xla", seed=seed):
            runs[mode] = []
            for seed.value in range(SCHEDULES):
                runs[mode].append(jax.block_until_ready(compiled(x)))
    for number, wanted in enumerate(plain):
        near = 1e-4 * float(jnp.abs(wanted).max())
        np.testing.assert_allclose(runs[True][0][number], wanted, rtol=0, atol=near)
        for run in runs[True]:
            assert_same_bits(run[number], runs[True][0][number], f"program {number}")
    raced = [len({np.asarray(run[n]).tobytes() for run in runs[False]}) for n in range(PROGRAMS)]
    assert max(raced) > 1
    racing = races(text(program, x, platform="cuda"))
    varying = impl.audit(program)(x).select("varies")
    assert racing
    assert set(map(compared, varying)) == set(racing)
    with impl.deterministic():
        assert not races(text(program, x, platform="cuda"))
        ordered = [f for f in impl.audit(program)(x).select("deterministic") if f.races]
    assert [f.shapes for f in ordered] == [f.shapes for f in varying]
