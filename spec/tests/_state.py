"""Restores the global state of Python after each test, so that tests depend on no order.

A conftest activates it: ``from spec.tests._state import restored_state as restored_state``.
"""

import contextlib
import os
import random
import sys
import warnings
from pathlib import Path

import pytest


def _environment():
    # pytest itself sets this one in each phase of a test.
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@contextlib.contextmanager
def python():
    """Restores the environment, the folder, the path, the arguments, the filters, the generator."""
    environment, folder = _environment(), Path.cwd()
    path, arguments = list(sys.path), list(sys.argv)
    filters, generator = list(warnings.filters), random.getstate()
    try:
        yield
    finally:
        for name in _environment().keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        os.chdir(folder)
        sys.path[:], sys.argv[:] = path, arguments
        if list(warnings.filters) != filters:
            warnings.resetwarnings()  # It makes Python forget what it looked up in the filters.
            warnings.filters[:] = filters
        random.setstate(generator)


@pytest.fixture(autouse=True)
def restored_state():
    with python():
        yield
