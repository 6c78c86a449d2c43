"""Batches: ``vmap`` gives the bits of a call for each example, over every choice of axes."""

import functools

import jax
import numpy as np

from conformance.tests.every_op.calls import parametrize_by_primitives
from conformance.tests.every_op.programs import assert_agree, outputs_and_gradient, plain

EXAMPLES = 3


def stacked(array):
    """Returns examples of the shape and with the values of ``array``, in other orders."""
    rng = np.random.default_rng(array.size)
    flat = np.asarray(array).reshape(-1)
    return np.stack([rng.permutation(flat).reshape(array.shape) for _ in range(EXAMPLES)])


def choices(call):
    """Returns which arrays have a batch axis: one of them, or all."""
    positions = range(len(call.arrays)) if call.batch is None else call.batch
    return list(dict.fromkeys([*(frozenset([p]) for p in positions), frozenset(positions)]))


@parametrize_by_primitives(lambda call: bool(call.arrays))
def test_vmap(call):
    batches = [stacked(array) for array in call.arrays]
    both = functools.partial(outputs_and_gradient, call)

    def outputs_alone(*arrays):
        return call.outputs(*arrays), ()

    @jax.jit
    def program(batches):
        last_axis = [jax.numpy.moveaxis(batch, 0, -1) for batch in batches]
        results = [jax.vmap(both, -1, -1)(*last_axis)]
        for chosen in choices(call):
            axes = [0 if i in chosen else None for i in range(len(batches))]
            arguments = [
                batch if i in chosen else array
                for i, (batch, array) in enumerate(zip(batches, call.arrays, strict=True))
            ]
            with_gradient = len(batches) <= 2 or len(chosen) == len(batches)
            function = both if with_gradient else outputs_alone
            results.append(jax.vmap(function, axes)(*arguments))
        return results

    # A row of an array of JAX would be a program.
    last_axis, *results = jax.tree.map(np.asarray, program(batches))
    results.append(jax.tree.map(lambda out: np.moveaxis(out, -1, 0), last_axis))
    for chosen, result in zip([*choices(call), range(len(batches))], results, strict=True):
        for example in range(EXAMPLES):
            single = [
                batch[example] if i in chosen else array
                for i, (batch, array) in enumerate(zip(batches, call.arrays, strict=True))
            ]
            for got, want in zip(result, plain(call)(*single), strict=True):
                if got:
                    label = f"example {example}, batch axes for {list(chosen)}"
                    assert_agree(call, [out[example] for out in got], want, label)
