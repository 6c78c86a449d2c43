"""Tests that need eight devices, which run in a process of their own."""

from impl.tests.support import processes


def run(*files, marks=""):
    """Runs the marked tests of files where the CPU stands for eight devices; each has to pass."""
    # The number of devices cannot change once JAX has been used, so the tests have a process.
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
    options += ["-m", marks]
    process = processes.run("-m", "pytest", *options, *files, devices=8)
    assert process.returncode == 0, process.stdout + process.stderr
