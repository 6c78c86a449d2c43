"""The position of an iterator in an epoch, the document that keeps it, and the file of that.

A file is written whole or not at all, and checked when it is read. Its first line has the length
and the SHA-256 of the rest, which is JSON. So reading a file runs no code, and a file that was cut
short or changed is refused::

    samebits-loader-state-1 187 5f0c...
    {"format": 2, "loader": {"dataset length": 5, ...}, "epoch": {"done": 1, ...}, ...}
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from impl.utils.data._work import GeneratorStates

#: The number of the format of a state.
FORMAT = 2
#: The properties that a loader must share to load a state, the number of workers and whether the
#: next epoch is ``reseeded``, the position in an epoch (None between two epochs), the state of the
#: generator, the state of the sampler (None if it has none), and the states of this process's
#: generators (None if workers read the data set, and no sampler of the user's own is here).
_PARTS = ("loader", "workers", "epoch", "generator", "sampler", "process")


@dataclasses.dataclass
class Position:
    """An epoch, and the part of it that is done."""

    base_seed: int  # The seeds of the workers are made from it.
    order_seed: int | None  # None if the loader does not shuffle.
    #: The indices of each batch; of those that were done before a resumption, perhaps None.
    plan: Sequence[Any]
    done: int = 0  # The number of batches of the epoch that have been handed out.
    finished: bool = False  # Whether the iterator has raised StopIteration.
    reseeded: bool = False  # Whether the workers had begun another epoch before this one.
    num_workers: int = 0  # The number of workers that handed the batches out.
    #: For each worker, the states of its generators after its last batch so far.
    rng: dict[int, GeneratorStates] = dataclasses.field(default_factory=dict)

    def shard(self, worker_id: int) -> list[Any]:
        """Returns the batches that a worker still has to make: every ``num_workers``-th."""
        first = self.done + (worker_id - self.done) % self.num_workers
        return [self.plan[number] for number in range(first, len(self.plan), self.num_workers)]

    def state(self, *, with_plan: bool) -> dict[str, Any]:
        """Returns the position in plain values.

        ``with_plan`` is whether to keep the batches that are left, which ``order_seed`` does not
        give if the user's own sampler made them.
        """
        return {
            "base_seed": self.base_seed,
            "order_seed": self.order_seed,
            "batches": list(self.plan[self.done :]) if with_plan else None,
            "done": self.done,
            "reseeded": self.reseeded,
            "rng": {str(worker_id): states for worker_id, states in sorted(self.rng.items())},
        }


class Slices(Sequence[Any]):
    """The batches of an order: ``size`` indices each, the last one perhaps fewer.

    ``order`` is an array or a range; a ``size`` of None means single indices.
    """

    def __init__(self, order: Any, size: int | None, count: int) -> None:
        self._order, self._size, self._count = order, size, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if self._size is None:
            return int(self._order[number])
        # An array, since it is sent to a worker: a list of integers takes many times its memory.
        return np.asarray(self._order[number * self._size : (number + 1) * self._size])


def resumed(state: dict[str, Any], plan: Sequence[Any], num_workers: int) -> Position:
    """Returns the position that ``Position.state`` described, in an epoch with this plan.

    Raises:
        ValueError: The position is outside the epoch.
    """
    kept = {name: state[name] for name in ("base_seed", "order_seed", "done", "reseeded")}
    rng = {int(worker): [a, b, c] for worker, (a, b, c) in state["rng"].items()}
    position = Position(plan=plan, num_workers=num_workers, rng=rng, **kept)
    if not 0 <= position.done <= len(plan):
        raise ValueError(f"{position.done} batches are done of {len(plan)}")
    return position


def check(state: Any, identity: dict[str, Any]) -> None:
    """Checks that a value is the state of a loader like this one, with the same ``identity``.

    Raises:
        TypeError: Not a dict.
        ValueError: Not a loader's state, or the state of another loader; the message names the
            differences.
    """
    if not isinstance(state, dict):
        raise TypeError(
            "load_state_dict(): argument 'state_dict' must be a dict that state_dict() returned, "
            f"but got {type(state).__name__}"
        )
    if set(state) != {"format", *_PARTS} or state["format"] != FORMAT:
        raise ValueError(
            "load_state_dict(): argument 'state_dict' is not what DataLoader.state_dict() of this "
            f"release returns: it has the format {state.get('format')!r} and the keys "
            f"{sorted(map(str, state))}; nothing was restored"
        )
    differences = [
        f"{name} is {state['loader'].get(name)!r} in the state, {value!r} here"
        for name, value in identity.items()
        if state["loader"].get(name) != value
    ]
    if differences:
        raise ValueError(
            "load_state_dict(): the state belongs to another loader, so the rest of its epoch "
            f"cannot be had here: {'; '.join(differences)}. Nothing was restored"
        )


_MAGIC = "samebits-loader-state-1"


def write(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a state in one step: a reader sees the earlier file or the new one.

    Raises:
        TypeError: A value in the state is not a number, a string, a list, a tuple or a dict.
        OSError: The file cannot be written, for example because the disk is full. An earlier file
            is unchanged, and no other file remains.
    """
    try:
        content = json.dumps(state, default=_as_json, allow_nan=False).encode()
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


def _as_json(value: Any) -> Any:
    # JSON asks here for a form of NumPy's, and other libraries', numbers and arrays.
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"got a {type(value).__name__}")
