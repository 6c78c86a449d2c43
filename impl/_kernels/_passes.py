"""The passes that narrow rows to the elements around a rank: the sizes of samples, parts and slots.

Selection by sampled pivots, as in Floyd and Rivest's SELECT ("Expected time bounds for selection",
Communications of the ACM 18, 1975, 165-172; doi:10.1145/360680.360691). A pass sorts a sample of a
row and takes two of its elements as pivots, between which the wanted element lies almost certainly.
The elements between the pivots are written to slots, which are the row of the next pass. A row is
cut into parts, one for each kernel instance; each part has slots of its own.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from impl._kernels._rows import power_of_two

#: The shape of the elements that a kernel instance reads at once: groups of chunks of neighbours.
TILE = (4, 4, 128)
CHUNK = TILE[-1]
#: About four kernel instances for each multiprocessor of a large GPU (an H100 has 132) share the
#: rows.
_PROGRAMS = 528
#: The least distance between sampled elements. A sector of memory has eight elements, so the sample
#: reads at most an eighth of a row.
_APART = 64
#: How many standard deviations the pivots are from the rank in the sample, for few and for many
#: rows. If the pivots of one row do not enclose the element, all rows are searched in another way.
_DEVIATIONS, _DEVIATIONS_OF_MANY, _MANY = 4, 5, 16
#: A kernel instance has ``_HEADROOM`` times the slots that it fills on average, plus ``_MORE``.
_HEADROOM, _MORE = 1.25, 2 * CHUNK


@dataclasses.dataclass(frozen=True)
class Level:
    """A pass over rows of elements, or of slots.

    Attributes:
        rows: The number of rows.
        n: The number of elements of a row.
        sample: The number of elements of its sample.
        reach: How far the ranks of the pivots in the sample are from the element's rank.
        parts: The number of parts of a row, one for each kernel instance.
        trips: The number of tiles of a part.
        capacity: The number of slots of a part.
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
            most: The number of elements that a kernel instance can hold.
            slots: Whether the elements are slots, whose values are near each other.
        """
        sample = most // 2 if slots else max(_APART, min(most // 2, power_of_two(n) // _APART))
        deviations = _DEVIATIONS if rows < _MANY else _DEVIATIONS_OF_MANY
        reach = math.ceil(deviations * math.sqrt(sample) / 2)
        between = 2 * reach * n / sample
        tiles = -(-n // math.prod(TILE))
        # An instance with only one tile would most likely need more slots than it has.
        parts = min(-(-tiles // 2), max(1, _PROGRAMS // rows))
        room = int((most - _HEADROOM * between) // (_MORE + CHUNK))
        parts = min(parts, room) if room > 0 else parts
        # An odd number of parts spreads chunks whose distance is a power of two over many parts.
        parts -= parts > 1 and parts % 2 == 0
        capacity = math.ceil((_HEADROOM * between / parts + _MORE) / CHUNK) * CHUNK
        return cls(rows, n, sample, reach, parts, -(-tiles // parts), capacity)

    @property
    def slots(self) -> int:
        """The number of slots of a row."""
        return self.parts * self.capacity

    def sampled(self) -> jax.Array:
        """Returns the columns of the sample, which are irregular, since data may be periodic."""
        number = jnp.arange(self.sample, dtype=jnp.int32)
        apart = self.n // self.sample
        scattered = (number.astype(jnp.uint32) * np.uint32(0x9E3779B1)) >> np.uint32(8)
        return number * apart + scattered.astype(jnp.int32) % apart

    def lanes(self, part: jax.Array, trip: jax.Array) -> jax.Array:
        """Returns the columns of a tile of a part. The chunks of the parts are interleaved."""
        group, chunk, lane = (
            jnp.arange(size, dtype=jnp.int32).reshape([-1 if k == axis else 1 for k in range(3)])
            for axis, size in enumerate(TILE)
        )
        number = (trip * TILE[0] + group) * TILE[1] + chunk
        column = (number * self.parts + part) * CHUNK + lane
        return column.reshape(TILE[0], TILE[1] * TILE[2])


def levels(rows: int, n: int, most: int) -> tuple[Level, ...] | None:
    """Returns the passes that narrow a row until a kernel instance can hold it.

    Returns None if a pass would not halve the row.

    Args:
        rows: The number of rows.
        n: The number of elements of a row.
        most: The number of elements that a kernel instance can hold.
    """
    passes: list[Level] = []
    while n > most:
        level = Level.of(rows, n, most, slots=bool(passes))
        if 2 * level.slots > n:
            return None
        passes.append(level)
        n = level.slots
    return tuple(passes)
