"""The notes of an audit: facts that no rule changes, most of them under ``portable``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jax import lax

import spec
from impl import _jax
from impl._jax import rules, tags
from impl._kernels import pallas
from impl._mode.modes import Mode
from impl._portable import classes, unknown
from impl._portable.carried_sums.lower import carried_sums
from impl._reading import control_flow, source
from impl._reading.walk import Site
from spec import releases_of_jax

#: Sums over the devices of a ``shard_map``.
_SUMS = frozenset({"psum", "psum_invariant", "reduce_scatter"})
#: Scatters that a kernel orders on a GPU.
_SUMS_BY_INDEX = frozenset({lax.scatter_add_p, lax.scatter_sub_p, lax.scatter_mul_p})
#: The primitive that passes values on from device to device, which the program may then add.
_PASSES = "ppermute"
#: The primitives whose random bits depend on the device, by the implementation of the key.
_OF_A_DEVICE = {
    "rbg": frozenset({"random_bits"}),
    "unsafe_rbg": frozenset({"random_bits", "random_fold_in", "random_split"}),
}


def portability(name: str, equation: Any, platform: str) -> spec.Portability | None:
    """Returns the class that decides about an equation, as it is lowered for a platform.

    An equation that draws from a key is lowered as another primitive than ``name``.
    """
    avals = [variable.aval for variable in (*equation.invars, *equation.outvars)]
    if unknown.is_unknown(equation.primitive, rules.registered(equation.primitive, platform)[0]):
        return unknown.portability(classes.dtypes(avals))
    for aval in avals:
        kind = getattr(getattr(getattr(aval, "dtype", None), "_impl", None), "name", None)
        if name in _OF_A_DEVICE.get(str(kind), ()):
            return spec.portability("rng_bit_generator", ())
    return classes.class_of(name, avals, equation.params)


def notes(sites: Iterable[Site], mode: Mode) -> tuple[str, ...]:
    """Returns the notes: on sums over devices, and on functions that differ between releases.

    An equation may be in a scope with another mode than the program's.
    """
    exempt: dict[str, None] = {}
    sums: dict[str, None] = {}
    passed: dict[str, None] = {}
    functions: dict[str, None] = {}
    for site in sites:
        line = site.lines.user or site.lines.library or "an unknown line"
        if not (site.mode or mode).portable:
            if mode.portable:
                exempt[line] = None
            continue
        if site.name in _SUMS and _has_floats(site):
            sums[line] = None
        if site.name == _PASSES and _has_floats(site):
            passed[line] = None
        for function in _written_otherwise(site):
            functions[f"{function} at {line}"] = None
    return tuple(_sentences(list(sums), list(passed), list(functions), list(exempt)))


def of_loops(jaxpr: Any, mode: Mode) -> tuple[str, ...]:
    """Returns the notes on the sums that the loops of a program carry."""
    joined: dict[str, None] = {}
    apart: dict[str, None] = {}
    for equation, lines, own in _scans(jaxpr, source.Lines(), mode):
        if not own.portable:
            continue
        line = lines.user or lines.library or "an unknown line"
        for each in carried_sums(equation.params, own)[1]:
            aval = equation.outvars[each.position].aval.str_short(short_dtypes=True)
            if each.node is not None:
                joined[f"{aval} at {line}"] = None
            elif each.is_sum:
                apart[f"{aval} at {line}, because {each.reason}"] = None
    found = []
    if joined:
        found.append(
            f"A loop carries these sums without rounding them: {'; '.join(joined)}. Their bits do "
            "not depend on the number of iterations that a batch is cut into."
        )
    if apart:
        found.append(
            f"A loop rounds these sums in each iteration: {'; '.join(apart)}. Another number of "
            "iterations gives other bits."
        )
    return tuple(found)


def of_kernels(sites: Iterable[Site], platform: str) -> tuple[str, ...]:
    """Returns a note if scatters need kernels on a platform, and their backend is missing."""
    count = sum(site.equation.primitive in _SUMS_BY_INDEX for site in sites)
    reason = pallas.reason_missing() if count and platform == "cuda" else None
    if reason is None:
        return ()
    text = (
        f"This process has no kernels: {reason}. XLA's operations compute {count} scatters, in "
        "another fixed order, and move more bytes."
    )
    return (text,)


def _scans(jaxpr: Any, outside: source.Lines, mode: Mode) -> Iterator[tuple[Any, Any, Mode]]:
    """Yields each ``scan`` of a program, with its lines of source and its mode."""
    for equation in jaxpr.eqns:
        lines, own = source.lines(equation, outside), tags.of(equation) or mode
        if equation.primitive.name == "scan":
            yield equation, lines, own
        for body in control_flow.bodies(equation):
            yield from _scans(body.opened, lines, own)


def _written_otherwise(site: Site) -> Iterator[str]:
    """Yields the functions that made an equation, and that may have other bits in a release."""
    frames = [(file, function) for file, _, function in _jax.frames(site.equation)]
    # An equation inside of a function that JAX compiles has no frame of its caller.
    file, _, rest = (site.lines.called or "").partition(":")
    changed = releases_of_jax.places()
    for path, function in [*frames, (file, rest.partition("(")[2].rstrip(")"))]:
        known = changed.get((path.rpartition("site-packages/")[2], function))
        if known is not None:
            yield known.name if 0 in known.orders else f"the derivative of {known.name}"


def _has_floats(site: Site) -> bool:
    return any("float" in str(operand.aval.dtype) for operand in site.equation.invars)


def _sentences(
    sums: Sequence[str], passed: Sequence[str], functions: Sequence[str], exempt: Sequence[str]
) -> Iterable[str]:
    if exempt:
        yield (
            f"A scope has another mode at {', '.join(exempt)}: its results, and all that a program "
            "computes from them, may have other bits on another device, or on another number of "
            "devices."
        )
    if sums:
        yield (
            f"The sum over devices at {', '.join(sums)} is joined with the sums of each device, if "
            "only linear operations are between them: then no bit depends on the mesh. Otherwise "
            "each device rounds its own sum first, and a mesh of another size gives other bits."
        )
    if passed:
        yield (
            f"A device passes values on at {', '.join(passed)}. If the program adds them, as a "
            "ring reduction does, each device rounds, and a mesh of another size gives other bits. "
            "Values that are only passed on keep their bits."
        )
    if functions:
        yield (
            "Releases of JAX write these functions with different equations: "
            f"{', '.join(functions)}. The bits are the same on every device, but not with every "
            "release."
        )
