"""The parts of JAX that impl uses although JAX's documents do not promise that they stay.

Such a use is either one of the functions of this module or one of ``NAMES``. A test finds every
other one, and tests with each supported JAX that all of them still exist and do what impl needs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.extend.mlir.dialects import sdy
from jax.extend.sharding import xla_client  # type: ignore[attr-defined]
from jax.interpreters import mlir

#: Modules of JAX without documents, or documented in part: NAMES has each name used from them.
MODULES = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib")

#: The use of each name. JAX's tutorial on primitives has most of them.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "jax.__version_info__": "to tell releases of XLA apart, which JAX requires one of",
        "jax.core.ShapedArray": "the abstract value of a primitive without operands",
        "jax.core.Tracer": "to tell a traced value from a known one",
        "jax.extend.core.Primitive": "to define a primitive",
        "jax.extend.core.jaxpr_as_fun": "to evaluate a jaxpr inside a trace",
        "jax.interpreters.ad.Zero": "the symbolic zero of JVP and transpose rules",
        "jax.interpreters.ad.defbilinear": "the derivatives of a product",
        "jax.interpreters.ad.defjvp": "the derivatives of a primitive, one for each operand",
        "jax.interpreters.ad.deflinear2": "the derivatives of a linear primitive",
        "jax.interpreters.ad.instantiate_zeros": "to make an array of a symbolic zero",
        "jax.interpreters.ad.is_undefined_primal": "to find the operand to differentiate by",
        "jax.interpreters.ad.primitive_jvps": "to register a JVP rule",
        "jax.interpreters.ad.primitive_transposes": "to register a transpose rule",
        "jax.interpreters.batching.primitive_batchers": "to register a batching rule",
        "jax.interpreters.mlir._lowerings": "to find JAX's own lowering rules",
        "jax.interpreters.mlir._platform_specific_lowerings": "to find those of one platform",
        "jax.interpreters.mlir.lower_fun": "to make a lowering rule of a function",
        "jax.interpreters.mlir.register_lowering": "to register a lowering rule for a platform",
        "jax.interpreters.xla.apply_primitive": "to evaluate a primitive outside of jit",
    }
)

#: The name of the primitives of products and convolutions. By this name, which JAX gives to a
#: wrapper of cuDNN's product, policies of ``jax.checkpoint`` such as ``dots_saveable`` know a
#: product that is not JAX's own; ``dots_with_no_batch_dims_saveable`` takes the first axis of its
#: first operand for the batch, as it is here.
PRODUCT = "scaled_matmul_wrapper"


def _manual_axis_type(value: jax.Array) -> Any:
    # Inside shard_map, the types of arrays and keys have it; it is undocumented.
    return getattr(jax.typeof(value), "manual_axis_type", None)


def varying_axes(value: jax.Array) -> frozenset[str]:
    """Returns the names of the mesh axes of ``shard_map`` over which a value varies."""
    axes = _manual_axis_type(value)
    return frozenset() if axes is None else frozenset(axes.varying)


def varying_like(shape: jax.ShapeDtypeStruct, value: jax.Array) -> jax.ShapeDtypeStruct:
    """Returns the type of a kernel's output that varies over the same mesh axes as ``value``."""
    axes = _manual_axis_type(value)
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype, manual_axis_type=axes)


def type_of(like: Any, *axes: tuple[Any, int] | int, dtype: Any = None) -> Any:
    """Returns the type of a primitive's result, whose axes are sharded as those of its operands.

    A mesh with explicit axes shards types.

    Args:
        like: The type of an operand of the same number of axes.
        *axes: For each axis the type of an operand and the number of its axis that has the same
            length and sharding; or a length, for an axis that is not sharded.
        dtype: The dtype; None for that of ``like``.
    """
    shape = [axis if isinstance(axis, int) else axis[0].shape[axis[1]] for axis in axes]
    mesh = like.sharding.mesh
    if mesh.empty:
        return like.update(shape=tuple(shape), dtype=dtype, weak_type=False)
    used: set[str] = set()
    parts = []
    for axis in axes:
        part = None if isinstance(axis, int) else _parts(axis[0])[axis[1]]
        names = set(part if isinstance(part, tuple) else () if part is None else (part,))
        parts.append(None if names & used else part)
        used |= names
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*parts))
    return like.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=sharding)


def _parts(aval: Any) -> tuple[Any, ...]:
    """Returns the mesh axes that shard each axis of a type."""
    parts = tuple(aval.sharding.spec)
    return parts + (None,) * (len(aval.shape) - len(parts))


def shard_like(value: jax.Array, aval: Any) -> jax.Array:
    """Returns ``value`` with the sharding of a type. Types that have none change nothing."""
    if aval.sharding.mesh.empty or _parts(jax.typeof(value)) == _parts(aval):
        return value
    return jax.reshard(value, aval.sharding)  # type: ignore[no-any-return]


def default_matmul_precision() -> str | None:
    """Returns ``jax_default_matmul_precision`` as it is in this thread; None if it is not set."""
    value: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return value


def platforms() -> str | None:
    """Returns ``jax_platforms``: names of platforms between commas; None if it is not set."""
    value: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return value


def settings() -> dict[str, object]:
    """Returns the value of every setting of ``jax.config`` in this thread, by name."""
    values: Mapping[str, object] = jax.config.values
    # An attribute, where JAX has one, knows of scopes such as jax.enable_x64; ``values`` does not.
    return {name: getattr(jax.config, name, value) for name, value in values.items()}


def unknown_option(error: jax.errors.JaxRuntimeError) -> str | None:
    """Returns the compiler option that jaxlib's error names as unknown; None for other errors."""
    match = re.search(r"No such compile option: '(\w+)'", str(error))
    return None if match is None else match[1]


def refuses_nested_options(error: ValueError) -> bool:
    """Returns whether an error is JAX's refusal of compiler options inside another trace."""
    return "`compiler_options` can only be passed to top-level" in str(error)


def frames(equation: Any) -> tuple[tuple[str, int, str], ...]:
    """Returns the file, line and function of each frame that made an equation, innermost first.

    The frames end at the function that JAX traced: those of its caller are not among them.
    """
    traceback = equation.source_info.traceback
    if traceback is None:
        return ()
    return tuple((f.file_name, f.line_num, f.function_name) for f in traceback.frames)


def scan_constants(parameters: Mapping[str, Any]) -> int:
    """Returns how many operands of a scan are the same in each iteration; they come first."""
    if "num_consts" in parameters:
        return int(parameters["num_consts"])
    return len(parameters["ft_in"].unpack()[0])  # jax 0.12 and later


def scan_carried(parameters: Mapping[str, Any]) -> int:
    """Returns how many operands of a scan are carried; they come after the constants."""
    if "num_carry" in parameters:
        return int(parameters["num_carry"])
    return len(parameters["ft_in"].unpack()[1])  # jax 0.12 and later


def evaluated(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the outputs of one equation of a jaxpr, inside a trace.

    Args:
        equation: The equation.
        operands: The values of its operands, literals included.
    """
    primitive = equation.primitive
    with equation.ctx.manager:
        outputs = primitive.bind(*operands, **primitive.get_bind_params(equation.params))
    return list(outputs) if primitive.multiple_results else [outputs]


@functools.lru_cache(maxsize=256)
def _expanded(primitive: Any) -> Any:
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in primitive.in_avals_flat]
    return jax.make_jaxpr(primitive.expand)(*jax.tree.unflatten(primitive.in_tree, shapes))


def expanded(equation: Any) -> Any:
    """Returns the closed jaxpr of an equation that stands for several; None for any other.

    JAX 0.12 and later write some functions of ``jax.numpy`` as one such equation.
    """
    primitive = equation.params.get("_prim")
    return None if primitive is None else _expanded(primitive)


def traced_options(traced: jax.stages.Traced) -> dict[str, Any]:
    """Returns the compiler options that ``jax.jit`` got, of a function that it traced."""
    return dict(traced._params.get("compiler_options_kvs", ()))  # noqa: SLF001  # No other access.


def enables_x64() -> bool:
    """Returns ``jax_enable_x64`` as it is in this thread."""
    value: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    return value


def no_mesh() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope without a mesh, in which types have no sharding.

    The device that a program is lowered for stays known.
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    return jax.sharding.use_abstract_mesh(mesh)


def exports(context: Any) -> bool:
    """Returns whether a lowering rule is called by ``jax.export``."""
    return bool(context.module_context.lowering_parameters.for_export)


def is_local(context: Any) -> bool:
    """Returns whether a lowering rule is called inside a ``shard_map`` over all axes of a mesh."""
    axes = context.module_context.axis_context
    return hasattr(axes, "mesh") and set(axes.manual_axes) == set(axes.mesh.axis_names)


def devices_of(context: Any) -> int:
    """Returns over how many devices XLA partitions what a lowering rule returns."""
    axes = context.module_context.axis_context
    return int(axes.mesh.size if hasattr(axes, "mesh") else getattr(axes, "num_devices", 1))


def check_partitioner(context: Any) -> None:
    """Refuses a ``shard_map`` over some axes of a mesh if Shardy is off: XLA would crash."""
    axes = context.module_context.axis_context
    is_inside = bool(getattr(axes, "manual_axes", False))
    if is_inside and not jax.config.jax_use_shardy_partitioner:  # type: ignore[attr-defined]
        raise NotImplementedError(
            "inside a shard_map over some axes of a mesh, deterministic operations need the "
            "partitioner Shardy; set jax_use_shardy_partitioner to True"
        )


def without_shardings(context: Any) -> Any:
    """Returns the context of a lowering rule with types that have no sharding."""
    return context.replace(
        avals_in=[*map(_without_sharding, context.avals_in)],
        avals_out=[*map(_without_sharding, context.avals_out)],
    )


def with_devices(context: Any) -> Any:
    """Returns the context of a lowering rule with as many devices as the program has.

    JAX leaves the devices out unless a program has a primitive of a private set. The rule of
    ``custom_partitioning`` fails without them, but only counts them.
    """
    axes = context.module_context.axis_context
    if not hasattr(axes, "device_assignment") or axes.device_assignment is not None:
        return context
    axes = dataclasses.replace(axes, device_assignment=(jax.devices()[0],) * axes.num_devices)
    return context.replace(module_context=context.module_context.replace(axis_context=axes))


def _without_sharding(aval: Any) -> Any:
    return jax.core.ShapedArray(aval.shape, aval.dtype)


_without_sharding_p = Primitive("samebits_without_sharding")
_without_sharding_p.def_abstract_eval(_without_sharding)
mlir.register_lowering(_without_sharding_p, lambda _, value: [value])


def without_sharding(value: jax.Array) -> jax.Array:
    """Returns ``value`` with a type that has no sharding, inside a ``no_mesh()`` scope."""
    return _without_sharding_p.bind(value)  # type: ignore[no-any-return]  # a primitive is not typed


def replicated(value: Any) -> Any:
    """Returns a value of a lowering rule, of which every device of Shardy then has the whole."""
    axes = [sdy.DimensionShardingAttr.get([], is_closed=True)] * value.type.rank
    sharding = sdy.TensorShardingAttr.get(sdy.MeshAttr.get([]), axes)
    return sdy.ShardingConstraintOp(value, sharding).result


class _Sharding(jax.sharding.Sharding):
    """A sharding of XLA, as the rule of ``custom_partitioning`` takes and returns it."""

    def __init__(self, of_xla: Any) -> None:
        self._of_xla = of_xla

    def _to_xla_hlo_sharding(self, _: int) -> Any:
        return self._of_xla


@dataclasses.dataclass(frozen=True)
class Tiling:
    """The tiles that an array is cut into over devices.

    Attributes:
        tiles: The number of tiles along each axis of the array.
        names: The name of each axis; None for an axis that is to have one tile.
        of_xla: XLA's sharding.
    """

    tiles: tuple[int, ...]
    names: tuple[str | None, ...]
    of_xla: Any

    @staticmethod
    def replicated() -> Tiling:
        """Returns the tiling into one tile."""
        return Tiling((), (), xla_client.HloSharding.replicate())

    @staticmethod
    def of(array: jax.ShapeDtypeStruct, names: tuple[str | None, ...]) -> Tiling | None:
        """Returns the tiling of an array as a rule of ``custom_partitioning`` gets it."""
        if array.sharding is None:
            return None
        of_xla = array.sharding._to_xla_hlo_sharding(len(array.shape))  # noqa: SLF001  # no other
        if not of_xla.is_tiled():
            return None
        return Tiling(tuple(of_xla.tile_assignment_dimensions()[: len(names)]), names, of_xla)

    def along(self, names: tuple[str | None, ...]) -> jax.sharding.Sharding:
        """Returns the sharding of another array whose axes of the same names have the same tiles.

        Its other axes have one tile each. Devices with the same tiles get the same data. The axes
        of a ``shard_map`` that this is inside of stay as they are.
        """
        if not self.tiles:
            return _Sharding(self.of_xla)
        kind = type(self.of_xla.to_proto().type)
        grid = np.asarray(self.of_xla.tile_assignment_devices())
        grid = grid.reshape(self.of_xla.tile_assignment_dimensions())
        rank = len(self.tiles)
        kinds = enumerate(self.of_xla.subgroup_types())
        manual = [rank + position for position, of in kinds if of == kind.MANUAL]
        same = [None if n is None or n not in self.names else self.names.index(n) for n in names]
        first = [axis for axis in (*same, *manual) if axis is not None]
        grid = grid.transpose(first + [axis for axis in range(grid.ndim) if axis not in first])
        tiles = [1 if axis is None else self.tiles[axis] for axis in same]
        rest = grid.shape[len(first) - len(manual) : len(first)]
        kinds_of_rest = [kind.MANUAL] * len(manual) + [kind.REPLICATED]
        grid = grid.reshape(*tiles, *rest, -1)
        return _Sharding(type(self.of_xla).subgroup_with_device_ordering(grid, kinds_of_rest))


def lowering_rules(primitive: Primitive) -> Mapping[str | None, tuple[Callable[..., Any], bool]]:
    """Returns JAX's own lowering rules of a primitive, and whether each is lowered inline.

    They are those of each platform that has one, and that of all others, for which the key is None.

    Raises:
        LookupError: This release of JAX keeps its rules elsewhere, or has none for the primitive.
    """
    try:
        tables: dict[str | None, Any] = {None: mlir._lowerings}  # noqa: SLF001
        tables.update(mlir._platform_specific_lowerings.items())  # noqa: SLF001
        entries = {name: table[primitive] for name, table in tables.items() if primitive in table}
        rules = {name: (entry.rule, entry.inline) for name, entry in entries.items()}
    except (AttributeError, TypeError) as error:
        raise LookupError(f"JAX {jax.__version__} keeps lowering rules elsewhere") from error
    if not rules or not all(callable(rule) for rule, _ in rules.values()):
        raise LookupError(f"JAX {jax.__version__} has no lowering rule of {primitive.name!r}")
    return rules


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A program that JAX lowers.

    Attributes:
        closed: Its jaxpr, with its constants.
        function: The name, the file and the line of the function, as ``name at file:line``.
        options: The compiler options that ``jax.jit`` got.
    """

    closed: Any
    function: str
    options: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a compiled program.

    Attributes:
        function: The name, the file and the line of the function, as ``name at file:line``.
        name: The name of the program.
        arguments: The arguments that the program reads, each with its name.
        run: Runs the program, and returns its outputs. It can be called once.
    """

    function: str
    name: str
    arguments: tuple[tuple[str, Any], ...]
    run: Callable[[], Sequence[Any]]


@contextlib.contextmanager
def watched_programs(
    lowered: Callable[[Lowered], None], called: Callable[[Call], Sequence[Any]] | None = None
) -> Iterator[None]:
    """Tells of each program that JAX lowers, and of each call of one that is compiled inside.

    The public ``jax.monitoring`` tells the name of a program at most.

    Args:
        lowered: It is called before a program is lowered, in the thread that lowers it.
        called: It is called instead of a compiled program, and returns the program's outputs. None
            leaves calls alone.

    Raises:
        LookupError: This release of JAX lowers programs elsewhere.
    """
    try:
        pxla: Any = importlib.import_module("jax._src.interpreters.pxla")
        lower, executable = pxla.lower_sharding_computation, pxla.MeshExecutable
        unsafe_call = executable.unsafe_call
    except (ImportError, AttributeError) as error:
        raise LookupError(f"JAX {jax.__version__} lowers programs elsewhere") from error

    def tell(closed: Any, *rest: Any, **named: Any) -> Any:
        options = dict(named.get("compiler_options_kvs", ()))
        lowered(Lowered(closed, _function(_inside(closed).debug_info), options))
        return lower(closed, *rest, **named)

    # JAX has no fast path in C++ to a callable that is not of its own class: each call comes here.
    def told(self: Any) -> Any:
        return lambda *args: called(_call(self, unsafe_call.fget(self), args))  # type: ignore[misc]

    pxla.lower_sharding_computation = tell
    if called is not None:
        executable.unsafe_call = property(told)
    try:
        yield
    finally:
        pxla.lower_sharding_computation = lower
        executable.unsafe_call = unsafe_call


def _inside(closed: Any) -> Any:
    return getattr(closed, "jaxpr", closed)


def _function(info: Any) -> str:
    return str(info.func_src_info)


def _call(executable: Any, program: Any, args: tuple[Any, ...]) -> Call:
    info = executable._all_args_info.debug_info  # noqa: SLF001  # No other access.
    names = info.arg_names or ()
    if len(names) != len(args):
        names = ("",) * len(args)
    kept = [
        pair for i, pair in enumerate(zip(names, args, strict=True)) if i in program.kept_var_idx
    ]
    return Call(_function(info), program.name, tuple(kept), lambda: program(*args))
