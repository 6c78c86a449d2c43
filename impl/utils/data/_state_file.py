"""Files with the state of a loader: written whole or not at all, and checked when they are read.

The first line of a file has the length and the SHA-256 of the rest, which is JSON. So reading a
file runs no code, and a file that was cut short or changed is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import secrets
from typing import Any

import numpy as np

_MAGIC = "samebits-loader-state-1"


def write(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a state in one step: a reader sees the earlier file or the new one.

    Raises:
        TypeError: A value in the state is not a number, a string, a list, a tuple or a dict.
        OSError: The file cannot be written, for example because the disk is full. An earlier file
            is unchanged, and no other file remains.
    """
    try:
        content = json.dumps(state, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the loader's state cannot be written to a file: {error}. The indices of your own "
            "sampler, and its state_dict(), must consist of numbers, strings, lists and dicts"
        ) from error
    header = f"{_MAGIC} {len(content)} {hashlib.sha256(content).hexdigest()}\n".encode()
    target = pathlib.Path(path).resolve()  # A link stays a link.
    draft = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(header + content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        error.add_note(f"The loader's state was not saved; the file {str(target)!r} is unchanged.")
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    # The new name then survives a loss of power. Some systems cannot open a folder.
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
        ValueError: ``write`` did not write the file, or it was cut short or changed.
    """
    header, _, content = pathlib.Path(path).read_bytes().partition(b"\n")
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
            f"{name!r} is damaged: its checksum does not fit its content; nothing was restored"
        )
    state: dict[str, Any] = json.loads(content)
    return state


def _plain(value: Any) -> Any:
    # JSON asks here for a form of NumPy's, and other libraries', numbers and arrays.
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"got a {type(value).__name__}")
