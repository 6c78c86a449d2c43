"""The calls of ``calls.toml``: convolutions, spatial ops, scans and selection.

Two cases, without PyTorch, of which the second one is a point of a curve::

    convs    {"op": "conv2d", "case": "first", "size": "[8, 3, 224, 224], [64, 3, 7, 7]",
              "direction": "forward"}          sides "XLA's convolution" and "ordered"
    scans    {"op": "cumsum", "size": "[1, 1000]"}    sides "plain JAX" and "ordered"
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.engine import Benchmark, Case, Setting, compared

#: The calls of each family.
TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
#: The sizes of a curve.
CURVE = tuple(10**digits for digits in range(3, 9))
#: The kinds of numbers, drawn in a shape.
_NUMBERS: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "near_one": lambda rng, shape: np.exp(rng.normal(size=shape) / 100),
}


def cases(family: str, base: str, setting: Setting) -> Iterator[Case]:
    """Yields each call of a family at every size, and then the curves.

    Args:
        family: The name of the family.
        base: The name of the side with which ours is compared.
        setting: How the cases of the family are chosen.
    """
    for name, call in TABLE[family].items():
        for size in setting.some(call["sizes"]):
            yield from _cases(name, call, base, setting, size)
    for name, call in TABLE[family].items():
        for length in setting.some(CURVE if "curve" in call else (), 2):
            if setting.fits(call["curve"] * length):
                yield from _cases(name, call, base, setting, f"1x{length}", length)


def _cases(
    name: str,
    call: Mapping[str, Any],
    base: str,
    setting: Setting,
    size: str,
    n: int | None = None,
) -> Iterator[Case]:
    rng, arrays = np.random.default_rng(0), []
    for word in size.split():
        shape, _, kind = word.partition(":")
        numbers = _NUMBERS[kind](rng, tuple(map(int, shape.split("x"))))
        arrays.append(numbers.astype(np.float32))
    about = {"op": call["about"], "case": name} if "about" in call else {"op": name}
    about["size"] = ", ".join(str([*array.shape]) for array in arrays)
    plain = _function(call["plain"]) if "plain" in call else None
    return compared(
        setting,
        about,
        _function(call["op"]),
        arrays,
        libraries=(impl, lambda torch: torch),
        plain=None if base == "ordered" else (base, plain),
        wrt=call.get("wrt", ()),
        n=n,
    )


def _function(expression: str) -> Callable[..., Any]:
    function: Callable[..., Any] = eval(expression, {"jax": jax, "jnp": jnp})  # noqa: S307  # a line of our own file
    return function


def _benchmark(family: str, title: str, base: str, *remarks: str) -> Benchmark:
    calls = functools.partial(cases, family, base)
    return Benchmark(f"{title}, float32", base, "ordered", calls, remarks)


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
        "`cummax` computes indices by a second scan. Plain JAX has none.",
    ),
    "selection": _benchmark("selection", "Selection along the last dimension", "plain JAX"),
}
