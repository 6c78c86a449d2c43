"""NumPy arrays that JAX does not take as they are: of another byte order, of objects, of text."""

import functools
import inspect

import jax
import numpy as np
import pytest

from conformance.tests.every_op.calls import first_calls
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.public_ops import public_ops


def variants(call, change):
    """Yields calls of an op with one NumPy array changed, and the name of the argument."""
    function, (arguments, options) = public_ops()[call.op], call.given()
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


@pytest.mark.parametrize("call", **first_calls())
def test_another_byte_order_gives_the_same_program(call):
    changed = list(variants(call, swapped))
    if not changed:
        return
    # Tracing alone costs little: the program and its constants fix the result.
    want = jax.make_jaxpr(next(variants(call, np.array))[0])()
    for other_call, _ in changed:
        got = jax.make_jaxpr(other_call)()
        assert str(got) == str(want)
        for one, other in zip(got.consts, want.consts, strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("call", **first_calls())
def test_arrays_of_no_numbers_are_refused_by_name(call):
    for dtype in (object, str, "datetime64[s]"):
        for refused, name in variants(call, functools.partial(np.zeros_like, dtype=dtype)):
            with pytest.raises(TypeError) as raised:
                refused()
            short = call.op.removeprefix("nn.").removeprefix("functional.")
            assert str(raised.value).startswith(f"{short}(): argument '{name}"), raised.value
