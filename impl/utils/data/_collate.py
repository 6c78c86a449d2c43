"""How samples become a batch: NumPy arrays in the structure of a sample.

Source: ``torch.utils.data.default_collate`` and ``default_convert``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def default_collate(batch: Sequence[Any]) -> Any:
    """Puts samples together: arrays and numbers get a first dimension, structures keep theirs.

    - Arrays (NumPy's, JAX's and others that NumPy can read) and NumPy's numbers are stacked into a
      NumPy array [batch, …] of their dtype.
    - Floats become float64 [batch], integers int64, bools bool.
    - Strings and bytes stay as they are, in a list.
    - Mappings and named tuples are gone into by key and by field, other sequences by position. A
      tuple becomes a list, as in PyTorch.

    Args:
        batch: The samples, all of one structure; at least one.

    Returns:
        The batch, of the structure of one sample.

    Raises:
        RuntimeError: Arrays of different shapes, or sequences of different lengths.
        ValueError: An integer beyond int64.
        TypeError: Nothing of the above, such as None.
        KeyError: A mapping lacks a key that the first one has.
        IndexError: There is no sample.
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
        return _mapped(first, lambda key: default_collate([each[key] for each in batch]))
    if isinstance(first, Sequence):
        lengths = [len(each) for each in batch]
        if len(set(lengths)) > 1:
            raise RuntimeError(
                "default_collate: each sample should have as many elements as the first, "
                f"{lengths[0]}, but the samples have {lengths}; give a collate_fn that pads them"
            )
        return _listed(first, [default_collate(each) for each in zip(*batch, strict=True)])
    raise TypeError(_not_collated(type(first).__name__))


def default_convert(data: Any) -> Any:
    """What becomes of a sample where nothing is batched (``batch_size=None``).

    Arrays and NumPy's numbers become NumPy arrays, also inside mappings and sequences; a tuple
    becomes a list, as in PyTorch. All else stays as it is.

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
        return _listed(data, [default_convert(each) for each in data])
    return data


def _numbers(batch: Sequence[Any]) -> npt.NDArray[Any]:
    array = np.array(batch)
    # Without a dtype, so that 2.5 after 1 is not cut; but beyond int64 NumPy changes the kind.
    if array.dtype.kind not in "bif" or array.ndim != 1:
        raise ValueError(
            "default_collate: the numbers of a batch must be bools, integers within int64 or "
            f"floats, but they make an array of {array.dtype} with the shape {list(array.shape)}"
        )
    return array


def _stacked(batch: Sequence[Any]) -> npt.NDArray[Any]:
    arrays = [np.asarray(each) for each in batch]
    for place, array in enumerate(arrays):
        if array.dtype.kind in "SUO":
            raise TypeError(_not_collated(f"an array of {array.dtype}"))
        if array.shape != arrays[0].shape:
            raise RuntimeError(
                "default_collate: the arrays of a batch must have one shape, but got "
                f"{list(arrays[0].shape)} at entry 0 and {list(array.shape)} at entry {place}; "
                "give a collate_fn that pads them"
            )
    return np.stack(arrays)


def _not_collated(got: str) -> str:
    return (
        "default_collate: a sample must consist of arrays, numbers, strings, mappings or "
        f"sequences, but has {got}; give a collate_fn that knows what to do with it"
    )


def _mapped(kind: Mapping[Any, Any], of: Callable[[Any], Any]) -> Any:
    values = {key: of(key) for key in kind}
    try:
        if isinstance(kind, MutableMapping):
            # It may have more than its items, such as a default: a copy keeps that.
            clone = copy.copy(kind)
            clone.update(values)
            return clone
        return type(kind)(values)  # type: ignore[call-arg]  # or it says that it is not made so
    except TypeError:
        return values


def _listed(kind: Sequence[Any], values: list[Any]) -> Any:
    if isinstance(kind, tuple):
        return type(kind)(*values) if hasattr(kind, "_fields") else values
    try:
        if isinstance(kind, MutableSequence):
            clone = copy.copy(kind)
            for place, value in enumerate(values):
                clone[place] = value
            return clone
        return type(kind)(values)  # type: ignore[call-arg]  # or it says that it is not made so
    except TypeError:
        return values
