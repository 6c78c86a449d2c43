"""Functions that the source of a program calls.

For example, a program with the equation ``custom_square`` has the line::

    v3 = custom_square(v1)    # v1 * v1, with a derivative that is written by hand
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import sparse  # noqa: F401  # Programs of the hunt use it.
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Function = Callable[..., Any]


@jax.custom_vjp
def custom_square(x: Any) -> Any:
    """Returns a square, whose derivative is written by hand."""
    return x * x


custom_square.defvjp(lambda x: (x * x, x), lambda x, cotangent: (2 * x * cotangent,))


@jax.custom_jvp
def custom_cube(x: Any) -> Any:
    """Returns a cube, whose derivative is written by hand."""
    return x * x * x


custom_cube.defjvp(lambda x, t: (x[0] * x[0] * x[0], 3 * x[0] * x[0] * t[0]))


def _of_another_library(name: str, implementation: Function) -> Function:
    """Returns a primitive of one array, whose lowering rule shows nobody what it computes."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda aval: aval)
    primitive.def_impl(implementation)
    of_function = mlir.lower_fun(lambda x: jnp.sin(x) / 3, multiple_results=False)

    def rule(context: Any, x: Any) -> Any:
        return of_function(context, x)

    mlir.register_lowering(primitive, rule)
    return primitive.bind


foreign_sine: Function = _of_another_library("foreign_sine", lambda x: jnp.sin(x) / 3)
calls_itself: Function = _of_another_library("calls_itself", lambda x: calls_itself(x))  # noqa: PLW0108  # It is not there yet.
calls_another: Function = _of_another_library("calls_another", lambda x: 2 * calls_itself(x))


def with_terms_of_devices(x: Any) -> Any:
    """Returns an array next to a product that devices hold as terms of a sum, which comes later."""
    mesh = Mesh(np.array(jax.devices()[:1]), ("terms",), axis_types=(AxisType.Explicit,))
    whole = (None,) * (x.ndim - 1)
    shared = jax.reshard(x, NamedSharding(mesh, P("terms", *whole)))
    held = NamedSharding(mesh, P(*whole, unreduced={"terms"}))
    terms = jnp.einsum("i...,i...->...", shared, shared, out_sharding=held)
    return lax.optimization_barrier((x, jax.reshard(terms, NamedSharding(mesh, P(*whole)))))[0]


def deeper(function: Function, count: int, *, with_gradient: bool) -> Function:
    """Returns a function that calls another one ``count`` times, each time at later arguments.

    With a gradient, the one by the real arguments is computed, too.
    """

    def total(own: list[Any]) -> Any:
        end = jnp.zeros((), jnp.float32)
        for _ in range(count):
            results = [x for x in jax.tree.leaves(function(*own)) if is_real(x)]
            for each in results:
                end += jnp.sum(each.astype(jnp.float32))
            own = [x + end.astype(x.dtype) if is_real(x) else x for x in own]
        return end

    def gradient(*own: Any) -> Any:
        real = [i for i, x in enumerate(own) if is_real(x)]

        def of_reals(values: list[Any]) -> Any:
            return total([values[real.index(i)] if i in real else x for i, x in enumerate(own)])

        return jax.grad(of_reals)([own[i] for i in real])

    return gradient if with_gradient else lambda *own: total(list(own))


#: The numbers of calls whose lowered texts are compared.
DEPTHS = (2, 4, 8)


def operations(function: Function, arguments: Sequence[Any], *, with_gradient: bool) -> list[int]:
    """Returns the number of operations of ``deeper`` programs, one for each of ``DEPTHS``."""
    programs = (deeper(function, count, with_gradient=with_gradient) for count in DEPTHS)
    # Each operation of a lowered text has a line of its own.
    return [lowered_text(each, arguments).count(" = ") for each in programs]


def grows(numbers: Sequence[int]) -> bool:
    """Returns whether four further calls add much more operations than twice what two calls add."""
    least, middle, most = numbers
    return most - middle > 2.5 * (middle - least) + 10


def without_guarantee(function: Function) -> Function:
    """Returns a function that is called in a scope without a guarantee."""

    def scoped(*x: Any) -> Any:
        if "impl" not in sys.modules:
            return function(*x)
        with sys.modules["impl"].deterministic(False):
            return function(*x)

    return scoped


def lowered_text(function: Function, arguments: Sequence[Any], *, scope: bool = False) -> str:
    """Returns the lowered text of a function.

    A ``scope`` has no guarantee. The text of such a scope is the text of JAX, but for a mark.
    """
    own = without_guarantee(function) if scope else function

    def program(*x: Any) -> Any:
        return own(*x)

    text = str(jax.jit(program).lower(*arguments).as_text())
    mark = 'mhlo.frontend_attributes = {samebits_mode = "off"}'
    text = text.replace(f" attributes {{{mark}}}", "")
    text = text.replace(', samebits_mode = "off"', "")
    return text.replace(f" {{{mark}}}", "").replace(f"{mark}, ", "").replace(f", {mark}", "")


def sums_over_devices(text: str) -> int:
    """Returns the number of sums over devices in a lowered text.

    It counts no maximum: a loop of exact sums asks by one whether a device needs more iterations.
    """
    return len(re.findall(r'"stablehlo\.all_reduce".*\n.*\n.* = stablehlo\.add ', text))


def without_repeats(text: str) -> str:
    """Returns a lowered text whose functions are in order, each once, named by what they contain.

    In a scope, JAX writes a function once more for each primitive that it expands.
    """
    parts = re.findall(r"(?ms)^  func\.func .*?^  }$", text)
    bodies = {re.findall(r"@([\w.]+)", part)[0]: part for part in parts}

    @functools.cache
    def content(name: str) -> str:
        own = bodies[name].replace(f"@{name}(", "@(", 1)
        return re.sub(r"@([\w.]+)", lambda called: f"@{called_name(called[1])}", own)

    def called_name(name: str) -> str:
        return digest(np.frombuffer(content(name).encode(), np.uint8)) if name in bodies else name

    return "\n".join(sorted({content(name) for name in bodies}))


def is_real(x: Any) -> bool:
    """Returns whether an array has floats, which are not complex."""
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def derived(function: Function, kind: str, primals: int) -> Function:
    """Returns a function with its derivative; tangents and cotangents follow the arguments."""
    if kind == "none":
        return function

    def with_derivative(*arguments: Any) -> Any:
        own, seeds = arguments[:primals], list(arguments[primals:])
        real = [i for i, x in enumerate(own) if is_real(x)]

        def of_reals(*values: Any) -> Any:
            return function(
                *(values[real.index(i)] if i in real else own[i] for i in range(primals))
            )

        point = tuple(own[i] for i in real)
        count = len(jax.eval_shape(of_reals, *point))
        tangents = tuple(seeds[count:] if kind == "mixed" else seeds)
        if kind == "forward":
            return jax.jvp(of_reals, point, tangents)

        def reverse(*values: Any) -> Any:
            outputs, pull = jax.vjp(of_reals, *values)
            return outputs, pull(tuple(seeds[:count]))

        return reverse(*point) if kind == "reverse" else jax.jvp(reverse, point, tangents)

    return with_derivative


def inside(function: Function, how: str) -> Function:
    """Returns the same function in another wrapper of JAX."""
    if how == "nested":
        return jax.jit(function)
    if how == "remat":
        return jax.checkpoint(function)
    if how == "cond":

        def zeros(*arguments: Any) -> Any:
            shapes = jax.eval_shape(function, *arguments)
            return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

        return lambda *arguments: lax.cond(
            jnp.array(arguments[0].shape == jnp.shape(arguments[0])), function, zeros, *arguments
        )
    if how == "custom_jvp":
        own = jax.custom_jvp(function)
        own.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
        return own
    return function


def called(function: Function, arguments: Sequence[Any], how: str) -> list[np.ndarray]:
    """Calls a function in one of several ways, and returns the same results from each."""
    if "impl" not in sys.modules and how in {"scope", "float64", "integers"}:
        how = "jit"  # Plain JAX has neither scopes nor engines.
    if how == "eager":
        outputs = function(*arguments)
    elif how == "scope":
        outputs = _in_a_scope(function, arguments)
    elif how.startswith("rows"):
        outputs = _by_rows(function, arguments, *how.split()[1:])
    elif how in {"float64", "integers"}:
        # As a device with this engine would compute it.
        with importlib.import_module("impl.testing").engine(how):
            outputs = jax.jit(function)(*arguments)
    elif how == "constants":
        outputs = jax.jit(lambda: function(*arguments))()
    elif how == "donate":
        copies = [jnp.array(each) for each in arguments]
        outputs = jax.jit(function, donate_argnums=tuple(range(len(copies))))(*copies)
    elif how in ("vmap", "map"):
        both = [jnp.stack([each, jnp.flip(each)]) for each in arguments]
        mapped = (
            jax.vmap(function) if how == "vmap" else lambda *x: lax.map(lambda y: function(*y), x)
        )
        outputs = jax.tree.map(lambda x: x[0], jax.jit(mapped)(*both))
    elif how == "scan":
        outputs = jax.jit(
            lambda *x: lax.scan(lambda carry, _: (carry, function(*carry)), x, length=2)[1]
        )(*arguments)
        outputs = jax.tree.map(lambda x: x[1], outputs)
    elif how == "beside":

        def with_others(*x: Any) -> Any:
            results = function(*x)
            others = [y * y + 1 for y in jax.tree.leaves(results) if is_real(y)]
            return results, others

        outputs = jax.jit(with_others)(*arguments)[0]
    elif how == "export":
        program = jax.export.deserialize(
            jax.export.export(jax.jit(function))(*arguments).serialize()
        )
        outputs = program.call(*arguments)
    else:
        outputs = jax.jit(function)(*arguments)
    return [canonical(np.asarray(each)) for each in jax.tree.leaves(outputs)]


def by_pmap(function: Function, count: int, given: str, returned: str) -> Function:
    """Returns a function over rows that ``jax.pmap`` shares among devices, on a mesh axis ``a``.

    ``given`` and ``returned`` have a 1 for each argument and each result that has rows.
    """
    mapped = jax.pmap(
        function,
        "a",
        in_axes=tuple(0 if flag == "1" else None for flag in given),
        devices=jax.devices()[:count],
    )

    def run(*arguments: Any) -> list[Any]:
        own = [
            x.reshape(count, x.shape[0] // count, *x.shape[1:]) if flag == "1" else x
            for x, flag in zip(arguments, given, strict=True)
        ]
        return [
            x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]) if flag == "1" else x[0]
            for x, flag in zip(map(np.asarray, mapped(*own)), returned, strict=True)
        ]

    return run


def _in_a_scope(function: Function, arguments: Sequence[Any]) -> Any:
    """Calls a function in a scope with the guarantee, in a program without it."""
    impl = sys.modules["impl"]

    def scoped(*x: Any) -> Any:
        with impl.deterministic(guarantee="portable"):
            return function(*x)

    with impl.deterministic(False):
        return jax.jit(scoped)(*arguments)


def _by_rows(function: Function, arguments: Sequence[Any], given: str, returned: str) -> list[Any]:
    """Calls a function with the first three rows and with the other ones, and joins its results.

    The function computes each row alone. ``given`` and ``returned`` have a 1 for each argument and
    each result that has rows.
    """
    parts = []
    for cut in (slice(None, 3), slice(3, None)):
        own = [x[cut] if flag == "1" else x for x, flag in zip(arguments, given, strict=True)]
        parts.append(list(map(np.asarray, jax.tree.leaves(jax.jit(function)(*own)))))
    return [
        np.concatenate([a, b]) if flag == "1" else a
        for a, b, flag in zip(*parts, returned, strict=True)
    ]


def canonical(values: np.ndarray) -> np.ndarray:
    """Returns an array with one bit pattern for all NaN, and zeros for subnormal numbers.

    The guarantee leaves out both: XLA keeps a subnormal product of constants, for example.
    """
    if values.dtype.kind == "c":
        parts = values.reshape(-1).copy().view(values.real.dtype)
        return canonical(parts).view(values.dtype).reshape(values.shape)
    if values.dtype.kind in "iub" or values.dtype.name == "float0":
        return values
    least = 0 if values.dtype == np.float16 else float(jnp.finfo(values.dtype).tiny)
    is_subnormal = np.abs(values.astype(np.float64)) < least
    values = np.where(is_subnormal, np.copysign(np.zeros_like(values), values), values)
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values).astype(values.dtype)


def digest(values: np.ndarray) -> str:
    """Returns a hash of the dtype, the shape and the bits of an array."""
    text = f"{values.dtype} {values.shape} ".encode()
    return hashlib.sha256(text + values.tobytes()).hexdigest()[:16]
