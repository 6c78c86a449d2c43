"""A stand-in for a worker process. It starts fast; the name of a test selects what it does.

Run as a script, this file is the process. Imported, it gives the settings that start the process.
"""

import dataclasses
import json
import os
import signal
import sys
import time

#: The file that a test named "waits" waits for.
GO = os.environ.get("SAMEBITS_TEST_GO", "")
PARENT = os.getppid()
#: The outcome of a test, by the first word of its name.
OUTCOMES = {"fails": "failed", "passes": "passed", "shifts": "passed"}
ABOUT = {
    "row": "R0001",
    "op": "index_add",
    "direction": "forward",
    "device": "cuda",
    "profile": "complete",
    "sample": "many",
    "behaviour": "deterministic",
    "check": "bits",
}


def act(test, number, write):
    """Does what the first word of a test's name selects."""
    word = test.partition(" ")[0]
    write({"event": "started", "test": test, "about": ABOUT})
    if word == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    while word == "hangs" and os.getppid() == PARENT:
        time.sleep(0.05)
    while word == "waits" and not os.path.exists(GO):  # noqa: PTH110  # pathlib starts slowly
        time.sleep(0.05)
    if word == "exits":
        sys.exit(3)
    sha = ("0" if word != "shifts" or number == 1 else "1") * 64
    record = {**ABOUT, "outcome": OUTCOMES.get(word, "passed"), "seconds": 0.5, "sha256": sha}
    record |= {"lowering": "native", "evidence": "hardware", "detail": None}
    text = "why it fails\nE   in short\nand at length" if word == "fails" else None
    line = {"event": "finished", "round": number, "test": test, "outcome": record["outcome"]}
    write({**line, "records": [record], "text": text})
    if word == "loses":
        os._exit(70)


def main(files, number):
    with open(f"{files}.json", encoding="utf-8") as file:  # noqa: PTH123  # as above
        tests = json.load(file)
    if "never starts" in tests:
        print("no such device")
        sys.exit(4)
    with open(f"{files}.jsonl", "a", encoding="utf-8") as file:  # noqa: PTH123  # as above

        def write(line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        for test in tests:
            act(test, number, write)


def scripted_settings(processes):
    """Returns settings whose workers run this file."""
    from conformance.hardware.worker_process import (  # noqa: PLC0415  # the process needs no JAX
        WorkerSettings,
    )

    @dataclasses.dataclass(frozen=True)
    class ScriptedSettings(WorkerSettings):
        def command(self, job, files):
            return [sys.executable, __file__, str(files), str(job.round)]

    return ScriptedSettings((), None, None, processes)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
