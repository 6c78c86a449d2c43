"""A worker's command and environment."""

from pathlib import Path

from conformance.hardware.jobs import Job
from conformance.hardware.worker_process import WorkerSettings


def test_workers_share_the_device_and_no_programs(monkeypatch):
    for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(name, raising=False)
    settings = WorkerSettings(("-k", "x"), 100, 3, 6)
    environment = settings.environment()
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.15"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert environment["JAX_ENABLE_COMPILATION_CACHE"] == "false"
    assert environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    environment = settings.environment()
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in environment
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"
    first = settings.command(Job(1, ("a",)), Path("f"))
    later = settings.command(Job(2, ("a",)), Path("f"))
    assert {"--background-work", "--repeats=100", "--round=1", "-k", "x"} <= set(first)
    assert {"--repeats=3", "--round=2"} <= set(later)
    assert "--background-work" not in later
