"""The mode over the programs of ``conformance.lab.user_programs``, which do not know of it.

Each program is traced, lowered for CUDA, and compiled for a CPU that adds in many orders.
"""

import importlib.util
import types

import pytest

import impl
from conformance.lab import user_programs
from conformance.lab.readers import stablehlo
from conformance.tests._programs import (
    bits,
    built,
    distance,
    lowered,
    lowered_by_jax,
    lowered_off,
    run,
)
from impl.tests.programs.texts import compared, races

MISSING = [name for name in user_programs.REQUIREMENTS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"`nox -s tests-3.11` has {MISSING}")

#: The programs in which no result depends on the order of additions.
WITHOUT_RACES = frozenset({"equinox_vision", "optax_adversarial"})
#: Scatters of a lowered program whose indices may repeat as far as the text shows. The audit knows
#: that they do not. In this one, each sequence of the batch gives its state after the last word.
DISTINCT = types.MappingProxyType({"flax_seq2seq": {"f32[6,4,6] i32[4,2] f32[4,6]"}})
#: A finding of each program that does not race.
FALSE_ALARMS: types.MappingProxyType[str, set[str]] = types.MappingProxyType({})


def scatters(report, verdict):
    return [f for f in report.select(verdict) if "scatter" in f.primitive and f.races]


@pytest.mark.parametrize("name", user_programs.NAMES)
def test_the_findings_are_the_racing_scatters(name):
    step, args = built(name)
    report = impl.audit(step)(*args)
    found = {compared(finding) for finding in scatters(report, "varies")}
    alarms = FALSE_ALARMS.get(name, set())
    assert len(alarms) <= 1
    assert found - alarms == set(races(lowered_off(name))) - DISTINCT.get(name, set())
    assert bool(found) is (name not in WITHOUT_RACES)
    files = {finding.source.partition(":")[0] for finding in report.findings}
    assert files <= {f"conformance/lab/user_programs/{name}.py"}

    with impl.deterministic():
        on = impl.audit(impl.jit(step))(*args)
    assert on.ok
    assert {compared(finding) for finding in scatters(on, "deterministic")} >= found


@pytest.mark.parametrize("name", user_programs.NAMES)
def test_the_mode_removes_every_race_and_off_it_changes_nothing(name):
    step, args = built(name)
    off = lowered_off(name)
    assert off == lowered_by_jax(step, args)
    with impl.deterministic():
        on = lowered(step, args)
    assert races(on) == []
    assert [race for race in stablehlo.races(on) if race != "stablehlo.scatter"] == []
    assert (on != off) or name in WITHOUT_RACES


@pytest.mark.parametrize("name", user_programs.NAMES)
def test_schedules_change_bits_unless_the_mode_is_on(name):
    step, args = built(name)
    runs = run(step, args)
    assert (len(set(map(bits, runs.off))) > 1) is (name not in WITHOUT_RACES)
    assert len(set(map(bits, runs.on))) == 1
    # The true gradient of some weights is 0, so only the norm over all weights is compared.
    update = distance(runs.off[0][0], args[0])
    assert update > 0
    assert distance(runs.off[0][0], runs.on[0][0]) < 1e-5 * update
