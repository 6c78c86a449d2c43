"""Launching kernels: the memory of their results, which they have to overwrite."""

import importlib
import inspect
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import _kernels
from impl._kernels.launch import Launch
from impl.tests import kernels as tests
from impl.tests.kernels._unwritten import ComparingLaunch, floats, indices
from impl.tests.support.bits import bits


def modules(package):
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def launches_a_kernel(function, module):
    return (
        inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not function.__name__.startswith("_")
        and "launch" in inspect.signature(function).parameters
    )


def test_every_kernel_is_tested_for_unwritten_elements():
    kernels = {
        value
        for name, module in modules(_kernels).items()
        if not name.startswith("_")  # These have parts of kernels.
        for value in vars(module).values()
        if launches_a_kernel(value, module)
    }
    tested = [
        kernel for module in modules(tests).values() for kernel in getattr(module, "CALLS", ())
    ]
    assert kernels
    assert set(tested) == kernels
    assert len(tested) == len(kernels)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32, jnp.bool_])
def test_an_unwritten_element_is_found(dtype):
    def all_but_the_last(x_ref, out_ref):
        out_ref[:3] = x_ref[:3]

    def run(launch):
        return launch(
            all_but_the_last, (1,), jax.ShapeDtypeStruct((4,), dtype), x, name="all_but_the_last"
        )

    x = jnp.ones((4,), dtype)
    with pytest.raises(AssertionError, match=r"left 1 of 4 elements unwritten.*\[\[3\]\]"):
        run(ComparingLaunch(True))
    known = {"f": np.nan, "i": np.iinfo(np.int32).max, "b": True}[np.dtype(dtype).kind]
    np.testing.assert_array_equal(run(Launch(True, fill=True)), np.array([1, 1, 1, known], dtype))
    np.testing.assert_array_equal(run(Launch(True, fill=False)), np.array([1, 1, 1, 0], dtype))


@pytest.mark.usefixtures("complete")
def test_ops_give_the_same_bits_over_any_memory():
    index = indices((1500,), 40) % 40

    def ops(x):
        # The mode and its setting are part of the key of jax.jit, so it traces for each setting.
        return (
            impl.index_add(jnp.zeros((40, 3)), 0, index, x),
            impl.cumsum(x, 0),
            impl.kthvalue(x, 7, 0),
        )

    x = floats(1500, 3)
    results = []
    for setting in (True, False):
        impl.utils.deterministic.fill_uninitialized_memory = setting
        with impl.testing.schedule(1):
            results.append([bits(leaf) for leaf in jax.tree.leaves(jax.jit(ops)(x))])
    assert results[0] == results[1]
