"""Platforms on which ``portable`` refuses floats of some dtypes, because they lack float64.

Tests: impl._portable.refusal.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
import spec

pytestmark = pytest.mark.usefixtures("wide")

REFUSED = spec.load().refused_platforms
DOUBLE = jax.ShapeDtypeStruct((3, 4), np.float64)


def lowered(*platforms, function=jnp.sin, of=DOUBLE):
    traced = jax.jit(functools.partial(function)).trace(of)
    return traced.lower(lowering_platforms=platforms)


@pytest.mark.parametrize("platform", REFUSED)
@pytest.mark.parametrize("function", [lambda x: x * 2, jnp.flip, lambda x: x.astype(np.float32)])
def test_a_float64_on_a_refusing_platform_raises_with_the_reason(platform, function):
    found = REFUSED[platform]
    with impl.deterministic(guarantee="portable"):
        with pytest.raises(RuntimeError, match="float64 has no portable path") as raised:
            lowered(platform, function=function)
        for part in (repr(platform), found.reason, found.remedy, "guarantee='run_to_run'"):
            assert part in str(raised.value)
        with pytest.raises(RuntimeError, match=platform):
            lowered("cpu", platform, function=function)
        assert lowered("cpu", "cuda", function=function)


@pytest.mark.parametrize("platform", REFUSED)
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.int32])
def test_other_dtypes_are_lowered_without_float64(platform, dtype):
    with impl.deterministic(guarantee="portable"):
        text = lowered(platform, of=jax.ShapeDtypeStruct((3, 4), dtype)).as_text()
    assert "f64" not in text


@pytest.mark.parametrize("platform", REFUSED)
def test_elsewhere_and_with_another_guarantee_nothing_is_refused(platform):
    off = lowered(platform).as_text()
    with impl.deterministic():
        assert lowered(platform).as_text() == off
    with impl.deterministic(guarantee="portable"), impl.deterministic(False):
        assert lowered(platform).as_text() == off


@pytest.mark.parametrize("platform", REFUSED)
def test_a_program_is_warned_about_once(platform):
    with (
        impl.deterministic(guarantee="portable", warn_only=True),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        lowered(platform, function=lambda x: jnp.sin(x) + jnp.cos(x) * x)
    assert sum(repr(platform) in str(each.message) for each in caught) == 1


def test_a_tpu_is_one_of_them():
    assert "tpu" in REFUSED
    assert set(REFUSED) <= set(spec.load().platforms)


@pytest.mark.parametrize("own", [False, True])
def test_the_audit_lists_the_floats_that_a_platform_refuses(own):
    function = (lambda x: impl.cumsum(x, 0)) if own else (lambda x: x * 2)
    with impl.deterministic(profile="complete", guarantee="portable"):
        findings = impl.audit(function, device="tpu")(DOUBLE).findings
        assert {finding.verdict for finding in findings} == {"raises"}
        assert all("A TPU lacks float64" in finding.remedy for finding in findings)
        single = jax.ShapeDtypeStruct((3, 4), np.float32)
        assert impl.audit(function, device="tpu")(single).ok
        assert impl.audit(function, device="cuda")(DOUBLE).ok
    with impl.deterministic():
        assert impl.audit(function, device="tpu")(DOUBLE).ok
