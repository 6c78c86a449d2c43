"""PyTorch as a peer of the benchmarks, on the device on which JAX computes.

PyTorch's deterministic mode and its number of threads are global. They are set inside a context
and restored at its end.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conformance.benchmarks.timing import Side, on_cpu, threads


class TorchPeer:
    """PyTorch, on one device.

    Args:
        device: PyTorch's name of the device.

    Attributes:
        torch: The module.
    """

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415  # it is optional

        self.torch: Any = torch
        self._device = device
        self._synchronize: Callable[[], None] = getattr(torch, device).synchronize

    def tensors(self, arrays: Sequence[Any], *, requires_grad: bool = False) -> list[Any]:
        """Returns tensors with the values of NumPy arrays, on the device."""
        tensors = [self.torch.from_numpy(array).to(self._device) for array in arrays]
        return [tensor.requires_grad_() for tensor in tensors] if requires_grad else tensors

    def side(self, function: Callable[[], Any]) -> Side:
        """Returns a side that runs a function and waits for the device."""

        def run() -> object:
            result = function()
            self._synchronize()
            return result

        return run

    def forward_side(self, function: Callable[[], Any]) -> Side:
        """Returns a side that runs a function without recording gradients."""

        def forward() -> Any:
            with self.torch.no_grad():
                return function()

        return self.side(forward)

    def backward_side(self, output: Any, inputs: Sequence[Any], cotangent: Any) -> Side:
        """Returns a side that computes the gradients of a tensor, each time from its one graph."""
        grad = self.torch.autograd.grad
        return self.side(lambda: grad(output, inputs, cotangent, retain_graph=True))

    def forward_and_backward_side(self, function: Callable[[], Any], inputs: Sequence[Any]) -> Side:
        """Returns a side that computes a scalar and its gradients."""
        return self.side(lambda: self.torch.autograd.grad(function(), inputs))


@contextlib.contextmanager
def torch_peer(*, deterministic_on_gpu: bool = True) -> Iterator[TorchPeer | None]:
    """Gives PyTorch in its deterministic mode with as many threads as JAX; None if it is absent.

    Args:
        deterministic_on_gpu: False if PyTorch has no deterministic implementation of some ops of
            the benchmark on a GPU. There its mode is off then.
    """
    if importlib.util.find_spec("torch") is None:
        yield None
        return
    peer = TorchPeer("cpu" if on_cpu() else "cuda")
    torch = peer.torch
    thread_count = torch.get_num_threads()
    mode = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        torch.set_num_threads(threads())
        torch.use_deterministic_algorithms(on_cpu() or deterministic_on_gpu)
        yield peer
    finally:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
        torch.set_num_threads(thread_count)
