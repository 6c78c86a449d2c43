"""The parts of a cotangent, which JAX adds when it differentiates in reverse.

JAX has an accumulator for each value of a program that it differentiates. Each use of the value
adds a part to the accumulator, in an order that depends on the release of JAX. JAX reads the
accumulator once, after all uses. ``add_at_once`` has the accumulators keep their parts until then.

A function in ``jax.jit`` has accumulators of its own, whose sums are parts outside. With
``inline=True``, as many functions of ``jax.numpy`` have it, JAX before 0.12 writes the equations of
the function in place of the call, but JAX 0.12 does so only after it has differentiated them, or
when it lowers them. ``inline_calls`` lets it do so before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jax._src import core, source_info_util
from jax._src.interpreters import ad as private_ad
from jax.interpreters import ad

from impl._jax import parts, tags

# JAX stores lines of source with each equation. With the mode off these lines are the same as in
# plain JAX, so JAX must skip the functions of this module.
source_info_util.register_exclusion(__file__)

#: Adds the parts of a cotangent.
Add: TypeAlias = Callable[[Sequence[Any]], Any]

#: The attributes of an accumulator: the parts that are not added yet, and the tag of the first.
_PARTS, _TAG = "samebits_parts", "samebits_tag"

#: The values of JAX 0.12 for calls that JAX inlines: when it traces a program, or lowers it.
_EARLY, _LATE = "jax_early", "jax_late"
_INLINED = frozenset({_EARLY, _LATE})


def add_at_once(keeps: Callable[[Any], bool], add: Add) -> None:
    """Lets a function add the parts of each cotangent, all at once.

    Args:
        keeps: Takes a part, and returns whether the function adds it; otherwise JAX does.
        add: The function. It is called with the tag of the equation that the first kept part is
            from.

    Raises:
        LookupError: This release of JAX has other accumulators.
    """
    kind: Any = getattr(private_ad, "ValAccum", None)
    if not all(callable(getattr(kind, name, None)) for name in ("accum", "freeze")):
        raise parts.changed("accumulates cotangents in another way")
    jax_accum, jax_freeze = kind.accum, kind.freeze

    def finish(accumulator: Any) -> None:
        parts = accumulator.__dict__.pop(_PARTS, None)
        if parts is not None:
            with tags.tagging(accumulator.__dict__.pop(_TAG)):
                accumulator.val = add(parts)

    def accum(self: Any, part: Any) -> None:
        if part is None or isinstance(part, ad.Zero):
            jax_accum(self, part)
            return
        if isinstance(self.val, ad.Zero) or not (keeps(part) and keeps(self.val)):
            finish(self)
            jax_accum(self, part)
            return
        parts = self.__dict__.setdefault(_PARTS, [self.val])
        self.__dict__.setdefault(_TAG, tags.current())
        # To a zero, JAX adds nothing, but it compares the types.
        self.val = ad.Zero(self.aval)
        jax_accum(self, part)
        parts.append(self.val)

    def freeze(self: Any) -> Any:
        finish(self)
        return jax_freeze(self)

    kind.accum, kind.freeze = accum, freeze


def inline_calls(holds: Callable[[], bool]) -> None:
    """Writes calls of functions with ``inline=True`` out before JAX transposes them.

    ``holds`` returns whether to do so now; otherwise JAX decides.
    """
    kind: Any = getattr(private_ad, "VJPNode", None)
    if kind is None:  # before jax 0.12
        return
    bind = kind.bind_with_trace

    def bind_with_trace(self: Any, trace: Any, args: Any, avals: Any, params: Any, /) -> Any:
        inline: Any = params.get("inline")
        if self.prim.name == "jit" and inline.value in _INLINED and holds():
            params = {**self.prim.get_bind_params(params), "inline": type(inline)(_EARLY)}
            return self.prim.bind_with_trace(trace, args, avals, params)
        return bind(self, trace, args, avals, params)

    kind.bind_with_trace = bind_with_trace


def of_one_type(parts: Sequence[Any]) -> list[Any]:
    """Returns parts that all vary over the same mesh axes of a ``shard_map``."""
    return list(core.auto_insert_reshard(*parts))


def add_two(a: Any, b: Any) -> Any:
    """Returns the sum of two parts, by the equation that JAX adds parts with."""
    return ad.add_jaxvals(a, b)
