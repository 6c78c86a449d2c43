"""Sums over devices move to where their terms arise, and shardings are followed.

Nothing is compiled here.

Tests: impl._jax.jaxprs, impl._portable.device_sums.draft, impl._portable.device_sums.flow,
impl._portable.device_sums.push, impl._portable.device_sums.sharding_rules,
impl._portable.device_sums.shardings.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AbstractMesh, AxisType, Mesh
from jax.sharding import PartitionSpec as P

import impl
from impl._portable.device_sums.flow import Flow, sharding_of
from impl._portable.device_sums.push import with_joined_sums
from impl._portable.device_sums.shardings import TERM, UNKNOWN
from impl._reading.control_flow import inlined
from impl.tests.support.programs import equations

pytestmark = pytest.mark.usefixtures("portable")

AUTO = AxisType.Auto
MESH = AbstractMesh((4, 2), ("d", "m"), axis_types=(AUTO, AUTO))
SAME = P()
X, W = jnp.ones((8, 4)), jnp.ones((4, 6))


def sums(function, *args, specs, check=False, out=SAME):
    """Returns the sums over devices of a body: the joined ones, and the axes of each ``psum``."""
    mapped = jax.shard_map(function, mesh=MESH, in_specs=specs, out_specs=out, check_vma=check)
    (equation,) = jax.make_jaxpr(mapped)(*args).eqns
    found = list(equations(with_joined_sums(equation.params)["jaxpr"]))
    wholes = [e.params for e in found if e.primitive.name == "samebits_whole"]
    joined = [" ".join([p["name"], *p["axis_names"]]) for p in wholes]
    left = [e for e in found if e.primitive.name in ("psum", "psum_invariant")]
    return sorted(joined), [" ".join(e.params["axes"]) for e in left]


def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)


def step(w, x):
    return lax.pmean(3 * jax.grad(loss)(w, x).T, "d").T


def moved(x):
    total = x.sum(0)
    parts = jnp.stack([total, -total[::-1]]).at[1, 2].set(total[0]).T.reshape(2, 4)
    parts = lax.dynamic_update_slice(jnp.tile(parts, (2, 1)), parts, (1, 0))
    padded = jnp.pad(jnp.concatenate(jnp.split(parts, 2, axis=1)), 1)
    chosen = jnp.where(jnp.eye(10, 4, dtype=bool), padded, 0)
    return lax.psum(checkpoint_name(chosen[jnp.array([3, 1])], "chosen").astype("bfloat16"), "d")


def bias(x):  # The gradient of adding a row has a second sum, along an axis of length 1.
    return lax.psum((x.squeeze(1).T @ x.squeeze(1))[None].sum(0), "d")


def embedding(table, rows):
    return lax.psum(jax.grad(lambda t: (t[rows] ** 2).sum())(table), "d")


def of_kernel(kernel, images):
    return lax.psum(jax.grad(lambda k: lax.conv(images, k, (1, 1), "SAME").sum())(kernel), "d")


def looped(w, x):
    parts = x.reshape(2, -1, 4)
    total, each = lax.scan(
        lambda c, part: (c + jax.grad(loss)(w, part), part.sum()), jnp.zeros_like(w), parts
    )
    return lax.psum((total, each), "d")


def momentum(w, x):
    def step(carry, _):
        speed = carry[0] / 2 + x.sum(0)
        return (speed, carry[1] - speed), carry[1]

    return lax.psum(lax.scan(step, (0 * w[0, :4],) * 2, None, length=3)[0][1], "d")


def halved(_, x):
    rows = lax.map(lambda k: (k * x).sum(0), jnp.ones(3))
    first = lax.fori_loop(0, 3, lambda _, c: c / 2, x.sum(0))
    return lax.psum(lax.scan(lambda c, row: (c / 2 + row, None), first, rows)[0], "d")


def in_the_body(w, x):
    def step(speed, _):
        return speed / 2 + x.sum(0), lax.psum(speed, "d")

    return lax.scan(step, 0 * w[0, :4], None, length=3)[1]


def not_joined(w, x):
    # No device adds elements of other devices, so a psum in each iteration would be in vain.
    return lax.psum(lax.scan(lambda c, row: (c / 2 + row, None), 0 * w[0, :4], x)[0], "d")


def not_joined_in_the_body(w, x):
    return lax.scan(lambda c, row: (c / 2 + row, lax.psum(c, "d")), 0 * w[0, :4], x)[1]


def branched(w, x):
    return lax.psum(lax.cond(w[0, 0] > 0, jnp.sum, jnp.max, x), "d")


def given(w, x):
    doubled = jax.checkpoint(lambda s: 2 * s)(x.sum(0))
    return lax.psum(lax.cond(w[0, 0] > 0, lambda s: -s, lambda s: s / 3, doubled), "d")


def not_linear(x):
    total, most = x.sum(), x.max()
    return [lax.psum(value, "d") for value in (jnp.sqrt(total), total * most, total / most)]


def saved(w, x):
    return lax.psum(jax.grad(jax.checkpoint(loss))(w, x), "d")


def in_groups(x):
    return lax.psum(x.sum(), "d", axis_index_groups=[[0, 1], [2, 3]])[None]


ONE, PRODUCT, LEFT = ["reduce_sum d"], ["dot_general d"], ["d"]
IMAGES, ROWS_OF_8 = jnp.ones((8, 3, 5, 5)), jnp.zeros(8, jnp.int32)
#: A function, its arguments, their shardings, the joined sums, and the axes of sums that are left.
OF_X: dict[str, tuple[Any, list[str], list[str]]] = {
    "mean": (lambda x: lax.pmean(jnp.mean(x**2), "d"), ONE, []),
    "sum_of_sums": (lambda x: lax.psum(x.sum(0) + (2 * x).sum(0), "d"), ONE * 2, []),
    "not_linear": (not_linear, [], LEFT * 3),
    "elements_of_a_psum": (lambda x: lax.psum(x, "d").sum(0), ONE, []),
    "elements_of_a_psum_twice": (lambda x: lax.psum(x, "d").sum(0).sum(), ONE, []),
    "elements_of_a_psum_and_itself": (
        lambda x: (lax.psum(x, "d").sum(0), lax.psum(x, "d")),
        ONE,
        LEFT,
    ),
    # The psum alone would be joined with the sum of one axis, and round it.
    "elements_of_a_psum_of_sums": (
        lambda x: lax.psum(x.sum(1, keepdims=True), "d").sum(0),
        ONE,
        [],
    ),
}
SUMS_OF: dict[str, tuple[Any, ...]] = {
    **{name: (function, (X,), P("d"), *rest) for name, (function, *rest) in OF_X.items()},
    "axis_that_does_not_cut": (
        lambda x: lax.psum(x.sum(), ("d", "m")),
        *((X,), P("d"), ONE, ["m"]),
    ),
    "gradients_through_moves_and_factors": (step, (W, X), (P(), P("d")), PRODUCT, []),
    "pmap": (
        lambda x, w: lax.psum(x.squeeze(0).sum(0) @ w, "d"),
        *((X.reshape(4, 2, 4), W), (P("d"), P()), ONE, []),
    ),
    "pmap_and_a_bias": (bias, (X.reshape(2, 4, 4),), P(None, "d"), PRODUCT, []),
    "sum_of_other_axes_does_not_hide": (
        lambda w, x: lax.psum((jax.grad(loss)(w, x) * w).sum(), "d"),
        *((W, X), (P(), P("d")), PRODUCT, []),
    ),
    "embedding": (embedding, (X, ROWS_OF_8), (P(), P("d")), ["scatter-add d"], []),
    "convolution": (
        of_kernel,
        *((jnp.ones((2, 3, 3, 3)), IMAGES), (P(), P("d")), ["conv_general_dilated d"], []),
    ),
    "one_axis_after_another": (
        lambda x: lax.psum(lax.psum(x.sum(), "d") / 3, "m"),
        *((X,), P("d", "m"), ["reduce_sum d m"], []),
    ),
    **{
        f"loops_branches_{function.__name__}": (function, (W, X), (P(), P("d")), *rest)
        for function, *rest in (
            (looped, ["dot_general d", "reduce_sum d"], LEFT),
            (momentum, ONE, LEFT),  # The psum is the sum of the zeros that the loop begins with.
            (halved, ONE * 2, []),
            (in_the_body, ONE, LEFT),
            (not_joined, [], LEFT),
            (not_joined_in_the_body, [], LEFT),
            (saved, PRODUCT, []),
            (branched, ONE, LEFT),
            (given, ONE, []),
        )
    },
}


@pytest.mark.parametrize("name", SUMS_OF)
def test_sums_are_joined(name):
    function, args, specs, *expected = SUMS_OF[name]
    assert sums(function, *args, specs=specs) == tuple(expected)


@pytest.mark.parametrize("name", OF_X)
def test_sums_are_joined_where_devices_are_checked(name):
    function, *expected = OF_X[name]
    assert sums(function, X, specs=P("d"), check=True) == tuple(expected)


def test_results_that_devices_do_not_share():
    joined, left = sums(moved, X, specs=P("d"))
    assert joined == ONE
    assert set(left) == {"d"}  # The sum that is left adds zeros.
    gradient = jax.grad(lambda w, x: lax.pmean(loss(w, x), "d"))
    assert sums(gradient, W, X, specs=(P(), P("d")), check=True) == (PRODUCT, [])

    def used_elsewhere(x):
        local = x.sum()
        return lax.psum(local, "d"), local[None]

    assert sums(used_elsewhere, X, specs=P("d"), out=(P(), P("d"))) == (ONE, [])

    def both_cut(w, x):  # The columns of w are cut, and the rows of x.
        return lax.psum(x.T @ (x @ w), "d")

    found = sums(both_cut, W, X, specs=(P(None, "m"), P("d")), out=P(None, "m"))
    assert found == (PRODUCT, [])
    assert sums(in_groups, X, specs=P("d"), out=P("d")) == ([], LEFT)
    assert sums(lambda x: lax.psum(x, "m").sum(0), X, specs=P("d"), out=P("d")) == ([], ["m"])

    def part(x):
        return lax.psum_scatter(x.sum(1), "d", tiled=True)

    assert sums(part, X, specs=P(None, "d"), out=P("d")) == (ONE, [])


def test_one_device_has_joined_sums_too():
    # A sum of -0 and nothing else is 0, so a sum of one device moves as any other.
    def scaled(x):
        return lax.psum(-0.5 * x.sum(), "d")

    bodies = []
    for devices in (1, 2):
        mesh = AbstractMesh((devices,), ("d",), axis_types=(AUTO,))
        mapped = jax.shard_map(scaled, mesh=mesh, in_specs=P("d"), out_specs=P())
        (equation,) = jax.make_jaxpr(mapped)(X).eqns
        joined = with_joined_sums(equation.params)["jaxpr"]
        bodies.append([each.primitive.name for each in joined.eqns])
    assert bodies[0] == bodies[1]
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    mapped = jax.shard_map(scaled, mesh=mesh, in_specs=P("d"), out_specs=P())
    with impl.deterministic(guarantee="portable"):
        assert np.signbit(jax.jit(mapped)(jnp.zeros(X.shape, X.dtype)))


def test_sums_are_not_joined_across_the_border_of_a_scope():
    def outside(x):
        with impl.deterministic(False):
            part = x.sum(0)
        return lax.psum(part, "d")

    def inside(x):
        part = x.sum(0)
        with impl.deterministic(False):
            return lax.psum(part, "d")

    def both(x):
        with impl.deterministic(False):
            return lax.psum(x.sum(0), "d")

    def through(x):
        with impl.deterministic(False):
            part = 2 * (x.sum(0)).reshape(2, 2)
        return lax.psum(part, "d")

    def in_a_loop(x):
        with impl.deterministic(False):
            part, _ = lax.scan(lambda c, row: (c + row.sum(), ()), 0.0, x)
        return lax.psum(part + 2, "d")

    traced = jaxpr_as_fun(jax.make_jaxpr(jax.jit(lambda x: x.sum(0)))(X[:2]))

    def traced_before(x):
        with impl.deterministic(False):
            (part,) = traced(x)
        return lax.psum(part, "d")

    for function in (outside, inside, both, through, in_a_loop, traced_before):
        assert sums(function, X, specs=P("d")) == ([], ["d"])


@pytest.mark.parametrize("call", [jax.jit, jax.checkpoint, lambda f: f])
def test_sums_are_joined_in_a_scope_that_asks_for_it(call):
    def scoped(x):
        with impl.deterministic(guarantee="portable"):
            return call(lambda x: lax.psum(x.sum(0), "d"))(x)

    with impl.deterministic(False):
        assert sums(scoped, X, specs=P("d")) == (["reduce_sum d"], [])
        assert sums(lambda x: lax.psum(x.sum(0), "d"), X, specs=P("d")) == ([], ["d"])


def results(function, *operands):
    """Returns the shardings of the results of a ``shard_map``, by its shapes and shardings."""
    specs = {"in_specs": (P(),) * len(operands), "out_specs": P(), "check_vma": False}
    mapped = jax.shard_map(function, mesh=MESH, **specs)
    (equation,) = jax.make_jaxpr(mapped)(*(jnp.ones(shape) for shape, _ in operands)).eqns
    jaxpr = inlined(equation.params["jaxpr"])
    sizes = dict(zip(MESH.axis_names, MESH.axis_sizes, strict=True))
    known = Flow(sizes).shardings(jaxpr, [sharding for _, sharding in operands])
    return [sharding_of(known, atom) for atom in jaxpr.outvars]


FIRST, COLUMNS = {"d": 0}, {"d": 1}
TERMS, OTHER = {"d": TERM}, {"d": UNKNOWN}
ROWS, STOP = ((8, 4), FIRST), {"m": UNKNOWN}


def scanned(x, y):
    return lax.scan(lambda c, row: (c + row.sum(), row * 2), y.sum(), x)


def carried(x, y):
    return lax.scan(lambda c, _: ((c[1], x.sum(0)), None), (y, y), None, length=3)[0]


def counted(limit):
    return lax.while_loop(lambda c: c < limit, lambda c: c + 1, 0.0)


def constant(limit):
    return lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, 1.0), (0.0, 0.0))[1]


def added(x):
    start = 0, jnp.zeros(4)
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x.sum(0)), start)[1]


def chosen(choice, x):
    return lax.cond(choice > 0, lambda x: x.sum(0), lambda x: (2 * x).sum(0), x)


def chosen_apart(choice, x):
    return lax.cond(choice > 0, lambda x: x.sum(0), lambda x: x[0] * 2, x)


#: The name, the function, the shapes and shardings of the operands, the shardings of the results.
FLOWS: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("scan", scanned, [((3, 8), COLUMNS), ((8,), FIRST)], [TERMS, COLUMNS]),
    # Of a slice of each device's own rows, nothing is known.
    ("scan_of_own_rows", scanned, [((3, 8), FIRST), ((8,), {})], [OTHER, OTHER]),
    ("after_the_second_iteration", carried, [ROWS, ((4,), {})], [TERMS, TERMS]),
    ("after_the_second_iteration_too", carried, [ROWS, ((4,), FIRST)], [OTHER, OTHER]),
    ("stop_together", counted, [((), {})], [{}]),
    ("stop_apart", counted, [((), STOP)], [STOP]),
    # A device that never runs the body has the initial value.
    ("stop_apart_with_a_constant", constant, [((), STOP)], [STOP]),
    ("stop_together_with_a_constant", constant, [((), {})], [{}]),
    ("while", added, [ROWS], [TERMS]),
    ("cond", chosen, [((), {}), ROWS], [TERMS]),
    ("cond_of_two_kinds", chosen_apart, [((), {}), ROWS], [OTHER]),
    # Other devices along m may take the other branch.
    ("cond_apart", chosen, [((), STOP), ROWS], [TERMS | STOP]),
    ("checkpoint", jax.checkpoint(lambda x: x.sum(0)), [ROWS], [TERMS]),
    ("axis_index", lambda x: x + lax.axis_index("m"), [ROWS], [FIRST | STOP]),
    ("ppermute", lambda x: lax.ppermute(x, "m", [(0, 1), (1, 0)]), [ROWS], [FIRST | STOP]),
    # An operation without a rule keeps the dimensions of equal shapes.
    ("sin", jnp.sin, [ROWS], [FIRST]),
    ("sin_of_a_sum", lambda x: jnp.sin(x.sum(0)), [ROWS], [OTHER]),
    ("sort", lambda x: lax.sort(x, dimension=0), [ROWS], [FIRST]),
    ("top_k", lambda x: lax.top_k(x, 2)[0], [ROWS], [OTHER]),
    (
        "updates_of_own_rows",
        lambda table, rows, values: table.at[rows.astype(int)].add(values),
        [((7, 4), {}), ((8,), FIRST), ROWS],
        [TERMS],
    ),
]
#: The name, the function, the shape of its operands, and pairs of shardings: of the operand or
#: operands, and of the result.
MOVES: list[tuple[str, Any, Any, list[Any]]] = [
    ("transpose", jnp.transpose, (8, 4), [(FIRST, COLUMNS), (TERMS, TERMS), (OTHER, OTHER)]),
    ("broadcast", lambda x: x[:, None] + jnp.zeros((8, 3, 4)), (8, 4), [(COLUMNS, {"d": 2})]),
    ("squeeze", lambda x: lax.squeeze(x, (1,)), (8, 1, 4), [({"d": 2}, COLUMNS), (FIRST, FIRST)]),
    ("squeeze of pmap", lambda x: lax.squeeze(x, (0,)), (1, 8), [(FIRST, FIRST), (COLUMNS, FIRST)]),
    ("reshape", lambda x: x.reshape(32), (8, 4), [(FIRST, FIRST), (COLUMNS, OTHER)]),
    ("reshape in two", lambda x: x.reshape(2, 4, 4), (8, 4), [(FIRST, FIRST), (COLUMNS, {"d": 2})]),
    ("reshape apart", lambda x: x.reshape(4, 6), (6, 4), [(FIRST, OTHER), (TERMS, TERMS)]),
    ("reshape of nothing", lambda x: x.reshape(2, 0), (0, 4), [(FIRST, OTHER), (COLUMNS, OTHER)]),
    ("slice", lambda x: x[2:4], (8, 4), [(FIRST, OTHER), (COLUMNS, COLUMNS), (TERMS, TERMS)]),
    ("reverse", lambda x: x[::-1], (8, 4), [(FIRST, FIRST)]),
    ("cumsum", lambda x: jnp.cumsum(x, 0), (8, 4), [(FIRST, FIRST), (TERMS, TERMS)]),
    ("take", lambda x: x[lax.iota("int32", 2)], (8, 4), [(FIRST, OTHER), (COLUMNS, COLUMNS)]),
    ("negative", lambda x: -x, (8, 4), [(FIRST, FIRST), (TERMS, TERMS)]),
    ("half", lambda x: x.astype("float16"), (8, 4), [(TERMS, TERMS)]),
    ("integer", lambda x: x.astype(int), (8, 4), [(TERMS, OTHER), (FIRST, FIRST)]),
]
SUMS: list[tuple[str, Any, Any, list[Any]]] = [
    ("sum", lambda x: x.sum(0), (8, 4), [(FIRST, TERMS), (COLUMNS, FIRST), (TERMS, TERMS)]),
    ("max", lambda x: x.max(0), (8, 4), [(FIRST, OTHER), (COLUMNS, FIRST), (TERMS, OTHER)]),
    ("psum", lambda x: lax.psum(x, "d"), (8, 4), [(TERMS, {}), (FIRST | {"m": 1}, {"m": 1})]),
    (
        "psum in groups",
        lambda x: lax.psum(x, "d", axis_index_groups=[[0, 1], [2, 3]]),
        (8, 4),
        [(TERMS, OTHER)],
    ),
    ("psum_scatter", lambda x: lax.psum_scatter(x, "d", tiled=True), (8, 4), [(TERMS, FIRST)]),
]


BOTH = ((8, 4), (8, 4))
OF_TWO: dict[str, tuple[Any, Any, list[Any]]] = {
    "add": (jnp.add, BOTH, [((FIRST, {}), FIRST), ((TERMS, TERMS), TERMS)]),
    "add otherwise": (jnp.add, BOTH, [((FIRST, COLUMNS), OTHER), ((FIRST, TERMS), OTHER)]),
    "add unknown": (jnp.add, BOTH, [((FIRST, OTHER), FIRST), ((TERMS, OTHER), OTHER)]),
    "multiply": (jnp.multiply, BOTH, [((TERMS, {}), TERMS), ((TERMS, TERMS), OTHER)]),
    "divide": (jnp.divide, BOTH, [((TERMS, {}), TERMS), (({}, TERMS), OTHER)]),
    "where": (
        lambda x, y: jnp.where(x > 0, y, 0),
        BOTH,
        [(({}, TERMS), TERMS), ((OTHER, TERMS), OTHER), ((FIRST, FIRST), FIRST)],
    ),
    "concatenate": (
        lambda *both: jnp.concatenate(both),
        BOTH,
        [((FIRST, FIRST), OTHER), ((COLUMNS, COLUMNS), COLUMNS), ((TERMS, TERMS), TERMS)],
    ),
    "stack": (
        lambda *both: jnp.stack(both),
        BOTH,
        [((FIRST, FIRST), COLUMNS), ((TERMS, {}), TERMS)],
    ),
    "update": (
        lambda x, y: lax.dynamic_update_slice(x, y[:2], (1, 0)),
        BOTH,
        [((FIRST, {}), OTHER), ((COLUMNS, COLUMNS), COLUMNS), ((TERMS, TERMS), TERMS)],
    ),
    "product": (
        jnp.matmul,
        ((8, 4), (4, 6)),
        [((COLUMNS, FIRST), TERMS), ((FIRST, {}), FIRST), (({}, COLUMNS), COLUMNS)],
    ),
    "product of terms": (
        jnp.matmul,
        ((8, 4), (4, 6)),
        [((TERMS, {}), TERMS), ((TERMS, TERMS), OTHER), ((TERMS, COLUMNS), OTHER)],
    ),
    "batched product": (
        jnp.matmul,
        ((3, 8, 4), (3, 4, 6)),
        [((FIRST, FIRST), FIRST), ((COLUMNS, {}), COLUMNS), (({}, {"d": 2}), {"d": 2})],
    ),
    "convolution": (
        lambda x, k: lax.conv(x, k, (1,), "SAME"),
        ((8, 3, 5), (4, 3, 3)),
        [((FIRST, {}), FIRST), (({}, FIRST), COLUMNS), ((COLUMNS, COLUMNS), TERMS)],
    ),
    "convolution with a halo": (
        lambda x, k: lax.conv(x, k, (1,), "SAME"),
        ((8, 3, 5), (4, 3, 3)),
        [(({"d": 2}, {}), OTHER)],
    ),
    "scatter_add": (
        lambda x, y: x.at[lax.iota("int32", 2)].add(y[:2]),
        BOTH,
        [((COLUMNS, COLUMNS), COLUMNS), ((TERMS, TERMS), TERMS), (({}, TERMS), TERMS)],
    ),
}


FLOWS += [
    (f"{name}-{number}", function, [(shape, operand)], [result])
    for name, function, shape, pairs in MOVES + SUMS
    for number, (operand, result) in enumerate(pairs)
]
FLOWS += [
    (f"{name}-{number}", function, [*zip(shapes, operands, strict=True)], [result])
    for name, (function, shapes, pairs) in OF_TWO.items()
    for number, (operands, result) in enumerate(pairs)
]


@pytest.mark.parametrize(
    ("function", "operands", "expected"), [pytest.param(*rest, id=name) for name, *rest in FLOWS]
)
def test_shardings_are_followed(function, operands, expected):
    assert results(function, *operands) == expected
