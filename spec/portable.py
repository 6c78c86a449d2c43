"""Answers what the guarantee ``portable`` does to an equation of a program, and to a row."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

from spec import loader
from spec.model import Portability, PortableAnswer, Primitive, Row, Spec

#: The dtypes whose operations round: floats and complex numbers, of any number of bits.
_INEXACT = re.compile(r"b?float|complex")


def portability(
    primitive: str, dtypes: Collection[str], rules: Spec | None = None
) -> Portability | None:
    """Returns the class that decides about an equation under the guarantee ``portable``.

    Args:
        primitive: The name of its primitive, as in a jaxpr.
        dtypes: The names of the dtypes of its operands and results.
        rules: The spec; None for the spec of this distribution.

    Returns:
        The class. None if the equation has no floats and no class is about it without: it then
        gives the same bits on every device.
    """
    rules = loader.load() if rules is None else rules
    found = rules.class_of_primitive.get(primitive, rules.unlisted)
    if any(dtype.startswith("complex") for dtype in dtypes):
        found = rules.class_of_complex.get(primitive, found)
    inexact = {dtype for dtype in dtypes if _INEXACT.match(dtype)}
    if not inexact:
        return found if found.integers else None
    if found.dtypes is not None and not inexact <= found.dtypes:
        others = ", ".join(sorted(inexact - found.dtypes))
        reason = str(rules.other_dtypes.reason).format(dtypes=others)
        return dataclasses.replace(rules.other_dtypes, reason=reason)
    return found


def portable_answer(row: Row) -> PortableAnswer | None:
    """Returns what the guarantee ``portable`` does to the calls of a row about a function.

    Args:
        row: A row of the kind ``op``.

    Returns:
        ``exact`` if the path of the row gives the same bits on every device. ``rule`` if the call
        takes another path, of JAX's primitives, to which their own classes apply: they compute it,
        or refuse its dtype. None if the row is not about a path.
    """
    if row.kind != "op" or not row.active:
        return None
    if row.guarantee is None:
        return "exact" if "fill" in row.behaviour.values() else None
    return "exact" if row.guarantee == "portable" else "rule"


def portable_classes(row: Primitive, rules: Spec | None = None) -> tuple[Portability, ...]:
    """Returns the classes of the primitives that a row is about, each once.

    Names that only a release of JAX has that nobody supports any more are in no class. If no name
    is in one, the answer is that for unlisted primitives.

    Args:
        row: A row about a primitive.
        rules: The spec; None for the spec of this distribution.
    """
    rules = loader.load() if rules is None else rules
    found = (rules.class_of_primitive.get(name) for name in row.primitives)
    classes = {each.name: each for each in found if each is not None}
    return tuple(classes.values()) or (rules.unlisted,)
