"""Selection with bad arguments: PyTorch's exceptions."""

import re
from typing import Any

import numpy as np
import pytest

import impl

V = np.zeros(3, np.float32)
BOOLS = np.ones(2, bool)
COMPLEX = np.ones(2, np.complex64)
NUMBER = np.array(5, np.float32)
WIDE = np.zeros((2, 0, 3), np.float32)

#: Of each op that reduces, and of each that sorts; without the op.
REDUCED: list[tuple[Any, ...]] = [
    ((V, 1), {}, IndexError, "range of [-1, 0], but got 1"),
    ((NUMBER, -2), {}, IndexError, "but got -2"),
    ((V, 0.0), {}, TypeError, "'dim' must be int, not float"),
    ((V, 0, 1), {}, TypeError, "'keepdim' must be bool, not int"),
    (([1.0],), {}, TypeError, "'input' must be"),
    ((V[:0], 0), {}, IndexError, "dim 0 to have non-zero size"),
    ((WIDE, 1), {}, IndexError, "dim 1 to have non-zero size"),
    ((COMPLEX, 0), {}, NotImplementedError, "complex64; it takes"),
]
SORTED: list[tuple[Any, ...]] = [
    ((V, 1), {}, IndexError, "but got 1"),
    ((NUMBER, 1), {}, IndexError, "but got 1"),
    ((V, 0.0), {}, TypeError, "'dim' must be int, not float"),
    ((V, 0, 1), {}, TypeError, "'descending' must be bool, not int"),
    ((V,), {"stable": 1}, TypeError, "'stable' must be bool, not int"),
    (([1.0],), {}, TypeError, "'input' must be"),
    ((COMPLEX,), {}, RuntimeError, "complex64; it takes bools, integers and floats"),
]

#: op, positional arguments, keywords, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
    ("kthvalue", (V, 1, 0, 1), {}, TypeError, "'keepdim' must be bool, not int"),
    *((op, *bad) for op in ("median", "nanmedian", "mode") for bad in REDUCED),
    ("median", (V,), {"keepdim": True}, TypeError, "'dim' must be given"),
    ("nanmedian", (V,), {"keepdim": True}, TypeError, "'dim' must be given"),
    ("median", (BOOLS,), {}, NotImplementedError, "bool; it takes integers and floats"),
    ("median", (BOOLS, 0), {}, NotImplementedError, "bool"),
    ("nanmedian", (COMPLEX,), {}, NotImplementedError, "complex64"),
    ("mode", (V[:0],), {}, IndexError, "dim 0 to have non-zero size"),
    ("mode", (V, None), {}, TypeError, "'dim' must be int, not NoneType"),
    ("topk", (V, 4), {}, RuntimeError, "for dimension 0: got 4, allowed are 0 to 3"),
    ("topk", (V, -1), {}, RuntimeError, "got -1, allowed are 0 to 3"),
    ("topk", (NUMBER, 2), {}, RuntimeError, "got 2, allowed are 0 to 1"),
    ("topk", (WIDE, 1, 1), {}, RuntimeError, "for dimension 1: got 1, allowed are 0 to 0"),
    ("topk", (V, 1.0), {}, TypeError, "'k' must be int, not float"),
    ("topk", (V, True), {}, TypeError, "'k' must be int, not bool"),
    ("topk", (V, 1, 1), {}, IndexError, "but got 1"),
    ("topk", (V, 1, 0, 1), {}, TypeError, "'largest' must be bool, not int"),
    ("topk", (V, 1, 0, True, "a"), {}, TypeError, "'sorted' must be bool, not str"),
    ("topk", ([1.0], 1), {}, TypeError, "'input' must be"),
    ("topk", (BOOLS, 1), {}, RuntimeError, "bool; it takes integers and floats"),
    ("topk", (COMPLEX, 1), {}, RuntimeError, "complex64"),
    *((op, *bad) for op in ("sort", "argsort") for bad in SORTED),
]
NAMES = [f"{bad[0]}-{bad[-1]}" for bad in BAD]


@pytest.mark.parametrize("mode", [False, True], ids=["off", "on"])
@pytest.mark.parametrize(("op", "arguments", "options", "error", "fragment"), BAD, ids=NAMES)
def test_bad_arguments(op, arguments, options, error, fragment, mode):
    with (
        impl.deterministic(mode, profile="complete"),
        pytest.raises(error, match=re.escape(fragment)) as raised,
    ):
        getattr(impl, op)(*arguments, **options)
    assert type(raised.value) is error
    assert str(raised.value).startswith(f"{op}():")


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error"), [bad[:-1] for bad in BAD], ids=NAMES
)
def test_torch_raises_the_same(op, arguments, options, error):
    torch = pytest.importorskip("torch")
    as_tensors = [torch.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in arguments]
    with pytest.raises(error) as raised:
        getattr(torch, op)(*as_tensors, **options)
    assert type(raised.value) is error
