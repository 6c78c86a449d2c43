"""PyTorch's functions by the names that rows have, called as ``impl``'s are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # as everyone calls it
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

#: Called as they are.
_SAME = (
    "argsort", "bmm", "cummax", "cummin", "cumprod", "cumsum", "histc", "kthvalue",
    "logcumsumexp", "median", "mm", "mode", "mv", "nanmedian", "repeat_interleave", "topk",
    "sparse.mm",
)  # fmt: skip
_SAME_NN = (
    *(f"{kind}_pool{dims}d" for kind in ("adaptive_avg", "adaptive_max", "avg", "max")
      for dims in (1, 2, 3)),
    *(f"conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3)),
    "lp_pool1d", "lp_pool2d", "affine_grid", "embedding", "embedding_bag",
    "grid_sample", "interpolate", "pad",
)  # fmt: skip
#: Whose index arrays have to be of int64: op, then the places of these arguments.
_LONG: Mapping[str, tuple[int, ...]] = {
    "gather": (2,), "index_add": (2,), "index_copy": (2,), "index_reduce": (2,),
    "index_select": (2,), "scatter": (2,), "scatter_add": (2,), "scatter_reduce": (2,),
    "take": (1,), "take_along_dim": (1,),
}  # fmt: skip
_LONG_NN: Mapping[str, tuple[int, ...]] = {
    "cross_entropy": (1,), "ctc_loss": (1,), "nll_loss": (1,),
    "max_unpool1d": (1,), "max_unpool2d": (1,), "max_unpool3d": (1,),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A quantized tensor whose codes are an attribute, as those of ``impl``'s arrays are."""

    tensor: Any

    @property
    def int_repr(self) -> Any:
        """The codes."""
        return self.tensor.int_repr()


def table(into: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Every op that PyTorch has, by dotted name.

    Args:
        into: Makes a tensor of a NumPy array.
    """
    found: dict[str, Callable[..., Any]] = {name: _torch(name) for name in _SAME}
    found |= {name: _long(_torch(name), places) for name, places in _LONG.items()}
    nn: dict[str, Callable[..., Any]] = {name: getattr(F, name) for name in _SAME_NN}
    nn |= {name: _long(getattr(F, name), places) for name, places in _LONG_NN.items()}
    nn |= {f"fractional_max_pool{dims}d": _fractional(dims) for dims in (2, 3)}
    found |= {f"nn.functional.{name}": function for name, function in nn.items()}
    found |= {f"nn.{name}": _recurrent(name) for name in ("rnn_tanh", "rnn_relu", "lstm", "gru")}
    return (
        found
        | _memory(into)
        | {
            "bincount": _bincount,
            "getitem": lambda x, indices: x[_index(indices)],
            "index_put": _index_put,
            "put": lambda x, index, source, accumulate=False: x.clone().put_(
                index.long(), source, accumulate
            ),
            "quantize_per_tensor": lambda *given: Quantized(torch.quantize_per_tensor(*given)),
            "resize": _resize,
            "sort": lambda x, dim=-1, descending=False, stable=False: torch.sort(
                x, dim=dim, descending=descending, stable=stable
            ),
            "sparse_coo": _sparse_coo,
            "sparse_csr": lambda parts, shape: torch.sparse_csr_tensor(
                parts[2], parts[1], parts[0], shape
            ),
        }
    )


def _torch(name: str) -> Callable[..., Any]:
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]  # PyTorch's are functions


def _long(function: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        return function(
            *(_wide(each) if place in places else each for place, each in enumerate(given)),
            **named,
        )

    return call


def _wide(indices: Any) -> Any:
    """Index arrays as int64; what stands in their place and is none stays as it is."""
    return indices.long() if indices.dtype == torch.int32 else indices


def _memory(into: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Ops that make tensors, on the device of ``into``, with dtypes of NumPy's."""

    def made(maker: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, dtype: Any) -> Any:
            like = into(np.zeros((), dtype))
            return maker(*given, dtype=like.dtype, device=like.device)

        return call

    names = ("empty", "empty_permuted", "empty_strided")
    return {name: made(getattr(torch, name)) for name in names} | {
        "empty_like": lambda x: torch.empty_like(into(x)),
        "new_empty": lambda x, size: into(x).new_empty(size),
    }


def _bincount(input: Any, weights: Any = None, *, length: int) -> Any:
    return torch.bincount(input, weights, minlength=length)


def _index(indices: Any) -> Any:
    """Index arrays in a list are one for each dimension, as in a tuple."""
    return tuple(indices) if isinstance(indices, list) else indices


def _index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if isinstance(input, Quantized):
        return Quantized(torch.index_put(input.tensor, indices, values, accumulate))
    if any(index is None for index in indices):
        # torch.index_put takes no None; the op below it does, as in `x[...] = v`.
        return torch.ops.aten.index_put(input, list(indices), values, accumulate)
    return torch.index_put(input, indices, values, accumulate)


def _resize(input: Any, size: Sequence[int]) -> Any:
    if isinstance(input, Quantized):
        return Quantized(input.tensor.clone().resize_(size))
    return input.clone().resize_(size)


def _fractional(dims: int) -> Callable[..., Any]:
    pool = getattr(F, f"fractional_max_pool{dims}d")

    def call(
        input: Any, kernel: Any, size: Any, ratio: Any, return_indices: bool, samples: Any
    ) -> Any:
        return pool(input, kernel, size, ratio, return_indices, _random_samples=samples)

    return call


def _recurrent(name: str) -> Callable[..., Any]:
    function = getattr(torch, name)

    def call(
        input: Any, hx: Any, params: Any, *given: Any, lengths: Sequence[int] | None = None
    ) -> Any:
        if lengths is None:
            return function(input, hx, params, *given)
        packed = pack_padded_sequence(input, torch.tensor(lengths), enforce_sorted=False)
        states = hx if isinstance(hx, tuple) else (hx,)
        states = tuple(state.index_select(1, packed.sorted_indices) for state in states)
        hx = states if isinstance(hx, tuple) else states[0]
        # Packed calls have no `batch_first`, which is the last one.
        data, *rest = function(packed.data, packed.batch_sizes, hx, params, *given[:-1])
        out, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(input))
        return out, *rest

    return call


def _sparse_coo(parts: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """From data [..., elements] and places [..., elements, 2], with or without one batch."""
    data, places = parts
    if len(shape) == 2:
        return torch.sparse_coo_tensor(places.T, data, shape, check_invariants=False)
    batch = torch.arange(len(data), device=data.device).repeat_interleave(data.shape[1])
    flat = torch.cat([batch[None], places.reshape(-1, 2).T])
    return torch.sparse_coo_tensor(flat, data.reshape(-1), shape, check_invariants=False)
