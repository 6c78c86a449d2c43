"""Platforms on which ``portable`` refuses any program, because they have no float64."""

import functools
import warnings

import jax
import jax.numpy as jnp
import pytest

import impl
import spec

REFUSED = spec.load().refused_platforms
X = jnp.ones((3, 4))


def lowered(*platforms, function=jnp.sin):
    traced = jax.jit(functools.partial(function)).trace(X)
    return traced.lower(lowering_platforms=platforms)


@pytest.mark.parametrize("platform", REFUSED)
@pytest.mark.parametrize("function", [jnp.sin, jnp.flip, lambda x: x.astype(int) + 1])
def test_a_program_for_a_refused_platform_raises_with_the_reason(platform, function):
    found = REFUSED[platform]
    with impl.deterministic(guarantee="portable"):
        with pytest.raises(RuntimeError, match="has no portable path") as raised:
            lowered(platform, function=function)
        for part in (repr(platform), found.reason, found.remedy, "guarantee='run_to_run'"):
            assert part in str(raised.value)
        with pytest.raises(RuntimeError, match=platform):
            lowered("cpu", platform, function=function)
        assert lowered("cpu", "cuda", function=function)


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
    assert [platform in str(each.message) for each in caught] == [True]


def test_a_tpu_is_one_of_them():
    assert "tpu" in REFUSED
    assert not set(REFUSED) & set(spec.load().platforms)
