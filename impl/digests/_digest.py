"""The digest of a tree: its leaves with their types, the roots of these, and the hashes above them.

The roots are computed where the arrays are, and the memory of the host then gets 32 bytes of each
leaf. ``Pending`` does not wait for them, so a program may go on and donate the arrays. On a device,
each lane of vectors of 32-bit integers hashes one chunk of a leaf, by the steps of FIPS 180-4. The
program is of integers alone, so every device gives the same result.

For example, of the tree ``{"w": np.float32([1, 2])}``::

    bytes    0000803f 00000040
    root     102fdb51...   SHA-256 of the bytes, padded with zeros to a chunk
    leaf     5679e7f7...   SHA-256 of "float32[2]", a line feed and the root
    digest   fe8b72c5...   SHA-256 of the SHA-256 of the path "['w']", and the leaf
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

#: The number of bytes of a chunk.
CHUNK = 2048
#: The platforms whose arrays are in the memory of the host, where a CPU hashes them fastest.
_ON_HOST = frozenset({"cpu"})


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
    """Returns the leaves of a tree. Messages name the function ``caller``.

    Raises:
        TypeError: A leaf is neither a number nor an array of numbers, bools or PRNG keys.
        ValueError: A leaf was donated or deleted, or this process does not have all of it.
    """
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [leaf_of(caller, jax.tree_util.keystr(path), value) for path, value in flat]


def leaf_of(caller: str, path: str, value: Any) -> Leaf:
    """Returns a leaf; it raises as ``leaves`` does."""
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


def on_host(leaf: Leaf) -> memoryview:
    """Returns the bytes of a leaf, without a copy where the memory of the host has them."""
    array = np.ascontiguousarray(jax.device_get(leaf.value)).reshape(-1)
    order = array.dtype.byteorder
    if order == ">" or (order == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    data: NumpyArray = array.view(np.uint8)
    bits = bits_of(array.dtype)
    if bits < BYTE:
        data = np.bitwise_and(data, (1 << bits) - 1, dtype=np.uint8)
    return data.data


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
    """The digest of leaves. Devices may still compute it, unless the host copies the arrays."""

    def __init__(self, of_tree: Sequence[Leaf], *, on_device: bool = True) -> None:
        self._types = tuple((leaf.path, leaf.type) for leaf in of_tree)
        self._roots: dict[int, bytes] = {}
        by_device: dict[Any, list[int]] = {}
        for index, leaf in enumerate(of_tree):
            device = _device_of(leaf) if on_device else None
            if device is None:
                self._roots[index] = root(on_host(leaf))
            else:
                by_device.setdefault(device, []).append(index)
        self._computed = [
            (indices, roots(device, [of_tree[i].value for i in indices]))
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
    """Returns the SHA-256 at the root of the chunks of some bytes, of one dimension."""
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
    # A device hashes elements of whole bytes.
    if not isinstance(leaf.value, jax.Array) or bits_of(leaf.value.dtype) % BYTE:
        return None
    device = min(leaf.value.devices(), key=lambda device: device.id)
    return None if device.platform in _ON_HOST else device


Words: TypeAlias = tuple[jax.Array, ...]

#: The number of bits of a byte.
BYTE = 8
#: The number of words of a chunk, and of a block of SHA-256.
_WORDS, _BLOCK = CHUNK // 4, 16
_BLOCKS = _WORDS // _BLOCK
#: The number of rounds in an iteration: 16 take twice as long to compile, 4 move the state twice as
#: often.
_UNROLLED = 8
#: The greatest number of words of leaves that are copied and hashed together: 64 MiB.
_TOGETHER = 1 << 24


def _primes(count: int) -> list[int]:
    primes: list[int] = []
    number = 2
    while len(primes) < count:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    return primes


def _fraction_of_root(number: int, degree: int) -> int:
    """Returns the first 32 bits of the fraction of a root, by integers."""
    scaled = number << (32 * degree)
    low, high = 0, 1 << (scaled.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= scaled else (low, middle)
    return low % 2**32


#: The constants of SHA-256: fractions of the cube roots and the square roots of primes.
_ROUNDS = np.array([_fraction_of_root(prime, 3) for prime in _primes(64)], np.uint32)
_START = np.array([_fraction_of_root(prime, 2) for prime in _primes(8)], np.uint32)
#: The block after the last one of a chunk: one bit, zeros, and the number of the bits of a chunk.
_END = np.array([1 << 31, *[0] * 14, _WORDS * 32], np.uint32)


def bits_of(dtype: Any) -> int:
    """Returns the number of bits of an element, which may be fewer than its byte in memory has."""
    dtype = np.dtype(dtype)
    if dtype.itemsize > 1 or dtype.kind == "b":
        return int(dtype.itemsize) * BYTE
    info = jnp.finfo if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo
    return int(info(dtype).bits)


def roots(device: Any, values: Sequence[Any]) -> jax.Array:
    """Starts to compute the root of each array, uint32 [leaves, 8], and does not wait for it.

    Arrays of other devices are copied to the device.
    """
    moved = [
        value if value.devices() == {device} else jax.device_put(value, device) for value in values
    ]
    with jax.disable_jit(False):
        computed: jax.Array = _roots(moved)
    return computed


@jax.jit
def _roots(values: list[jax.Array]) -> jax.Array:
    chunks = [_chunks(value) for value in values]
    hashes = list(_hashed(chunks))
    while any(len(each) > 1 for each in hashes):
        above = [i for i, each in enumerate(hashes) if len(each) > 1]
        chunks = [_cut(_swapped(hashes[i]).reshape(-1)) for i in above]
        for i, each in zip(above, _hashed(chunks), strict=True):
            hashes[i] = each
    return jnp.stack([_swapped(each[0]) for each in hashes])


def _chunks(value: jax.Array) -> jax.Array:
    """Returns the little-endian words of the chunks of an array, [chunks, words]."""
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        value = jnp.stack([value.real, value.imag], axis=-1)
    if value.dtype == bool:
        value = value.astype(jnp.uint8)
    size = value.dtype.itemsize
    value = value.reshape(-1)
    if size < 4:
        value = lax.bitcast_convert_type(value, jnp.dtype(f"uint{size * 8}"))
        per_word = 4 // size
        value = jnp.pad(value, (0, -len(value) % per_word)).reshape(-1, per_word)
    return _cut(lax.bitcast_convert_type(value, jnp.uint32).reshape(-1))


def _cut(words: jax.Array) -> jax.Array:
    count = max(1, math.ceil(len(words) / _WORDS))
    return jnp.pad(words, (0, count * _WORDS - len(words))).reshape(count, _WORDS)


def _hashed(leaves: Sequence[jax.Array]) -> Iterator[jax.Array]:
    """Yields the SHA-256 of the chunks of each leaf, as numbers, [chunks, 8]."""
    groups: list[list[jax.Array]] = [[]]
    for chunks in leaves:
        if groups[-1] and sum(each.size for each in groups[-1]) + chunks.size > _TOGETHER:
            groups.append([])
        groups[-1].append(chunks)
    for group in groups:
        hashes = _sha256(jnp.concatenate(group) if len(group) > 1 else group[0])
        ends = np.cumsum([len(chunks) for chunks in group])[:-1]
        yield from jnp.split(hashes, ends)


@jax.jit
def _sha256(chunks: jax.Array) -> jax.Array:
    """Returns the SHA-256 of each row of words, as eight numbers, [rows, 8]."""
    rows = chunks.shape[0]

    def block(index: jax.Array, state: Words) -> Words:
        start = jnp.minimum(index, _BLOCKS - 1) * _BLOCK
        words = _swapped(lax.dynamic_slice_in_dim(chunks, start, _BLOCK, axis=1))
        words = jnp.where(index < _BLOCKS, words, jnp.asarray(_END))
        return _compressed(state, tuple(words[:, i] for i in range(_BLOCK)))

    start = tuple(jnp.full(rows, number, jnp.uint32) for number in _START)
    return jnp.stack(lax.fori_loop(0, _BLOCKS + 1, block, start), axis=1)


def _compressed(state: Words, words: Words) -> Words:
    def rounds(index: jax.Array, carry: tuple[Words, Words]) -> tuple[Words, Words]:
        (a, b, c, d, e, f, g, h), words = carry
        constants = lax.dynamic_slice(jnp.asarray(_ROUNDS), (index * _UNROLLED,), (_UNROLLED,))
        w = list(words)
        for i in range(_UNROLLED):
            choice = (e & f) ^ (~e & g)
            first = h + (_turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)) + choice
            first = first + constants[i] + w[0]
            majority = (a & b) ^ (a & c) ^ (b & c)
            second = (_turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)) + majority
            a, b, c, d, e, f, g, h = first + second, a, b, c, d + first, e, f, g
            # The next word of the message schedule, 16 rounds ahead.
            early = _turned(w[1], 7) ^ _turned(w[1], 18) ^ (w[1] >> np.uint32(3))
            late = _turned(w[14], 17) ^ _turned(w[14], 19) ^ (w[14] >> np.uint32(10))
            w = [*w[1:], w[0] + early + w[9] + late]
        return (a, b, c, d, e, f, g, h), tuple(w)

    after, _ = lax.fori_loop(0, len(_ROUNDS) // _UNROLLED, rounds, (state, words))
    return tuple(old + new for old, new in zip(state, after, strict=True))


def _turned(words: jax.Array, count: int) -> jax.Array:
    return (words >> np.uint32(count)) | (words << np.uint32(32 - count))


def _swapped(words: jax.Array) -> jax.Array:
    """Returns words with their bytes in the other order."""
    low, high = np.uint32(0x00FF00FF), np.uint32(0xFF00FF00)
    return (_turned(words, 8) & high) | (_turned(words, 24) & low)
