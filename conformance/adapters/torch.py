"""The adapter of the PyTorch that is installed.

``python -m conformance run --namespace conformance.adapters.torch`` tests it. The suite sets a
profile, but the installed PyTorch stays one release: ``conformance.suite.releases`` states what a
release is expected to do under the profile of another. The suite also tests CUDA where PyTorch sees
a GPU, by the same code; that has not been run on hardware.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

try:
    import torch
except ImportError as error:
    raise ImportError(
        "the adapter of PyTorch needs PyTorch: python -m pip install torch"
    ) from error

from conformance.adapters import _torch_ops
from conformance.adapters.base import Adapter

#: Warnings that PyTorch gives once about its own plans. They are not alerts.
_PLANS = (
    ".*quantized tensor creation functions.*",
    ".*Sparse CSR tensor support is in beta.*",
    ".*Sparse invariant checks are implicitly disabled.*",
    ".*index_reduce.. is in beta.*",
    ".*The reduce argument of torch.scatter with Tensor src is deprecated.*",
)


class Torch(Adapter):
    """The PyTorch of this environment."""

    name = "torch"
    release = ".".join(torch.__version__.split(".")[:2])
    expectations = Path(__file__).with_name("torch-expectations.toml")

    def __init__(self) -> None:
        self.namespace = _namespace(self)

    def into(self, array: Any) -> Any:
        array = np.asarray(array)
        if array.dtype == ml_dtypes.bfloat16:
            # PyTorch does not read the bfloat16 of ml_dtypes, so the bits pass as integers.
            tensor = torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        else:
            tensor = torch.from_numpy(np.array(array, order="C"))
        return tensor.reshape(array.shape).to(self.device)

    def out(self, array: Any) -> Any:
        tensor = array.detach().resolve_conj().cpu()
        if tensor.is_sparse:
            tensor = tensor.to_dense()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()

    def gradient(self, function: Callable[[Any], Any], at: Any, cotangent: Any) -> Any:
        """Returns the gradient of a function at a tensor.

        PyTorch's gradient with respect to a complex number is the conjugate of JAX's.
        """
        at = at.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(function(at), at, cotangent.conj())
        return gradient.conj()

    def prepare(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Any = None,
        *,
        exact: bool = True,
    ) -> Callable[[], Any]:
        """Returns a function that runs a call, without PyTorch's warnings about its plans."""
        run = super().prepare(function, inputs, key, exact=exact)

        def run_quietly() -> Any:
            with warnings.catch_warnings():
                for message in _PLANS:
                    warnings.filterwarnings("ignore", message, UserWarning)
                return run()

        return run_quietly

    def versions(self) -> Mapping[str, str]:
        cuda = {"cuda": torch.version.cuda} if torch.cuda.is_available() else {}
        return {"torch": torch.__version__, **cuda}

    def devices(self) -> Sequence[str]:
        return ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)

    def hardware(self) -> Mapping[str, str]:
        if torch.cuda.is_available():
            return {"platform": "cuda", "device": torch.cuda.get_device_name()}
        return super().hardware()


@contextlib.contextmanager
def deterministic(
    mode: bool = True,
    *,
    warn_only: bool = False,
    profile: str | None = None,  # noqa: ARG001  # PyTorch is one release
) -> Iterator[None]:
    """Turns PyTorch's mode on or off for the whole process, while a scope is open."""
    mode_before = torch.are_deterministic_algorithms_enabled()
    warn_only_before = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode_before, warn_only=warn_only_before)


class _Space:
    """A namespace of ops: those that it is given, and else a module's own."""

    def __init__(self, module: Any, **ops: Any) -> None:
        self._module = module
        vars(self).update(ops)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _namespace(adapter: Torch) -> Any:
    """Returns PyTorch's functions by the dotted names of rows."""
    root = _Space(
        torch,
        use_deterministic_algorithms=torch.use_deterministic_algorithms,
        are_deterministic_algorithms_enabled=torch.are_deterministic_algorithms_enabled,
        deterministic=deterministic,
        nn=_Space(torch.nn, functional=_Space(torch.nn.functional)),
    )
    for op, function in _torch_ops.table(adapter.into).items():
        *path, last = op.split(".")
        space = functools.reduce(getattr, path, root)
        setattr(space, last, function)
    return root


IMPLEMENTATION = Torch()
