"""``impl.digest``: its definition, bit for bit, on hosts and devices, and what it refuses.

Tests: impl.digests._digest.
"""

import hashlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.digests import _digest

RNG = np.random.default_rng(0)
#: Arrays of each kind of dtype, and of sizes near a word and near a chunk.
ARRAYS = [
    RNG.normal(size=shape).astype(dtype)
    for shape, dtype in [
        ((), np.float32),
        ((0, 3), np.float32),
        ((3, 4), np.float32),
        ((512,), np.int32),
        ((513,), jnp.bfloat16),
        ((2049,), jnp.float8_e4m3fn),
        ((5, 7), np.float16),
        ((300,), bool),
        ((129, 2), np.complex64),
        ((40_000,), np.uint8),
        ((40_000,), np.float32),
    ]
]


class Pair(NamedTuple):
    left: int
    right: int


def reference(tree):
    """The digest by its definition, with bytes and ``hashlib`` alone."""

    def root(data):
        count = max(1, -(-len(data) // 2048))
        data = data.ljust(2048 * count, b"\0")
        data = b"".join(
            hashlib.sha256(data[i : i + 2048]).digest() for i in range(0, len(data), 2048)
        )
        return data if count == 1 else root(data)

    parts = []
    for path, array in tree.items():
        sizes = ",".join(map(str, array.shape))
        text = f"{array.dtype.name}[{sizes}]\n".encode()
        leaf = hashlib.sha256(text + root(array.tobytes())).digest()
        parts.append((f"[{path!r}]".encode(), leaf))
    joined = b"".join(hashlib.sha256(path).digest() + leaf for path, leaf in sorted(parts))
    return hashlib.sha256(joined).hexdigest()


def test_the_digest_is_that_of_the_definition():
    tree = {f"a{i}": array for i, array in enumerate(ARRAYS)}
    assert impl.digest(tree) == reference(tree)
    assert impl.digest(jax.tree.map(jnp.asarray, tree)) == reference(tree)


def test_a_device_computes_the_digest_of_the_definition(monkeypatch):
    monkeypatch.setattr(_digest, "_ON_HOST", frozenset())  # Also where the device is a CPU.
    monkeypatch.setattr(_digest, "_TOGETHER", 5000)  # So that leaves are in several groups.
    tree = {f"a{i}": array for i, array in enumerate(ARRAYS)}
    called = []
    monkeypatch.setattr(_digest, "on_host", called.append)
    assert impl.digest(jax.tree.map(jnp.asarray, tree)) == reference(tree)
    assert called == []


def test_a_digest_is_the_same_for_ever():
    # Logs of other releases have these digests. A change needs another version of the format.
    tree = {"w": np.arange(1500, dtype=np.float32).reshape(3, 500), "n": [np.int8(3), 2.5, True]}
    assert impl.digest(tree) == "c86cbe3e754e5e0888447f17882c6dfb8240e6afffe8941d9ab621330905061d"
    assert impl.digest([]) == impl.digest({"a": None, "b": ()}) == hashlib.sha256().hexdigest()
    keys = jax.random.split(jax.random.key(0, impl="threefry2x32"))
    assert impl.digest(keys) == "08eb4137be7f922d8ab279c5f6798196c6c3a74d2d4aeb5011dcef69594d03d0"


def bits(number):
    return np.array(number, np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "trees",
    [
        [np.float32(0.0), np.float32(-0.0), bits(1), bits(0x7FC00000), bits(0x7FC00001)],
        [np.ones(4, np.float32), np.ones((2, 2), np.float32), np.ones((4, 1), np.float32)],
        [np.zeros(2, np.float32), np.zeros(2, np.int32), np.zeros(4, np.float16)],
        [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "c": 2}, [1, 2]],
        [Pair(1, 2), {"left": 1, "right": 2}],
        [1, 1.0, True, 1 + 0j, np.int32(1)],
        [jax.random.key(0), jax.random.key(1), jax.random.key_data(jax.random.key(0))],
        [np.zeros(2048, np.uint8), np.zeros(2049, np.uint8), np.zeros(0, np.uint8)],
        [np.array([1, 2], jnp.int4), np.array([2, 1], jnp.int4), np.array([1, 2], np.int8)],
    ],
)
def test_each_bit_and_each_name_counts(trees):
    assert len({impl.digest(tree) for tree in trees}) == len(trees)


def test_the_form_of_an_array_does_not_count():
    plain = np.arange(12, dtype=np.float32).reshape(3, 4)
    forms = [
        plain,
        jnp.asarray(plain),
        np.asfortranarray(plain),
        plain.astype(">f4"),
        np.repeat(plain, 2, axis=0)[::2],
    ]
    assert len({impl.digest({"a": [form]}) for form in forms}) == 1
    assert impl.digest((plain, plain)) == impl.digest([plain, plain])
    small = np.array([-1, 3, -8], jnp.int4)
    assert impl.digest(small) == impl.digest(jnp.asarray(small))
    assert impl.digest(np.float64(2.5)) == impl.digest(2.5)


def test_the_mode_and_64_bits_change_no_digest(monkeypatch):
    tree = [jnp.arange(600, dtype=jnp.float32), jnp.ones(3, jnp.bfloat16)]
    expected = impl.digest(tree)
    monkeypatch.setattr(_digest, "_ON_HOST", frozenset())
    with impl.deterministic(guarantee="portable"), jax.enable_x64(True):
        assert impl.digest(tree) == expected


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"f": jnp.sin}, TypeError, r"the leaf \['f'\] is a \w+, but must be a number or an array"),
        ({"a": "text"}, TypeError, r"eqx\.filter"),
        (2**70, TypeError, "the argument is a int"),
        (jax.ShapeDtypeStruct((2,), jnp.float32), TypeError, "ShapeDtypeStruct"),
    ],
)
def test_a_leaf_without_bits_is_refused(tree, error, message):
    with pytest.raises(error, match=message):
        impl.digest(tree)


def test_a_traced_or_donated_leaf_is_refused():
    with pytest.raises(TypeError, match=r"is traced: its bits are not known inside of jax\.jit"):
        jax.jit(lambda x: impl.digest([x]))(1.0)
    x = jnp.ones(3)
    x.delete()
    with pytest.raises(ValueError, match=r"the leaf \[0\] has no bits any more: .* donated"):
        impl.digest([x])


def test_arrays_that_other_processes_have_are_refused():
    class Spread:
        is_fully_replicated = is_fully_addressable = False

    with pytest.raises(ValueError, match="process_allgather"):
        _digest._whole("digest(): the leaf ['w']", Spread())
