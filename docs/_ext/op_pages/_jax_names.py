"""Functions of JAX by the names that people search for, and the primitives that they consist of.

``jax_functions.toml`` has a call of each function. The primitives are those of its program and of
its gradient's, which are traced when the site is built.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core

import impl
import spec

FILE = Path(__file__).with_name("jax_functions.toml")


class Use(NamedTuple):
    """A function of JAX whose program has a primitive.

    Attributes:
        function: Its name: ``jax.ops.segment_sum``.
        call: A call of it.
        in_gradient: Whether only its gradient has the primitive.
    """

    function: str
    call: str
    in_gradient: bool


@functools.cache
def table() -> tuple[Mapping[str, Any], ...]:
    """Returns the entries of the file."""
    return tuple(tomllib.loads(FILE.read_text(encoding="utf-8"))["function"])


def of_op(op: str) -> tuple[str, ...]:
    """Returns the functions of JAX that do what an op does."""
    return tuple(entry["name"] for entry in table() if op in entry.get("ops", []))


def short_names(op: str) -> tuple[str, ...]:
    """Returns the last parts of the functions that an op is the first to stand for.

    The name of a primitive is left to the page of the primitive.
    """
    found = (e["name"].partition(" ")[0] for e in table() if e.get("ops", [""])[0] == op)
    names = (name.rpartition(".")[2] for name in found)
    return tuple(name for name in names if name not in spec.load().op_of_primitive)


def arrays() -> dict[str, Any]:
    """Returns the names that a call may use, as the file describes them."""
    return {
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "x": jnp.arange(8.0),
        "m": jnp.eye(8) + 1.0,
        "image": jnp.ones((1, 8, 8, 4)),
        "kernel": jnp.ones((3, 3, 4, 4)),
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


def _traced(call: str) -> tuple[set[str], set[str]]:
    """Returns the primitives of a call, and those that its gradient has besides."""
    known = arrays()
    code = compile(call, "<call>", "eval")
    inputs = {name: known[name] for name in ("x", "m", "image") if name in code.co_names}

    def run(inputs: dict[str, Any]) -> Any:
        return eval(code, {**known, **inputs})  # noqa: S307  # a line of our own file

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
    for entry in (entry for entry in table() if "call" in entry):
        forward, backward = _traced(entry["call"])
        for in_gradient, primitives in ((False, forward), (True, backward)):
            for op in {ops[name] for name in primitives if name in ops}:
                use = Use(entry["name"], entry["call"], in_gradient)
                found.setdefault(op, {}).setdefault(entry["name"], use)
    return {op: tuple(by_name.values()) for op, by_name in found.items()}
