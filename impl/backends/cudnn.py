"""Switches of how programs for a GPU choose algorithms.

Both act on the convolutions of ``impl``, and by way of ``impl.jit`` and ``impl.compile_options`` on
whole programs. What each does is in the spec's rows of kind ``backend``.

Attributes:
    benchmark (bool): Whether algorithms are picked by timing them. False by default, as in
        PyTorch; JAX itself times them. Process-wide.
    deterministic (bool): Whether convolutions take only algorithms that give the same bits in each
        run. False by default; the mode has them do so whatever it says. Process-wide, and part of
        JAX's jit key.
"""

from __future__ import annotations

import contextlib
import sys
import types

from impl._mode import switches as _switches

benchmark: bool  # the properties below; said here for type checkers
deterministic: bool


def flags(
    *, benchmark: bool = False, deterministic: bool = False
) -> contextlib.AbstractContextManager[None]:
    """A scope with its own switches, for this thread only.

    As in PyTorch, a switch that is not given is off inside. ``enabled``, ``benchmark_limit`` and
    ``allow_tf32`` of PyTorch's have no counterpart here.

    Args:
        benchmark: Whether algorithms are picked by timing them.
        deterministic: Whether convolutions take only algorithms that give the same bits each run.

    Raises:
        RuntimeError: An argument is not a bool.

    Source: ``torch.backends.cudnn.flags``.
    """
    return _switches.scope(cudnn_benchmark=benchmark, cudnn_deterministic=deterministic)


class _Settings(types.ModuleType):
    # A module attribute can only be checked on assignment by way of the module's class.
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
