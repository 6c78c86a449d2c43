"""Writes a digest of each input and output of each call of a compiled program into a file.

``python -m impl doctor --twice`` starts two processes that call ``main``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np

from impl._core.jax_internals import watching
from impl._reading import source
from impl.diagnosis import _generators, _programs, _running
from impl.digests._digest import root
from impl.digests._leaves import leaves, on_host


class CallRecorder:
    """Writes a line of JSON for each call of a compiled program.

    Args:
        programs: The recorder of programs. It is paused while values are read.
        file: The file to write into.
    """

    def __init__(self, programs: _programs.Recorder, file: TextIO) -> None:
        self._programs = programs
        self._file = file
        self._lock = threading.Lock()
        self._process = os.getpid()

    def called(self, call: watching.Call) -> Sequence[Any]:
        """Runs a call, and writes its line."""
        with self._programs.paused():
            # Before the call, which may destroy donated arguments.
            arguments = [
                (name or f"argument {number}", *_read(value))
                for number, (name, value) in enumerate(call.arguments)
            ]
        outputs = call.run()
        with self._programs.paused():
            results = [(f"output {number}", *_read(v)) for number, v in enumerate(outputs)]
        self.write(
            main=threading.current_thread() is threading.main_thread(),
            line=source.caller().user,
            function=call.function,
            arguments=arguments,
            outputs=results,
        )
        return outputs

    def write(self, **entry: Any) -> None:
        """Writes one line. A forked child, which has this file too, writes none."""
        if os.getpid() != self._process:
            return
        text = json.dumps(entry)
        with self._lock:
            print(text, file=self._file)


def _read(value: Any) -> tuple[str, str]:
    """Returns the type of a value, as ``float32[3]``, and a digest of its bits."""
    try:
        kind = str(value.dtype) if hasattr(value, "dtype") else type(value).__name__
        mine = value
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            mine = [shard.data for shard in value.addressable_shards]
        roots = [root(on_host(leaf)).hex() for leaf in leaves("doctor()", mine)]
        return f"{kind}{list(np.shape(value))}", "".join(roots)
    except (TypeError, ValueError, RuntimeError) as error:
        # A reference to a mutable array, a token, or an array that was deleted.
        return type(value).__name__, f"not read: {type(error).__name__}"


def main() -> None:
    """Runs the second file that the command line names, and writes its calls into the first."""
    record, name, *arguments = sys.argv[1:]
    programs = _programs.Recorder()
    with Path(record).open("w", encoding="utf-8") as file:
        calls = CallRecorder(programs, file)
        with programs.watched(calls.called), _generators.watched() as watch:
            failure = _running.attempt(Path(name), arguments)
        device = "cuda" if jax.default_backend() == "gpu" else "cpu"
        calls.write(
            end=True,
            failure=failure,
            findings=_findings(programs.programs, device),
            generators=[made.line for made in watch.made]
            + [state.unseeded_use for state in watch.states.values() if state.unseeded_use],
        )
    sys.exit(0 if failure is None else 1)


def _findings(recorded: Sequence[_programs.Program], device: str) -> dict[str, list[str]]:
    """Returns what varies, or is unknown, in each function, on the device that ran it."""
    varying: dict[str, list[str]] = {}
    for program in recorded:
        judged = _programs.judged([program], device)
        lines = [
            f"{finding.primitive} at {finding.source}"
            for finding, _ in judged.findings
            if finding.verdict in ("varies", "unknown")
        ]
        if lines:
            known = varying.setdefault(program.lowered.function, [])
            known += [line for line in lines if line not in known]
    return varying
