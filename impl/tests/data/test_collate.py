"""Samples as batches, against PyTorch's."""

import collections
from types import MappingProxyType
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from impl.tests.support.bits import assert_same_bits
from impl.utils import data


class Pair(NamedTuple):
    left: object
    right: object


CASES = {
    "ints": [1, -2, 3],
    "floats": [1.0, 0.1, 2.5],
    "bools": [True, False],
    "strings": ["a", "b"],
    "bytes": [b"a", b"b"],
    "numpy numbers": [np.float32(1), np.float32(2)],
    "numpy bools": [np.bool_(True), np.bool_(False)],
    "arrays": [np.ones((2, 3), np.float16), np.zeros((2, 3), np.float16)],
    "0-d arrays": [np.array(1, np.int32), np.array(2, np.int32)],
    "no rows": [np.ones((0, 3)), np.ones((0, 3))],
    "one sample": [np.arange(3)],
    "dicts": [{"z": 1, "a": np.ones(2)}, {"z": 2, "a": np.zeros(2)}],
    "ordered dicts": [collections.OrderedDict(z=1), collections.OrderedDict(z=2)],
    "frozen mappings": [MappingProxyType({"z": 1}), MappingProxyType({"z": 2})],
    "tuples": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "named tuples": [Pair(1, [2]), Pair(3, [4])],
    "nested": [{"x": (1, [np.arange(2)])}, {"x": (2, [np.arange(2)])}],
    "empty tuples": [(), ()],
}

REFUSED = {
    "none": ([None], TypeError, "sample must consist of"),
    "objects": ([np.array([None])], TypeError, "an array of object"),
    "strings in an array": ([np.array(["a"])], TypeError, "an array of <U1"),
    "shapes": ([np.ones(2), np.ones(3)], RuntimeError, r"\[2\] at entry 0 and \[3\] at entry 1"),
    "lengths": ([[1], [2, 3]], RuntimeError, r"the first, 1, but the samples have \[1, 2\]"),
    "beyond int64": ([2**63], ValueError, "within int64"),
    "keys": ([{"a": 1}, {"b": 1}], KeyError, "a"),
    "nothing": ([], IndexError, "no samples"),
}


def assert_same(result, theirs, torch):
    if isinstance(theirs, torch.Tensor):
        assert_same_bits(result, theirs.numpy())
    elif isinstance(theirs, collections.abc.Mapping):
        assert type(result) is type(theirs)
        assert list(result) == list(theirs)
        for key in theirs:
            assert_same(result[key], theirs[key], torch)
    elif isinstance(theirs, list | tuple) and theirs and not isinstance(theirs[0], str | bytes):
        assert type(result) is type(theirs)
        assert len(result) == len(theirs)
        for value, expected in zip(result, theirs, strict=True):
            assert_same(value, expected, torch)
    else:
        assert result == theirs
        assert type(result) is type(theirs)


@pytest.mark.parametrize("name", CASES)
def test_collate_and_convert_are_as_in_pytorch(name, torch):
    theirs = torch.utils.data
    assert_same(data.default_collate(CASES[name]), theirs.default_collate(CASES[name]), torch)
    for sample in CASES[name]:
        assert_same(data.default_convert(sample), theirs.default_convert(sample), torch)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_samples(name):
    batch, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as raised:
        data.default_collate(batch)
    assert type(raised.value) is error


def test_refused_as_in_pytorch(torch):
    for batch, error, _ in REFUSED.values():
        with pytest.raises(error):
            torch.utils.data.default_collate(batch)


def test_jax_arrays_become_numpy():
    batch = data.default_collate([{"x": jnp.arange(3)}, {"x": jnp.arange(3)}])["x"]
    assert type(batch) is np.ndarray
    assert batch.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert type(data.default_convert(jnp.arange(3))) is np.ndarray


def test_a_float_after_an_integer_is_not_cut():
    assert data.default_collate([1, 2.5]).tolist() == [1.0, 2.5]
