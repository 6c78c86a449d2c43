"""The choice of a lowering by platform, and functions that the rules of primitives share.

A primitive has an ordered path, and perhaps an atomic one for the mode off. Each path has a
lowering for each platform (``Lowerings``). The decision of a call is a parameter of the primitive,
since the platform is known only when the program is lowered. For ``impl.scatter_add`` with the mode
on, JAX lowers

    samebits_scatter_add[decision=(cuda: ordered, ...)] operand indices updates

for CUDA by ``ordered.kernel``, for a CPU by ``ordered.cpu``, and for any other platform by
``ordered.xla``; if XLA shares the program among devices, for all platforms by ``ordered.anywhere``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.interpreters import ad, mlir, xla

import spec
from impl._core import jax_internals, symbolic_sizes
from impl._core.jax_internals import Primitive
from impl._core.numerics import isolate
from impl._exact import arithmetic
from impl._kernels.launch import Launch
from impl._lowerings import _partitioning, _traces
from impl._lowerings._partitioning import Axes
from impl._mode import modes
from impl._mode.decide import Decision
from impl._soft_float64 import engines

#: A computation on arrays; takes the primitive's parameters as keywords.
Function: TypeAlias = Callable[..., Any]

#: The primitives that launch kernels on a GPU.
with_kernels: set[Primitive] = set()


@dataclasses.dataclass(frozen=True)
class Lowerings:
    """The three lowerings of one path. On the ordered path all give the same bits.

    Attributes:
        cpu: XLA operations that are fast on a CPU, and rely on its scatter being serial.
        xla: XLA operations that give the same bits on any device.
        kernel: Launches a Pallas kernel for CUDA; takes ``launch`` besides the parameters. If
            ``launch`` has no kernels, it computes by XLA operations, with the same bits on the
            ordered path.
        anywhere: XLA operations for several devices, if their sums are exact, so that XLA may
            partition them. The other three are then exact too, in 64 bits. None if devices share
            work by the primitive's own axes.
        cpu_isolates: Whether ``cpu`` itself rounds the operands that it adds to.
        launches: Whether ``kernel`` launches kernels, for some calls at least.
    """

    cpu: Function
    xla: Function
    kernel: Function
    anywhere: Function | None = None
    cpu_isolates: bool = dataclasses.field(default=False, kw_only=True)
    launches: bool = dataclasses.field(default=True, kw_only=True)

    @staticmethod
    def without_kernel(cpu: Function, xla: Function, *, cpu_isolates: bool = False) -> Lowerings:
        """Returns lowerings whose XLA operations serve as the kernel, since XLA fuses them."""
        kernel = drop_parameter("launch", xla)
        return Lowerings(cpu, xla, kernel, cpu_isolates=cpu_isolates, launches=False)

    def map(self, function: Callable[[Function], Function]) -> Lowerings:
        """Returns lowerings, each of which a function makes from one of these."""
        anywhere = None if self.anywhere is None else function(self.anywhere)
        cpu, xla, kernel = map(function, (self.cpu, self.xla, self.kernel))
        return Lowerings(cpu, xla, kernel, anywhere, launches=self.launches)

    def choose(self, platform: str, decision: Decision, *, exported: bool = False) -> Function:
        """Returns the lowering for ``platform``, or its stand-in under emulation.

        Args:
            platform: The name of a platform.
            decision: The decision of the call.
            exported: Whether ``jax.export`` lowers the program. It cannot export Pallas kernels.
        """
        emulation = decision.emulation
        if platform == "cpu" and emulation is not None and emulation.lowering != "native":
            if emulation.lowering == "xla":
                return self.xla
            launch = Launch(True, emulation.seed, fill=modes.fills())
            return functools.partial(self.kernel, launch=self._possible(launch))
        if platform == "cuda" and not exported:
            return functools.partial(self.kernel, launch=self._possible(Launch()))
        return self.cpu if platform == "cpu" else self.xla

    def _possible(self, launch: Launch) -> Launch:
        """Returns the settings without kernels, if there are some and the backend is missing."""
        return launch.possible() if self.launches else launch


def new_primitive(
    name: str,
    abstract_eval: Callable[..., Any],
    ordered: Lowerings,
    atomic: Lowerings | None = None,
    *,
    axes: Axes = _partitioning.NONE_FREE,
    multiple_results: bool = False,
    adds: bool = True,
) -> Primitive:
    """Makes a primitive whose static parameter ``decision`` chooses a path on each platform.

    Devices share the ordered path by its free ``axes``; XLA partitions the atomic path. The caller
    registers rules of differentiation and batching.

    Args:
        name: The name in a jaxpr.
        abstract_eval: Maps the types of the operands to the type of the result.
        ordered: The lowerings of the ordered path.
        atomic: The lowerings of the path that is taken with the mode off: the operation of XLA, or
            atomics that cost less than the ordered path. None if the ordered path serves.
        axes: The axes that devices may share.
        multiple_results: Whether the lowerings return a tuple.
        adds: Whether lowerings may add to an operand. A product that the user's program passes in
            is then rounded first, as it would be outside of any program.
    """
    primitive = Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(abstract_eval)
    if ordered.launches or (atomic is not None and atomic.launches):
        with_kernels.add(primitive)
    register_per_platform(primitive, _Rule(name, ordered, atomic, axes, multiple_results, adds))
    return primitive


@dataclasses.dataclass(frozen=True, eq=False)
class _Rule:
    """The lowering rule of a primitive; the attributes are arguments of ``new_primitive``."""

    name: str
    ordered: Lowerings
    atomic: Lowerings | None
    axes: Axes
    multiple_results: bool
    adds: bool

    def __call__(
        self, platform: str | None, context: Any, *args: Any, decision: Decision, **params: Any
    ) -> Any:
        """Lowers a call.

        Args:
            platform: The platform that the rule is registered for; None for all others.
            context: The context of the rule.
            *args: The operands of the rule.
            decision: The decision of the call.
            **params: The other parameters of the primitive.
        """
        name = platform or "other"
        action = decision.on(name)
        is_ordered = self.atomic is None or action.path == "ordered"
        path = self.ordered if self.atomic is None or is_ordered else self.atomic
        chosen = path.choose(name, decision, exported=jax_internals.exports(context))
        if path.anywhere is not None and _partitioning.is_partitioned(context):
            chosen = path.anywhere
        op = spec.load().row(action.row).op if action.row else self.name
        # A kernel's function is made for this call, with its launch.
        is_kernel = "launch" in getattr(chosen, "keywords", ())
        make = _whole if is_kernel else functools.partial(_traces.traced_once, _whole)
        function: Function = make(chosen, op, self._isolates(path, chosen, name), **params)
        # A primitive with one path has the same bits in every mode, so devices share it in the same
        # way in every mode: XLA's own partition would lose the signs of zeros.
        is_shared = is_ordered and path.anywhere is None
        # Integers are exact in every order and every width.
        is_exact = path.anywhere is not None and _is_inexact(context)
        if is_exact:
            function = engines.formed(context, function)
        with _exact_arithmetic(name) if is_exact else contextlib.nullcontext():
            return _partitioning.lower(
                function,
                self.axes if is_shared else _partitioning.LEFT_TO_XLA,
                context,
                *args,
                multiple_results=self.multiple_results,
            )

    def _isolates(self, path: Lowerings, chosen: Function, platform: str) -> bool:
        """Returns whether the operands are rounded before the lowering adds to them."""
        # For CUDA, XLA contracts no product and sum.
        rounds_itself = path.cpu_isolates and chosen is path.cpu
        return self.adds and platform != "cuda" and not rounds_itself


def _is_inexact(context: Any) -> bool:
    """Returns whether a lowering rule is about floats or complex numbers."""
    return any(jnp.issubdtype(each.dtype, jnp.inexact) for each in context.avals_in)


@contextlib.contextmanager
def _exact_arithmetic(platform: str) -> Iterator[None]:
    """Enters the scope in which functions of ``impl._exact`` are traced for a platform."""
    are_kept = arithmetic.are_kept_on([platform])
    with arithmetic.wide(), arithmetic.where_subnormals(are_kept=are_kept):
        yield


def _whole(chosen: Function, op: str, isolates: bool, /, **params: Any) -> Function:
    """Returns a lowering with its parameters, as a function of the operands."""
    function: Function = functools.partial(chosen, **params)
    return _with_sizes(op, _on_isolated(function) if isolates else function)


def _on_isolated(function: Function) -> Function:
    """Returns a lowering that computes with rounded operands."""

    def run(*operands: jax.Array) -> Any:
        return function(*map(isolate, operands))

    return run


def _with_sizes(op: str, function: Function) -> Function:
    """Returns a lowering that names the op in an error about a symbolic size."""

    def run(*operands: jax.Array) -> Any:
        names = (f"operand {position}" for position in range(len(operands)))
        with symbolic_sizes.need(op, **dict(zip(names, operands, strict=True))):
            return function(*operands)

    return run


def register_per_platform(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Registers ``rule(platform, context, *args, **params)`` for each platform of the spec.

    For all other platforms ``platform`` is None.
    """
    mlir.register_lowering(primitive, functools.partial(rule, None))
    for platform in spec.platforms():
        mlir.register_lowering(primitive, functools.partial(rule, platform), platform=platform)


def zero_tangent(value: jax.Array) -> ad.Zero:
    """Returns the symbolic zero that is a tangent of ``value``."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def batch_to_front(value: jax.Array, dim: int | None, size: int) -> jax.Array:
    """Moves the batch axis to the front; adds one by a broadcast if there is none."""
    if dim is None:
        return jax.numpy.broadcast_to(value[None], (size, *value.shape))
    return jax.numpy.moveaxis(value, dim, 0)


def merge_batch(batched: jax.Array) -> jax.Array:
    """Merges the leading batch axis into the outer axis."""
    return batched.reshape(batched.shape[0] * batched.shape[1], *batched.shape[2:])


def outer_length(value: jax.Array, dim: int | None) -> int:
    """Returns the length of the outer axis of an operand that may be batched."""
    return value.shape[1 if dim == 0 else 0]


def split_batch(merged: jax.Array, size: int, outer: int) -> jax.Array:
    """Splits the outer axis into the batch axis and the outer axis, as before ``merge_batch``."""
    return merged.reshape(size, outer, *merged.shape[1:])


def batch_size(args: Sequence[jax.Array], dims: Sequence[int | None]) -> int:
    """Returns the length of the batch axis."""
    return next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)


def drop_parameter(parameter: str, function: Function) -> Function:
    """Returns a lowering that ignores one of the primitive's parameters."""

    def run(*args: Any, **params: Any) -> Any:
        del params[parameter]
        return function(*args, **params)

    return run
