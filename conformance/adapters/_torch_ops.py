"""PyTorch's ops that have another name, or other arguments, than ``impl``'s functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # as everyone calls it
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import spec

#: The names of arguments that are indices.
_NAMES = ("index", "indices")
#: Functions whose second argument, an index, is of int64 alone.
_LONG_NN = ("cross_entropy", "ctc_loss", "nll_loss", *(f"max_unpool{dims}d" for dims in (1, 2, 3)))


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A quantized tensor that has its codes as an attribute, as ``impl``'s arrays do."""

    tensor: Any

    @property
    def int_repr(self) -> Any:
        return self.tensor.int_repr()


def table(into: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Returns the ops that differ, by dotted name, with the arguments of ``impl``'s functions."""
    names = {row.op for row in spec.load().rows}
    ops = {name: _long(getattr(torch, name), at) for name in names if (at := _indices_of(name))}
    nn = {name: _long(getattr(F, name), {1}) for name in _LONG_NN}
    nn |= {f"fractional_max_pool{dims}d": _fractional(dims) for dims in (2, 3)}
    nn |= {name: _copying(getattr(F, name)) for name in ("embedding", "embedding_bag")}
    ops |= {f"nn.functional.{name}": function for name, function in nn.items()}
    ops |= {f"nn.{name}": _recurrent(name) for name in ("rnn_tanh", "rnn_relu", "lstm", "gru")}
    return (
        ops
        | _memory(into)
        | {
            "bincount": _bincount,
            "cumprod": _converting(torch.cumprod, into),
            "cumsum": _converting(torch.cumsum, into),
            "getitem": lambda x, indices: x[_index(indices)],
            "index_put": _index_put,
            "quantize_per_tensor": lambda *args: Quantized(torch.quantize_per_tensor(*args)),
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


def _indices_of(op: str) -> set[int]:
    """Returns the positions of the indices, which are of int64 alone, in a function of PyTorch."""
    packet = getattr(torch.ops.aten, op, None) if hasattr(torch, op) else None
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet else []
    arguments = [enumerate(overload._schema.arguments) for overload in overloads]  # noqa: SLF001  # no public one
    return {at for each in arguments for at, argument in each if argument.name in _NAMES}


def _long(function: Callable[..., Any], positions: set[int]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        return function(
            *(_as_int64(arg) if index in positions else arg for index, arg in enumerate(args)),
            **options,
        )

    return call


def _as_int64(tensor: Any) -> Any:
    """Returns an index of int32 as int64. Other arguments stay, which PyTorch may refuse."""
    return tensor.long() if getattr(tensor, "dtype", None) == torch.int32 else tensor


def _converting(function: Callable[..., Any], into: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns a running sum or product that takes a dtype of NumPy."""

    def call(*args: Any, dtype: Any = None) -> Any:
        return function(*args, dtype=None if dtype is None else into(np.zeros((), dtype)).dtype)

    return call


def _memory(into: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Returns ops that make tensors on the device of ``into``, from dtypes of NumPy."""

    def with_numpy_dtype(maker: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, dtype: Any) -> Any:
            like = into(np.zeros((), dtype))
            return maker(*args, dtype=like.dtype, device=like.device)

        return call

    names = ("empty", "empty_permuted", "empty_strided")
    return {name: with_numpy_dtype(getattr(torch, name)) for name in names} | {
        "empty_like": lambda x: torch.empty_like(into(x)),
        "new_empty": lambda x, size: into(x).new_empty(size),
        "new_empty_strided": lambda x, *layout: into(x).new_empty_strided(*layout),
    }


def _bincount(
    input: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None
) -> Any:
    return torch.bincount(input, weights, minlength if length is None else length)


def _copying(lookup: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a lookup that leaves its table; PyTorch writes scaled rows there."""
    return lambda index, weight, *args, **options: lookup(index, weight * 1, *args, **options)


def _index(indices: Any) -> Any:
    """Returns an index for each dimension, of a list as of a tuple."""
    return tuple(indices) if isinstance(indices, list) else indices


def _index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if isinstance(input, Quantized):
        return Quantized(torch.index_put(input.tensor, indices, values, accumulate))
    if any(index is None for index in indices):
        # torch.index_put takes no None. The operator that `x[...] = v` calls does.
        return torch.ops.aten.index_put(input, list(indices), values, accumulate)
    return torch.index_put(input, indices, values, accumulate)


def _resize(input: Any, size: Sequence[int]) -> Any:
    if isinstance(input, Quantized):
        return Quantized(input.tensor.clone().resize_(size))
    return input.clone().resize_(size)


def _fractional(dims: int) -> Callable[..., Any]:
    pool = getattr(F, f"fractional_max_pool{dims}d")

    def call(*args: Any, **options: Any) -> Any:
        names = ("input", "kernel_size", "output_size", "output_ratio", "return_indices")
        return pool(**dict(zip((*names, "_random_samples"), args, strict=False)), **options)

    return call


def _recurrent(name: str) -> Callable[..., Any]:
    function = getattr(torch, name)

    def call(
        input: Any, hx: Any, params: Any, *args: Any, lengths: Sequence[int] | None = None
    ) -> Any:
        if lengths is None:
            return function(input, hx, params, *args)
        # A packed call has no `batch_first`, which is the last argument.
        *others, first = args
        packed = pack_padded_sequence(input, torch.tensor(lengths), first, enforce_sorted=False)
        states = hx if isinstance(hx, tuple) else (hx,)
        states = tuple(state.index_select(1, packed.sorted_indices) for state in states)
        hx = states if isinstance(hx, tuple) else states[0]
        data, *rest = function(packed.data, packed.batch_sizes, hx, params, *others)
        out, _ = pad_packed_sequence(
            packed._replace(data=data), first, total_length=input.shape[first]
        )
        return out, *(state.index_select(1, packed.unsorted_indices) for state in rest)

    return call


def _sparse_coo(parts: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Returns a sparse tensor with at most one batch dimension.

    The parts are its elements [..., elements], and their rows and columns [..., elements, 2].
    """
    data, positions = parts[0], torch.as_tensor(parts[1])
    if len(shape) == 2:
        return torch.sparse_coo_tensor(positions.T, data, shape, check_invariants=False)
    batch = torch.arange(len(data), device=data.device).repeat_interleave(data.shape[1])
    flat = torch.cat([batch[None], positions.reshape(-1, 2).T])
    return torch.sparse_coo_tensor(flat, data.reshape(-1), shape, check_invariants=False)
