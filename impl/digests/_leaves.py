"""The leaves of a tree with their paths and types, and their bytes in the memory of the host."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

#: The number of bits of a byte.
_BYTE = 8


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A leaf of a tree.

    Attributes:
        path: Its path in the tree, as ``jax.tree_util.keystr`` writes it.
        type: The name of its dtype, and its shape: ``float32[3,4]``.
        value: Its array, with all elements in this process; the data of PRNG keys.
    """

    path: str
    type: str
    value: jax.Array | NumpyArray


def leaves(caller: str, tree: Any) -> list[Leaf]:
    """Returns the leaves of a tree.

    Args:
        caller: The function that a message names.
        tree: The tree.

    Raises:
        TypeError: A leaf is neither a number nor an array of numbers, bools or PRNG keys.
        ValueError: A leaf was donated or deleted, or this process does not have all of it.
    """
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [_leaf(caller, jax.tree_util.keystr(path), value) for path, value in flat]


def _leaf(caller: str, path: str, value: Any) -> Leaf:
    name = f"{caller}: the leaf {path}" if path else f"{caller}: the argument"
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name} is traced: its bits are not known inside of jax.jit, jax.vmap or jax.grad. "
            "Return it from the function, and pass the result"
        )
    if not isinstance(value, jax.Array):
        value = _numbers(name, value)
        return Leaf(path, type_name(value.dtype.name, value.shape), value)
    if value.is_deleted():
        raise ValueError(
            f"{name} has no bits any more: its array was deleted, or donated to a call. Pass it "
            "before that call, or pass the result of the call"
        )
    shape, dtype = value.shape, value.dtype
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        kind = f"key<{jax.random.key_impl(value)}>"
        return Leaf(path, type_name(kind, shape), _whole(name, jax.random.key_data(value)))
    return Leaf(path, type_name(dtype.name, shape), _whole(name, value))


def type_name(dtype: str, shape: tuple[int, ...]) -> str:
    """Returns the type of a leaf in words."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def _numbers(name: str, value: Any) -> NumpyArray:
    try:
        array = np.asarray(value)
    except Exception:  # noqa: BLE001  # An object of another library may raise any exception.
        array = np.asarray(None)
    if jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool:
        return array
    raise TypeError(
        f"{name} is a {type(value).__name__}, but must be a number or an array of numbers, bools "
        "or PRNG keys. Pass the arrays alone, such as eqx.filter(model, eqx.is_array) or "
        "nnx.state(model)"
    )


def _whole(name: str, value: jax.Array) -> jax.Array:
    """Returns an array on one device if each device has all of it."""
    if value.is_fully_replicated:
        return value.addressable_data(0)
    if value.is_fully_addressable:
        return value
    raise ValueError(
        f"{name} is sharded over devices of several processes, and this one "
        f"(jax.process_index() == {jax.process_index()}) does not have all of its bits. Pass "
        "jax.experimental.multihost_utils.process_allgather(tree, tiled=True), or call this in "
        "each process with the shards of that process"
    )


def bits_of(dtype: Any) -> int:
    """Returns the number of bits of an element, which may be fewer than its byte in memory has."""
    dtype = np.dtype(dtype)
    if dtype.itemsize > 1 or dtype.kind == "b":
        return int(dtype.itemsize) * _BYTE
    info = jnp.finfo if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo
    return int(info(dtype).bits)


def on_host(leaf: Leaf) -> memoryview:
    """Returns the bytes of a leaf, without a copy where the memory of the host has them."""
    array = np.ascontiguousarray(jax.device_get(leaf.value)).reshape(-1)
    order = array.dtype.byteorder
    if order == ">" or (order == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    data: NumpyArray = array.view(np.uint8)
    bits = bits_of(array.dtype)
    if bits < _BYTE:
        data = np.bitwise_and(data, (1 << bits) - 1, dtype=np.uint8)
    return data.data
