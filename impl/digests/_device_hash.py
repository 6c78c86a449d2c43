"""SHA-256 on a device: each lane of vectors of 32-bit integers hashes one chunk of a leaf.

The program is of integers alone, so every device gives the same result. FIPS 180-4
defines the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Words: TypeAlias = tuple[jax.Array, ...]

#: The number of bits of a byte.
BYTE = 8
#: The number of words of a chunk, of a block of SHA-256 and of a digest.
_CHUNK, _BLOCK, _DIGEST = 512, 16, 8
_BLOCKS = _CHUNK // _BLOCK
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
_END = np.array([1 << 31, *[0] * 14, _CHUNK * 32], np.uint32)


def bits_of(dtype: Any) -> int:
    """Returns the number of bits of an element, which may be fewer than its byte in memory has."""
    dtype = np.dtype(dtype)
    if dtype.itemsize > 1 or dtype.kind == "b":
        return int(dtype.itemsize) * BYTE
    info = jnp.finfo if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo
    return int(info(dtype).bits)


def takes(dtype: Any) -> bool:
    """Returns whether ``roots`` takes arrays of a dtype: their elements are whole bytes."""
    return bits_of(dtype) % BYTE == 0


def roots(device: Any, values: Sequence[Any]) -> jax.Array:
    """Starts to compute the root of each leaf, uint32 [leaves, 8], and does not wait for it.

    Args:
        device: The device. Arrays of other devices are copied to it.
        values: The array of each leaf.
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
    count = max(1, math.ceil(len(words) / _CHUNK))
    return jnp.pad(words, (0, count * _CHUNK - len(words))).reshape(count, _CHUNK)


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
