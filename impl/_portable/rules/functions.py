"""Elementary functions: the exact value, rounded once (``impl._exact.elementary``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from impl._exact import elementary
from impl._exact.elementary import complex_numbers
from impl._native import functions as native
from impl._native import scope
from impl._portable.rule import Rule, rule
from impl._portable.rules import rounding

_TAKES_FLUSHES = frozenset({"flushes"})
_FIRST_POWER = Rule(
    "first_power",
    compute=functools.partial(rounding.unrounded, lambda value, **_: value),
    takes=_TAKES_FLUSHES,
    is_elementwise=True,
)
_SQUARE = Rule("square", compute=rounding.square, takes=_TAKES_FLUSHES, is_elementwise=True)


def _simpler_power(_: Sequence[Any], params: Mapping[str, Any]) -> Rule | None:
    # Optax computes a power of the gradient whose exponent may be 1.
    return {1: _FIRST_POWER, 2: _SQUARE}.get(params["y"])


#: The fields of the functions that take more than floats, or have simpler forms.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "exp": {"of_complex": complex_numbers.exp},
    "integer_pow": {"of_complex": complex_numbers.integer_pow, "simpler": _simpler_power},
    "log": {"of_complex": complex_numbers.log},
}
# ``rounding`` has the records of quotients and square roots.
for _name in elementary.FUNCTIONS.keys() - {"div", "sqrt"}:
    _called = scope.or_native(functools.partial(native.call, _name))
    _compute = _called(elementary.FUNCTIONS[_name])
    rule(_name, compute=_compute, is_elementwise=True, **_FIELDS.get(_name, {}))
rule("abs", of_complex=complex_numbers.absolute)
