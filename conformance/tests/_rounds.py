"""Processes that stand in for those of a run: quick to start, and they do what a test's name says.

Run as a script this is such a process; imported it is what starts them.
"""

import dataclasses
import json
import os
import signal
import sys
import time

#: The file that a test waits for, and what tests say of themselves.
GO = os.environ.get("SAMEBITS_TEST_GO", "")
PARENT = os.getppid()
TOLD = {"fails": "failed", "passes": "passed", "shifts": "passed"}


def act(test, number, write):
    """Does what a test does of which the name begins with a word."""
    word = test.partition(" ")[0]
    write({"event": "started", "test": test, "about": ABOUT})
    if word == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    while word == "hangs" and os.getppid() == PARENT:
        time.sleep(0.05)
    while word == "waits" and not os.path.exists(GO):  # noqa: PTH110  # nothing is imported
        time.sleep(0.05)
    if word == "exits":
        sys.exit(3)
    sha = ("0" if word != "shifts" or number == 1 else "1") * 64
    record = {**ABOUT, "outcome": TOLD.get(word, "passed"), "seconds": 0.0, "sha256": sha}
    record |= {"lowering": "native", "evidence": "hardware", "detail": None}
    text = "why it fails\nE   in short\nand at length" if word == "fails" else None
    line = {"event": "finished", "round": number, "test": test, "outcome": record["outcome"]}
    write({**line, "records": [record], "text": text})
    if word == "loses":
        os._exit(70)


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


def main(files, number):
    with open(f"{files}.json", encoding="utf-8") as file:  # noqa: PTH123  # nothing is imported
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


def scripted(processes):
    """Settings whose processes are these."""
    from conformance.rounds.processes import Settings  # noqa: PLC0415  # the processes do without

    @dataclasses.dataclass(frozen=True)
    class Scripted(Settings):
        def command(self, job, files):
            return [sys.executable, __file__, str(files), str(job.round)]

    return Scripted((), None, None, processes)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
