"""Answers what the guarantee ``portable`` does to an equation of a JAX program."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

from spec import loader
from spec.model import Portability, Spec

#: The dtypes whose operations round: floats and complex numbers, of any number of bits.
_INEXACT = re.compile(r"b?float|complex")


def portability(
    primitive: str, dtypes: Collection[str], rules: Spec | None = None
) -> Portability | None:
    """Returns the class that decides about an equation under the guarantee ``portable``.

    Args:
        primitive: The name of its primitive, as in a jaxpr.
        dtypes: The names of the dtypes of its operands and results.
        rules: The spec; None for that of this distribution.

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
