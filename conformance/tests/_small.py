"""A small adapter of NumPy's functions, which works, and from which tests make broken ones."""

import contextlib
import sys
import types

import numpy as np

from conformance.adapters.base import Adapter


class Small(Adapter):
    name = "small"

    def __init__(self):
        self.on = False
        self.namespace = types.SimpleNamespace(
            cumsum=np.cumsum,
            use_deterministic_algorithms=lambda mode: setattr(self, "on", mode),
            are_deterministic_algorithms_enabled=lambda: self.on,
            deterministic=self.deterministic,
        )

    @contextlib.contextmanager
    def deterministic(self, mode=True, *, warn_only=False, profile=None):  # noqa: ARG002
        before, self.on = self.on, mode
        try:
            yield
        finally:
            self.on = before

    def into(self, array):
        return np.array(array)

    def gradient(self, function, at, cotangent):
        """Returns the gradient of a linear function, from its values for unit vectors."""
        units = np.eye(at.size, dtype=at.dtype).reshape(-1, *at.shape)
        return np.array([np.sum(cotangent * function(unit)) for unit in units]).reshape(at.shape)

    def versions(self):
        return {"small": "1.2"}


#: For tests that run the suite in another process, for which this module is a namespace.
IMPLEMENTATION = Small()


def offered(monkeypatch, implementation):
    """Returns the name of a module that offers an implementation while a test runs."""
    module = types.ModuleType("module_of_this_test")
    module.IMPLEMENTATION = implementation
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__
