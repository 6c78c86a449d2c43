"""The calls of ``calls.toml``: convolutions, spatial ops, scans, selection, and ``portable``.

Two cases, without PyTorch, of which the second one is a point of a curve::

    convs    {"op": "conv2d", "case": "first", "size": "[8, 3, 224, 224], [64, 3, 7, 7]",
              "direction": "forward"}          sides "XLA's convolution" and "ordered"
    scans    {"op": "cumsum", "size": "[1, 1000]"}    sides "plain JAX" and "ordered"
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.engine import (
    MODE_OFF,
    PORTABLE,
    Benchmark,
    Case,
    Program,
    Setting,
    compared,
    compiled,
)

#: The calls of each family.
TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
#: The sizes of a curve.
CURVE = tuple(10**digits for digits in range(3, 9))


def cases(family: str, base: str, setting: Setting) -> Iterator[Case]:
    """Yields each call of a family at every size, and then the curves."""
    for name, call in TABLE[family].items():
        for size in setting.some(call["sizes"]):
            yield from _cases(name, call, base, setting, size)
    for name, call in TABLE[family].items():
        for length in setting.some(CURVE if "curve" in call else (), 2):
            if setting.fits(call["curve"] * length):
                yield from _cases(name, call, base, setting, f"1x{length}", length)


def _cases(
    name: str, call: Mapping[str, Any], base: str, setting: Setting, size: str, n: int | None = None
) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    arrays = [_numbers(rng, word) for word in size.split()]
    about = {"op": call["about"], "case": name} if "about" in call else {"op": name}
    about["size"] = ", ".join(str([*array.shape]) for array in arrays)
    op, plain = _function(call["op"]), _function(call["plain"]) if "plain" in call else None
    if base == "plain":
        return iter([Case(about, under_portable(functools.partial(op, impl), arrays))])
    return compared(
        setting,
        about,
        op,
        arrays,
        libraries=(impl, lambda torch: torch),
        plain=None if base == "ordered" else (base, plain),
        wrt=call.get("wrt", ()),
        n=n,
    )


def under_portable(function: Callable[..., Any], arrays: Sequence[Any]) -> dict[str, Program]:
    """Returns a function of arrays without the mode, and under the guarantee."""
    values = tuple(map(jnp.asarray, arrays))
    return {
        "plain": compiled(function, values, MODE_OFF),
        "portable": compiled(function, values, PORTABLE),
    }


def _numbers(rng: np.random.Generator, word: str) -> Any:
    """Returns an array of normal numbers, or of those after a colon: ``8x8:-1..1``, ``8:100``."""
    text, _, kind = word.partition(":")
    shape = tuple(map(int, text.split("x")))
    if kind.isdigit():
        return rng.integers(0, int(kind), shape).astype(np.int32)
    low, _, high = kind.partition("..")
    drawn = rng.uniform(float(low), float(high), shape) if high else rng.normal(size=shape)
    return drawn.astype(np.float32)


def _function(expression: str) -> Callable[..., Any]:
    function: Callable[..., Any] = eval(expression, {"jax": jax, "jnp": jnp})  # noqa: S307  # a line of our own file
    return function


def _benchmark(family: str, title: str, base: str, *remarks: str) -> Benchmark:
    calls, ours = functools.partial(cases, family, base), "ordered"
    if base == "plain":
        ours = "portable"
    return Benchmark(f"{title}, float32", base, ours, calls, remarks)


FAMILIES = {
    "convs": _benchmark(
        "convs",
        "conv2d",
        "XLA's convolution",
        "PyTorch's library blocks images and weights for the cache. XLA's does not.",
    ),
    "spatial": _benchmark(
        "spatial",
        "Spatial ops",
        "ordered",
        "The maximum of a window is found one dimension at a time. PyTorch scans each window.",
        "A gradient of `avg_pool2d` adds the elements of each window again, as XLA does.",
        "`interpolate` forward uses little more than one core here. PyTorch uses both.",
    ),
    "scans": _benchmark(
        "scans",
        "Scans along rows",
        "plain JAX",
        "`cummax` computes indices too. Plain JAX has none.",
    ),
    "selection": _benchmark("selection", "Selection along the last dimension", "plain JAX"),
    "elementary": _benchmark("elementary", "Elementary functions", "plain"),
    "exact_sums": _benchmark("exact_sums", "Exact scatters and sums", "plain"),
}
