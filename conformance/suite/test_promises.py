"""Tests rows of kinds other than ``op``. The tests read the rows and repeat none of them."""

from __future__ import annotations

import importlib.util
import itertools
from types import ModuleType
from typing import Any

import pytest

import spec
from conformance.adapters.base import Adapter
from conformance.suite.promise import KINDS, Promise, every_promise, family_of

RULES = spec.load()
PROMISED = [row for kind in KINDS for row in RULES.select(kind=kind, active=True)]
#: The facts in the conditions of rows of compiler options.
STATES = sorted({name for row in RULES.rows if row.options for name in row.when})


@pytest.mark.parametrize("promise", every_promise(), ids=str)
def test_promise(
    promise: Promise, implementation: Adapter, namespace: ModuleType, record: Any
) -> None:
    """The namespace keeps the promise of a row."""
    if not implementation.keeps_promises:
        pytest.skip("it has generators and loaders of its own")
    lacking = [name for name in promise.needs if importlib.util.find_spec(name) is None]
    if lacking:
        pytest.skip(f"it needs {', '.join(lacking)}")
    record(promise, "promise")
    promise.keep(namespace)


@pytest.mark.parametrize("row", PROMISED, ids=lambda row: row.id)
def test_row_has_a_promise(row: spec.Row) -> None:
    """The module of the row's family tests the row."""
    promises = [promise for promise in every_promise() if promise.row == row.id]
    file = f"conformance/promises/{family_of(row.op)}.py"
    assert promises, f"nothing tries {row.id}; add it to {file}"
    assert {RULES.row(promise.row).op for promise in promises} == {row.op}


@pytest.mark.parametrize("profile", RULES.profiles)
def test_options(profile: str, implementation: Adapter, namespace: ModuleType) -> None:
    """The rows that hold give the compiler options, in every state of their facts."""
    if not implementation.of_this_project:
        pytest.skip("the namespace compiles nothing")
    rows = [row for row in RULES.select(profile=profile, active=True) if row.options]
    assert rows, f"no row of {profile} sets an option"
    for mode, benchmark, deterministic in itertools.product([False, True], repeat=3):
        facts = {
            "deterministic_algorithms": mode,
            "cudnn_benchmark": benchmark,
            "cudnn_deterministic": deterministic or mode,
        }
        assert sorted(facts) == STATES
        stated: dict[str, Any] = {}
        for row in rows:
            if spec.holds(row.when, facts):
                stated.update(row.options)
        flags = namespace.backends.cudnn.flags(benchmark=benchmark, deterministic=deterministic)
        with namespace.deterministic(mode, profile=profile), flags:
            known = namespace.compile_options()
            assert known == {name: stated[name] for name in known}
            unknown = namespace.testing.unknown_compile_options()
            assert set(stated) == {*known, *unknown}
            assert namespace.jit(lambda x: x + 1)(1) == 2
