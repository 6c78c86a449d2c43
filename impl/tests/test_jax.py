"""JAX's undocumented parts: the lists are complete, and each part still does what impl needs.

Tests: impl._jax.linear, impl._jax.parts.
"""

import ast
import functools
import importlib
import threading
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import core
from jax.interpreters import partial_eval
from jax.sharding import Mesh, PartitionSpec

import impl
from impl import _jax
from impl._jax import lowering, parts, watching
from impl._jax.linear import with_transpose

ROOT = Path(impl.__file__).parent
OWN = Path(_jax.__file__).parent
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
    inside = [m for m in parts.MODULES if name == m or name.startswith(f"{m}.")]
    return not inside and not any(part.startswith("_") for part in name.split(".") if part != "_")


def modules(names):
    """Returns the modules that contain these names; a ``from`` import names its module too."""
    return {name.rpartition(".")[0] for name in names} | set(parts.MODULES)


def test_impl_uses_no_other_undocumented_name_of_jax():
    known = parts.NAMES.keys()
    others = {
        name: file
        for name, file in used().items()
        if not is_documented(name) and name not in known | modules(known)
    }
    allowed = {"jax.__version__"}
    assert {name: file for name, file in others.items() if name not in allowed} == {}


@pytest.mark.parametrize("name", parts.NAMES)
def test_each_name_exists_and_is_used(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)
    assert name in used()


#: Parts that one of the releases lacks; the functions that need them look for them.
OF_SOME_RELEASES = ("jax._src.flattree",)
#: Tables of rules, which a ``LookupError`` is about.
LATER = ("jax.interpreters.mlir._lowerings", "jax.interpreters.mlir._platform_specific_lowerings")


def test_the_list_of_parts_inside_of_the_package_is_complete():
    names = {
        name
        for path in OWN.glob("*.py")
        for name in dotted_names(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith(parts.MODULES) and not name.startswith(OF_SOME_RELEASES + LATER)
    }
    known = {**parts.INSIDE, **parts.NAMES}
    # A name may be a module of a known part, an attribute of one, or an expression with one.
    others = {
        name
        for name in names
        if not any(f"{part}.".startswith(f"{name}.") for part in known)
        and not name.startswith(tuple(known))
    }
    assert others == set()
    unused = {part for part in parts.INSIDE if not any(n.startswith(part) for n in names)}
    assert unused == set()


@pytest.mark.parametrize("table", [parts.NAMES, parts.INSIDE], ids=["outside", "inside"])
def test_a_missing_part_is_named_with_the_supported_releases(monkeypatch, table):
    parts.check()
    name = next(iter(table))
    module, _, attribute = name.rpartition(".")
    monkeypatch.delattr(importlib.import_module(module), attribute)
    with pytest.raises(ImportError) as caught:
        parts.check()
    assert str(caught.value) == (
        f"jax {jax.__version__} has no {name}, which impl needs for {table[name]}. This release "
        f"supports {parts.SUPPORTED}: install one of these, or a newer release of samebits."
    )


def test_the_supported_releases_are_the_ones_that_are_installed():
    path = ROOT.parent / "pyproject.toml"
    if not path.exists():
        pytest.skip("needs a checkout")
    stated = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
    assert parts.SUPPORTED in stated
    assert parts.SUPPORTED.replace("jax", "jaxlib") in stated


def test_a_call_that_stands_for_equations_is_read_by_either_name():
    # JAX 0.12 calls it eval_jaxpr; before, it was closed_call.
    closed = jax.make_jaxpr(lambda x: x.at[jnp.array([0, 0, 1])].add(x))(jnp.ones(3))
    primitive = core.Primitive("eval_jaxpr")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_, call_jaxpr: call_jaxpr.out_avals)
    primitive = getattr(core, "eval_jaxpr_p", primitive)
    report = impl.audit(lambda x: primitive.bind(x, call_jaxpr=closed))(jnp.ones(3))
    assert [(f.primitive, f.verdict) for f in report.findings] == [("lax.scatter_add", "varies")]


def test_no_primitive_of_impl_has_a_rule_whose_arguments_change():
    # Rules of dead code take a third argument since jax 0.12. Without one, JAX keeps an equation
    # that an output needs, and drops any other.
    ours = [p for p in partial_eval.dce_rules if p.name.startswith("samebits_")]
    assert ours == []


def test_a_mark_is_read_in_every_context_of_a_thread():
    # JAX 0.12 uses one context of MLIR for up to ten programs of a thread.
    with impl.deterministic(guarantee="portable"):
        exported = jax.export.export(jax.jit(jnp.sin))(jnp.ones(3))
    names = []

    def read():
        names.extend(lowering.mark_of_module(exported, "samebits.guarantee") for _ in range(12))

    read()
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert names == ["portable"] * 24


def test_a_watched_call_gets_arrays_of_every_kind():
    # JAX may move arguments to devices by code in C++, which calls no function of Python.
    calls = []

    def call(program):
        calls.append([name for name, _ in program.arguments])
        return program.run()

    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    sharded = jax.device_put(jnp.ones(3), jax.sharding.NamedSharding(mesh, PartitionSpec("x")))
    for value in (np.ones(3), jnp.ones(3), sharded, 2.0):
        jitted = jax.jit(lambda value: value + 1)
        with watching.watched_programs(lambda _: None, call):
            first, second = jitted(value), jitted(value)
        np.testing.assert_array_equal(first, np.asarray(value) + 1)
        np.testing.assert_array_equal(second, first)
    assert calls == [["value"]] * 8


def test_only_this_module_reads_types_and_settings_of_jax():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("mat", "vma", "manual_axis_type"), path
                if ast.unparse(node.value) == "jax.config":
                    assert node.attr == "update", path
            elif isinstance(node, ast.keyword):
                assert node.arg not in ("manual_axis_type", "vma"), path


def test_the_settings_know_of_scopes():
    assert _jax.settings()["jax_enable_x64"] is False
    with jax.enable_x64(True):
        assert _jax.settings()["jax_enable_x64"] is True
    assert _jax.settings()["jax_platforms"] == _jax.platforms()


def test_a_linear_function_with_a_transpose_of_its_own_is_batched():
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    # The transpose is another one than JAX would find.
    linear = functools.partial(with_transpose, lambda x: x @ matrix, lambda ct: 2 * (matrix @ ct))
    x, cotangent = np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)
    batched = jax.vmap(linear, in_axes=1, out_axes=1)
    out, pullback = jax.vjp(batched, x)
    np.testing.assert_array_equal(out, matrix.T @ x)
    np.testing.assert_array_equal(pullback(cotangent)[0], 2 * (matrix @ cotangent))
    np.testing.assert_array_equal(jax.jvp(jax.jit(batched), (x,), (x,))[1], matrix.T @ x)
    each = jax.vmap(jax.vmap(jax.grad(lambda x: linear(x).sum())))(np.ones((2, 5, 3), np.float32))
    np.testing.assert_array_equal(each, np.broadcast_to(2 * matrix.sum(1), (2, 5, 3)))
