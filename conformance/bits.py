"""The digest by which the suite compares the bits of two results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np


def digest(result: Any) -> str:
    """Returns the SHA-256 of every bit of a result, with its dtypes and shapes."""
    sha256 = hashlib.sha256()
    for array in _arrays(result):
        sha256.update(f"{array.dtype} {array.shape}\n".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()


def _arrays(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _arrays(part)
    elif result is not None:
        yield np.asarray(result)
