"""Tests of a process with eight devices, which ``test_partitioning`` starts.

Arrays are [outer, n, inner] and are sharded along one or two axes. The same call on arrays that one
device holds must have the same bits.
"""

import contextlib
import functools
import gc
import math
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._core.jax_internals import partitions
from impl._mode.decide import Action, Decision
from impl._primitives.total import total
from impl.nn import functional
from impl.tests.support.bits import assert_all_same_bits

pytestmark = pytest.mark.usefixtures("complete", "ordered_as_on_a_gpu")

OUTER, N, INNER, SIZE = 8, 96, 24, 5
RNG = np.random.default_rng(0)
ORDERED = Decision(elsewhere=Action(path="ordered"))
TABLE = RNG.normal(size=(OUTER, SIZE, INNER)).astype(np.float32)


@pytest.fixture
def ordered_as_on_a_gpu():
    """Gives JAX's own primitives an order too; a CPU leaves them to XLA, whose sums a mesh cuts."""
    with impl.testing.emulate("cuda", lowering="native"):
        yield


def gradient(function, operand, cotangent):
    """Returns the gradient of a function for a cotangent of the shape of its result."""
    return jax.vjp(function, operand)[1](cotangent)[0]


def pool(values):
    """A max pool of JAX, whose windows overlap along the middle axis."""
    return lax.reduce_window(values, -jnp.inf, lax.max, (1, 3, 1), (1, 1, 1), "SAME")


class Arrays(NamedTuple):
    """The arguments of an op: the middle axis of each is the axis of the op."""

    values: Any
    minus_zeros: Any
    index: Any
    indices: Any
    positions: Any


PLAIN = Arrays(
    values=(1 + RNG.normal(size=(OUTER, N, INNER)) / 8).astype(np.float32),
    minus_zeros=np.full((OUTER, N, INNER), -0.0, np.float32),
    index=RNG.integers(0, SIZE, N, dtype=np.int32),
    indices=RNG.integers(0, SIZE, (OUTER, N, INNER), dtype=np.int32),
    positions=RNG.integers(0, N, (OUTER, N, INNER), dtype=np.int32),
)
SUMS = {
    "index_add": lambda a: impl.index_add(TABLE, 1, a.index, a.values),
    "scatter_reduce": lambda a: impl.scatter_reduce(TABLE, 1, a.indices, a.values, "prod"),
    "index_reduce": lambda a: impl.index_reduce(TABLE, 1, a.index, a.values, "mean"),
    "index_put": lambda a: impl.index_put(TABLE[0], (a.index,), a.values[0], accumulate=True),
    "bincount": lambda a: impl.bincount(a.index, a.values[0, :, 0], length=SIZE),
    "cumsum": lambda a: impl.cumsum(a.values, 1),
    "avg_pool1d": lambda a: functional.avg_pool1d(jnp.swapaxes(a.values, 1, 2), 5, 2),
    "nll_loss": lambda a: functional.nll_loss(a.values[0], a.index),
    "cross_entropy": lambda a: functional.cross_entropy(a.values[0], a.index),
    "gather": lambda a: gradient(lambda t: impl.gather(t, 1, a.indices), TABLE, a.values),
    "take": lambda a: gradient(lambda t: impl.take(t, a.index), TABLE, a.values[0, :, 0]),
    "getitem": lambda a: gradient(lambda t: impl.getitem(t, a.index), TABLE[0], a.values[0]),
    "embedding": lambda a: gradient(
        lambda t: functional.embedding(a.index, t), TABLE[0], a.values[0]
    ),
    "total": lambda a: total(jnp.swapaxes(a.values, 1, 2), decision=ORDERED),
    "JAX's add": lambda a: jnp.asarray(TABLE).at[:, a.index].add(a.values),
    "JAX's gather": lambda a: gradient(lambda t: t[:, a.index], jnp.asarray(TABLE), a.values),
    "a part": lambda a: impl.index_add(TABLE, 1, a.index[:90], a.values[:, :90]),
}
SELECTIONS = {
    "sort": lambda a: (impl.sort(a.values, 1), impl.sort(a.minus_zeros, 1)),
    "median": lambda a: impl.median(a.minus_zeros, 1),
    "index_select": lambda a: impl.index_select(a.minus_zeros, 1, PLAIN.index),
    "gather of zeros": lambda a: impl.gather(a.minus_zeros, 1, a.positions),
    "index_copy": lambda a: impl.index_copy(a.values, 1, np.arange(N)[::-1] // 2, a.minus_zeros),
}
SELECTIONS |= {
    "JAX's set": lambda a: a.values.at[:, np.arange(N)[::-1] // 2].set(a.minus_zeros),
    "JAX's pool": lambda a: gradient(pool, a.minus_zeros, a.values),
}
OPS = {**SUMS, **SELECTIONS}
#: One of each rule, for more meshes.
FEW = ("index_add", "cumsum", "sort", "index_copy")

AXES = {"outer": P("d"), "n": P(None, "d"), "inner": P(None, None, "d")}


def mesh_of(*sizes, kind=AxisType.Auto):
    """Returns a mesh of the first devices, in reverse; its axes are d and e."""
    devices = np.array(jax.devices()[: math.prod(sizes)])[::-1].reshape(sizes)
    return Mesh(devices, ("d", "e")[: len(sizes)], axis_types=(kind,) * len(sizes))


def sharded(mesh, spec):
    """Returns the arguments, sharded over a mesh."""
    of_middle = P(*spec[1:2])
    return Arrays(
        *(
            jax.device_put(array, NamedSharding(mesh, spec if array.ndim == 3 else of_middle))
            for array in PLAIN
        )
    )


def collectives(compiled):
    """Returns the name, dtype and shape of each collective operation of a compiled program.

    Operations on a single number of each device do not count: devices agree on whether an element
    is in doubt, and XLA may reduce and permute a number besides, such as the number of losses.
    """
    pattern = r"= (\w+)\[([\d,]*)\]\S* (all-\w+|reduce-scatter|collective-permute)(?:-start)?\("
    found = [
        (name, dtype, tuple(map(int, filter(None, shape.split(",")))))
        for dtype, shape, name in re.findall(pattern, compiled.as_text())
    ]
    singles = {"all-gather": 8}
    return [each for each in found if math.prod(each[2]) > singles.get(each[0], 1)]


def together(names):
    """Returns one program of several ops, which takes less time to compile than a program each."""
    return jax.jit(lambda arrays: {name: OPS[name](arrays) for name in names})


@functools.cache
def alone():
    """Returns the results of one device."""
    return together(OPS)(PLAIN)


def check(names, mesh, spec):
    """Compares bits with the bits of one device; returns the collectives."""
    arrays = sharded(mesh, spec)
    compiled = together(names).lower(arrays).compile()
    for name, result in compiled(arrays).items():
        label = f"{name} {mesh.shape} {spec}"
        assert_all_same_bits(jax.tree.leaves(result), jax.tree.leaves(alone()[name]), label)
    return collectives(compiled)


def test_sums_along_a_sharded_axis_have_the_bits_of_one_device():
    large = check(SUMS, mesh_of(8), AXES["n"])
    # Scatters reduce tables of measures; the other sums gather their terms.
    assert {operation for operation, _, _ in large} <= {"all-gather", "all-reduce"}
    assert max(math.prod(shape) for _, _, shape in large) <= PLAIN.values.size


def test_selections_along_a_sharded_axis_keep_the_signs_of_zeros():
    check(SELECTIONS, mesh_of(8), AXES["n"])


@pytest.mark.parametrize("axis", ["outer", "inner"])
def test_free_axes_stay_sharded(axis):
    assert check(FEW, mesh_of(8), AXES[axis]) == []


@pytest.mark.parametrize(
    ("sizes", "spec"),
    [
        ((1,), AXES["n"]),
        ((2,), AXES["n"]),
        ((4,), AXES["n"]),
        ((2, 4), P("d", "e")),
        ((3, 2), P(None, "d", "e")),
        ((2, 4), P(None, ("e", "d"))),
    ],
)
def test_other_meshes(sizes, spec):
    shapes = [shape for _, _, shape in check(("scatter_reduce", "gather"), mesh_of(*sizes), spec)]
    if sizes == (3, 2):
        # Columns of another device are not gathered.
        assert max(map(math.prod, shapes)) == PLAIN.values.size // 2
    if sizes == (1,):
        assert shapes == []


@pytest.mark.parametrize("axis", AXES)
def test_explicit_axes(axis):
    mesh = mesh_of(8, kind=AxisType.Explicit)
    with jax.set_mesh(mesh):
        check(("index_add", "cumsum"), mesh, AXES[axis])


@pytest.mark.parametrize("of_table", [P("d"), P(None, "d")])
def test_embedding_with_explicit_axes(of_table):
    def function(table, index):
        out, pullback = jax.vjp(lambda t: functional.embedding(index, t), table)
        return out, *pullback(out)

    program = jax.jit(function)
    table = RNG.normal(size=(16, 8)).astype(np.float32)
    index = RNG.integers(0, 16, (8, 12), dtype=np.int32)
    mesh = mesh_of(8, kind=AxisType.Explicit)
    with jax.set_mesh(mesh):
        out, gradient_ = program(
            jax.device_put(table, NamedSharding(mesh, of_table)),
            jax.device_put(index, NamedSharding(mesh, P("d"))),
        )
    assert_all_same_bits([out, gradient_], program(table, index))
    assert jax.typeof(out).sharding.spec == P("d", None, None)
    assert gradient_.sharding.spec == P(*of_table, *[None] * (2 - len(of_table)))


def test_gradients_have_the_explicit_axes_of_their_operands():
    mesh = mesh_of(8, kind=AxisType.Explicit)
    with jax.set_mesh(mesh):
        arrays = sharded(mesh, AXES["n"])
        program = jax.jit(jax.grad(lambda v: impl.index_add(TABLE, 1, PLAIN.index, v).sum()))
        assert jax.typeof(program(arrays.values)).sharding.spec == P(None, "d", None)


def test_jaxs_own_primitives_with_explicit_axes():
    def program(values):
        value = jax.grad(lambda v: (v[:, PLAIN.index % 7] ** 3).sum())(values)
        return value + jax.grad(lambda v: (pool(v) ** 3).sum())(value.at[:, PLAIN.index].add(1.0))

    mesh = mesh_of(8, kind=AxisType.Explicit)
    with jax.set_mesh(mesh):
        values = sharded(mesh, AXES["outer"]).values
        out = jax.jit(program)(values)
    assert_all_same_bits([out], [jax.jit(program)(PLAIN.values)])
    assert jax.typeof(out).sharding.spec == P("d", None, None)


def test_the_gradient_of_a_shard_map_of_jaxs_own_primitives():
    def part(values):
        return values.at[:, PLAIN.index].add(values) ** 2

    def of_all(function):
        return jax.jit(jax.grad(lambda v: function(v).sum()))

    mapped = jax.shard_map(part, mesh=mesh_of(8), in_specs=P("d"), out_specs=P("d"))
    assert_all_same_bits([of_all(mapped)(PLAIN.values)], [of_all(part)(PLAIN.values)])


def test_a_sharded_batch_stays_sharded():
    def function(values):
        return impl.index_add(TABLE[0], 0, PLAIN.index, values), impl.cumsum(values, 0)

    mapped = jax.jit(jax.vmap(function))
    values = sharded(mesh_of(8), AXES["outer"]).values
    compiled = mapped.lower(values).compile()
    assert_all_same_bits(compiled(values), mapped(PLAIN.values))
    assert collectives(compiled) == []


def test_shard_map_over_one_of_two_axes():
    mesh, spec = mesh_of(2, 4), P("d", "e")
    mapped = jax.shard_map(
        lambda v: impl.cumsum(v, 1), mesh=mesh, in_specs=P("d"), out_specs=P("d"), axis_names={"d"}
    )
    assert_all_same_bits([jax.jit(mapped)(sharded(mesh, spec).values)], [alone()["cumsum"]])


def test_the_older_partitioner():
    with shardy(False):
        check(["index_add"], mesh_of(8), AXES["n"])
        assert check(["index_add"], mesh_of(8), AXES["inner"]) == []
        mapped = jax.shard_map(
            lambda v: impl.cumsum(v, 1),
            mesh=mesh_of(2, 4),
            in_specs=P("d"),
            out_specs=P("d"),
            axis_names={"d"},
        )
        with pytest.raises(NotImplementedError, match="jax_use_shardy_partitioner"):
            jax.jit(mapped).lower(PLAIN.values)


@contextlib.contextmanager
def shardy(on):
    """Chooses the partitioner in a scope."""
    jax.config.update("jax_use_shardy_partitioner", on)
    try:
        yield
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)


def test_the_settings_at_the_time_of_compilation_do_not_count():
    mesh = mesh_of(8)
    with jax.enable_x64(True):
        plain = PLAIN.values.astype(np.float64)
        values = jax.device_put(plain, NamedSharding(mesh, AXES["n"]))
        program = jax.jit(lambda v: impl.cumsum(v, 1))
        lowered = program.lower(values)
        want = program(plain)
    with jax.set_mesh(mesh_of(8, kind=AxisType.Explicit)):
        compiled = lowered.compile()
    assert_all_same_bits([compiled(values)], [want])


@pytest.mark.parametrize("name", ["index_add", "scatter_reduce"])
def test_a_program_exported_on_one_device_and_called_on_eight(name):
    exported = jax.export.export(jax.jit(OPS[name]))(PLAIN)
    # A product needs its three operands and its result whole on every device; an exact sum does
    # not.
    whole = exported.mlir_module().count("sdy.sharding_constraint")
    assert whole == (4 if name == "scatter_reduce" else 0)
    got = jax.jit(exported.call)(sharded(mesh_of(8), AXES["n"]))
    assert_all_same_bits([got], [alone()[name]])


@pytest.mark.parametrize("spec", [AXES["outer"], AXES["n"]])
def test_what_has_one_path_has_the_bits_of_one_device_with_the_mode_off(spec):
    def program(values):
        highest = gradient(lambda v: impl.cummax(v, 1)[0], values, values)
        pooled = functional.max_pool1d(jnp.swapaxes(values, 1, 2)[..., :SIZE], 3, 2)
        return impl.cummax(values, 1), highest, impl.topk(values, 3, 1), pooled

    mapped = jax.jit(program)
    with impl.deterministic(False):
        for name in ("values", "minus_zeros"):
            want = jax.tree.leaves(mapped(getattr(PLAIN, name)))
            got = jax.tree.leaves(mapped(getattr(sharded(mesh_of(8), spec), name)))
            assert_all_same_bits(got, want, f"{name} {spec}")


def test_with_the_mode_off_nothing_is_gathered():
    with impl.deterministic(False):
        program = jax.jit(OPS["index_add"])
        compiled = program.lower(sharded(mesh_of(8), AXES["n"])).compile()
    assert {operation for operation, _, _ in collectives(compiled)} == {"all-reduce"}


@pytest.fixture
def on_disk(monkeypatch):
    """Has JAX keep programs on disk, as far as a name says: nothing is compiled meanwhile."""
    monkeypatch.setattr(partitions, "is_on_disk", lambda: True)


def names(lowered):
    """Returns the names of the callbacks of a program."""
    return re.findall(r'CustomSPMDPartitioning.*backend_config = "([^"]*)"', lowered.as_text())


@pytest.mark.usefixtures("on_disk")
def test_the_name_of_a_partitioned_operation_is_its_content():
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))
    x = jax.device_put(TABLE[:, 0], sharding)

    def lowered(function):
        return jax.jit(lambda x: function(x, 0)).lower(x)

    sums, products = lowered(impl.cumsum), lowered(impl.cumprod)
    assert names(lowered(impl.cumsum)) == names(sums) != names(products)
    assert all(name.startswith("samebits ") for name in names(sums) + names(products))
    # The program whose callbacks have the name first is gone when another one is compiled.
    again = lowered(impl.cumsum)
    del sums
    gc.collect()
    expected = np.add.accumulate(TABLE[:, 0], 0)
    np.testing.assert_array_equal(again.compile()(x), expected)
    np.testing.assert_allclose(products.compile()(x), np.cumprod(TABLE[:, 0], 0), rtol=1e-6)
