"""Settings of the mode: ``impl.utils.deterministic.fill_uninitialized_memory``.

Attributes:
    fill_uninitialized_memory (bool): Whether, with the mode on, fresh memory is filled with a
        known value: NaN for floating-point and complex dtypes, the largest value for integers,
        True for bool. True by default. Process-wide, and part of JAX's jit key.
"""

from __future__ import annotations

import sys
import types

from impl._mode import modes as _mode

fill_uninitialized_memory: bool  # the property below; said here for type checkers


class _Settings(types.ModuleType):
    # A module attribute can only be checked on assignment by way of the module's class.
    @property
    def fill_uninitialized_memory(self) -> bool:
        return _mode.fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: bool) -> None:
        _mode.set_fill_uninitialized_memory(value)


sys.modules[__name__].__class__ = _Settings
