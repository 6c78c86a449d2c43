"""Bad arguments of ``embedding_bag``."""

import numpy as np
import pytest

import impl
from impl.tests.nn.support.embeddings import INDEX, WEIGHT
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

EMPTY = np.zeros(0, np.int64)
ONE, PAIR = np.array([0]), np.array([[0, 1]])
SHORT = np.zeros(1, np.int16)
REALS = np.zeros(1, np.float32)

#: op, positional arguments, options, exception, fragment of the message
BAD: list[Call] = [
    (
        "embedding_bag",
        (np.array([0, 5]), WEIGHT, ONE),
        {},
        RuntimeError,
        "index 5 is out of bounds",
    ),
    ("embedding_bag", (np.array([[-1]]), WEIGHT), {}, RuntimeError, "5 rows, at position [0, 0]"),
    ("embedding_bag", (REALS, WEIGHT, ONE), {}, RuntimeError, "for input but got: float32"),
    ("embedding_bag", (ONE, WEIGHT, REALS), {}, RuntimeError, "for offsets but got: float32"),
    ("embedding_bag", (SHORT, WEIGHT, SHORT), {}, RuntimeError, "for input but got: int16"),
    ("embedding_bag", (SHORT[None], WEIGHT), {}, RuntimeError, "for input but got: int16"),
    ("embedding_bag", (ONE, WEIGHT[0], ONE), {}, ValueError, "weight has to be 2-D"),
    ("embedding_bag", (ONE, WEIGHT.astype(int), ONE), {}, RuntimeError, "floats, but got int32"),
    ("embedding_bag", (PAIR, WEIGHT, ONE), {}, ValueError, "offsets has to be None"),
    ("embedding_bag", (ONE, WEIGHT), {}, ValueError, "1D array but got None"),
    ("embedding_bag", (ONE, WEIGHT, PAIR), {}, ValueError, "1D array, but got shape [1, 2]"),
    ("embedding_bag", (np.array(0), WEIGHT), {}, ValueError, "1D or 2D, but got shape []"),
    ("embedding_bag", (PAIR[None], WEIGHT), {}, ValueError, "got shape [1, 1, 2]"),
    ("embedding_bag", (ONE, WEIGHT, np.array([1])), {}, RuntimeError, "offsets[0] has to be 0"),
    (
        "embedding_bag",
        (ONE, WEIGHT, np.array([0, 2])),
        {},
        RuntimeError,
        "input's length 1 but got",
    ),
    (
        "embedding_bag",
        (ONE, WEIGHT, EMPTY),
        {"include_last_offset": True},
        RuntimeError,
        "at least 1",
    ),
    ("embedding_bag", (PAIR, WEIGHT), {"mode": "min"}, ValueError, "but got 'min'"),
    ("embedding_bag", (PAIR, WEIGHT), {"mode": 1}, ValueError, "one of sum, mean or max"),
    (
        "embedding_bag",
        (PAIR, WEIGHT),
        {"mode": "max", "sparse": True},
        ValueError,
        "sparse weights",
    ),
    (
        "embedding_bag",
        (PAIR, WEIGHT),
        {"mode": "max", "scale_grad_by_freq": True},
        ValueError,
        "scaling the gradient",
    ),
    (
        "embedding_bag",
        (PAIR, WEIGHT),
        {"mode": "sum", "per_sample_weights": REALS},
        ValueError,
        "per_sample_weights ([1]) must have the same shape as the input ([1, 2])",
    ),
    (
        "embedding_bag",
        (ONE, WEIGHT, ONE),
        {"mode": "sum", "per_sample_weights": np.ones(1, np.float16)},
        RuntimeError,
        "got float16 and float32",
    ),
    (
        "embedding_bag",
        (ONE, WEIGHT, ONE),
        {"mode": "mean", "per_sample_weights": REALS},
        NotImplementedError,
        "only supported for mode='sum', but got mode='mean'",
    ),
    ("embedding_bag", (PAIR, WEIGHT), {"padding_idx": 5}, RuntimeError, "-5 through 4, but got 5"),
    ("embedding_bag", (PAIR, WEIGHT), {"padding_idx": 1.0}, TypeError, "'padding_idx' must be int"),
    ("embedding_bag", (PAIR, WEIGHT), {"sparse": 0}, TypeError, "'sparse' must be bool, not int"),
    ("embedding_bag", (ONE, WEIGHT, ONE), {"include_last_offset": 1}, TypeError, "must be bool"),
]  # fmt: skip
#: Arguments for which PyTorch has another exception, or whose exception depends on the mode.
OWN: list[Call] = [
    ("embedding_bag", (ONE, WEIGHT, SHORT.view(np.uint16)), {}, RuntimeError, "got: uint16"),
    ("embedding_bag", (ONE, WEIGHT, [0]), {}, TypeError, "'offsets' must be"),
    ("embedding_bag", ([0], WEIGHT, ONE), {}, TypeError, "'input' must be"),
    ("embedding_bag", (INDEX, WEIGHT, np.array([0, 3, 2])), {}, RuntimeError, "got 2 after 3"),
    ("embedding_bag", (INDEX, WEIGHT, np.array([0, -1])), {}, RuntimeError, "must ascend"),
    ("embedding_bag", (PAIR, WEIGHT, None, 1.0, True), {}, TypeError, "'norm_type' must be float"),
]  # fmt: skip


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD
    unlike_torch = OWN


def test_a_narrow_dtype_beside_a_wide_one_is_taken_as_in_pytorch(torch):
    for narrow in ("uint8", "int8", "int16", "bool"):
        for dtypes in ((narrow, "int32"), ("int64", narrow)):
            index = np.array([1, 0, 1]).astype(dtypes[0])
            offsets = np.array([0, 1]).astype(dtypes[1])
            got = F.embedding_bag(index, WEIGHT, offsets, mode="sum")
            tensors = map(torch.from_numpy, (index, WEIGHT, offsets))
            want = torch.nn.functional.embedding_bag(*tensors, mode="sum")
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)
