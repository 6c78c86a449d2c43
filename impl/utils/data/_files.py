"""A loader's state in a file: written whole or not at all, and checked when it is read.

A file is a line with the length and the SHA-256 of what follows, and that is JSON. So reading one
runs no code, and a file that was cut short or changed is found out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import Any

import numpy as np

_MAGIC = "samebits-loader-state-1"


def write(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a state, in one step: whoever reads sees the earlier file or this one.

    Raises:
        TypeError: Something in the state is not a number, a string, a list, a tuple or a dict.
        OSError: It could not be written, for want of space for instance. The earlier file, if there
            was one, is as it was, and nothing else is left.
    """
    try:
        content = json.dumps(state, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the loader's state cannot be written to a file: {error}. What a sampler of your own "
            "gives, and its state_dict(), must consist of numbers, strings, lists and dicts"
        ) from error
    header = f"{_MAGIC} {len(content)} {hashlib.sha256(content).hexdigest()}\n".encode()
    target = os.path.realpath(path)  # or a link would be replaced, not what it points to
    folder = os.path.dirname(target)  # noqa: PTH120  # of a string, as it is
    draft = f"{target}.{secrets.token_hex(8)}.tmp"
    try:
        with open(draft, "xb") as file:  # noqa: PTH123  # as above
            file.write(header + content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)  # noqa: PTH105  # as above
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)  # noqa: PTH108  # as above
        error.add_note(f"The loader's state was not saved; what was in {target!r} is unchanged.")
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    # So that the new name outlasts a loss of power; where folders cannot be opened, it is done.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a state.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not such a file, or was cut short, or changed.
    """
    with open(path, "rb") as file:  # noqa: PTH123  # as it is
        header, _, content = file.read().partition(b"\n")
    words = header.split(b" ")
    name = os.fspath(path)
    if len(words) != 3 or words[0] != _MAGIC.encode() or not words[1].isdigit():
        raise ValueError(f"{name!r} is not a file that DataLoader.save wrote; nothing was restored")
    if len(content) != int(words[1]):
        raise ValueError(
            f"{name!r} should have {int(words[1])} bytes after its first line, but has "
            f"{len(content)}: it was cut short or added to; nothing was restored"
        )
    if hashlib.sha256(content).hexdigest().encode() != words[2]:
        raise ValueError(
            f"{name!r} is damaged: its checksum is not that of its content; nothing was restored"
        )
    state: dict[str, Any] = json.loads(content)
    return state


def _plain(value: Any) -> Any:
    # What JSON does not know of itself: NumPy's (and other libraries') numbers and arrays.
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"got a {type(value).__name__}")
