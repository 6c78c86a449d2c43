"""Promises of fork_rng: the default generator is restored at the end of the scope."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import ModuleType

from conformance.promise import Promise
from conformance.promises._keys import KEYS, SEED, drawn


def promises() -> Sequence[Promise]:
    """Returns tests of draws, another seed and an exception inside the scope."""
    return [
        Promise("R0212", "draws", _draws),
        Promise("R0212", "exception", _exception),
    ]


def _draws(namespace: ModuleType) -> None:
    with namespace.fork_rng():
        generator = namespace.manual_seed(SEED)
        with namespace.fork_rng():
            assert drawn(generator) == KEYS
            namespace.manual_seed(SEED + 1)
            drawn(generator)
        assert namespace.initial_seed() == SEED
        assert drawn(generator) == KEYS


def _exception(namespace: ModuleType) -> None:
    with namespace.fork_rng():
        generator = namespace.manual_seed(SEED)
        with contextlib.suppress(KeyError), namespace.fork_rng():
            drawn(generator)
            raise KeyError
        assert drawn(generator) == KEYS
