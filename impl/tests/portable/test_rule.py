"""Every primitive of JAX is in one class under ``portable``, each rule has one record, and pins.

Tests: impl._jax.initializers, impl._portable.classes, impl._portable.derivatives,
impl._portable.rules.rounding, impl._portable.rules.sums.
"""

import json
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import impl
import spec
from impl._portable import derivatives
from impl._portable.rule import Rule, Target
from impl._portable.rule import rule as register_rule
from impl._portable.rules import RULES
from impl._soft_float64 import engines
from impl.tests.portable import functions
from impl.tests.support import processes

CLASSES = spec.load().class_of_primitive
#: Prints the names of the primitives of JAX, also of those that its modules make when they are
#: imported. Tests make more, so that this is a process of its own.
NAMES = """
import importlib, json
from jax import lax
from jax.extend.core import Primitive
from impl._jax import lowering

for module in ("experimental.pallas", "experimental.sparse", "lax.linalg", "scipy.special",
               "scipy.linalg", "numpy.fft"):
    importlib.import_module(f"jax.{module}")
of_lax = {value for value in vars(lax).values() if isinstance(value, Primitive)}
print(json.dumps([primitive.name for primitive in of_lax | set(lowering.primitives())]))
"""


def test_every_primitive_of_jax_has_a_class():
    done = processes.run("-c", NAMES)
    assert done.returncode == 0, done.stderr
    names = {name for name in json.loads(done.stdout) if not name.startswith("samebits_")}
    assert sorted(names - set(CLASSES)) == []
    assert len(names) > 250


def test_each_class_with_a_rule_has_the_records_of_its_primitives():
    computed = {name for name, rule in RULES.items() if rule.compute or rule.by_jax}
    assert computed == {name for name, found in CLASSES.items() if found.answer == "rule"}
    of_complex = {name for name, rule in RULES.items() if rule.of_complex}
    classes = spec.load().class_of_complex
    assert of_complex == {name for name, found in classes.items() if found.answer == "rule"}


def test_every_other_record_is_of_an_exact_primitive():
    for name, rule in RULES.items():
        assert rule.name == name
        if not (rule.compute or rule.by_jax):
            # Of a primitive that is refused, integers are exact.
            is_of_integers = rule == Rule(name, keeps_whole=rule.keeps_whole)
            assert CLASSES[name].answer == "exact" or is_of_integers, name
            assert rule != Rule(name), f"the record of {name} says nothing"


def test_a_primitive_has_one_record():
    with pytest.raises(ValueError, match="'add' has a record already"):
        register_rule("add")


def test_a_record_takes_what_its_targets_have():
    target = Target(platforms=("cuda",), is_partitioned=True)
    for rule in RULES.values():
        assert rule.keywords(target).keys() == rule.takes
    assert RULES["dot_general"].keywords(target) == {"is_partitioned": True}
    assert RULES["add"].keywords(target) == {"flushes": True}


def test_a_rule_of_elements_is_lowered_once_for_arrays_and_once_for_scalars(monkeypatch):
    lowered, original = [], engines.Lowered.__call__

    def lower(self, *args):
        lowered.append(self)
        return original(self, *args)

    monkeypatch.setattr(engines.Lowered, "__call__", lower)
    x = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)

    def products(x):
        return x * x, x[0] * x[0], x[0, 0] * x[0, 1], x[:, :1] * x, 3.0 * x, x[0, 0] * x

    def functions(x):
        return jnp.exp(x), jnp.exp(x.T), jnp.exp(x[0]), jnp.exp(x[0, 0])

    with impl.deterministic(guarantee="portable"):
        for expected, got in zip(products(x), jax.jit(products)(x), strict=True):
            np.testing.assert_array_equal(got, expected)
        assert len(lowered) == 2
        whole, turned, row, one = jax.jit(functions)(x)
    assert len(lowered) == 4
    np.testing.assert_array_equal(whole, turned.T)
    np.testing.assert_array_equal(whole[0], row)
    np.testing.assert_array_equal(whole[0, 0], one)


def test_the_bits_of_functions_and_of_their_derivatives():
    expected = tomllib.loads(functions.FILE.read_text(encoding="utf-8"))
    found = functions.digests()
    assert {name for name in expected if found.get(name) != expected[name]} == set()
    assert set(found) == set(expected)


def test_each_derivative_that_is_pinned_is_among_them():
    known = {name.rpartition(".")[2] for name in functions.FUNCTIONS}
    assert {*derivatives.DERIVATIVES, *derivatives.RULES} <= known


def test_a_polynomial_has_a_derivative_where_its_point_varies_over_devices():
    # The first value of its steps must have the type of the next one.
    x, coefficients = jnp.float32([0.25, 1.5]), jnp.float32([1.0, 0.3, -2.0])

    def value(x, coefficients):
        return jnp.polyval(coefficients, x).sum()

    def part(x, coefficients):
        return jax.grad(lambda *each: lax.psum(value(*each), "d"), (0, 1))(x, coefficients)

    mesh, specs = Mesh(np.array(jax.devices()[:1]), ("d",)), (P("d"), P())
    with impl.deterministic(guarantee="portable"):
        want = jax.grad(value, (0, 1))(x, coefficients)
        mapped = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=specs)
        got = jax.jit(mapped)(x, coefficients)
    assert [each.tobytes() for each in map(np.asarray, got)] == [
        each.tobytes() for each in map(np.asarray, want)
    ]
