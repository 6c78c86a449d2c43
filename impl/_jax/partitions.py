"""Operations that XLA partitions by the names of their axes.

XLA cuts an operation of ``custom_partitioning`` as its callbacks say. Here, the array that is cut
into the most tiles decides how all arrays are cut, axis by axis::

    operands          ("m", "k") and ("k", "n"), result ("m", "n")
    tiles             [4, 2] of the first operand
    so, in tiles      [2, 1] of the second operand, [4, 1] of the result

JAX names the callbacks of ``custom_partitioning`` by their address in memory. The name is a part of
the program, and so of the key of JAX's cache on disk: another process would compile the program
again. JAX's flag ``jax_remove_custom_partitioning_ptr_from_cache_key`` leaves the name out of the
key, so that two operations with equal shapes share an entry. Here, the name is made of what the
callbacks compute::

    address    backend_config = "140188149883024"
    content    backend_config = "samebits 2c26b46b68ffc68f"
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src.custom_partitioning import _sharding_callbacks
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax.experimental.custom_partitioning import custom_partitioning

from impl._jax import enables_x64, shardings
from impl._jax.shardings import Names, Tiling

_NAME = "backend_config"


def is_on_disk() -> bool:
    """Returns whether JAX keeps programs on disk."""
    is_used: bool = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return is_used and bool(folder)


def name_by_content(context: Any, results: Sequence[Any], content: Callable[[], str]) -> None:
    """Names the callbacks of a partitioned operation, if JAX keeps programs on disk.

    The context is of the rule that lowered the operation to these results. ``content`` returns a
    text that differs if the callbacks compute anything else.
    """
    if not is_on_disk():
        return
    operation = results[0].owner
    callbacks = _sharding_callbacks[_key(operation.attributes[_NAME].value)]
    module = context.module_context
    parts = (content(), module.platforms, module.axis_context, callbacks.mesh)
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
    name = f"samebits {digest}"
    # JAX keeps callbacks as long as a module that has them. Of two modules with equal callbacks,
    # either may live longer.
    known = _sharding_callbacks.setdefault(_key(name), callbacks)
    module.add_keepalive(known)
    operation.attributes[_NAME] = ir.StringAttr.get(name)


def _key(name: str) -> bytes:
    return name.encode()


def partitioned(
    function: Callable[..., Any],
    operands: Sequence[Names],
    results: Sequence[Names],
    part: Callable[[Tiling, Sequence[Any]], Callable[..., Any]] | None = None,
    devices: jax.sharding.AbstractMesh | None = None,
) -> Callable[..., Any]:
    """Returns a function as one operation, which XLA cuts along named axes alone.

    Args:
        function: Takes and returns whole arrays.
        operands: The names of the axes of each operand.
        results: The names of the axes of each result.
        part: Takes how the arrays are cut, and the types of the whole operands; returns the
            function of one device. None for ``function`` itself.
        devices: A mesh whose axes that function names; None if it names none.
    """
    x64 = enables_x64()

    def tiling(shapes: Any, outs: Any) -> Tiling:
        arrays = zip((*shapes, *jax.tree.leaves(outs)), (*operands, *results), strict=True)
        return shardings.finest([Tiling.of(array, names) for array, names in arrays])

    def of_results(cut: Tiling, outs: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure(outs), [cut.along(each) for each in results])

    def partition(mesh: Any, shapes: Any, outs: Any) -> Any:
        cut = tiling(shapes, outs)
        compute = function if part is None else part(cut, shapes)

        def of_a_device(*args: Any) -> Any:
            # JAX traces this when it compiles, under the settings and the mesh of that time.
            with shardings.no_mesh(), jax.enable_x64(x64):
                return compute(*map(shardings.without_sharding, args))

        cuts = tuple(cut.along(each) for each in operands)
        return devices or mesh, of_a_device, of_results(cut, outs), cuts

    def infer(mesh: Any, shapes: Any, outs: Any) -> Any:
        # The older partitioner, GSPMD, asks for this.
        del mesh
        return of_results(tiling(shapes, outs), outs)

    # The names of axes for the rule of Shardy, in which a whole axis has a name too.
    factors = [
        [name or f"{_WHOLE}{position}_{axis}" for axis, name in enumerate(names)]
        for position, names in enumerate((*operands, *results))
    ]
    sides = factors[: len(operands)], factors[len(operands) :]
    rule = " -> ".join(", ".join(map(" ".join, side)) for side in sides)
    whole = [factor for word in factors for factor in word if factor.startswith(_WHOLE)]

    # Inside jit, the constants of ``function`` do not become constants of the operation, which
    # custom_partitioning does not take.
    @custom_partitioning
    @jax.jit
    def call(*args: Any) -> Any:
        return function(*args)

    call.def_partition(
        partition,
        infer,
        decode_shardings=False,
        sharding_rule=rule,
        need_replication_factors=tuple(whole),
    )
    return call


#: How the names begin that the rule of Shardy has for axes that each device needs whole.
_WHOLE = "whole_"
