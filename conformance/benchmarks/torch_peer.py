"""PyTorch as a peer of the benchmarks, on the device on which JAX computes.

PyTorch's deterministic mode and its number of threads are global. They are set inside a context
and restored at its end.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from conformance.benchmarks.measurements import on_cpu, threads

#: A function that runs a program once, and returns when the result is complete.
Side: TypeAlias = Callable[[], object]
#: The sides: PyTorch in its deterministic mode and, on a GPU, with the mode off. On a CPU the mode
#: changes little.
DETERMINISTIC = "PyTorch, deterministic"
MODE_OFF = "PyTorch"


class RefusedError(Exception):
    """A side refuses a case, as PyTorch's deterministic mode does on a GPU."""


class TorchPeer:
    """PyTorch, on one device."""

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415  # it is optional

        self.torch: Any = torch
        self._device = device
        self._synchronize: Callable[[], None] = getattr(torch, device).synchronize

    def tensors(self, arrays: Sequence[Any], wrt: Container[int] = ()) -> list[Any]:
        """Returns tensors with the values of NumPy arrays; those at ``wrt`` have gradients."""
        tensors = [self.torch.from_numpy(array).to(self._device) for array in arrays]
        return [x.requires_grad_() if i in wrt else x for i, x in enumerate(tensors)]

    def sides(self, function: Callable[[], Any]) -> Mapping[str, Side]:
        """Returns the sides that run a function and wait for the device, by name."""
        modes = {MODE_OFF: False, DETERMINISTIC: True}
        if self._device == "cpu":
            del modes[MODE_OFF]
        return {name: self._side(function, mode=mode) for name, mode in modes.items()}

    def _side(self, function: Callable[[], Any], *, mode: bool) -> Side:
        def run() -> object:
            self.torch.use_deterministic_algorithms(mode)
            try:
                result = function()
            except RuntimeError as error:
                if "deterministic" not in str(error):
                    raise
                raise RefusedError(str(error)) from error
            self._synchronize()
            return result

        return run

    def forward_sides(self, function: Callable[[], Any]) -> Mapping[str, Side]:
        """Returns sides that run a function without recording gradients."""

        def forward() -> Any:
            with self.torch.no_grad():
                return function()

        return self.sides(forward)

    def backward_sides(self, output: Any, inputs: Sequence[Any]) -> Mapping[str, Side]:
        """Returns sides that compute gradients of a tensor, each time from its one graph.

        The cotangent is the tensor itself.
        """
        grad, cotangent = self.torch.autograd.grad, output.detach().clone()
        return self.sides(lambda: grad(output, inputs, cotangent, retain_graph=True))


@contextlib.contextmanager
def torch_peer() -> Iterator[TorchPeer | None]:
    """Gives PyTorch with as many threads as JAX, and restores its state; None if it is absent.

    Inside, its mode is off until a side sets it.
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
        torch.use_deterministic_algorithms(mode=False)
        yield peer
    finally:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
        torch.set_num_threads(thread_count)
