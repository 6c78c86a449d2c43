"""What rows of other kinds than ``op`` say, tried: nothing here knows what any row says."""

from __future__ import annotations

import importlib.util
import itertools
from types import ModuleType
from typing import Any

import pytest

import spec
from conformance.implementation import Implementation
from conformance.promise import KINDS, Promise, every_promise

RULES = spec.load()
PROMISED = [row for kind in KINDS for row in RULES.select(kind=kind, active=True)]
#: The facts that rows of compiler options ask for.
STATES = sorted({name for row in RULES.rows if row.options for name in row.when})


@pytest.mark.parametrize("promise", every_promise(), ids=str)
def test_promise(
    promise: Promise, implementation: Implementation, namespace: ModuleType, record: Any
) -> None:
    """What a row promises is kept."""
    if not implementation.keeps_promises:
        pytest.skip("it has generators and loaders of its own")
    lacking = [name for name in promise.needs if importlib.util.find_spec(name) is None]
    if lacking:
        pytest.skip(f"it needs {', '.join(lacking)}")
    record(promise, "promise")
    promise.keep(namespace)


@pytest.mark.parametrize("row", PROMISED, ids=lambda row: row.id)
def test_row_has_a_promise(row: spec.Row) -> None:
    """Every such row is tried, by the module of its op."""
    kept = [promise for promise in every_promise() if promise.row == row.id]
    assert kept, f"nothing tries {row.id}; add conformance/promises/{row.op.lower()}.py"
    assert {RULES.row(promise.row).op for promise in kept} == {row.op}


@pytest.mark.parametrize("profile", RULES.profiles)
def test_options(profile: str, namespace: ModuleType) -> None:
    """The compiler options are those of the rows that hold, in every state they ask for."""
    if not hasattr(namespace, "compile_options"):
        pytest.skip("the namespace compiles nothing")
    rows = [row for row in RULES.select(profile=profile, active=True) if row.options]
    assert rows, f"no row of {profile} sets an option"
    for mode, benchmark, switched in itertools.product([False, True], repeat=3):
        facts = {
            "deterministic_algorithms": mode,
            "cudnn_benchmark": benchmark,
            "cudnn_deterministic": switched or mode,
        }
        assert sorted(facts) == STATES
        wanted: dict[str, Any] = {}
        for row in rows:
            if spec.holds(row.when, facts):
                wanted.update(row.options)
        flags = namespace.backends.cudnn.flags(benchmark=benchmark, deterministic=switched)
        with namespace.deterministic(mode, profile=profile), flags:
            known = namespace.compile_options()
            assert known == {name: wanted[name] for name in known}
            lost = namespace.testing.unknown_compile_options()
            assert set(wanted) == {*known, *lost}
            assert namespace.jit(lambda x: x + 1)(1) == 2
