"""Every engine gives the same bits, a program without float64 has none, and devices share work.

Tests: impl._core.shard_axes, impl._portable.register, impl._portable.rules.moves,
impl._portable.shared, impl._soft_float64.engines, impl._soft_float64.interpreter.
"""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import conformance
import impl
from impl import testing
from impl.tests.support import eight_devices

pytestmark = pytest.mark.usefixtures("portable")

#: A CPU has the engine that is left out, unless its library is missing.
OTHERS = [name for name in testing.engines() if name != "native"]


def of_model(rng):
    """A step with a product, a softmax, a scatter and the gradients of all."""
    weights = rng.normal(size=(5, 12))
    labels = jnp.asarray(rng.integers(0, 12, 6))

    def loss(weights, x):
        scores = jnp.tanh(x @ weights)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1)
        return -jnp.mean(chosen)

    return jax.value_and_grad(loss), (weights, rng.normal(size=(6, 5)))


def of_image(rng):
    def function(x, kernel):
        found = lax.conv(x, kernel, (1, 1), "SAME")
        return lax.reduce_window(found, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    return function, (rng.normal(size=(1, 3, 6, 6)), rng.normal(size=(2, 3, 3, 3)))


def of_dilation(rng):
    """A convolution as the gradient of one with a stride is, which spreads the image."""

    def function(x, kernel):
        return lax.conv_general_dilated(x, kernel, (1,), [(1, 1)], lhs_dilation=(2,))

    return function, (rng.normal(size=(1, 2, 5)), rng.normal(size=(1, 2, 3)))


def of_rows(rng):
    def function(x, at):
        return jnp.cumsum(x, 1), jax.ops.segment_sum(x * x[:1], at, 4), jnp.var(x, 1)

    x = rng.normal(size=(12, 8)) * 2.0 ** rng.integers(-30, 30, (12, 8))
    return function, (x, rng.integers(0, 4, 12))


def of_doubt(_):
    # The exact sums are 2**-30 above a tie, which float64 does not see.
    rows = np.array([[2.0**20, 2.0**16, 2.0**-30] * 3, [2.0**20, 1, 2.0**-30] * 3])
    return lambda a, b: a @ b, (rows, rows.T)


def of_functions(rng):
    def function(x):
        magnitude = jnp.abs(x)
        of_ops = impl.index_add(x, 0, jnp.zeros(len(x), int), x), impl.cumprod(x, 0)
        return jnp.exp(x), jnp.log(magnitude), jnp.sin(x), 1 / x, lax.rsqrt(magnitude), *of_ops

    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, 88.8, 1e-45]
    return function, (np.append(rng.normal(size=200) * 9, special),)


#: Another release lowers the same equations; rows and doubt have most kinds of them.
FIRST, OTHER_PROGRAMS = (of_rows, of_doubt), (of_model, of_image, of_dilation, of_functions)


@pytest.mark.parametrize(
    ("engine", "make"),
    [
        *itertools.product(OTHERS, FIRST),
        *(
            pytest.param(engine, make, marks=pytest.mark.once)
            for make, engine in zip(OTHER_PROGRAMS, itertools.cycle(OTHERS), strict=False)
        ),
    ],
)
def test_the_bits_do_not_depend_on_the_engine(rng, make, engine):
    function, arguments = make(rng)
    arguments = jax.tree.map(
        lambda x: jnp.asarray(x, np.float32 if x.dtype.kind == "f" else np.int32), arguments
    )
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    with testing.engine(engine):
        lowered = jax.jit(function).lower(*arguments)
        assert ("f64" in lowered.as_text()) == (engine != "integers")
        found = jax.tree.leaves(lowered.compile()(*arguments))
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
        assert np.array_equal(np.signbit(one), np.signbit(other)) or np.isnan(one).any()


def test_on_eight_devices(pytestconfig):
    # One process for all, since to start one takes seconds. The engines of a CPU have their own.
    rooms = [Path(__file__).parents[1] / name for name in ("portable", "run_to_run")]
    rooms += [Path(conformance.__file__).parent / "tests" / name for name in ("every_op", "lab")]
    files = [file for room in rooms for file in room.glob("*_on_eight_devices.py")]
    eight_devices.run(*sorted(files), marks=pytestconfig.option.markexpr)


def test_a_path_of_primitives_is_refused_for_other_floats():
    with jax.enable_x64(True), impl.deterministic(profile="complete", guarantee="portable"):
        x = jax.ShapeDtypeStruct((2, 2), "float8_e4m3fn")
        with pytest.raises(RuntimeError, match=r"dot_general of .*float8_e4m3fn"):
            jax.jit(impl.mm).lower(x, x)
        x = jax.ShapeDtypeStruct((2, 2), "float64")
        assert jax.jit(lambda x: impl.cumsum(x, 0)).lower(x)
