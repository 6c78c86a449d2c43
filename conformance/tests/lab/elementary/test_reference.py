"""The reference of the elementary functions; it is tried where mpmath is installed."""

import numpy as np
import pytest

mpmath = pytest.importorskip("mpmath")
reference = pytest.importorskip("conformance.lab.elementary.reference")
exhaustive = pytest.importorskip("conformance.lab.elementary.exhaustive")

FLOAT32 = np.dtype(np.float32)
BFLOAT16 = reference.rounded(np.zeros(1), reference._BFLOAT16).dtype

pytestmark = pytest.mark.once


def test_bfloat16_is_rounded_once():
    # The value is above the middle of two bfloat16; as a float32 it would be in the middle.
    value = 1 + 2.0**-8 + 2.0**-40
    assert reference.rounded(np.array([value]), BFLOAT16)[0] == 1 + 2.0**-7
    assert reference.rounded(np.array([1 + 2.0**-8]), BFLOAT16)[0] == 1


def test_mpmath_decides_beside_the_middle():
    middle = mpmath.mpf(1) + mpmath.mpf(2) ** -24
    with mpmath.workdps(60):
        above = middle + mpmath.mpf(2) ** -90
        below = middle - mpmath.mpf(2) ** -90
        assert reference.rounded_exactly(+above, FLOAT32) == np.float32(1 + 2.0**-23)
        assert reference.rounded_exactly(+below, FLOAT32) == np.float32(1)
        assert reference.rounded_exactly(middle, FLOAT32) == np.float32(1)
        tiny = mpmath.mpf(2) ** -126
        assert reference.rounded_exactly(tiny - tiny**2, FLOAT32) == np.float32(2.0**-126)
        assert reference.rounded_exactly(tiny * 0.99, FLOAT32) == 0


def test_undecided():
    values = np.array([1 + 2.0**-24, 1 + 2.0**-25, 1 + 2.0**-24 + 2.0**-50])
    assert reference.undecided(values, FLOAT32).tolist() == [True, False, True]


def test_a_wrong_result_is_found(monkeypatch):
    monkeypatch.setitem(reference.REFERENCES, "exp", reference.REFERENCES["expm1"])
    outcome = exhaustive.Checker("exp").check(np.float32([1, 2]))
    assert len(outcome.wrong) == 2
    assert outcome.error > 1e5


def test_contraction_that_matters_is_found(monkeypatch):
    monkeypatch.setattr(exhaustive, "_CHANGE", 2.0**-20)
    raw = np.arange(1 << 12, dtype=np.int32) + np.float32(1).view(np.int32)
    assert exhaustive.Checker("exp").check(raw.view(np.float32)).contracted
