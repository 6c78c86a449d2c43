"""Runs a user's Python file inside a command of this package, as ``python FILE`` runs it."""

from __future__ import annotations

import concurrent.futures.thread
import contextlib
import runpy
import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: The file of the function that a worker of an executor runs, as its frames name it.
_WORKER = concurrent.futures.thread.ThreadPoolExecutor.submit.__code__.co_filename
#: The time between two looks at a thread.
_SECONDS = 0.05


def run(file: Path, arguments: Sequence[str] = (), run_name: str = "__main__") -> dict[str, Any]:
    """Runs a file as ``python FILE`` does, but leaves the standard output to the report.

    Args:
        file: The file.
        arguments: The arguments of the program.
        run_name: The ``__name__`` of the file.

    Returns:
        The names that the file defines.
    """
    sys.path.insert(0, str(file.resolve().parent))
    sys.argv = [str(file), *arguments]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return runpy.run_path(str(file), run_name=run_name)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return {}


def attempt(file: Path, arguments: Sequence[str]) -> str | None:
    """Runs a file to its end, and shows an error as Python does.

    Args:
        file: The file.
        arguments: The arguments of the program.

    Returns:
        The failure in words, such as "raised ValueError"; None if the file ended without one.
    """
    failure = None
    before = {*threading.enumerate()}
    try:
        run(file, arguments)
    except SystemExit as end:
        if not isinstance(end.code, int):
            sys.stderr.write(f"{end.code}\n")
        failure = f"ended with the exit status {end.code if isinstance(end.code, int) else 1}"
    except Exception as error:  # noqa: BLE001  # A program may raise any exception.
        error = error.with_traceback(_of_file(error.__traceback__, file))
        sys.excepthook(type(error), error, error.__traceback__)
        failure = f"raised {type(error).__name__}"
    # Python waits for these threads before a process ends.
    for thread in {*threading.enumerate()} - before:
        while thread.is_alive() and not thread.daemon and not _is_idle(thread):
            thread.join(_SECONDS)
    return failure


def _is_idle(thread: threading.Thread) -> bool:
    """Returns whether a thread is a worker of an executor without work; it ends with the process.

    A worker that takes its next work from the queue seems idle for a moment.
    """

    def waits() -> bool:
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # It is documented.
        return frame is not None and frame.f_code.co_filename == _WORKER

    if not waits():
        return False
    thread.join(_SECONDS)
    return waits()


def _of_file(traceback: types.TracebackType | None, file: Path) -> types.TracebackType | None:
    """Returns a traceback without the frames by which this package came to the file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename != str(file):
        traceback = traceback.tb_next
    return traceback
