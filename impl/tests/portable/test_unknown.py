"""Primitives of other libraries: judged by what they compute, whenever they are registered.

Tests: impl._jax.rules, impl._portable.refusal.
"""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir, xla
from jax.sharding import Mesh, PartitionSpec

import impl
import spec
from impl import _jax
from impl._jax import rules
from impl._portable import unknown

X = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
PORTABLE = functools.partial(impl.deterministic, guarantee="portable")


def raw(_, x, **__):
    """A rule that no one can look into."""
    return [x]


raw.__module__ = "somebody"


def made(function=None, *, name="somebody_elses", rule=None, shape=lambda aval: aval):
    """A primitive of another library, of one array: its ``impl``, and its rule."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda aval, **_: shape(aval))
    if function is not None:
        primitive.def_impl(function)
    by_function = function and mlir.lower_fun(function, multiple_results=False)
    mlir.register_lowering(primitive, rule or by_function)
    return primitive


def scalar(aval):
    return jax.core.ShapedArray((), aval.dtype)


def bits(function, x=X):
    return np.asarray(jax.jit(functools.partial(function))(x)).tobytes()


def verdicts(function, x=X, device="cuda"):
    report = impl.audit(jax.jit(functools.partial(function)), device=device)(x)
    return {(finding.primitive, finding.verdict) for finding in report.findings}


@contextlib.contextmanager
def registered_again(primitive, rule):
    """Another library replaces the rules of a primitive of JAX."""
    before = _jax.lowering_rules(primitive)
    try:
        for platform in before:
            mlir.register_lowering(primitive, rule, platform=platform)
        yield
    finally:
        for platform, (original, inline) in before.items():
            mlir.register_lowering(primitive, original, platform=platform, inline=inline)


@pytest.mark.parametrize("when", ["before", "inside", "after an audit"])
def test_an_unknown_primitive_is_refused_whenever_it_was_registered(when):
    primitive = made(rule=raw) if when == "before" else None
    with PORTABLE():
        if when == "after an audit":
            impl.audit(jnp.sin)(X)
        primitive = primitive or made(rule=raw)
        with pytest.raises(RuntimeError, match=r"somebody_elses of float32.*lists every refused"):
            jax.jit(primitive.bind)(X)
        assert verdicts(primitive.bind) == {("somebody_elses", "raises")}


def test_a_rule_that_another_library_registers_again_changes_no_portable_bits():
    with PORTABLE():
        expected = bits(jnp.exp)
        with registered_again(lax.exp_p, raw):
            assert bits(jnp.exp) == expected
        with (
            registered_again(lax.rev_p, raw),
            pytest.raises(RuntimeError, match=r"lax\.rev of float32"),
        ):
            jax.jit(lambda x: lax.rev(x, (0,)))(X)
        assert bits(lambda x: lax.rev(x, (0,))) == X[::-1].tobytes()


def test_a_scatter_that_another_library_registers_again_is_ordered():
    def text():
        def add(x):
            return jnp.zeros(5).at[jnp.array([0, 0, 1])].add(x[:3, 0])

        return impl.testing.lower(add, X).as_text()

    with impl.deterministic():
        ordered = text()
        with registered_again(lax.scatter_add_p, lambda _, x, *__, **___: [x]):
            assert text() == ordered


def test_a_primitive_of_another_library_with_the_name_of_one_of_jax_is_unknown():
    primitive = made(rule=raw, name="mul")
    with PORTABLE(), pytest.raises(RuntimeError, match="it is not classified"):
        jax.jit(primitive.bind)(X)


def inner(x):
    return jnp.sum(jnp.exp(x) @ x.T)


def test_a_primitive_that_is_lowered_as_a_function_is_as_good_as_the_function():
    primitive = made(inner, shape=scalar)
    with PORTABLE():
        expected = bits(inner)
        assert bits(primitive.bind) == expected
        assert verdicts(primitive.bind) == set()
    with impl.deterministic():
        assert verdicts(primitive.bind) == verdicts(inner)


def test_what_is_inside_is_judged():
    primitive = made(lambda x: lax.bessel_i0e(x).sum(), shape=scalar)
    with PORTABLE():
        with pytest.raises(RuntimeError, match="bessel_i0e"):
            jax.jit(primitive.bind)(X)
        assert verdicts(primitive.bind) == {("lax.bessel_i0e", "raises")}
    scattered = made(lambda x: jnp.zeros(5).at[jnp.array([0, 0])].add(x[:2, 0]).sum(), shape=scalar)
    assert ("lax.scatter_add", "varies") in verdicts(scattered.bind)
    with impl.deterministic():
        assert ("lax.scatter_add", "deterministic") in verdicts(scattered.bind)


def test_a_rule_by_hand_is_replaced_by_the_impl_under_portable_alone():
    primitive = made(lambda x: x * 3, rule=raw)
    assert bits(primitive.bind) == X.tobytes()
    with impl.deterministic():
        assert bits(primitive.bind) == X.tobytes()
        assert verdicts(primitive.bind) == {("somebody_elses", "unknown")}
    with PORTABLE():
        assert bits(primitive.bind) == (X * 3).tobytes()
        assert verdicts(primitive.bind) == set()


def needs_values(x):
    return x * float(x[0, 0])


def other_shape(x):
    return x[:3]


def calls_itself(x):
    return made.primitive.bind(x)


def applied(x):
    return xla.apply_primitive(made.primitive, x)


def calls_another(x):
    return made.other.bind(x)


@pytest.mark.parametrize(
    "function", [None, needs_values, other_shape, calls_itself, applied, calls_another]
)
def test_an_impl_that_cannot_be_traced_to_known_primitives_is_refused(function):
    made.primitive = made(function, rule=raw)
    made.other = made(calls_itself, rule=raw, name="another")
    with PORTABLE():
        with pytest.raises(RuntimeError, match="somebody_elses of float32"):
            jax.jit(made.primitive.bind)(X)
        assert verdicts(made.primitive.bind) == {("somebody_elses", "raises")}


def test_integers_are_left_to_the_library():
    primitive = made(needs_values, rule=raw)
    with PORTABLE():
        whole = np.arange(6).reshape(2, 3)
        assert bits(primitive.bind, whole) == jnp.asarray(whole).tobytes()
        assert verdicts(primitive.bind, whole) == set()


@pytest.mark.parametrize("rule", [None, raw])
def test_transformations_reach_what_is_inside(rule):
    primitive = made(lambda x: jnp.sin(x) / 3, rule=rule)

    def looped(x):
        return lax.scan(lambda c, _: (primitive.bind(c), None), x, None, 3)[0]

    def mapped(x):
        mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
        part = PartitionSpec("d")
        return jax.shard_map(primitive.bind, mesh=mesh, in_specs=part, out_specs=part)(x)

    with PORTABLE():
        once = functools.partial(lambda x: jnp.sin(x) / 3)
        assert bits(mapped) == bits(once)
        assert bits(looped) == bits(lambda x: once(once(once(x))))
        assert verdicts(mapped) == verdicts(looped) == set()


def test_a_scope_inside_holds_for_what_is_inside():
    primitive = made(jnp.exp)

    def part(x):
        with impl.deterministic(False):
            y = primitive.bind(x)
        return y, primitive.bind(x)

    with PORTABLE():
        left, portable = jax.jit(part)(X)
        assert np.asarray(portable).tobytes() == bits(jnp.exp)
    assert np.asarray(left).tobytes() == bits(jnp.exp)


def test_with_the_mode_off_the_program_is_that_of_jax():
    primitive = made(inner, shape=scalar)

    def text():
        def program(x):
            return primitive.bind(x) + jnp.cumsum(x)[0]

        return jax.jit(program).lower(X).as_text()

    with PORTABLE():
        portable = text()
    off, ours = text(), list(rules.replacements)
    assert off != portable
    rules.replacements.clear()
    try:
        assert text() == off
    finally:
        rules.replacements.extend(ours)


def test_no_primitive_of_jax_is_taken_for_that_of_another_library():
    known = [p for p in _jax.lowering.primitives() if p.name in spec.load().class_of_primitive]
    of_lax = [p for p in known if getattr(lax, f"{p.name}_p", None) is p]
    assert len(of_lax) > 100
    for primitive in of_lax:
        for platform in ("cpu", "cuda"):
            assert not unknown.is_unknown(primitive, rules.registered(primitive, platform)[0])


def test_advice_of_a_library_is_in_the_error_and_in_the_report(tmp_path):
    (hint,) = spec.load().hints
    file = tmp_path / "site-packages" / hint.library / "_errors.py"
    code = "import jax\n\ndef check(x):\n    return jax.pure_callback(lambda x: x, x, x)\n"
    namespace = {}
    exec(compile(code, str(file), "exec"), namespace)
    program = jax.jit(namespace["check"])
    for mode in (impl.deterministic, PORTABLE):
        with mode():
            (finding,) = impl.audit(program)(X).findings
            assert hint.remedy in finding.remedy
    with PORTABLE(), pytest.raises(RuntimeError, match="EQX_ON_ERROR=nan"):
        program(X)
