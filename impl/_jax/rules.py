"""The lowering rules that JAX finds for an equation, and the functions that they lower.

JAX has tables of rules, to which any library adds rules at any time. Replacing the rules in the
tables would miss the rules that are added later. So ``replace`` registers a function that replaces
the rules that JAX finds in the tables, each time that JAX lowers an equation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
from jax._src.interpreters import mlir as private_mlir
from jax.interpreters import mlir

from impl import _jax
from impl._jax import ClosedJaxpr, Primitive, lowering, parts, repeated

Rule: TypeAlias = Callable[..., Any]
#: Maps a primitive, a rule of it, and its rule for any platform (or None), to the rule by which JAX
#: lowers an equation.
Replacement: TypeAlias = Callable[[Primitive, Rule, Rule | None], Rule]

#: The functions that replace rules, in order; each replaces the result of the one before.
replacements: list[Replacement] = []

#: JAX's function that finds the rules of an equation, and its parameters.
_FINDS, _PARAMETERS = "_get_lowering_rules", ("ctx", "primitive", "eqn_ctx")
#: The attribute that marks a function of this module.
_OURS = "samebits_finds"


def replace(replacement: Replacement) -> None:
    """Lets a function replace each rule that JAX finds from now on, whenever it was registered.

    Within ``lowering.natively`` nothing is replaced. A second call with the function changes
    nothing.
    """
    original = getattr(private_mlir, _FINDS, None)
    if not hasattr(original, _OURS):
        if not callable(original) or tuple(inspect.signature(original).parameters) != _PARAMETERS:
            raise parts.changed("finds lowering rules in another way")
        setattr(private_mlir, _FINDS, _finding(original))
    if replacement not in replacements:
        replacements.append(replacement)


def _finding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns JAX's function that finds rules, whose rules are replaced."""

    @functools.wraps(original)
    def find(ctx: Any, primitive: Primitive, eqn_ctx: Any) -> Any:
        by_platform, default, inline = original(ctx, primitive, eqn_ctx)
        for replacement in () if lowering.NATIVE in ctx.lowering_cache else replacements:
            # JAX compares rules by identity, so one rule has one replacement.
            made = {
                id(rule): replacement(primitive, rule, default)
                for rule in (*by_platform.values(), default)
                if rule is not None
            }
            by_platform = {platform: made[id(rule)] for platform, rule in by_platform.items()}
            default = default and made[id(default)]
        if by_platform and len(ctx.platforms) > 1 and primitive.name in repeated.SEEING:
            default = functools.partial(_of_platforms, primitive.name, by_platform, default)
            by_platform = {}
        return by_platform, default, inline

    setattr(find, _OURS, True)
    return find


def _of_platforms(
    name: str,
    rules: dict[str, Rule],
    default: Rule | None,
    context: Any,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation whose rule sees its operands for several platforms.

    JAX adds the types of results to a list, and for such an equation they are a tuple, so that it
    would raise an error (jax 0.10 to 0.12).
    """
    context = context.replace(avals_out=[*context.avals_out])
    of_none = frozenset[Any]()  # Such an equation has no effect.
    return private_mlir.lower_per_platform(
        context, name, rules, default, of_none, *operands, **params
    )


def registered(primitive: Primitive, platform: str) -> tuple[Rule | None, Rule | None]:
    """Returns the rule that JAX has of a primitive on a platform, and the one for any platform."""
    try:
        rules = _jax.lowering_rules(primitive)
    except LookupError:
        return None, None
    anywhere = rules[None][0] if None in rules else None
    return (rules[platform][0] if platform in rules else anywhere), anywhere


def is_of(rule: Rule, packages: Sequence[str]) -> bool:
    """Returns whether the code of a rule is in one of some packages.

    The code of a rule that ``mlir.lower_fun`` made is in JAX.
    """
    while True:
        inner = inspect.unwrap(rule)
        inner = inner.func if isinstance(inner, functools.partial) else inner
        if inner is rule:
            module = getattr(rule, "__module__", None) or type(rule).__module__
            return str(module).partition(".")[0] in packages
        rule = inner


#: The package whose rules replace other rules, and call them.
_PACKAGE = __name__.partition(".")[0]
#: The code of each rule that ``mlir.lower_fun`` makes, whose closure has the function.
_LOWERED_FUNCTION = mlir.lower_fun(lambda: ()).__code__


def function_of(rule: Rule | None) -> Callable[..., list[Any]] | None:
    """Returns the function of arrays that a rule lowers; None if it writes operations by hand.

    The function takes the parameters of an equation as keywords.
    """
    while isinstance(rule, functools.partial) and is_of(rule.func, [_PACKAGE]):
        rule = getattr(rule, "__wrapped__", None)  # The rule that ours replaces.
    if rule is None or getattr(rule, "__code__", None) is not _LOWERED_FUNCTION:
        return None
    found = inspect.getclosurevars(rule).nonlocals
    if not {"fun", "multiple_results"} <= set(found):
        return None
    return _listed(found["fun"], multiple_results=found["multiple_results"])


def implementation_of(primitive: Primitive) -> Callable[..., list[Any]]:
    """Returns the function by which JAX evaluates a primitive outside of programs."""
    return _listed(primitive.impl, multiple_results=primitive.multiple_results)


def _listed(function: Callable[..., Any], *, multiple_results: bool) -> Callable[..., list[Any]]:
    def run(*arrays: Any, **params: Any) -> list[Any]:
        results = function(*arrays, **params)
        return [*results] if multiple_results else [results]

    return run


def traced(
    function: Callable[..., list[Any]], avals: Sequence[Any], params: Mapping[str, Any]
) -> ClosedJaxpr | None:
    """Returns the equations of a function; None if JAX cannot trace it, or it has effects.

    The function is as ``function_of`` returns it, for arrays of types and with keywords.
    """
    try:
        closed = jax.make_jaxpr(functools.partial(function, **params))(*avals)
    except Exception:  # noqa: BLE001  # The code of another library may raise anything.
        return None
    return None if closed.effects else closed
