"""The passes by which rows are narrowed to the elements around a rank: samples, parts and slots."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from impl._kernels._rows import power_of_two

#: The shape of the elements that a program reads at once: neighbours, chunks and groups of chunks.
TILE = (4, 4, 128)
CHUNK = TILE[-1]
#: About four programs for each multiprocessor of a large GPU share the rows.
_PROGRAMS = 528
#: A sector of memory has eight elements, so that a sample reads an eighth of a row or less.
_APART = 64
#: How many standard deviations the pivots are from the rank in the sample, where rows are few and
#: where they are many: if one row is not certain, all are searched in another way.
_DEVIATIONS, _DEVIATIONS_OF_MANY, _MANY = 4, 5, 16
#: The slots of a program, in those that it takes if all get as many, and as many more.
_HEADROOM, _MORE = 1.25, 2 * CHUNK


@dataclasses.dataclass(frozen=True)
class Level:
    """A pass over rows of elements, or of slots.

    Attributes:
        rows: The number of rows.
        n: The number of elements of a row.
        sample: The number of elements of its sample.
        reach: How far the ranks of the pivots in the sample are from that of the element.
        parts: The number of parts of a row, one for each program.
        trips: The tiles of a part.
        capacity: The slots of a part.
    """

    rows: int
    n: int
    sample: int
    reach: int
    parts: int
    trips: int
    capacity: int

    @classmethod
    def of(cls, rows: int, n: int, most: int, *, slots: bool) -> Level:
        """Returns a pass.

        Args:
            rows: The number of rows.
            n: The number of elements of a row.
            most: How many a program holds.
            slots: Whether they are slots, which are near each other.
        """
        sample = most // 2 if slots else max(_APART, min(most // 2, power_of_two(n) // _APART))
        deviations = _DEVIATIONS if rows < _MANY else _DEVIATIONS_OF_MANY
        reach = math.ceil(deviations * math.sqrt(sample) / 2)
        between = 2 * reach * n / sample
        tiles = -(-n // math.prod(TILE))
        # A program of one tile would have more slots than it takes, most likely.
        parts = min(-(-tiles // 2), max(1, _PROGRAMS // rows))
        room = int((most - _HEADROOM * between) // (_MORE + CHUNK))
        parts = min(parts, room) if room > 0 else parts
        # With an odd number, chunks of a row that are apart by a power of two are in many parts.
        parts -= parts > 1 and parts % 2 == 0
        capacity = math.ceil((_HEADROOM * between / parts + _MORE) / CHUNK) * CHUNK
        return cls(rows, n, sample, reach, parts, -(-tiles // parts), capacity)

    @property
    def slots(self) -> int:
        """The slots of a row."""
        return self.parts * self.capacity

    def sampled(self) -> jax.Array:
        """Returns the columns of the sample, which are irregular, as data may be regular."""
        number = jnp.arange(self.sample, dtype=jnp.int32)
        apart = self.n // self.sample
        scattered = (number.astype(jnp.uint32) * np.uint32(0x9E3779B1)) >> np.uint32(8)
        return number * apart + scattered.astype(jnp.int32) % apart

    def lanes(self, part: jax.Array, trip: jax.Array) -> jax.Array:
        """Returns the columns of a tile of a part: chunks, with those of other parts between."""
        group, chunk, lane = (
            jnp.arange(size, dtype=jnp.int32).reshape([-1 if k == axis else 1 for k in range(3)])
            for axis, size in enumerate(TILE)
        )
        number = (trip * TILE[0] + group) * TILE[1] + chunk
        column = (number * self.parts + part) * CHUNK + lane
        return column.reshape(TILE[0], TILE[1] * TILE[2])


def levels(rows: int, n: int, most: int) -> tuple[Level, ...] | None:
    """Returns the passes after which a program holds what is left of a row; None if there are none.

    Args:
        rows: The number of rows.
        n: The number of elements of a row.
        most: How many a program holds.
    """
    found: list[Level] = []
    while n > most:
        level = Level.of(rows, n, most, slots=bool(found))
        if 2 * level.slots > n:
            return None
        found.append(level)
        n = level.slots
    return tuple(found)
