"""Programs of two processes, which JAX's distributed engine joins on this machine."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax

import impl

#: Seconds after which the processes are ended: one that waits for another one waits long.
LIMIT = 240
#: The variables that tell a process its number and the port.
_PORT, _NUMBER = "SAMEBITS_TEST_PORT", "SAMEBITS_TEST_PROCESS"


def join():
    """Joins this process with the other one, before JAX is used. ``run`` has started both."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"127.0.0.1:{os.environ[_PORT]}"
    jax.distributed.initialize(address, 2, int(os.environ[_NUMBER]))


def run(module):
    """Runs a module in two processes of one device each, and returns what each has printed.

    Args:
        module: The name of the module, which calls ``join``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one_device = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=1"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=Path(impl.__file__).parents[1],
            env={
                **os.environ,
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": one_device.strip(),
                _PORT: str(port),
                _NUMBER: str(number),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (out, err) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, out + err
    return [out for out, _ in outputs]
