"""Digests of trees of arrays, logs of them, and the comparison of two logs.

A digest is a SHA-256 of every bit of a tree. Two runs, on two machines, are compared by digests
without a copy of their arrays. For example::

    import impl

    with impl.DigestLog("run.jsonl", keep=["loss"]) as log:
        for step in range(100):
            params, loss = train(params, batches[step])
            log.log(step, params=params, loss=loss)

    print(impl.digests.compare("run.jsonl", "other.jsonl").text())

The digest of a tree has this definition, by which any other program can compute it:

1. A *leaf* is a leaf of ``jax.tree_util.tree_flatten_with_path``, and its path is
   ``jax.tree_util.keystr`` of its key path. ``None`` and empty containers hold no leaf. A list and
   a tuple give the same paths.
2. The *type* of a leaf is the name of its dtype and its shape: ``float32[3,4]``, ``int32[]``. A
   Python number counts as the NumPy array that ``numpy.asarray`` makes of it. An array of PRNG keys
   has the type ``key<IMPL>[SHAPE]``, with the name of the implementation and the shape of the array
   of keys.
3. The *bytes* of a leaf are its elements in C order, each in little-endian bytes. A bool is one
   byte, 0 or 1. A complex number is its real and then its imaginary part. An element of fewer than
   8 bits is one byte, with zeros above its bits. The bytes of PRNG keys are the bytes
   of ``jax.random.key_data``.
4. The *root* of a leaf: append zeros to its bytes until they are whole chunks of 2,048 bytes, one
   chunk at least. Replace each chunk by its SHA-256. Repeat both steps with the result until it is
   one SHA-256 of 32 bytes.
5. The digest of a leaf is the SHA-256 of its type, in UTF-8, a newline, and its root.
6. The digest of a tree is the SHA-256 of, for each leaf in the order of the paths' UTF-8 bytes, the
   SHA-256 of the path's UTF-8 bytes and the digest of the leaf. It is written in hexadecimal.

So every bit counts: 0.0 and -0.0 have two digests, and so have two NaN with different payloads.
Where the bytes are, or how they are sharded, does not count. The chunks of step 4 can be hashed all
at once, so that a GPU computes the same digest as a CPU.
"""

# The modules: ``_digest`` reads and hashes leaves, on the host or on a device. ``_log`` writes and
# reads logs, and ``_comparison`` compares two.

from impl.digests._comparison import Comparison, Difference, Distance, compare
from impl.digests._digest import digest
from impl.digests._log import DigestLog

__all__ = ["Comparison", "Difference", "DigestLog", "Distance", "compare", "digest"]
