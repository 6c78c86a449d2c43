"""interpolate: bad arguments."""

import re

import numpy as np
import pytest

import impl

interpolate = impl.nn.functional.interpolate


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


L, HW, DHW = ones(1, 2, 4), ones(1, 2, 3, 4), ones(1, 2, 2, 3, 4)
NAN, INF = float("nan"), float("inf")
#: input, keywords, exception, fragment of the message
BAD = [
    ([[[1.0]]], {"size": 3}, TypeError, "'input' must be"),
    (L, {}, ValueError, "either size or scale_factor must be given, but got neither"),
    (L, {"size": 3, "scale_factor": 2.0}, ValueError, "but got both"),
    (HW, {"size": (3,)}, ValueError, "spatial dimensions [3, 4] of 'input', but got [3]"),
    (HW, {"scale_factor": (3.0, 2, 1)}, ValueError, "but got [3.0, 2, 1]"),
    (HW, {"size": (3.0, 2)}, TypeError, "'size' must be int, not float"),
    (HW, {"size": 3.0}, TypeError, "'size' must be int, not float"),
    (HW, {"size": True, "mode": "bilinear"}, TypeError, "'size' must be int, not bool"),
    (HW, {"size": "3"}, TypeError, "'size' must be int, not str"),
    (HW, {"size": np.array([3, 3])}, TypeError, "'size' must be int, not ndarray"),
    (HW, {"scale_factor": "2"}, TypeError, "'scale_factor' must be float, not str"),
    (HW, {"scale_factor": ("2", 2)}, TypeError, "'scale_factor' must be float, not str"),
    (HW, {"scale_factor": 1j}, TypeError, "'scale_factor' must be float, not complex"),
    (HW, {"scale_factor": NAN}, RuntimeError, "'scale_factor' must be finite, but got nan"),
    (HW, {"scale_factor": INF}, RuntimeError, "but got inf"),
    (HW, {"scale_factor": NAN, "mode": "area"}, ValueError, "but got nan"),
    (HW, {"scale_factor": INF, "recompute_scale_factor": True}, OverflowError, "but got inf"),
    (HW, {"size": 3, "recompute_scale_factor": True}, ValueError, "with an explicit size"),
    (HW, {"size": 3, "mode": "cubic"}, NotImplementedError, "'area', but got 'cubic'"),
    (L, {"size": 3, "align_corners": False}, ValueError, "but got mode 'nearest'"),
    (L, {"size": 3, "mode": "area", "align_corners": True}, ValueError, "'trilinear', but got"),
    (HW, {"size": 3, "antialias": True}, ValueError, "'bicubic' and 4-D inputs, but got mode"),
    (L, {"size": 3, "mode": "linear", "antialias": True}, ValueError, "got mode 'linear'"),
    (DHW, {"size": 3, "mode": "bilinear", "antialias": True}, ValueError, "[1, 2, 2, 3, 4]"),
    *[
        (x, {"size": 3, "mode": mode}, NotImplementedError, f"Got {x.ndim}D input, but mode")
        for mode, taken in (
            ("linear", L), ("bilinear", HW), ("bicubic", HW), ("trilinear", DHW),
            ("nearest", None), ("nearest-exact", None), ("area", None),
        )
        for x in ((L, HW, DHW) if taken is not None else (L[0], DHW[None], L[0, 0], L[0, 0, 0]))
        if x is not taken
    ],
    *[
        (HW, {"mode": mode, **given}, RuntimeError, f"input [3, 4] output {sizes}")
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
        for given, sizes in (
            ({"size": 0}, "[0, 0]"),
            ({"size": (3, -1)}, "[3, -1]"),
            ({"scale_factor": 0.3}, "[0, 1]"),
            ({"scale_factor": -1.0}, "[-3, -4]"),
        )
    ],
    (HW, {"size": -1, "mode": "area"}, RuntimeError, "greater than or equal to 0, but got"),
    (HW[:, :, :0], {"size": 3}, RuntimeError, "input [0, 4] output [3, 3]"),
    (HW[:, :, :0], {"size": 3, "mode": "area"}, RuntimeError, "got shape [1, 2, 0, 4]"),
    (HW[:, :0], {"size": 3, "mode": "bilinear"}, RuntimeError, "got shape [1, 0, 3, 4]"),
    *[
        (x.astype(dtype), {"size": 3, "mode": mode}, NotImplementedError, message)
        for mode, x, dtypes, message in (
            ("nearest", HW, (np.int32, bool, np.complex64), "it takes floats and uint8"),
            ("bicubic", HW, (np.int8,), "'bicubic' is not implemented for int8"),
            ("linear", L, (np.uint8,), "for uint8 in argument 'input'; it takes floats"),
            ("trilinear", DHW, (np.uint8, np.int32), "it takes floats"),
            ("area", HW, (np.uint8, np.int32), "it takes floats"),
        )
        for dtype in dtypes
    ],
]  # fmt: skip
#: What PyTorch takes for true or false, or for a name that it does not know.
STRICTER = [
    (HW, {"size": 3, "mode": 3}, TypeError, "'mode' must be str, not int"),
    (HW, {"size": 3, "mode": "bilinear", "antialias": 1}, TypeError, "'antialias' must be bool"),
    (HW, {"size": 3, "mode": "bilinear", "align_corners": 1}, TypeError, "'align_corners' must"),
    (HW, {"scale_factor": 2.0, "recompute_scale_factor": "a"}, TypeError, "must be bool, not str"),
]


@pytest.mark.parametrize(("input", "given", "error", "said"), [*BAD, *STRICTER])
def test_bad_arguments(input, given, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        interpolate(input, **given)
    assert str(caught.value).startswith("interpolate(): ")


def test_pytorch_refuses_them_with_the_same_exceptions():
    torch = pytest.importorskip("torch")
    for input, given, error, _ in BAD:
        if isinstance(input, list):
            continue
        try:
            torch.nn.functional.interpolate(torch.tensor(input), **given)
        except error:
            continue
        pytest.fail(f"PyTorch takes {given}")
