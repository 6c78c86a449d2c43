"""NumPy arrays that JAX does not take as they are: of another byte order, of objects, of text."""

import functools
import inspect

import jax
import numpy as np
import pytest

from impl.tests.every_op.public_ops import Recorder, first_samples, public_ops
from impl.tests.support.bits import assert_same_bits


def variants(op, sample, change):
    """Yields calls of an op with one NumPy array changed, and the name of the argument."""
    function, calls = public_ops()[op], []
    sample.call(Recorder(calls), *sample.arrays)
    ((arguments, options),) = calls
    bound = inspect.signature(function).bind(*arguments, **options)
    leaves, structure = jax.tree.flatten((bound.args, bound.kwargs))
    paths = jax.tree.leaves_with_path((bound.args, bound.kwargs))
    names = list(inspect.signature(function).parameters)
    for position, (path, leaf) in enumerate(paths):
        if isinstance(leaf, np.ndarray):
            new = [*leaves[:position], change(leaf), *leaves[position + 1 :]]
            args, kwargs = jax.tree.unflatten(structure, new)
            name = path[1].key if path[0].idx == 1 else names[min(path[1].idx, len(names) - 1)]
            yield functools.partial(function, *args, **kwargs), name


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


@pytest.mark.parametrize("sample", **first_samples())
def test_another_byte_order_gives_the_same_program(sample, request):
    op = request.node.callspec.id
    changed = list(variants(op, sample, swapped))
    if not changed:
        return
    # Tracing alone costs little: the program and its constants fix the result.
    want = jax.make_jaxpr(next(variants(op, sample, np.array))[0])()
    for call, _ in changed:
        got = jax.make_jaxpr(call)()
        assert str(got) == str(want)
        for one, other in zip(got.consts, want.consts, strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("sample", **first_samples())
def test_arrays_of_no_numbers_are_refused_by_name(sample, request):
    op = request.node.callspec.id
    for dtype in (object, str, "datetime64[s]"):
        for call, name in variants(op, sample, functools.partial(np.zeros_like, dtype=dtype)):
            with pytest.raises(TypeError) as raised:
                call()
            short = op.removeprefix("nn.").removeprefix("functional.")
            assert str(raised.value).startswith(f"{short}(): argument '{name}"), raised.value
