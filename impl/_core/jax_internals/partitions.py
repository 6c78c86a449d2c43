"""Names of partitioned operations that do not change from one process to the next.

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

_NAME = "backend_config"


def is_on_disk() -> bool:
    """Returns whether JAX keeps programs on disk."""
    is_used: bool = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return is_used and bool(folder)


def name_by_content(context: Any, results: Sequence[Any], content: Callable[[], str]) -> None:
    """Names the callbacks of a partitioned operation, if JAX keeps programs on disk.

    Args:
        context: The context of the rule that lowered the operation.
        results: Its results.
        content: Returns a text that differs if the callbacks compute anything else.
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
