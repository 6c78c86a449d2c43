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
from impl._reading import facts
from impl._reading.values import Scope
from impl._reading.walk import walk

X = jnp.ones((5, 4))
INDEX = jnp.zeros(5, int)
LEAVES = (*facts.SCATTERS, *facts.POOLS, "reshard")


def facts_of(function, *args):
    """The facts of the one scatter, pool or other sharding of a program."""
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


def scanned(x, i):
    def step(total, row):
        return total.at[jnp.arange(4)].add(row), None

    return lax.scan(step, jnp.zeros(4), x)[0]


def counted(x, i):
    def step(number, total):
        return total.at[number + jnp.zeros(5, int)].add(x[:, 0])

    return lax.fori_loop(0, 3, step, jnp.zeros(5))


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
    "iota that a scan keeps": (scanned, {"iota_indices"}),
    "counter of a loop": (counted, set()),
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


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *(("float32", "floating"), ("bfloat16", "floating"), ("complex64", "complex")),
        *(("int8", "integer"), ("bool", "bool")),
    ],
)
def test_the_kind_of_number(dtype, kind):
    aval = jax.ShapeDtypeStruct((4,), dtype)
    assert facts.facts_of("other", [aval], {})["dtype"] == kind


@pytest.mark.parametrize(("stride", "overlaps"), [(1, {"overlapping"}), (2, set())])
def test_the_facts_of_a_pool(stride, overlaps):
    def pool(x, i):
        return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (stride, stride), "SAME")

    assert true_facts(gradient(pool), X, INDEX) == overlaps


@pytest.mark.parametrize(
    ("held", "facts"), [(P("x"), set()), (P(None, unreduced={"x"}), {"unreduced"})]
)
def test_the_facts_of_another_sharding(held, facts):
    mesh = AbstractMesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    array = jax.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, held))
    with jax.sharding.use_abstract_mesh(mesh):
        assert true_facts(lambda x: jax.reshard(x, P(None)), array) == facts


SYMBOLIC, *_ = jax.export.symbolic_shape("n")


@pytest.mark.parametrize(("size", "fits"), [(2**30, True), (2**31, False), (SYMBOLIC, False)])
def test_the_ordered_path_fits_known_sizes_of_31_bits(size, fits):
    arrays = ((size,), "float32"), ((size, 1), "int32"), ((size,), "float32")
    avals = [jax.ShapeDtypeStruct(*array) for array in arrays]
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    params = {"dimension_numbers": numbers, "unique_indices": False}
    stated = facts.facts_of("scatter-add", avals, params)
    assert (stated["ordered_path_fits"], stated["one_update"]) == (fits, False)


def test_every_fact_is_in_the_vocabulary():
    names = {name for function, _ in SCATTERS.values() for name in facts_of(function, X, INDEX)}
    assert names <= set(spec.load().facts)
