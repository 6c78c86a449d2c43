"""JAX's undocumented parts: the list is complete, and each part still does what impl needs."""

import ast
import functools
import importlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl._core import jax_internals

ROOT = Path(impl.__file__).parent
OWN = Path(jax_internals.__file__).parent
SOURCES = [
    p for p in ROOT.rglob("*.py") if "tests" not in p.relative_to(ROOT).parts and p.parent != OWN
]


def dotted_names(tree):
    """The dotted name of each import from JAX, and of each attribute of an imported module."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if first in imported:
                yield f"{imported[first]}.{rest}"


@functools.cache
def used():
    """The names of JAX that impl uses, with a file that uses each."""
    return {
        name: str(path.relative_to(ROOT))
        for path in SOURCES
        for name in dotted_names(ast.parse(path.read_text(encoding="utf-8")))
        if name.partition(".")[0] in ("jax", "jaxlib")
    }


def is_documented(name):
    inside = [m for m in jax_internals.MODULES if name == m or name.startswith(f"{m}.")]
    return not inside and not any(part.startswith("_") for part in name.split(".") if part != "_")


def modules(names):
    """Returns the modules that contain these names; a ``from`` import names its module too."""
    return {name.rpartition(".")[0] for name in names} | set(jax_internals.MODULES)


def test_impl_uses_no_other_undocumented_name_of_jax():
    known = jax_internals.NAMES.keys()
    others = {
        name: file
        for name, file in used().items()
        if not is_documented(name) and name not in known | modules(known)
    }
    allowed = {"jax.__version__"}
    assert {name: file for name, file in others.items() if name not in allowed} == {}


@pytest.mark.parametrize("name", jax_internals.NAMES)
def test_each_name_exists_and_is_used(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)
    assert name in used()


def test_only_this_module_reads_types_and_settings_of_jax():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("mat", "vma", "manual_axis_type"), path
                if ast.unparse(node.value) == "jax.config":
                    assert node.attr == "update", path
            elif isinstance(node, ast.keyword):
                assert node.arg not in ("manual_axis_type", "vma"), path


def test_a_type_names_the_axes_that_a_value_varies_over():
    def function(x):
        constant = jnp.zeros(3)
        assert jax_internals.varying_axes(x) == {"x"}
        assert jax_internals.varying_axes(constant) == frozenset()
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        assert jax_internals.varying_like(shape, x).manual_axis_type.varying == {"x"}
        assert jax_internals.varying_like(shape, constant).manual_axis_type.varying == set()
        return x

    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    spec = PartitionSpec("x")
    jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)(jnp.arange(3.0))
    assert jax_internals.varying_axes(jnp.zeros(3)) == frozenset()


def test_the_precision_of_products():
    assert jax_internals.default_matmul_precision() is None
    with jax.default_matmul_precision("float32"):
        assert jax_internals.default_matmul_precision() == "float32"


def products_of_a_gradient(function, policy, *arrays):
    """Counts the products of a gradient; a policy that saves them avoids one of them."""

    def loss(*arrays):
        return jnp.sin(jnp.sin(function(*arrays))).sum()

    gradient = jax.grad(jax.checkpoint(loss, policy=policy), argnums=(0, 1))
    return str(jax.make_jaxpr(gradient)(*arrays)).count(jax_internals.PRODUCT)


@pytest.mark.parametrize("mode", [False, True])
def test_policies_of_checkpoint_save_products(mode):
    policies = jax.checkpoint_policies
    calls = {
        "mm": (impl.mm, jnp.ones((2, 3)), jnp.ones((3, 2))),
        "bmm": (impl.bmm, jnp.ones((2, 3, 3)), jnp.ones((2, 3, 3))),
        "conv1d": (impl.nn.functional.conv1d, jnp.ones((2, 3, 5)), jnp.ones((2, 3, 2))),
    }
    with impl.deterministic(mode, profile="complete"):
        for function, *arrays in calls.values():
            count = functools.partial(products_of_a_gradient, function)
            assert count(policies.dots_saveable, *arrays) == 3
            assert count(policies.nothing_saveable, *arrays) == 4
        function, *arrays = calls["mm"]
        no_batch = policies.dots_with_no_batch_dims_saveable
        assert products_of_a_gradient(function, no_batch, *arrays) == 3
        function, *arrays = calls["bmm"]
        assert products_of_a_gradient(function, no_batch, *arrays) == 4


def test_the_settings_know_of_scopes():
    assert jax_internals.settings()["jax_enable_x64"] is False
    with jax.enable_x64(True):
        assert jax_internals.settings()["jax_enable_x64"] is True
    assert jax_internals.settings()["jax_platforms"] == jax_internals.platforms()


def test_the_error_of_an_unknown_option_names_it():
    jitted = jax.jit(lambda x: x, compiler_options={"xla_no_such_option": 1})
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jitted(1)
    assert jax_internals.unknown_option(caught.value) == "xla_no_such_option"
    assert jax_internals.unknown_option(jax.errors.JaxRuntimeError("another")) is None


def test_the_error_of_nested_options_is_recognised():
    inner = jax.jit(lambda x: x, compiler_options={"xla_cpu_max_isa": "AVX2"})
    with pytest.raises(ValueError, match="compiler_options") as caught:
        jax.jit(inner)(1.0)
    assert jax_internals.refuses_nested_options(caught.value)
    assert not jax_internals.refuses_nested_options(ValueError("another"))


def test_an_evaluated_primitive_has_the_value_of_its_lowering():
    # jax.interpreters.xla.apply_primitive evaluates it.
    np.testing.assert_array_equal(
        impl.index_add(jnp.zeros(3), 0, np.array([0, 2, 2]), jnp.ones(3)), [1, 0, 2]
    )
