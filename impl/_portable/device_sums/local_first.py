"""Puts sums of a device's own elements before sums over devices, where a body has the reverse.

The derivative of a bias that ``jnp.broadcast_to`` repeats before it varies over devices begins with
a ``psum``. Its sums are of one row of each device, and each would be rounded by itself::

    b = psum a; c = reduce_sum b        becomes        d = reduce_sum a; c = psum d
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from impl._jax import jaxprs

#: The primitives of sums over devices.
PSUMS = frozenset({"psum", "psum_invariant"})


def reordered(
    jaxpr: Any, is_joinable: Callable[[Any], bool], is_portable: Callable[[Any], bool]
) -> Any:
    """Returns a body whose sums of elements come before sums over devices.

    The old ``psum`` stays for other equations, or is removed with the dead code.

    Args:
        jaxpr: The body, with the equations of calls written out.
        is_joinable: Returns whether a ``psum`` may be joined with a sum.
        is_portable: Returns whether an equation is in a portable scope.
    """
    psums: dict[Any, Any] = {}
    equations: list[Any] = []
    for equation in jaxpr.eqns:
        name = str(equation.primitive.name)
        operand = equation.invars[0] if equation.invars else None
        if name in PSUMS and is_joinable(equation):
            psums[equation.outvars[0]] = equation
        psum = None if jaxprs.is_literal(operand) else psums.get(operand)
        if name != "reduce_sum" or psum is None or not is_portable(equation):
            equations.append(equation)
            continue
        (local,), (result,) = psum.invars, equation.outvars
        own = jaxprs.variable(jaxprs.varying_as(result.aval, local.aval))
        equations.append(equation.replace(invars=[local], outvars=[own]))
        swapped = psum.replace(invars=[own], outvars=[result])
        equations.append(swapped)
        psums[result] = swapped
    return jaxpr.replace(eqns=equations)
