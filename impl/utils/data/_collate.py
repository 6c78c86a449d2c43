"""Makes a batch of samples: NumPy arrays in the structure of a sample.

Source: ``torch.utils.data.default_collate`` and ``default_convert``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def default_collate(batch: Sequence[Any]) -> Any:
    """Makes one batch of a list of samples.

    - Arrays (NumPy's, JAX's and others that NumPy can read) and NumPy's numbers are stacked into a
      NumPy array [batch, …] of their dtype.
    - Floats become float64 [batch], integers int64, bools bool.
    - Strings and bytes stay as they are, in a list.
    - Mappings are collated key by key, named tuples field by field, other sequences position by
      position. A tuple becomes a list, as in PyTorch.

    Args:
        batch: One or more samples, all of one structure.

    Returns:
        The batch, in the structure of the first sample.

    Raises:
        RuntimeError: Arrays of different shapes, or sequences of different lengths.
        ValueError: An integer beyond int64.
        TypeError: A sample of another type, such as None.
        KeyError: A mapping lacks a key of the first mapping.
        IndexError: ``batch`` is empty.
    """
    if len(batch) == 0:
        raise IndexError("default_collate: the batch has no samples")
    first = batch[0]
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, bool | int | float) and not isinstance(first, np.generic):
        return _numbers(batch)
    if isinstance(first, np.generic) or hasattr(first, "__array__"):
        return _stacked(batch)
    if isinstance(first, Mapping):
        return _mapped(first, lambda key: default_collate([sample[key] for sample in batch]))
    if isinstance(first, Sequence):
        lengths = [len(sample) for sample in batch]
        if len(set(lengths)) > 1:
            raise RuntimeError(
                "default_collate: each sample should have as many elements as the first, "
                f"{lengths[0]}, but the samples have {lengths}; give a collate_fn that pads them"
            )
        return _listed(first, [default_collate(values) for values in zip(*batch, strict=True)])
    raise TypeError(_not_collated(type(first).__name__))


def default_convert(data: Any) -> Any:
    """Converts the arrays of a sample, for a loader with ``batch_size=None``.

    Arrays and NumPy's numbers become NumPy arrays, also inside mappings and sequences. A tuple
    becomes a list, as in PyTorch. A value of another type is returned unchanged.

    Args:
        data: The sample.

    Returns:
        The converted sample, of the same structure.
    """
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, np.generic) or hasattr(data, "__array__"):
        return data if isinstance(data, np.ndarray | np.str_ | np.bytes_) else np.asarray(data)
    if isinstance(data, Mapping):
        return _mapped(data, lambda key: default_convert(data[key]))
    if isinstance(data, Sequence):
        return _listed(data, [default_convert(value) for value in data])
    return data


def _numbers(batch: Sequence[Any]) -> npt.NDArray[Any]:
    array = np.array(batch)
    # NumPy picks the dtype, since int64 would cut the 2.5 of [1, 2.5]. It picks an object or an
    # unsigned dtype for integers beyond int64.
    if array.dtype.kind not in "bif" or array.ndim != 1:
        raise ValueError(
            "default_collate: the numbers of a batch must be bools, integers within int64 or "
            f"floats, but they make an array of {array.dtype} with the shape {list(array.shape)}"
        )
    return array


def _stacked(batch: Sequence[Any]) -> npt.NDArray[Any]:
    arrays = [np.asarray(sample) for sample in batch]
    for entry, array in enumerate(arrays):
        if array.dtype.kind in "SUO":
            raise TypeError(_not_collated(f"an array of {array.dtype}"))
        if array.shape != arrays[0].shape:
            raise RuntimeError(
                "default_collate: the arrays of a batch must have one shape, but got "
                f"{list(arrays[0].shape)} at entry 0 and {list(array.shape)} at entry {entry}; "
                "give a collate_fn that pads them"
            )
    return np.stack(arrays)


def _not_collated(kind: str) -> str:
    return (
        "default_collate: a sample must consist of arrays, numbers, strings, mappings or "
        f"sequences, but has {kind}; give a collate_fn that knows what to do with it"
    )


def _mapped(model: Mapping[Any, Any], value_of: Callable[[Any], Any]) -> Any:
    # A mapping of the same type as the model, with other values.
    values = {key: value_of(key) for key in model}
    try:
        if isinstance(model, MutableMapping):
            # A copy keeps the attributes of the mapping, such as the default of a defaultdict.
            clone = copy.copy(model)
            clone.update(values)
            return clone
        return type(model)(values)  # type: ignore[call-arg]  # A TypeError is caught.
    except TypeError:
        return values


def _listed(model: Sequence[Any], values: list[Any]) -> Any:
    # A sequence of the same type as the model, with other values.
    if isinstance(model, tuple):
        return type(model)(*values) if hasattr(model, "_fields") else values
    try:
        if isinstance(model, MutableSequence):
            clone = copy.copy(model)
            for position, value in enumerate(values):
                clone[position] = value
            return clone
        return type(model)(values)  # type: ignore[call-arg]  # A TypeError is caught.
    except TypeError:
        return values
