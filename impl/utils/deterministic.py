"""A setting of the mode, with the name that PyTorch gives it.

Attributes:
    fill_uninitialized_memory (bool): Whether fresh memory is filled with a known value while the
        mode is on: NaN for floating-point and complex dtypes, the greatest value for integers,
        True for bool. True by default. Process-wide, and part of the key of JAX's jit caches.
"""

from __future__ import annotations

import sys

from impl._core.modules import SettingsModule as _SettingsModule
from impl._mode import modes as _mode

fill_uninitialized_memory: bool  # The property below, declared for type checkers.


class _Settings(_SettingsModule):
    # A property of the module's class, so that an assignment to the module's attribute is checked.
    @property
    def fill_uninitialized_memory(self) -> bool:
        return _mode.fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: bool) -> None:
        _mode.set_fill_uninitialized_memory(value)


sys.modules[__name__].__class__ = _Settings
