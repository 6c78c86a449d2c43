"""Tests that rows, ops and tests fit: each row has a test and each op a row, and each op exists.

Each expectation is about a test of the run, so that a stale one is found.
"""

from __future__ import annotations

import collections
import inspect
from types import ModuleType

import pytest

import spec
from conformance.adapters.base import Adapter, resolve
from conformance.cases.table import Sample, samples
from conformance.pytest_plugin import failures, run
from conformance.reporting.expectations import Expectation, missing_ops
from conformance.suite.cells import cells, ops_with_samples
from spec import loader
from spec.check import coherence, locks

RULES = spec.load()
OPS = sorted({row.op for row in RULES.select(kind="op", active=True)})
EVERY_SAMPLE = [(op, sample) for op in ops_with_samples() for sample in samples(op)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives the public ops of this project, and each id of each expectation that holds."""
    if "public_op" in metafunc.fixturenames:
        adapter = run.implementation(metafunc.config)
        # Other implementations may have any functions.
        ops = _public_ops(adapter.namespace) if adapter.of_this_project else []
        metafunc.parametrize("public_op", ops)
    if "entry" in metafunc.fixturenames:
        parameters = [
            pytest.param(entry, id, id=id)
            for entry in failures.entries(metafunc.config)
            for id in entry.ids
        ]
        skip = pytest.mark.skip(reason="nothing is expected to fail")
        nothing = pytest.param(None, None, marks=skip, id="nothing")
        metafunc.parametrize(("entry", "id"), parameters or [nothing])


@pytest.mark.parametrize("op", OPS)
def test_op_exists(op: str, implementation: Adapter, request: pytest.FixtureRequest) -> None:
    """The op of a row exists, or is expected to be missing, and not both."""
    exists = resolve(implementation.namespace, op) is not None
    if op not in missing_ops(failures.entries(request.config)):
        assert exists, f"{op} has rows and does not exist; write it, or expect it to be missing"
        assert samples(op), f"{op} exists and is not tried; add an entry to conformance/cases"
    else:
        assert not exists, f"{op} exists now; remove it from {failures.file(request.config)}"


def _is_namespace(value: object) -> bool:
    """Returns whether a module has ops as attributes. A package has, a file of ops has not."""
    return (
        inspect.ismodule(value)
        and value.__name__.startswith(("impl.nn", "impl.sparse"))
        and hasattr(value, "__path__")
    )


def _public_ops(namespace: ModuleType) -> list[str]:
    """Returns the public functions of ``impl`` that are ops, by dotted name."""
    homes = ("impl.ops.", "impl.nn.", "impl.sparse.")
    ops: list[str] = []
    spaces: list[tuple[str, ModuleType]] = [("", namespace)]
    while spaces:
        prefix, space = spaces.pop()
        # A module that loads its parts at their first use lists them in `dir` alone.
        for name in dir(space):
            value = getattr(space, name)
            if inspect.isfunction(value) and value.__module__.startswith(homes):
                ops.append(prefix + name)
            elif _is_namespace(value):
                spaces.append((f"{prefix}{name}.", value))
    return sorted(ops)


def test_op_has_a_row(public_op: str) -> None:
    """Every public op is in the spec."""
    assert public_op in OPS, f"impl.{public_op} has no row; add one in spec/rows"


@pytest.mark.parametrize(
    "row", [r for r in RULES.rows if r.active and samples(r.op)], ids=lambda r: r.id
)
def test_row_is_tested(row: spec.Row) -> None:
    """A row decides a sample under every profile that lists it, and spares another."""
    decided: collections.Counter[str] = collections.Counter(
        cell.profile for cell in cells() if cell.row is not None and cell.row.id == row.id
    )
    listed = {profile for profile, behaviour in row.behaviour.items() if behaviour}
    untested = sorted(listed - set(decided))
    assert not untested, f"no sample of {row.op} meets {row.id} under {untested}; add one"
    if row.when:
        spared = [s.name for s in samples(row.op) if not spec.holds(row.when, s.facts)]
        assert spared, f"every sample of {row.op} meets {row.id}; add one that does not"


@pytest.mark.parametrize(
    ("op", "sample"), EVERY_SAMPLE, ids=lambda value: getattr(value, "name", value)
)
def test_op_states_its_facts(op: str, sample: Sample, implementation: Adapter) -> None:
    """The facts that the op states to the spec agree with the facts of the sample."""
    if not implementation.of_this_project:
        pytest.skip("only our own ops ask the spec")
    import jax  # noqa: PLC0415  # other implementations do without it

    import impl  # noqa: PLC0415  # as above

    for direction in sample.directions:
        with impl.testing.questions() as asked:
            # Ops ask while JAX traces them.
            jax.make_jaxpr(sample.function(implementation, direction))(*sample.inputs(direction))
        statements = [question.facts for question in asked if question.op == op]
        assert statements, f"{op} does not ask the spec"
        for facts in statements:
            shared = {name: facts[name] for name in sample.facts if name in facts}
            assert shared == {name: sample.facts[name] for name in shared}
            needed = {name for row in RULES.select(op=op) for name in row.when}
            assert needed <= set(facts), f"{op} does not state {sorted(needed - set(facts))}"


def test_the_spec_holds_together() -> None:
    """The spec passes the checks of ``python -m spec check`` that need no jsonschema."""
    locked = loader.read_table(loader.ROOT, "locks.toml")
    issued = loader.read_table(loader.ROOT, "ids.toml")["issued"]
    assert [*coherence.findings(RULES), *locks.findings(RULES, locked)] == []
    retired = loader.read_table(loader.ROOT, "ids.toml")["retired"]
    assert {row.id: row.op for row in (*RULES.rows, *RULES.primitives)} == {
        key: op for key, op in issued.items() if key not in retired
    }


def test_suite_is_not_empty(implementation: Adapter) -> None:
    """The suite has cells of every kind, so that it cannot pass without a test."""
    assert {None, "deterministic", "raise"} <= {cell.behaviour for cell in cells()}
    if implementation.of_this_project:
        namespace = implementation.namespace
        assert {op for op in OPS if resolve(namespace, op)} <= set(_public_ops(namespace))


def test_id_means_something(entry: Expectation, id: str, request: pytest.FixtureRequest) -> None:
    """An id means some test. An id that means none would hide that its entry is out of date."""
    config = request.config
    if entry.outcome == "missing":
        assert id in OPS, f"no row has the op {id}; remove it from {failures.file(config)}"
        return
    absent = entry.device and not failures.devices(config) & set(entry.device)
    if config.getoption("--profile") or absent:
        pytest.skip("only a run of every profile, on the entry's device, can tell")
    assert (entry, id) in failures.matched(config), (
        f"{id} is not a test that is tried here; correct it or remove it from "
        f"{failures.file(config)} (python -m conformance expectations --rewrite does so)"
    )
