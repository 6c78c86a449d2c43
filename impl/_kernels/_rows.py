"""Rows of keys in the registers of a kernel instance, and the key of a given rank among them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._families.sort_keys import constant, sort_keys
from impl._kernels.launch import Launch

#: The number of keys of an instance, where rows are short.
_KEYS = 1 << 11
#: The number of lanes of a warp, and the greatest number of warps of an instance.
_WARP, _WARPS = 32, 32


@dataclasses.dataclass(frozen=True)
class RowTiles:
    """The share of each kernel instance: as many whole rows as it holds.

    Attributes:
        rows: The number of rows.
        length: The number of elements of a row, up to ``longest(depth)``.
        depth: How many keys a lane holds; a power of two.
    """

    rows: int
    length: int
    depth: int

    @property
    def width(self) -> int:
        """The lanes of a row: Triton's blocks have powers of two as sizes."""
        return power_of_two(self.length)

    @property
    def height(self) -> int:
        """The rows of an instance."""
        return max(1, min(_KEYS // self.width, power_of_two(self.rows)))

    @property
    def programs(self) -> int:
        """The number of instances."""
        return -(-self.rows // self.height)

    @property
    def warps(self) -> int:
        """The warps of an instance."""
        return max(1, self.height * self.width // (self.depth * _WARP))

    def lanes(self, launch: Launch) -> tuple[jax.Array, jax.Array]:
        """Returns the rows of the running instance, [height], and the columns, [width]."""
        number = launch.program_id(0, self.programs)
        row = number * self.height + jnp.arange(self.height, dtype=jnp.int32)
        return row, jnp.arange(self.width, dtype=jnp.int32)


def longest(depth: int) -> int:
    """Returns the length of the longest row that an instance holds."""
    return depth * _WARP * _WARPS


def power_of_two(size: int) -> int:
    """Returns the least power of two that is at least ``size``."""
    return 1 << (size - 1).bit_length()


def key_dtype(values: jax.Array) -> np.dtype[Any]:
    """Returns the dtype of the keys of ``load_keys``."""
    return np.dtype(np.uint64 if values.dtype.itemsize > 4 else np.uint32)


def load_keys(
    launch: Launch, ref: Any, offsets: jax.Array, inside: jax.Array, *, descending: bool = False
) -> jax.Array:
    """Loads elements of a flat ref as keys; lanes outside get the greatest key of their dtype."""
    keys = sort_keys(launch.load(ref.at[offsets], mask=inside, other=0))
    if descending:
        keys ^= greatest_key(keys.dtype)
    wide = key_dtype(keys)
    return jnp.where(inside, keys.astype(wide), greatest_key(wide))


def greatest_key(dtype: np.dtype[Any]) -> Any:
    """Returns the greatest key of a dtype."""
    return constant(np.iinfo(dtype).max, dtype)


def kth_key(keys: jax.Array, ranks: jax.Array, bits: int) -> jax.Array:
    """Returns the key of the given rank in each row; determines its bits from the highest down.

    Args:
        keys: Shape [height, width], less than two to the power ``bits`` where they count.
        ranks: int32, shape [height], or of any length for one row; 1 for the least key. A rank
            below 1 gives the key 0, and a rank above the number of keys the greatest key.
        bits: The number of bits.
    """
    one = keys.dtype.type(1)

    def determine_bit(step: jax.Array, known: jax.Array) -> jax.Array:
        bit = one << (bits - 1 - step).astype(keys.dtype)
        below = keys <= (known | (bit - one))[:, None]
        count = jnp.sum(below, axis=1, dtype=jnp.int32)
        return jnp.where(count < ranks, known | bit, known)

    known = jnp.zeros(ranks.shape, keys.dtype)
    return jax.lax.fori_loop(0, bits, determine_bit, known)  # type: ignore[no-any-return]
