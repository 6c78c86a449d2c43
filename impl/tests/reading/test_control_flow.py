"""The description of control flow: the bodies of each kind of equation, and new bodies for them.

``impl/tests/programs/test_scopes_in_programs.py`` tests that a walk goes into every kind.

Tests: impl._reading.walk.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.sharding import PartitionSpec

import impl
from impl._reading import control_flow
from impl._reading.control_flow import Carry, Slice, bodies, with_bodies
from impl._reading.values import Scope
from impl._reading.walk import walk

X = jnp.arange(3.0)
ROWS = jnp.arange(12.0).reshape(4, 3)


def traced(function, *args):
    return jax.make_jaxpr(function)(*(args or (X,)))


def equation_of(function, *args, kind=None):
    """The one equation with bodies, or the one of a primitive."""
    equations = traced(function, *args).eqns
    if kind is None:
        (found,) = [each for each in equations if bodies(each)]
    else:
        (found,) = [each for each in equations if each.primitive.name == kind]
    return found


def names(body):
    return [each.primitive.name for each in body.opened.eqns]


def scanned(x, rows, *, reverse=False):
    """A scan with an outer value, a carry and slices."""
    return lax.scan(lambda c, row: (c + row * x, c - x), jnp.ones(3), rows, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_has_fixed_operands_then_carries_then_slices(reverse):
    (body,) = bodies(equation_of(lambda x, rows: scanned(x, rows, reverse=reverse), X, ROWS))
    assert body.inputs == (0, Carry(1, 0), Slice(2))
    assert (body.runs, body.length, body.reverse) == ("loop", 4, reverse)
    assert body.operands == {0: 0}
    assert (body.carries, body.slices) == ([Carry(1, 0)], [Slice(2)])
    assert body.arguments(["x", "start", "rows"], ["carry"], ["row"]) == ["x", "carry", "row"]
    assert [out.aval.shape for out in body.opened.outvars] == [(3,), (3,)]


def test_a_while_has_a_test_and_a_step_with_the_same_carries():
    def program(x, stop):
        return lax.while_loop(lambda c: c[1] < stop, lambda c: (c[0] * x, c[1] + 1), (x, 0))

    test, step = bodies(equation_of(program, X, 5))
    carries = (Carry(2, 0), Carry(3, 1))
    assert test.inputs == (0, *carries)
    assert step.inputs == (1, *carries)
    assert (test.is_test, step.is_test) == (True, False)
    assert (names(test), sorted(names(step))) == (["lt"], ["add", "mul"])
    assert {test.runs, step.runs} == {"loop"}
    assert test.length is None


@pytest.mark.parametrize("count", [2, 3])
def test_a_condition_has_a_body_for_each_branch(count):
    functions = [jnp.sin, jnp.cos, jnp.tan][:count]
    branches = bodies(
        equation_of(lambda i, x, y: lax.switch(i, functions, x + y), 0, X, X, kind="cond")
    )
    assert [names(branch) for branch in branches] == [["sin"], ["cos"], ["tan"]][:count]
    assert [branch.inputs for branch in branches] == [(1,)] * count
    assert {branch.runs for branch in branches} == {"branch"}


@jax.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


with_jvp.defjvp(lambda p, t: (with_jvp(*p), t[0]))


@jax.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda _, g: (g,))

CALLS = {
    "jit": jax.jit(jnp.sin),
    "remat2": jax.checkpoint(jnp.sin),
    "custom_jvp_call": with_jvp,
    "custom_vjp_call": with_vjp,
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_has_one_body_with_its_operands(kind):
    equation = equation_of(CALLS[kind], kind=kind)
    (body,) = bodies(equation)
    assert (body.inputs, body.runs) == ((0,), "once")
    assert control_flow.called(equation) == body
    assert names(body) == ["sin"]
    assert control_flow.only_runs(equation)
    assert control_flow.called(equation_of(scanned, X, ROWS)) is None


def sharded(x):
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    along = PartitionSpec("d")
    return jax.shard_map(jnp.sin, mesh=mesh, in_specs=along, out_specs=along)(x)


def solved(x):
    return lax.custom_linear_solve(lambda v: 2 * v, x, lambda _, b: jnp.sin(b))


@pytest.mark.parametrize(
    ("function", "kind"), [(sharded, "shard_map"), (solved, "custom_linear_solve")]
)
def test_of_further_equations_the_inputs_are_unknown(function, kind):
    (body,) = bodies(equation_of(function, kind=kind))
    assert names(body) == ["sin"]
    assert set(body.inputs) <= {None}


def test_every_jaxpr_is_also_the_one_that_combines_two_elements():
    equation = equation_of(lambda x: x.at[0].add(1.0), kind="scatter-add")
    assert [names(body) for body in bodies(equation)] == [["add"]]
    assert len(control_flow.every_jaxpr(equation)) == 1
    solve = equation_of(solved, kind="custom_linear_solve")
    assert len(control_flow.every_jaxpr(solve)) > len(bodies(solve)) == 1
    without = traced(jnp.sin).eqns[0]
    assert bodies(without) == []
    assert not any(map(control_flow.only_runs, (equation, without)))


#: A program for each equation that takes new bodies.
REWRITTEN = {
    "cond": lambda x: lax.cond(x[0] > 1, jnp.sin, jnp.cos, x),
    "scan": lambda x: scanned(x, ROWS, reverse=True),
    "while": lambda x: lax.while_loop(lambda c: jnp.sin(c).sum() < 9, lambda c: jnp.sin(c) + x, x),
    "shard_map": sharded,
    **CALLS,
}
EACH = {"sin": lax.cos_p, "cos": lax.sin_p}


def changed(jaxpr):
    """A jaxpr with a cosine for each sine, and a sine for each cosine."""
    equations = [
        each.replace(primitive=EACH.get(each.primitive.name, each.primitive)) for each in jaxpr.eqns
    ]
    return jaxpr.replace(eqns=equations)


@pytest.mark.parametrize("kind", REWRITTEN)
def test_new_bodies_are_those_of_the_equation(kind):
    equation = equation_of(REWRITTEN[kind], kind=kind)
    old = bodies(equation)
    new = with_bodies(equation, [changed(body.opened) for body in old])
    swap = {"sin": "cos", "cos": "sin"}
    expected = [[swap.get(name, name) for name in names(body)] for body in old]
    assert [names(body) for body in bodies(new)] == expected
    assert [body.inputs for body in bodies(new)] == [body.inputs for body in old]
    assert (new.invars, new.outvars) == (equation.invars, equation.outvars)


def test_no_new_bodies_for_an_equation_of_an_unknown_kind():
    with pytest.raises(TypeError, match="custom_linear_solve"):
        with_bodies(equation_of(solved, kind="custom_linear_solve"), [])


INDEX, UPDATES = jnp.zeros(9, jnp.int32), jnp.ones(9)


def add(x, i, u):
    return x.at[i].add(u)


def chosen(x, i, u):
    return lax.platform_dependent(
        x, cpu=lambda x: x, cuda=lambda x: add(x, i, u), default=lambda x: -x
    )


def kept_not(u, x, i):
    return jax.checkpoint(lambda u: jnp.sin(add(x, i, jnp.sin(u))).sum())(u)


def paths(function, platform=None, *args):
    closed = jax.make_jaxpr(function)(*(args or (X, INDEX, UPDATES)))
    sites = walk(Scope(closed.jaxpr), lambda name: name == "scatter-add", platform=platform)
    return [site.path for site in sites if site.name == "scatter-add"]


def test_a_scatter_is_found_as_often_as_the_program_has_it():
    def program(x, i, u):
        x = jax.jit(add)(jax.jit(add)(x, i, u), i, u)
        x = lax.while_loop(lambda c: add(c, i, u).sum() < 9, lambda c: add(c, i, u) * 2, x)
        return lax.cond(x[0] > 0, lambda: add(x, i, u), lambda: add(-x, i, u))

    assert paths(program) == [("jit add",)] * 2 + [("while",)] * 2 + [("cond",)] * 2


def test_rematerialization_computes_the_scatter_again():
    # The gradient of the sine needs the sum, which is not kept.
    kept = jax.grad(lambda u, x, i: jnp.sin(add(x, i, jnp.sin(u))).sum())
    assert len(paths(lambda x, i, u: jax.value_and_grad(kept_not)(u, x, i))) == 2
    assert len(paths(lambda x, i, u: kept(u, x, i))) == 1


@pytest.mark.parametrize(("platform", "count"), [("cpu", 0), ("cuda", 1), ("tpu", 0), (None, 1)])
def test_of_a_program_for_platforms_one_branch_counts(platform, count):
    assert len(paths(chosen, platform)) == count


def test_a_primitive_that_does_more_than_run_its_jaxpr_is_yielded():
    mine = Primitive("mine")
    mine.def_abstract_eval(lambda x, **_: x)
    inner = jax.make_jaxpr(add)(X, INDEX, UPDATES)
    closed = jax.make_jaxpr(lambda x: mine.bind(x, jaxpr=inner))(X)
    sites = list(walk(Scope(closed.jaxpr), lambda name: name == "scatter-add"))
    assert sites[0].name == "mine"
    assert sites[-1].name == "scatter-add"
    assert sites[-1].path == ("mine",)


ROOT = Path(impl.__file__).parent
#: The modules that may name the parameters of loops and conditions.
INTERNALS = "_jax/jaxprs.py"
DESCRIPTION = ("_reading/control_flow.py", INTERNALS)
#: The parameters of loops, conditions and calls, and the functions that read a scan.
PARAMETERS = re.compile(
    r"cond_nconsts|body_nconsts|cond_jaxpr|body_jaxpr|branches_platforms|[\"']branches[\"']"
    r"|num_carry|num_consts|\bft_in\b|\bft_out\b|call_jaxpr|fun_jaxpr"
    r"|scan_counts|scan_with"
)
#: Code that reads a jaxpr or a literal by hand, in place of ``jaxprs.opened`` and ``is_literal``.
BY_HAND = re.compile(r"getattr\(\w+, \"jaxpr\"|hasattr\(\w+, \"val\"\)")


def naming(pattern):
    """The modules of ``impl`` whose source has a match."""
    paths = (path for path in ROOT.rglob("*.py") if "tests" not in path.relative_to(ROOT).parts)
    found = (path for path in paths if pattern.search(path.read_text(encoding="utf-8")))
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_only_the_description_names_the_parameters_of_control_flow():
    assert naming(PARAMETERS) == {*DESCRIPTION}


def test_jaxprs_and_literals_are_read_by_one_function_each():
    assert naming(BY_HAND) == {INTERNALS}
