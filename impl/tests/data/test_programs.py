"""Programs with loaders whose workers start by "spawn": scripts, Ctrl-C, and a sudden end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import impl

pytest.importorskip("cloudpickle", reason="the extra 'data' is not installed")

#: Defines a data set and a function in the script itself. A large array is part of each batch.
START = """
import os, signal, sys, time
# A shell starts what runs in the background with Ctrl-C ignored, and processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    sys.modules["cloudpickle"] = None
elif os.path.exists("late"):
    time.sleep(0.5)
import numpy as np
import impl
from impl.utils.data import DataLoader

if os.path.exists("unguarded"):
    next(iter(DataLoader([1], num_workers=1)))

class Here:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 4:
            open("hangs", "w").close()
            time.sleep(1000)
        return Here.Sample(index)
    class Sample:
        def __init__(self, index):
            self.index, self.pid, self.array = index, os.getpid(), np.arange(100_000)

if __name__ == "__main__":
    assert impl.utils.data.default_collate([1, 2]).tolist() == [1, 2]
    assert impl.utils.data.get_worker_info() is None
    try:
        DataLoader([1, 2])
    except ImportError as error:
        print(error)
    del sys.modules["cloudpickle"]
    scale = 10
    iterator = iter(DataLoader(
        Here(), num_workers=1, collate_fn=lambda samples: (samples[0], scale), timeout=60
    ))
    sample, ten = next(iterator)
    print(type(sample) is Here.Sample, ten, sample.pid, flush=True)
"""

INTERRUPTED = """
    try:
        print("waits", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print(next(iterator)[0].pid, flush=True)
    open("unguarded", "w").close()
    try:
        next(iter(DataLoader([1], num_workers=1)))
    except RuntimeError as error:
        print(error)
    print("the program ends", file=sys.stderr, flush=True)
"""

#: One worker hangs when the main process is killed, and another has not yet imported the script.
KILLED = """
    next(iterator), next(iterator)  # Two batches ahead is the one that hangs.
    while not os.path.exists("hangs"):
        time.sleep(0.01)
    open("late", "w").close()
    later = iter(DataLoader([1], num_workers=1))
    print("started", flush=True)
    signal.pause()
"""


@pytest.fixture
def start(tmp_path):
    """Runs a script, and ends it if the test does not."""
    processes = []

    def run(source):
        script = tmp_path / "script.py"
        script.write_text(source)
        paths = [str(Path(impl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        process = subprocess.Popen(
            [sys.executable, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,
            text=True,
        )
        processes.append(process)
        assert "samebits[data]" in process.stdout.readline(), process.communicate()[1]
        defined_here, ten, worker = process.stdout.readline().split()
        assert (defined_here, ten) == ("True", "10")
        os.kill(int(worker), 0)
        return process, worker

    yield run
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def ended(process):
    """The output and the errors of a program, once all its processes have ended."""
    # Workers have the same pipes, which end when the last of them does.
    return process.communicate(timeout=100)


def test_a_program_that_is_interrupted_goes_on_and_ends_without_a_trace(start):
    main, worker = start(START + INTERRUPTED)
    assert main.stdout.readline() == "waits\n"
    os.killpg(main.pid, signal.SIGINT)  # As Ctrl-C does.
    output, errors = ended(main)
    assert main.returncode == 0
    pid, unguarded = output.splitlines()
    assert pid == worker
    guard = "must use a loader with workers under 'if __name__ == \"__main__\":'"
    assert "exited with status 1" in unguarded
    assert "It ended before it began: each worker imports the script, and a script" in unguarded
    assert guard in unguarded
    of_worker, of_main = errors.split("the program ends\n")
    assert "RuntimeError: DataLoader: a worker imports this script, and a script that" in of_worker
    assert guard in of_worker
    assert of_main == ""


def test_workers_end_when_the_main_process_is_killed(start):
    main, _ = start(START + KILLED)
    assert main.stdout.readline() == "started\n"
    main.kill()
    assert ended(main) == ("", "")
