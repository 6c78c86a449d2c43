"""The reference of the elementary functions; it is tried where mpmath is installed."""

from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest

mpmath = pytest.importorskip("mpmath")

import conformance  # noqa: E402
from conformance.lab.elementary import exhaustive, findings, reference  # noqa: E402
from conformance.reporting import report  # noqa: E402
from impl._exact import arithmetic  # noqa: E402
from impl._exact.elementary import FUNCTIONS, _words  # noqa: E402

FLOAT32 = np.dtype(np.float32)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

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
    assert reference.undecided(values, FLOAT32, absolute=2.0**-24).all()


@pytest.mark.parametrize("name", reference.REFERENCES)
def test_values_in_float64_are_near(name):
    rng = np.random.default_rng(0)
    parts = (rng.uniform(-1, 1, 100), rng.uniform(-20, 20, 100), 2.0 ** rng.uniform(-99, 99, 100))
    x = np.concatenate(parts).astype(np.float32)
    values = reference.near_values(name, x)
    known = reference.REFERENCES[name]
    with mpmath.workdps(40):
        for argument, value in zip(x, values, strict=True):
            if np.isfinite(value) and abs(value) > 2.0**-126:
                exact = reference.exact_value(name, float(argument))
                error = reference.WINDOW * abs(exact) + known.absolute
                assert abs(mpmath.mpf(float(value)) - exact) < error, argument


def test_a_wrong_result_is_found(monkeypatch):
    monkeypatch.setitem(reference.REFERENCES, "exp", reference.REFERENCES["expm1"])
    outcome = exhaustive.Checker("exp").check(np.float32([1, 2]))
    assert len(outcome.wrong) == 2
    assert outcome.error > 1e5


def test_a_missing_exception_is_found(monkeypatch):
    x = np.float32([argument for argument, _ in _words.EXCEPTIONS["log"]])
    assert exhaustive.Checker("log").check(x).is_faultless()
    monkeypatch.setattr(_words, "EXCEPTIONS", {})
    outcome = exhaustive.Checker("log").check(x)
    assert len(outcome.wrong) == len(x)
    assert outcome.error < 0.50001


def test_contraction_that_matters_is_found(monkeypatch):
    monkeypatch.setattr(exhaustive, "_CHANGE", 2.0**-20)
    raw = np.arange(1 << 12, dtype=np.int32) + np.float32(1).view(np.int32)
    assert exhaustive.Checker("exp").check(raw.view(np.float32)).contracted


@pytest.mark.parametrize("name", sorted(_words.EXCEPTIONS))
def test_exceptions_are_correctly_rounded(name):
    x, expected = np.float32(_words.EXCEPTIONS[name]).T.copy()
    assert np.array_equal(reference.correct(name, x), expected)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"integer_pow", "log2"}))
def test_the_hardest_arguments(name):
    records = report.read(Path(conformance.__file__).parent / "reports/elementary.json").records
    (record,) = [each for each in records if (each.op, each.sample) == (name, "float32")]
    hardest = findings.hardest(record)
    assert hardest
    operands = np.float32(hardest).T.copy()
    with arithmetic.wide():
        result = np.asarray(jax.jit(FUNCTIONS[name])(*operands))
    assert np.array_equal(
        reference.bits(result), reference.bits(reference.correct(name, *operands))
    )


@pytest.mark.parametrize("name", ["atan2", "div", "integer_pow", "pow"])
def test_a_part_of_the_pairs(monkeypatch, name):
    monkeypatch.setattr(exhaustive, "EXPONENTS", (-34, 3, 60))
    monkeypatch.setattr(exhaustive, "_POWERS", (1.5,))
    monkeypatch.setattr(exhaustive, "_RANDOM_BLOCKS", 16)
    outcome = exhaustive._check_pairs(name, 0, 1, 8, FLOAT32)
    assert outcome.is_faultless()
    assert outcome.tried >= 2 << 16


def test_a_wrong_power_is_found(monkeypatch):
    program = jax.jit(lambda x: np.float32(1) * x * x * x)
    monkeypatch.setattr(exhaustive, "_program", lambda *_, **__: program)
    monkeypatch.setattr(exhaustive, "EXPONENTS", (3,))
    monkeypatch.setattr(exhaustive, "BLOCK", 1 << 10)
    assert exhaustive._check_pairs("integer_pow", 0, 1, 1 << 12, FLOAT32).wrong
