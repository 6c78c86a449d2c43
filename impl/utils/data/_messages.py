"""Batches and exceptions as bytes, which a worker sends to the main process.

Large arrays become buffers next to the pickled bytes, so that each side copies them once. An
exception keeps its type and its attributes, if they can be pickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from impl.utils.data._seeding import GeneratorStates

#: A buffer of fewer bytes stays among the pickled bytes.
_SMALLEST_BUFFER = 1 << 16

#: Pickled bytes, and the buffers that travel with them.
Packed = tuple[bytes, list[memoryview]]


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch that a worker made.

    Attributes:
        value: The result of ``collate_fn``.
        states: The states of the worker's generators after it, or None if they did not change.
    """

    value: Any
    states: GeneratorStates | None


@dataclasses.dataclass(frozen=True)
class Failure:
    """An exception that a worker raised instead of returning a batch.

    Attributes:
        pickled: The exception, or None if it cannot be pickled.
        name: The name of its class.
        message: Its message.
        traceback: Its traceback, as text.
        fatal: Whether the worker cannot go on.
        states: The states of the worker's generators after it, or None if they did not change.
    """

    pickled: bytes | None
    name: str
    message: str
    traceback: str
    fatal: bool
    states: GeneratorStates | None

    def exception(self, process: str) -> Exception:
        """Returns the exception, with the worker's traceback as a note.

        An exception that ends a loop or a process, or that cannot be pickled, becomes a
        ``RuntimeError``.

        Args:
            process: The name of the worker.
        """
        error: object = None
        if self.pickled is not None:
            with contextlib.suppress(Exception):  # Its class may raise anything.
                error = pickle.loads(self.pickled)  # noqa: S301  # from a worker of our own
                if isinstance(error, _Parts):
                    error = error.exception()
        if not isinstance(error, Exception) or isinstance(error, StopIteration):
            error = RuntimeError(f"{process} raised {self.name}: {self.message}")
        error.add_note(f"Raised in {process}; the traceback there:\n{self.traceback}")
        return error


@dataclasses.dataclass(frozen=True)
class _Parts:
    """An exception whose class cannot be called with the exception's ``args``."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    attributes: dict[str, Any]

    def exception(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.args)
        vars(error).update(self.attributes)
        return error


def failure(
    error: BaseException, states: GeneratorStates | None, *, fatal: bool = False
) -> Failure:
    """Returns the form in which an exception travels."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return Failure(_pickled(error), type(error).__qualname__, str(error), text, fatal, states)


def _pickled(error: BaseException) -> bytes | None:
    # Unpickling an exception calls its class with `args`, which the class may not accept.
    for form in (error, _Parts(type(error), error.args, vars(error))):
        with contextlib.suppress(Exception):  # Its class may raise anything.
            pickled: bytes = cloudpickle.dumps(form)
            pickle.loads(pickled)  # noqa: S301  # Bytes that cannot be read are of no use.
            return pickled
    return None


def pack(message: Batch | Failure) -> Packed:
    """Pickles a message, with its large arrays as buffers.

    Raises:
        Exception: Something in the message cannot be pickled.
    """
    try:
        return _packed(message, pickle.dumps)
    except Exception:  # noqa: BLE001  # Classes may raise anything.
        # Cloudpickle is slower, but also pickles classes and functions that a script defines.
        return _packed(message, cloudpickle.dumps)


def _packed(message: Batch | Failure, dumps: Callable[..., bytes]) -> Packed:
    buffers: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALLEST_BUFFER:
            return True
        buffers.append(raw)
        return False

    return dumps(message, protocol=5, buffer_callback=stays), buffers


def unpack(body: bytes | memoryview, buffers: Sequence[memoryview]) -> Batch | Failure:
    """Returns the message; its large arrays use the memory of ``buffers``.

    Raises:
        Exception: Something in the message cannot be unpickled.
    """
    message: Batch | Failure = pickle.loads(body, buffers=buffers)  # noqa: S301  # of our own
    return message
