"""The public ops, found by introspection, and their samples."""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import pytest

import impl
from impl.tests.every_op import samples_of_nn, samples_of_ops
from impl.tests.every_op.sample import Sample
from impl.tests.support.programs import equations

#: The namespaces of ops, by the prefix of their ops' names.
_NAMESPACES = {
    "": impl,
    "nn.": impl.nn,
    "nn.functional.": impl.nn.functional,
    "sparse.": impl.sparse,
}
#: The packages that define ops. Other functions of the namespaces are not ops.
_PACKAGES = ("impl.ops.", "impl.nn.", "impl.sparse.")

_SAMPLES: dict[str, tuple[Sample, ...]] = {**samples_of_ops.SAMPLES, **samples_of_nn.SAMPLES}


def public_ops() -> dict[str, Callable[..., Any]]:
    """Returns the public ops by dotted name."""
    return {
        prefix + name: function
        for prefix, namespace in _NAMESPACES.items()
        for name, function in inspect.getmembers(namespace, inspect.isfunction)
        if function.__module__.startswith(_PACKAGES)
    }


def named_samples() -> dict[str, Sample]:
    """Returns the samples of all ops, named by op and variant."""
    return {
        "-".join(filter(None, [op, sample.variant])): sample
        for op in public_ops()
        for sample in _SAMPLES.get(op, ())
    }


def parametrize_by_primitives(condition: Callable[[Sample], bool], *, adding: bool = False) -> Any:
    """Parametrizes a test by samples; those that add no primitive have the marker ``once``.

    The rules of a primitive may depend on the release of JAX. Ops are made of primitives, so that
    one op for each primitive tries another release.

    Args:
        condition: Whether the test is about a sample.
        adding: Whether to leave out samples that add no primitive.
    """
    samples = named_samples()
    parameters = [
        pytest.param(samples[name], id=name, marks=() if adds else pytest.mark.once)
        for name, adds in _samples_by_primitives(condition)
        if adds or not adding
    ]
    return pytest.mark.parametrize("sample", parameters)


def parametrize_pairs(name: str, values: Sequence[Any], condition: Callable[[Sample], bool]) -> Any:
    """Parametrizes a test by samples and an option, which has one of its values, in turn.

    A sample that adds no primitive has the marker ``once``.
    """
    samples, parameters, others = named_samples(), [], itertools.cycle(values)
    for sample, adds in _samples_by_primitives(condition):
        marks, value = () if adds else pytest.mark.once, next(others)
        parameter = pytest.param(samples[sample], value, id=f"{sample}-{value}", marks=marks)
        parameters.append(parameter)
    return pytest.mark.parametrize(("sample", name), parameters)


def _samples_by_primitives(condition: Callable[[Sample], bool]) -> Iterator[tuple[str, bool]]:
    """Yields the name of each sample, and whether it has a primitive that none before it has."""
    found: set[str] = set()
    for name, sample in named_samples().items():
        if condition(sample):
            primitives = primitives_of(sample)
            yield name, bool(primitives - found)
            found |= primitives


@functools.cache
def primitives_of(
    sample: Sample, profile: str = "complete", *, differentiated: bool = False
) -> frozenset[str]:
    """Returns the names of the primitives in a call, and perhaps in its derivatives."""
    positions = sample.float_positions

    def function(*floats: Any) -> Any:
        values = dict(zip(positions, floats, strict=True))
        return sample.outputs(*(values.get(i, a) for i, a in enumerate(sample.arrays)))

    def derivatives(*floats: Any) -> Any:
        return jax.linearize(function, *floats)[1](*floats)

    with impl.deterministic(profile=profile, warn_only=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        has_derivatives = differentiated and sample.smooth and positions
        closed = jax.make_jaxpr(derivatives if has_derivatives else function)(*sample.floats)
    return frozenset(equation.primitive.name for equation in equations(closed))


def samples_of(op: str) -> tuple[Sample, ...]:
    """Returns the samples of an op."""
    return _SAMPLES.get(op, ())


def without_samples() -> list[str]:
    """Returns the ops that have no sample."""
    return sorted(set(public_ops()) - set(_SAMPLES))


def samples_of_no_op() -> list[str]:
    """Returns the names of samples whose op does not exist."""
    return sorted(set(_SAMPLES) - set(public_ops()))


def first_samples(condition: Callable[[Sample], bool] = lambda _: True) -> dict[str, Any]:
    """Returns arguments of ``parametrize``: one sample of each op, named by the op."""
    samples = {op: _SAMPLES[op][0] for op in public_ops() if op in _SAMPLES}
    samples = {op: sample for op, sample in samples.items() if condition(sample)}
    return {"argvalues": list(samples.values()), "ids": list(samples)}


class Recorder:
    """A namespace of ops that records the arguments of a call instead of running the op."""

    __name__ = "recorder"

    def __init__(self, calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        if name in ("nn", "functional", "sparse"):
            return self
        return lambda *arguments, **options: self.calls.append((arguments, options))
