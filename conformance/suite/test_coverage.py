"""No row without a test, no op without a row, no row whose op does not exist."""

from __future__ import annotations

import collections
import inspect
from types import ModuleType

import jax
import pytest

import impl
import spec
from conformance import expecting
from conformance.case import Sample, samples
from conformance.cells import cells, tried_ops
from conformance.expectations import missing_ops
from conformance.implementation import Implementation, resolve
from spec import loader
from spec.check import coherence, locks

RULES = spec.load()
OPS = sorted({row.op for row in RULES.select(kind="op", active=True)})
EVERY_SAMPLE = [(op, sample) for op in tried_ops() for sample in samples(op)]


@pytest.mark.parametrize("op", OPS)
def test_op_exists(op: str, implementation: Implementation, request: pytest.FixtureRequest) -> None:
    """The op of a row exists, or is expected to be missing, and not both."""
    exists = resolve(implementation.namespace, op) is not None
    if op not in missing_ops(expecting.entries(request.config)):
        assert exists, f"{op} has rows and does not exist; write it, or expect it to be missing"
        assert samples(op), f"{op} exists and is not tried; add conformance/cases/{op}.py"
    else:
        assert not exists, f"{op} exists now; remove it from {expecting.file(request.config)}"


def _is_namespace(value: object) -> bool:
    """Whether ops are to be looked for in it: a package is one, a file of ops is not."""
    return (
        inspect.ismodule(value)
        and value.__name__.startswith(("impl.nn", "impl.sparse"))
        and hasattr(value, "__path__")
    )


def _public_ops() -> list[str]:
    """The functions that ``impl`` makes public and that are ops, by dotted name."""
    homes = ("impl.ops.", "impl.nn.functional.", "impl.nn.rnn", "impl.sparse.")
    found: list[str] = []
    spaces: list[tuple[str, ModuleType]] = [("", impl)]
    while spaces:
        prefix, space = spaces.pop()
        for name, value in vars(space).items():
            if inspect.isfunction(value) and value.__module__.startswith(homes):
                found.append(prefix + name)
            elif _is_namespace(value):
                spaces.append((f"{prefix}{name}.", value))
    return sorted(found)


@pytest.mark.parametrize("op", _public_ops())
def test_op_has_a_row(op: str) -> None:
    """Every public op is in the spec."""
    assert op in OPS, f"impl.{op} has no row; add one in spec/rows"


@pytest.mark.parametrize(
    "row", [r for r in RULES.rows if r.active and samples(r.op)], ids=lambda r: r.id
)
def test_row_is_tried(row: spec.Row) -> None:
    """A row decides a sample under every profile that lists it, and spares another."""
    decided: collections.Counter[str] = collections.Counter(
        cell.profile for cell in cells() if cell.row is not None and cell.row.id == row.id
    )
    listed = {profile for profile, behaviour in row.behaviour.items() if behaviour}
    untried = sorted(listed - set(decided))
    assert not untried, f"no sample of {row.op} meets {row.id} under {untried}; add one"
    if row.when:
        spared = [s.name for s in samples(row.op) if not spec.holds(row.when, s.facts)]
        assert spared, f"every sample of {row.op} meets {row.id}; add one that does not"


@pytest.mark.parametrize(
    ("op", "sample"), EVERY_SAMPLE, ids=lambda value: getattr(value, "name", value)
)
def test_op_states_its_facts(op: str, sample: Sample, implementation: Implementation) -> None:
    """The op tells the spec what the call is; the sample says so too, and they agree."""
    if not implementation.own:
        pytest.skip("only our own ops ask the spec")
    for direction in sample.directions:
        with impl.testing.questions() as asked:
            # Ops ask as they are traced.
            jax.make_jaxpr(sample.function(implementation, direction))(*sample.inputs(direction))
        stated = [question.facts for question in asked if question.op == op]
        assert stated, f"{op} does not ask the spec"
        for facts in stated:
            shared = {name: facts[name] for name in sample.facts if name in facts}
            assert shared == {name: sample.facts[name] for name in shared}
            needed = {name for row in RULES.select(op=op) for name in row.when}
            assert needed <= set(facts), f"{op} does not state {sorted(needed - set(facts))}"


def test_the_spec_holds_together() -> None:
    """What ``python -m spec check`` finds between rows, without needing jsonschema."""
    locked = loader.read_table(loader.ROOT, "locks.toml")
    issued = loader.read_table(loader.ROOT, "ids.toml")["issued"]
    assert [*coherence.findings(RULES), *locks.findings(RULES, locked)] == []
    retired = loader.read_table(loader.ROOT, "ids.toml")["retired"]
    assert {row.id: row.op for row in RULES.rows} == {
        key: op for key, op in issued.items() if key not in retired
    }


def test_there_is_something_to_try() -> None:
    """The suite cannot pass by trying nothing."""
    assert {None, "deterministic", "raise"} <= {cell.behaviour for cell in cells()}
    assert {op for op in OPS if resolve(impl, op)} <= set(_public_ops())
