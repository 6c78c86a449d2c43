"""The facts of equations, from their parameters and from values that are known."""

# ruff: noqa: ARG001, ARG005  # Each of these programs gets all of the arguments.

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import spec
from impl._kernels import pallas as pl
from impl._reading import facts
from impl._reading.values import Scope
from impl._reading.walk import walk

X = jnp.ones((5, 4))
INDEX = jnp.zeros(5, int)
LEAVES = (*facts.SCATTERS, *facts.POOLS, "pallas_call", "reshard")


def facts_of(function, *args):
    """The facts of the one scatter, pool, kernel or other sharding of a program."""
    closed = jax.make_jaxpr(function)(*args)
    scope = Scope(closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True)))
    (site,) = [s for s in walk(scope, LEAVES.__contains__) if s.name in LEAVES]
    avals = [operand.aval for operand in site.equation.invars]
    return facts.facts_of(site.name, avals, site.equation.params, site.operands)


def true_facts(function, *args):
    """Returns the facts that hold, without the two that hold for every program here."""
    stated = facts_of(function, *args)
    held = {name for name, value in stated.items() if value is True}
    return held - {"timed_kernels", "ordered_path_fits"}


def gradient(function):
    return jax.grad(lambda x, *args: jnp.sum(function(x, *args) ** 2))


SCATTERS = {
    "rows": (lambda x, i: x.at[i].add(x), set()),
    "promise": (lambda x, i: x.at[i].add(x, unique_indices=True), {"unique_indices"}),
    "one row": (lambda x, i: x.at[i[0]].add(x[0]), {"one_update", "same_value", "unique_indices"}),
    "one for each row": (
        gradient(lambda x, i: jnp.take_along_axis(x, i[:, None], 1)),
        {"one_update"},
    ),
    "iota": (lambda x, i: x.at[jnp.arange(5)].add(x), {"iota_indices"}),
    "iota backwards": (lambda x, i: x.at[4 - jnp.arange(5)].add(x), {"iota_indices"}),
    "iota times 2, dropped": (lambda x, i: x.at[2 * jnp.arange(5)].add(x), {"iota_indices"}),
    "iota times 2, clipped": (lambda x, i: x.at[2 * jnp.arange(5)].add(x, mode="clip"), set()),
    "iota that wraps": (lambda x, i: x.at[jnp.arange(-2, 3)].add(x), {"iota_indices"}),
    "iota halved": (lambda x, i: x.at[jnp.arange(5) // 2].add(x), set()),
    "iota beside labels": (gradient(lambda x, i: x[jnp.arange(5), i]), {"iota_indices"}),
    "iota in jit": (gradient(jax.jit(lambda x, i: x[jnp.arange(5), i])), {"iota_indices"}),
    "constants": (lambda x, i: x.at[np.array([0, 3, 1])].add(x[:3]), {"iota_indices"}),
    "equal constants": (lambda x, i: x.at[np.array([0, 3, 0])].add(x[:3]), set()),
    "diagonal": (lambda x, i: x.at[jnp.diag_indices(4)].add(x[0]), {"iota_indices"}),
    "windows that meet": (
        gradient(
            lambda x, i: jax.vmap(lambda j: lax.dynamic_slice(x, (j, 0), (2, 4)))(jnp.arange(3))
        ),
        set(),
    ),
    "windows apart": (
        gradient(
            lambda x, i: jax.vmap(lambda j: lax.dynamic_slice(x, (j, 0), (2, 4)))(2 * jnp.arange(2))
        ),
        {"iota_indices"},
    ),
    "a scalar is set": (lambda x, i: x.at[i].set(2.0), {"same_value"}),
    "a row is set": (lambda x, i: x.at[i].set(x[0] * 3), {"same_value"}),
    "rows are set": (lambda x, i: x.at[i].set(x * 3), set()),
    "a function": (lambda x, i: x.at[i].apply(jnp.sin), {"applies_function", "same_value"}),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_the_facts_of_a_scatter(name):
    function, expected = SCATTERS[name]
    assert true_facts(function, X, INDEX) == expected


def test_indices_that_a_scan_keeps_are_known():
    def summed(x, i):
        step = lambda total, row: (total.at[jnp.arange(4)].add(row), None)  # noqa: E731
        return lax.scan(step, jnp.zeros(4), x)[0]

    assert true_facts(summed, X, INDEX) == {"iota_indices"}


def test_the_counter_of_a_loop_is_not_known():
    def summed(x, i):
        step = lambda j, total: total.at[j + jnp.zeros(5, int)].add(x[:, 0])  # noqa: E731
        return lax.fori_loop(0, 3, step, jnp.zeros(5))

    assert true_facts(summed, X, INDEX) == set()


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("float32", "floating"),
        ("bfloat16", "floating"),
        ("complex64", "complex"),
        ("int8", "integer"),
        ("bool", "bool"),
    ],
)
def test_the_kind_of_number(dtype, kind):
    operand = jnp.zeros(4, dtype)
    name = "scatter-add" if dtype != "bool" else "scatter"
    closed = jax.make_jaxpr(lambda x, i: x.at[i].set(x) if dtype == "bool" else x.at[i].add(x))(
        operand, jnp.zeros(4, jnp.uint8)
    )
    equation = next(e for e in closed.jaxpr.eqns if e.primitive.name == name)
    avals = [equation.invars[0].aval]
    stated = {"bool": "bool"}.get(dtype, kind)
    assert facts.facts_of("other", avals, {})["dtype"] == stated


@pytest.mark.parametrize(("stride", "overlaps"), [(1, {"overlapping"}), (2, set())])
def test_the_facts_of_a_pool(stride, overlaps):
    def pool(x, i):
        return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (stride, stride), "SAME")

    assert true_facts(gradient(pool), X, INDEX) == overlaps


@pytest.mark.triton
@pytest.mark.parametrize(("dtype", "atomics"), [("float32", {"float_atomics"}), ("int32", set())])
def test_the_facts_of_a_kernel(dtype, atomics):
    def kernel(x, out):
        @pl.when(x[0] > 0)
        def _():
            pl.triton.atomic_add(out, (0,), x[0])

    shape = jax.ShapeDtypeStruct((3,), dtype)
    assert true_facts(pl.pallas_call(kernel, out_shape=shape), jnp.ones(3, dtype)) == atomics


@pytest.mark.parametrize(
    ("held", "facts"), [(P("x"), set()), (P(None, unreduced={"x"}), {"unreduced"})]
)
def test_the_facts_of_another_sharding(held, facts):
    mesh = AbstractMesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    array = jax.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, held))
    with jax.sharding.use_abstract_mesh(mesh):
        assert true_facts(lambda x: jax.reshard(x, P(None)), array) == facts


def test_a_symbolic_size_can_be_any_number():
    (size,) = jax.export.symbolic_shape("n")
    index = jax.ShapeDtypeStruct((size, 1), "int32")
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    avals = [jax.ShapeDtypeStruct((4,), "float32"), index, jax.ShapeDtypeStruct((size,), "float32")]
    assert not facts.has_one_update(avals, numbers)


@pytest.mark.parametrize(
    ("size", "fits"), [(2**30, True), (2**31, False), (jax.export.symbolic_shape("n")[0], False)]
)
def test_the_ordered_path_fits_known_sizes_of_31_bits(size, fits):
    avals = [
        jax.ShapeDtypeStruct((size,), "float32"),
        jax.ShapeDtypeStruct((3, 1), "int32"),
        jax.ShapeDtypeStruct((3,), "float32"),
    ]
    params = {
        "dimension_numbers": lax.ScatterDimensionNumbers((), (0,), (0,)),
        "unique_indices": False,
    }
    assert facts.facts_of("scatter-add", avals, params)["ordered_path_fits"] is fits


def test_every_fact_is_in_the_vocabulary():
    names = {name for function, _ in SCATTERS.values() for name in facts_of(function, X, INDEX)}
    assert names <= set(spec.load().facts)
