"""The digest of a tree: the roots of its leaves, and the hashes above them.

The roots are computed where the arrays are, and the memory of the host then gets 32 bytes of each
leaf. ``started`` does not wait for them, so a program may go on and donate the arrays.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from impl.digests import _device_hash
from impl.digests._leaves import Leaf, leaves, on_host

#: The number of bytes of a chunk.
CHUNK = 2048
#: The platforms whose arrays are in the memory of the host, where a CPU hashes them fastest.
_ON_HOST = frozenset({"cpu"})


@dataclasses.dataclass(frozen=True)
class Digest:
    """The digest of a tree and of its leaves.

    Attributes:
        types: The path and the type of each leaf, in the order of the tree.
        of_leaves: The digest of each leaf, in the same order.
    """

    types: tuple[tuple[str, str], ...]
    of_leaves: tuple[bytes, ...]

    def hex(self) -> str:
        """Returns the digest of the tree."""
        paths = [path.encode() for path, _ in self.types]
        parts = sorted(zip(paths, self.of_leaves, strict=True))
        whole = b"".join(hashlib.sha256(path).digest() + leaf for path, leaf in parts)
        return hashlib.sha256(whole).hexdigest()


class Pending:
    """The digest of a tree, which devices may still compute.

    Args:
        of_tree: The leaves of the tree.
    """

    def __init__(self, of_tree: Sequence[Leaf]) -> None:
        self._types = tuple((leaf.path, leaf.type) for leaf in of_tree)
        self._roots: dict[int, bytes] = {}
        by_device: dict[Any, list[int]] = {}
        for index, leaf in enumerate(of_tree):
            device = _device_of(leaf)
            if device is None:
                self._roots[index] = root(on_host(leaf))
            else:
                by_device.setdefault(device, []).append(index)
        self._computed = [
            (indices, _device_hash.roots(device, [of_tree[i].value for i in indices]))
            for device, indices in by_device.items()
        ]

    @property
    def is_ready(self) -> bool:
        """True if no device computes any more."""
        return all(words.is_ready() for _, words in self._computed)  # type: ignore[attr-defined]  # untyped in JAX

    def result(self) -> Digest:
        """Waits for the devices, and returns the digest."""
        for indices, words in self._computed:
            rows = np.ascontiguousarray(jax.device_get(words)).astype("<u4")
            self._roots |= dict(zip(indices, map(bytes, rows), strict=True))
        self._computed = []
        return Digest(
            self._types,
            tuple(
                hashlib.sha256(f"{type_}\n".encode() + self._roots[index]).digest()
                for index, (_, type_) in enumerate(self._types)
            ),
        )


def digest(tree: Any) -> str:
    """Returns the SHA-256 of every bit of a tree of arrays, with its paths, shapes and dtypes.

    It is the same on every machine and device, for every number of devices, every sharding and
    every release of JAX, and for arrays of JAX and of NumPy. 0.0 and -0.0 have two digests, as have
    two NaN with different payloads. The documentation of ``impl.digests`` has the definition.

    A CPU reads the arrays in place. Another device hashes them, and 32 bytes of each leaf are
    copied from it; a sharded array is gathered on one of its devices first.

    Args:
        tree: A pytree of numbers and of arrays of numbers, bools or PRNG keys, of any shapes.

    Returns:
        64 hexadecimal digits.

    Raises:
        TypeError: A leaf is something else, or is traced by ``jax.jit``.
        ValueError: A leaf was donated, or other processes have a part of it.
    """
    return Pending(leaves("digest()", tree)).result().hex()


def root(data: memoryview) -> bytes:
    """Returns the SHA-256 at the root of the chunks of some bytes.

    Args:
        data: The bytes, of one dimension.
    """
    sha256 = hashlib.sha256
    while True:
        whole = len(data) // CHUNK * CHUNK
        hashes = [sha256(data[i : i + CHUNK]).digest() for i in range(0, whole, CHUNK)]
        if whole < len(data) or not hashes:
            hashes.append(sha256(bytes(data[whole:]).ljust(CHUNK, b"\0")).digest())
        if len(hashes) == 1:
            return hashes[0]
        data = memoryview(b"".join(hashes))


def _device_of(leaf: Leaf) -> Any | None:
    """Returns the device that is to hash a leaf; None for the host."""
    if not isinstance(leaf.value, jax.Array) or not _device_hash.takes(leaf.value.dtype):
        return None
    device = min(leaf.value.devices(), key=lambda device: device.id)
    return None if device.platform in _ON_HOST else device
