"""The arguments of an eager call as a hashable key, which has a mark for each array.

Equal keys stand for equal calls: a number comes with its type, and a float with all its bits. The
call ``f(x, 1, [2.5, y], dim=None)`` of arrays ``x`` and ``y`` has the leaves ``[x, y]`` and the key
``(ARRAY, int, 1, list, 2, float, "0x1.4p+1", ARRAY, "dim", NoneType, None)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import jax
import numpy as np

from impl._core import jax_internals

#: The type of JAX's arrays; in a key it stands for an array.
ARRAY = jax_internals.ARRAY
#: The types of arguments whose equal values are interchangeable.
PLAIN = frozenset({int, bool, str, type(None), EllipsisType})
#: The mark of a sparse matrix, before its structure; no argument has this type.
_STRUCTURE = jax.tree_util.PyTreeDef


def add(value: Any, key: list[Any], leaves: list[Any]) -> bool:
    """Adds an argument to the key and its arrays to the leaves; returns whether it can."""
    kind = type(value)
    if kind is ARRAY:
        key.append(kind)
        leaves.append(value)
    elif kind in PLAIN:
        key += (kind, value)
    elif kind is float:
        key += (float, value.hex())
    elif kind is tuple or kind is list:
        key += (kind, len(value))
        return all(add(item, key, leaves) for item in value)
    elif kind is slice:
        key.append(slice)
        return all(add(item, key, leaves) for item in (value.start, value.stop, value.step))
    elif kind is np.ndarray:
        # JAX narrows other dtypes, and an op may look at the original dtype.
        if not jax_internals.keeps_dtype(value.dtype):
            return False
        key.append(ARRAY)
        leaves.append(value)
    elif isinstance(value, np.dtype | type) and jax_internals.keeps_dtype(value):
        key += (np.dtype, value)
    elif kind.__module__.startswith("jax.experimental.sparse"):
        parts, structure = jax.tree.flatten(value)
        key += (_STRUCTURE, (structure, len(parts)))
        return all(add(part, key, leaves) for part in parts)
    else:
        return False
    return True


def arguments(key: tuple[Any, ...], leaves: Iterator[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of a call from its key and its arrays."""
    args, kwargs = [], {}
    parts = iter(key)
    for part in parts:
        if not isinstance(part, str):
            args.append(_argument(part, parts, leaves))
        elif part:
            kwargs[part] = _argument(next(parts), parts, leaves)
        else:
            next(parts)
    return args, kwargs


def _argument(part: Any, parts: Iterator[Any], leaves: Iterator[Any]) -> Any:
    if part is ARRAY:
        return next(leaves)
    if part is slice:
        return slice(*(_argument(next(parts), parts, leaves) for _ in range(3)))
    value = next(parts)
    if part is _STRUCTURE:
        structure, count = value
        return structure.unflatten(_argument(next(parts), parts, leaves) for _ in range(count))
    if part is float:
        return float.fromhex(value)
    if part is tuple or part is list:
        return part([_argument(next(parts), parts, leaves) for _ in range(value)])
    return value
