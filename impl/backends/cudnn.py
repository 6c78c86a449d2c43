"""Switches that choose how programs for a GPU pick their algorithms.

They affect programs that are compiled by ``impl.jit`` or with ``impl.compile_options``. The spec's
rows of the kind ``backend`` state the effect of each.

Attributes:
    benchmark (bool): Whether XLA may pick algorithms by timing them. False by default, as in
        PyTorch; plain JAX times them. Process-wide.
    deterministic (bool): Whether convolutions take only algorithms that give the same bits in each
        run. False by default; with the mode on they always do. Process-wide, and part of the key of
        JAX's jit caches.
"""

from __future__ import annotations

import contextlib
import sys

from impl._core.modules import SettingsModule as _SettingsModule
from impl._mode import switches as _switches

benchmark: bool  # The properties below, declared for type checkers.
deterministic: bool


def flags(
    *, benchmark: bool = False, deterministic: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Returns a scope with its own switches, for this thread only.

    As in PyTorch, a switch that is not given is off inside. PyTorch's arguments ``enabled``,
    ``benchmark_limit`` and ``allow_tf32`` do not exist here.

    Args:
        benchmark: Whether XLA may pick algorithms by timing them.
        deterministic: Whether convolutions take only algorithms that give the same bits each run.

    Returns:
        A context manager.

    Raises:
        RuntimeError: An argument is not a bool. Raised when the scope is entered.

    Source: ``torch.backends.cudnn.flags``.
    """
    return _switches.scope(cudnn_benchmark=benchmark, cudnn_deterministic=deterministic)


class _Settings(_SettingsModule):
    # A property of the module's class, so that an assignment to the module's attribute is checked.
    @property
    def benchmark(self) -> bool:
        return _switches.current().cudnn_benchmark

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        _switches.turn("cudnn_benchmark", value)

    @property
    def deterministic(self) -> bool:
        return _switches.current().cudnn_deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        _switches.turn("cudnn_deterministic", value)


sys.modules[__name__].__class__ = _Settings
