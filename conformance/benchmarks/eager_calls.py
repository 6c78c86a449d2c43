"""Small calls of every public op, and of the nearest function of plain JAX.

The arrays are so small that the computation takes no time: a benchmark of these calls measures the
work of Python and of JAX around it. For ``index_add``,

    Call("index_add", ours, plain, arrays)

``ours`` is ``impl.index_add(x, 0, i, s)`` and ``plain`` is ``x.at[i].add(s)``, of 16 numbers or so.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.sparse import BCOO

import impl

_CALLS = Path(__file__).with_suffix(".toml")
#: The names of its expressions, besides the arrays.
_NAMES = {
    "impl": impl,
    "functional": impl.nn.functional,
    "jax": jax,
    "jnp": jnp,
    "lax": lax,
    "windows": {dims: (1, 1, *(2,) * dims) for dims in (1, 2, 3)},
    "layouts": {
        1: ("NCW", "IOW", "NCW"),
        2: ("NCHW", "IOHW", "NCHW"),
        3: ("NCDHW", "IODHW", "NCDHW"),
    },
}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an op.

    Attributes:
        op: The name of the op, and in brackets the special feature of the call.
        ours: The call; it takes the arrays.
        plain: The same function of plain JAX, or the nearest; None where JAX has no such function.
        arrays: The arrays.
    """

    op: str
    ours: Callable[..., Any]
    plain: Callable[..., Any] | None
    arrays: tuple[Any, ...]


def _numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def _indices(*values: int) -> jax.Array:
    return jnp.asarray(np.array(values, np.int32))


def calls() -> Iterator[Call]:
    """Yields a call of every public op, and some more, by the tables of ``eager_calls.toml``."""
    arrays = _arrays()
    names = {**arrays, **_NAMES}

    def function(code: str, parameters: Sequence[str]) -> Callable[..., Any]:
        code = (
            code
            if code.replace(".", "").isidentifier()
            else f"lambda {', '.join(parameters)}: {code}"
        )
        made: Callable[..., Any] = eval(code, names)  # noqa: S307  # a line of our own file
        return made

    for op, table in tomllib.loads(_CALLS.read_text(encoding="utf-8")).items():
        for number in table.get("dims", [0]):
            text = {
                key: each.replace("{d}", f"{number}")
                for key, each in table.items()
                if key != "dims"
            }
            parameters = text["arrays"].split()
            of_dims = op.replace("{d}", f"{number}")
            plain = function(text["plain"], parameters) if "plain" in text else None
            operands = tuple(arrays[name] for name in parameters)
            yield Call(of_dims, function(text["ours"], parameters), plain, operands)


def _arrays() -> dict[str, Any]:
    """Returns the arrays of calls, by name; the end of a name may be a number of dimensions."""
    every = jnp.asarray(np.random.default_rng(0).integers(0, 8, (8, 8)).astype(np.int32))
    diagonal = jnp.asarray(np.repeat(np.arange(8, dtype=np.int32)[:, None], 2, 1))
    x, heads, batch = _numbers(8, 8), _numbers(2, 3, 8, 8), _numbers(2, 8, 8)
    arrays = {
        "x": x,
        "y": x,
        "rows": _numbers(3, 8),
        "three": _numbers(3),
        "vector": _numbers(8),
        "batch": batch,
        "batches": batch,
        "queries": heads,
        "keys": heads,
        "values": heads,
        "every": every,
        "mask": jnp.asarray(np.asarray(x) > 0),
        "column": _indices(*range(8)),
        "i": _indices(1, 2, 3),
        "counts": _indices(1, 0, 5, 1, 1, 1, 1, 1),
        "sparse": BCOO((_numbers(8), diagonal), shape=(8, 8)),
        "bags": _indices(0, 0, 1),
        "probabilities": _numbers(8, 2, 8),
        "targets": _indices(1, 2, 3, 1, 2, 3),
        "lengths": _indices(8, 8),
        "target_lengths": _indices(3, 3),
        "offsets": _indices(0, 2),
        "theta": _numbers(2, 2, 3),
        "grid": _numbers(2, 4, 4, 2),
        "words": _numbers(4, 2, 8),
        "state": _numbers(1, 2, 8),
        **{f"weights{gates}": _numbers(8 * gates, 8) for gates in (1, 3, 4)},
    }
    for dims in (1, 2, 3):
        places = np.arange(6 * 4**dims, dtype=np.int32).reshape(2, 3, *(4,) * dims) % 4**dims
        arrays |= {
            f"image{dims}": _numbers(2, 3, *(8,) * dims),
            f"kernel{dims}": _numbers(4, 3, *(3,) * dims),
            f"transposed{dims}": _numbers(3, 4, *(3,) * dims),
            f"pooled{dims}": _numbers(2, 3, *(4,) * dims),
            f"places{dims}": jnp.asarray(places),
            f"samples{dims}": jnp.asarray(np.full((2, 3, dims), 0.5, np.float32)),
        }
    return arrays
