"""The sides of a benchmark that compiles one program of plain JAX in several modes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import impl

Scope: TypeAlias = Callable[[], contextlib.AbstractContextManager[Any]]

#: The side with which each side is compared.
BASE = "plain JAX"
#: The side with the mode on.
OURS = "ordered"


@contextlib.contextmanager
def _without_rules() -> Iterator[None]:
    impl.programs.disable()
    try:
        yield
    finally:
        impl.programs.enable()


#: The scope that each side is compiled in.
SCOPES: Mapping[str, Scope] = MappingProxyType(
    {
        BASE: _without_rules,
        "mode off": functools.partial(impl.deterministic, False),
        OURS: impl.deterministic,
    }
)
