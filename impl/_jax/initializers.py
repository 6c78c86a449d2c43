"""The scaled draw of JAX's initializers ``normal`` and ``variance_scaling``.

jax 0.12 multiplies the draw by the product of the scale and the square root of 2. jax 0.10
multiplies by one factor after the other, as ``jax.random.normal(key) * scale`` does. The second way
is pinned.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax

_MODULE, _NAME = "jax._src.nn.initializers", "_scaled_normal"


def pin_scaled_normal(is_pinned: Callable[[], bool]) -> None:
    """Makes initializers multiply by the scale last, in releases of JAX that do not.

    ``is_pinned`` returns whether to do so now; otherwise JAX's own function is called.
    """
    module = importlib.import_module(_MODULE)
    original = getattr(module, _NAME, None)
    if original is None:
        return

    @functools.wraps(original)
    def scaled(key: Any, shape: Any, dtype: Any, scale: Any, out_sharding: Any = None) -> jax.Array:
        if not is_pinned():
            drawn: jax.Array = original(key, shape, dtype, scale, out_sharding=out_sharding)
            return drawn
        normal: jax.Array = jax.random.normal(key, shape, dtype, out_sharding=out_sharding)
        return jax.lax.mul(normal, jax.lax.full_like(normal, scale))

    setattr(module, _NAME, scaled)
