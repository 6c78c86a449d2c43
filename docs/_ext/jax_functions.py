"""Functions of JAX by the names that people search for, and the primitives that they consist of.

``jax_functions.toml`` has a call of each function. The build traces its program and its gradient's,
and reads the primitives from them. An op does the same as a function if a call of it gives the same
values, which a test compares.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO
from jax.extend import core as jax_core

import impl
import spec

FILE = Path(__file__).with_name("jax_functions.toml")


class Use(NamedTuple):
    """A function of JAX whose program, or whose gradient alone, has a primitive."""

    function: str
    in_gradient: bool


@dataclasses.dataclass(frozen=True)
class Entry:
    """A call of a function of JAX, or of a library for it.

    Attributes:
        name: The name that people search for.
        call: The call, as an expression over ``arrays()``.
        here: Calls of this library that give the same values.
    """

    name: str
    call: str
    here: tuple[str, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops that do the same, by their dotted names."""
        return tuple(re.findall(r"\bimpl\.([\w.]+)\(", " ".join(self.here)))


@functools.cache
def table() -> tuple[Entry, ...]:
    """Returns the entries of the file."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["function"]
    return tuple(Entry(e["name"], e["call"], tuple(e.get("here", ()))) for e in entries)


def of_op(op: str) -> tuple[str, ...]:
    """Returns the functions of JAX that do what an op does, each once."""
    return tuple(dict.fromkeys(entry.name for entry in table() if op in entry.ops))


def short_names(op: str) -> tuple[str, ...]:
    """Returns the last parts of the names of functions whose first counterpart is an op.

    The name of a primitive is left to the page of the primitive.
    """
    found = (e.name.partition(" ")[0] for e in table() if e.ops[:1] == (op,))
    names = (name.rpartition(".")[2] for name in found)
    return tuple(name for name in names if name not in spec.load().op_of_primitive)


def arrays() -> dict[str, Any]:
    """Returns the names that a call may use, as the file describes them.

    No array is symmetric, so that another order of arguments has other values.
    """
    return {
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "impl": impl,
        "BCOO": BCOO,
        "x": jnp.array([3.0, 1.0, 4.0, 1.5, 5.0, 0.5, 2.0, 6.0]),
        "m": jnp.eye(8) + 1.0 + jnp.tri(8),
        "picture": jnp.sin(jnp.arange(256.0)).reshape(1, 4, 8, 8),
        "heads": jnp.cos(jnp.arange(256.0)).reshape(1, 4, 8, 8),
        "kernel": jnp.cos(jnp.arange(144.0)).reshape(4, 4, 3, 3),
        "i": jnp.array([0, 1, 1, 2, 3, 3, 0, 7]),
        "key": jax.random.key(0),
    }


def primitives(function: Callable[..., Any], *args: Any) -> set[str]:
    """Returns the names of the primitives in the program of a function, as JAX alone makes it."""
    with impl.deterministic(False):
        program = jax.make_jaxpr(function)(*args)
    return set(_names(program.jaxpr))


def _names(program: Any) -> Iterator[str]:
    for equation in program.eqns:
        yield equation.primitive.name
        for inner in jax_core.jaxprs_in_params(equation.params):
            yield from _names(inner)


def value(call: str, inputs: Mapping[str, Any], libraries: Mapping[str, Any]) -> Any:
    """Returns what a call of the file returns.

    ``inputs`` are arrays that replace the arrays of ``arrays()`` of the same names, and
    ``libraries`` the modules that it may use besides, by name.
    """
    return eval(call, {**arrays(), **inputs, **libraries})  # noqa: S307  # a line of our own file


def inputs_of(call: str) -> dict[str, jax.Array]:
    """Returns the arrays of floats that a call uses, by their names."""
    used = compile(call, "<call>", "eval").co_names
    own = {n: x for n, x in arrays().items() if n in used and isinstance(x, jax.Array)}
    return {n: x for n, x in own.items() if jnp.issubdtype(x.dtype, jnp.floating)}


def _traced(call: str) -> tuple[set[str], set[str]]:
    """Returns the primitives of a call, and those that its gradient has besides."""
    inputs = inputs_of(call)

    def run(inputs: dict[str, Any]) -> Any:
        return value(call, inputs, {})

    forward = primitives(run, inputs)

    def pulled(inputs: dict[str, Any]) -> Any:
        result, pullback = jax.vjp(run, inputs)
        return pullback(jax.tree.map(lambda leaf: leaf * 0 + 1, result))

    try:
        return forward, primitives(pulled, inputs) - forward if inputs else set()
    except (TypeError, ValueError, NotImplementedError):
        return forward, set()  # Nothing to differentiate.


@functools.cache
def uses() -> Mapping[str, tuple[Use, ...]]:
    """Returns the functions that have each primitive, by the op of its rows."""
    ops = spec.load().op_of_primitive
    found: dict[str, dict[str, Use]] = {}
    # The programs of other libraries are not part of JAX.
    for entry in (entry for entry in table() if entry.name.startswith(("jax.", "x"))):
        forward, backward = _traced(entry.call)
        for in_gradient, primitives in ((False, forward), (True, backward)):
            for op in {ops[name] for name in primitives if name in ops}:
                found.setdefault(op, {}).setdefault(entry.name, Use(entry.name, in_gradient))
    return {op: tuple(by_name.values()) for op, by_name in found.items()}
