"""Pallas, which is imported when a kernel is traced.

It takes as long to import as a fifth of this package, and most programs launch no kernel. Kernels
write ``pl.store`` as if this module were ``jax.experimental.pallas``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax.experimental.pallas import *  # noqa: F403
    from jax.experimental.pallas import triton as triton
else:

    def __getattr__(name: str) -> Any:
        from jax.experimental import pallas  # noqa: PLC0415
        from jax.experimental.pallas import triton  # noqa: PLC0415

        return triton if name == "triton" else getattr(pallas, name)
