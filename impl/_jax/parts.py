"""The undocumented parts of JAX that impl uses, and the error about a part that is missing.

JAX renames and removes such parts without notice. Without this module, ``import impl`` would end in
an ``ImportError`` or an ``AttributeError`` of one of many modules. ``check`` looks for all parts
of ``parts.toml`` before any of them is used, when this module is imported::

    ImportError: jax 0.14.0 has no jax._src.core.JaxprEqnContext, which impl needs for the context
    of an equation that gets a tag. This release supports jax>=0.10,<0.13: install one of these, or
    a newer release of samebits.

Parts that only some calls need are looked for when they are needed: ``changed`` makes the message
of their ``LookupError``. An example is the function that finds lowering rules (``rules``).
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import jax

#: The supported releases, as in ``pyproject.toml``.
SUPPORTED = "jax>=0.10,<0.13"

#: Modules of JAX that are undocumented, or in part.
MODULES = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib")

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
#: The use of each name outside of this package, and inside of it.
NAMES: Mapping[str, str] = MappingProxyType(_TABLES["outside"])
INSIDE: Mapping[str, str] = MappingProxyType(_TABLES["inside"])


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def check() -> None:
    """Looks for all parts of JAX that an import of impl needs."""
    missing = [name for name in (*NAMES, *INSIDE) if not _exists(name)]
    if missing:
        uses = {**NAMES, **INSIDE}
        each = "; ".join(f"{name}, which impl needs for {uses[name]}" for name in missing)
        raise ImportError(
            f"jax {jax.__version__} has no {each}. This release supports {SUPPORTED}: install one "
            "of these, or a newer release of samebits."
        )


def changed(does: str) -> LookupError:
    """Returns the error about a part that is missing, or is another one, where it is needed.

    Args:
        does: Continues the sentence about this release of JAX, as in "keeps rules elsewhere".
    """
    return LookupError(f"JAX {jax.__version__} {does} (this release supports {SUPPORTED})")


check()
