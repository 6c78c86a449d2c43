"""The compiled programs of a call. A program computes several things, since compiling is slow."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from impl.tests.support.bits import assert_same_bits

#: The scales at which a program with a loop calls the op.
SCALES = (1.0, 2.0, 0.5)


def outputs_and_gradient(call, *arrays):
    """Returns all outputs of the op, and the gradient of half the sum of their squares."""
    positions = call.float_positions

    def smooth(*floats):
        outputs = call.outputs(*call.with_floats(floats, arrays))
        return [out for out in outputs if jnp.issubdtype(out.dtype, jnp.floating)], outputs

    smooth_outputs, pullback, outputs = jax.vjp(
        smooth, *(arrays[position] for position in positions), has_aux=True
    )
    return outputs, pullback(smooth_outputs)


def smooth_outputs(call, *floats):
    """Calls the op and returns the arrays of floats of the result."""
    outputs = call.outputs(*call.with_floats(floats))
    return [out for out in outputs if jnp.issubdtype(out.dtype, jnp.floating)]


@functools.cache
def plain(call):
    """Returns the program of ``outputs_and_gradient``, for arrays of the call's shapes."""
    return jax.jit(functools.partial(outputs_and_gradient, call))


def at_floats(call, floats):
    """Runs the plain program with other floats, and returns arrays of NumPy."""
    return jax.tree.map(np.asarray, plain(call)(*call.with_floats(floats)))


def random_floats(call, seed):
    """Returns numbers from -1 to 1, of the shapes of the floats."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, array.shape).astype(array.dtype) for array in call.floats]


def assert_agree(call, got, want, label):
    """Compares two lists of arrays: their bits, or values if the call's bits may differ."""
    for position, (one, other) in enumerate(zip(got, want, strict=True)):
        name = f"{label} [{position}]"
        if call.same_bits:
            assert_same_bits(one, other, name)
        else:
            assert_close(one, other, name, 1e-5)


def assert_close(got, want, label, tolerance):
    """Compares values, up to a share of the largest of them."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, label
    largest = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * largest, err_msg=label)


@functools.cache
def transformed(call):
    """Runs the op under transformations, all in one program; the indices are constants of it.

    Returns:
        By name: the outputs; the derivative of the smooth outputs in the direction ``tangents``;
        the gradient of half the sum of their squares, with and without ``checkpoint``; the
        derivative of that gradient; and the outputs and the gradient of a loop.
    """

    smooth = functools.partial(smooth_outputs, call)

    def gradient(*floats, function=smooth):
        outputs, pullback = jax.vjp(function, *floats)
        return pullback(outputs)

    def step(total, scale):
        scaled = [array * scale for array in call.floats]
        outputs = call.outputs(*call.with_floats(scaled))
        squares = [(out**2).sum() for out in outputs if jnp.issubdtype(out.dtype, jnp.floating)]
        return total + sum(squares) / 2, outputs

    def looped(scales):
        return jax.lax.scan(step, 0.0, scales)

    @jax.jit
    def program(floats, tangents, scales):
        smooth_outputs, derivative = jax.jvp(smooth, floats, tangents)
        if call.twice:
            first, second = jax.jvp(gradient, floats, tangents)
        else:
            first, second = gradient(*floats), ()
        loop_gradient, loop_outputs = jax.grad(looped, has_aux=True)(scales)
        return {
            "outputs": call.outputs(*call.with_floats(floats)),
            "smooth outputs": smooth_outputs,
            "derivative": derivative,
            "gradient": first,
            "checkpoint": gradient(*floats, function=jax.checkpoint(smooth)),
            "second derivative": second,
            "loop outputs": loop_outputs,
            "loop gradient": loop_gradient,
        }

    tangents = tuple(random_floats(call, 0))
    results = program(tuple(call.floats), tangents, np.float32(SCALES))
    return {**jax.tree.map(np.asarray, results), "tangents": tangents}


def sharded(call, check_vma):
    """Runs the op inside ``shard_map`` for each choice of arrays that vary, in one program.

    The results have a leading axis, since a number cannot vary over a mesh.
    """
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))

    def mapped(function, arrays, varying):
        """Maps the arrays at the positions ``varying``; other arrays are equal on all devices."""
        specs = tuple(
            PartitionSpec("d") if position in varying and np.ndim(array) else PartitionSpec()
            for position, array in enumerate(arrays)
        )
        return jax.shard_map(
            lambda *shards: jax.tree.map(lambda out: out[None], function(*shards)),
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec("d"),
            check_vma=check_vma,
        )(*arrays)

    positions = call.float_positions

    @jax.jit
    def program(arrays):
        choices = {tuple(range(len(arrays))): "all", tuple(positions[-1:]): "last"}
        function = functools.partial(outputs_and_gradient, call)
        return {name: mapped(function, arrays, varying) for varying, name in choices.items()}

    return program(call.arrays)
