"""PyTorch, as it is installed.

It is tried by ``python -m conformance run --namespace conformance.adapters.torch``. It is one
release, whatever profile it is asked for; ``conformance.documents`` says what a release is expected
to do under the profile of another. CUDA is tried where PyTorch sees it, by the same code; that has
not been run on hardware.
"""

from __future__ import annotations

import contextlib
import types
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

#: What PyTorch says once of its own plans, which is no alert.
_ASIDES = (
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
        """A tensor of the same dtype, on the device that holds."""
        array = np.asarray(array)
        if array.dtype == ml_dtypes.bfloat16:
            # PyTorch does not read this dtype of NumPy's; the bits are the same.
            made = torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        else:
            made = torch.from_numpy(np.array(array, order="C"))
        return made.reshape(array.shape).to(self.device)

    def out(self, array: Any) -> Any:
        """What a tensor holds."""
        found = array.detach().resolve_conj().cpu()
        if found.is_sparse:
            found = found.to_dense()
        if found.dtype == torch.bfloat16:
            return found.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return found.numpy()

    def gradient(self, function: Callable[[Any], Any], at: Any, cotangent: Any) -> Any:
        """By ``torch.autograd.grad``; of complex numbers it gives the conjugate of JAX's."""
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
        """As the base does, without what PyTorch says of its plans."""
        run = super().prepare(function, inputs, key, exact=exact)

        def quietly() -> Any:
            with warnings.catch_warnings():
                for aside in _ASIDES:
                    warnings.filterwarnings("ignore", aside, UserWarning)
                return run()

        return quietly

    def versions(self) -> Mapping[str, str]:
        """That of torch, and of CUDA where there is one."""
        cuda = {"cuda": torch.version.cuda} if torch.cuda.is_available() else {}
        return {"torch": torch.__version__, **cuda}

    def devices(self) -> Sequence[str]:
        """The GPU first, where PyTorch sees one."""
        return ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)


@contextlib.contextmanager
def deterministic(
    mode: bool = True,
    *,
    warn_only: bool = False,
    profile: str | None = None,  # noqa: ARG001  # it is one release, whatever is asked for
) -> Iterator[None]:
    """A scope with PyTorch's mode on or off, for the whole process."""
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


def _namespace(adapter: Torch) -> Any:
    """PyTorch's functions by the names that rows have."""
    root = types.SimpleNamespace(
        use_deterministic_algorithms=torch.use_deterministic_algorithms,
        are_deterministic_algorithms_enabled=torch.are_deterministic_algorithms_enabled,
        deterministic=deterministic,
        utils=torch.utils,
        quint8=torch.quint8,
        qint8=torch.qint8,
    )
    for op, function in _torch_ops.table(adapter.into).items():
        *path, last = op.split(".")
        space = root
        for name in path:
            if not hasattr(space, name):
                setattr(space, name, types.SimpleNamespace())
            space = getattr(space, name)
        setattr(space, last, function)
    return root


IMPLEMENTATION = Torch()
