"""Fails a test that leaves something behind."""

import gc
import importlib.util
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

#: Workers need the extra "data".
collect_ignore_glob = [] if importlib.util.find_spec("cloudpickle") else ["test_*.py"]


def _links(folder):
    for link in folder.iterdir():
        try:
            yield link.readlink().as_posix()
        except FileNotFoundError:  # The descriptor that reads the folder.
            continue


def _resources():
    """The processes, threads, sockets and shared memory of this process."""
    shared_memory, descriptors = Path("/dev/shm"), Path(f"/proc/{os.getpid()}/fd")
    resources = {*multiprocessing.active_children(), *threading.enumerate()}
    if shared_memory.exists():  # Linux
        resources |= {path for path in shared_memory.iterdir() if path.name.startswith("psm_")}
    if descriptors.exists():  # Linux
        resources |= {link for link in _links(descriptors) if link.startswith("socket:")}
    return resources


@pytest.fixture(autouse=True)
def _nothing_is_left():
    resources = _resources()
    yield
    if _resources() - resources:
        gc.collect()  # An exception that a test has caught may keep an iterator.
    assert _resources() - resources == set()
