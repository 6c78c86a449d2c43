"""The programs that are compiled for GPUs and TPUs, in addition to the calls of rows.

``budgets.toml`` describes them. ``PROGRAMS`` are operations and training steps under ``portable``,
and ``CALLS`` are ops of ``impl``; ``elementary()`` has the functions that ``portable`` computes by
itself.

Each entry returns a function and its arguments, by shape and dtype, without values::

    PROGRAMS["scatter"]()   x.at[indices].add(updates) of float32[128, 32], int32[512] and
                            float32[512, 32], whose result is float32[128, 32]
    CALLS["histc"]()        impl.histc(x, 100, 0, 1) of float32[10000000]
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.lab.portable import programs as steps
from impl._exact.elementary import FUNCTIONS
from spec import gpus

#: A function of arrays, and its arguments: arrays, or their shapes and dtypes, in trees.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
#: The file of the programs and of their budgets.
FILE = "budgets.toml"


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Returns attention of heads, rows and features, without a mask."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    mixed: jax.Array = jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)
    return mixed


def regression(weights: jax.Array, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the weights after a step of a regression by softmax."""

    def loss(weights: jax.Array) -> jax.Array:
        logs = jax.nn.log_softmax(x @ weights)
        mean: jax.Array = -jnp.take_along_axis(logs, labels[:, None], -1).mean()
        return mean

    moved: jax.Array = weights - 0.1 * jax.grad(loss)(weights)
    return moved


def gradient(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the gradient of a call, as a function of the cotangent and the call's arrays."""

    def function(cotangent: Any, first: Any, *others: Any) -> Any:
        _, pullback = jax.vjp(lambda first: call(first, *others), first)
        return pullback(cotangent)[0]

    return function


#: A name in the expressions of the file, as all names of this module are.
F: Any = impl.nn.functional
_TABLE = tomllib.loads((files(__package__) / FILE).read_text(encoding="utf-8"))


def _program(name: str, entry: Mapping[str, Any]) -> Callable[[], Call]:
    if "call" not in entry:
        return steps.PROGRAMS[name]
    function = eval(entry["call"], globals())  # noqa: S307  # a line of our own file
    return lambda: (function, tuple(map(_array, entry["arrays"].split())))


def _array(word: str) -> jax.ShapeDtypeStruct:
    """Returns a shape and a dtype: ``512x32``, of float32, or ``512:int32``."""
    shape, _, dtype = word.partition(":")
    return jax.ShapeDtypeStruct(tuple(map(int, shape.split("x"))), jnp.dtype(dtype or "float32"))


PROGRAMS: Mapping[str, Callable[[], Call]] = {
    name: _program(name, entry) for name, entry in _TABLE["portable"].items()
}
CALLS: Mapping[str, Callable[[], Call]] = {
    name: _program(name, entry) for name, entry in _TABLE["run_to_run"].items()
}
#: The training steps, whose plain code is inexact.
STEPS = tuple(name for name, entry in _TABLE["portable"].items() if "call" not in entry)
#: The most launches and bytes of each program or call, by the GPU that it is compiled for.
BUDGETS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    name: {gpu: entry[gpu] for gpu in gpus.NAMES if gpu in entry}
    for table in _TABLE.values()
    for name, entry in table.items()
}


def elementary() -> Mapping[str, Callable[[], Call]]:
    """Returns the elementary functions of each dtype, by name: ``exp of float32``."""
    dtypes = tuple(map(np.dtype, (np.float32, np.float16, jnp.bfloat16, np.float64)))
    return {
        f"{name} of {dtype.name}": functools.partial(_elementary, name, dtype)
        for name in FUNCTIONS
        for dtype in dtypes
    }


def _elementary(name: str, dtype: np.dtype[Any]) -> Call:
    parameters = {"y": 7} if name == "integer_pow" else {}
    operand = jax.ShapeDtypeStruct((1 << 20,), dtype)
    operands = (operand,) * (2 if name in ("atan2", "div", "pow") else 1)
    return functools.partial(FUNCTIONS[name], **parameters), operands
