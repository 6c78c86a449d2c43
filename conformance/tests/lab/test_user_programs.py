"""The mode over the programs of ``conformance.programs``, which do not know of it.

Each program is traced and lowered for CUDA; some are compiled for a CPU that adds in many orders.
Whole programs are audited: a language model that is trained and sampled, a convolutional net over
augmented images, a graph net with a differential equation, and a policy that plays and learns.
"""

import functools
import importlib.util
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance import programs
from conformance.lab.readers import stablehlo
from impl.tests.programs.texts import compared, races

MISSING = [name for name in programs.REQUIREMENTS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"`nox -s tests-3.11` has {MISSING}")

#: The programs in which no result depends on the order of additions.
WITHOUT_RACES = frozenset({"equinox_vision"})
#: Scatters of a lowered program whose indices may repeat as far as the text shows. The audit knows
#: that they do not. In this one, each sequence of the batch gives its state after the last word.
DISTINCT = types.MappingProxyType({"flax_seq2seq": {"f32[6,4,6] i32[4,2] f32[4,6]"}})


#: A program of a name, which two tests take. Its arguments are results of eager calls.
build = functools.cache(programs.build)
#: Schedule 0 keeps the order of the updates.
SEEDS = range(5)


def lowered(step, args):
    """The text of a program for CUDA, traced anew."""

    def program(*args):
        return step(*args)

    return impl.testing.lower(program, *args).as_text()


def in_schedules(step, args, *, mode):
    """The results of a program, with its updates in the order of each of ``SEEDS``."""
    seed, results = impl.testing.Seed(), []
    with impl.deterministic(mode), impl.testing.schedule(seed):
        compiled = jax.jit(step).lower(*args).compile()
        for seed.value in SEEDS:
            results.append(jax.block_until_ready(compiled(*args)))
    return results


def bits(tree):
    """The bits of all arrays of a result."""
    return tuple(_plain(leaf).tobytes() for leaf in jax.tree.leaves(tree))


def distance(left, right):
    """The Euclidean distance of all floats of two trees."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    differences = [
        np.float64(_plain(one)) - np.float64(_plain(other))
        for one, other in pairs
        if jnp.issubdtype(one.dtype, jnp.floating)
    ]
    return float(np.sqrt(sum(np.sum(difference**2) for difference in differences)))


def _plain(array):
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)


def scatters(report, verdict):
    return [f for f in report.select(verdict) if "scatter" in f.primitive and f.races]


@pytest.mark.parametrize("name", programs.NAMES)
def test_the_mode_removes_the_races_that_the_audit_finds(name):
    step, args = build(name)
    off = lowered(step, args)
    report = impl.audit(step)(*args)
    found = {compared(finding) for finding in scatters(report, "varies")}
    assert found == set(races(off)) - DISTINCT.get(name, set())
    assert bool(found) is (name not in WITHOUT_RACES)
    files = {finding.source.partition(":")[0] for finding in report.findings}
    assert files <= {f"conformance/programs/{name.partition('_')[0]}.py"}

    with impl.deterministic():
        audited = impl.audit(impl.jit(step))(*args)
        on = lowered(step, args)
    assert audited.ok
    assert {compared(finding) for finding in scatters(audited, "deterministic")} >= found
    assert races(on) == []
    assert [race for race in stablehlo.races(on) if race != "stablehlo.scatter"] == []
    assert (on != off) or name in WITHOUT_RACES


#: Pools, experts, and a program without races. Compiling all programs takes long.
@pytest.mark.parametrize("name", ["flax_cnn", "flax_experts", "equinox_vision"])
def test_schedules_change_bits_unless_the_mode_is_on(name):
    step, args = build(name)
    off, on = (in_schedules(step, args, mode=mode) for mode in (False, True))
    assert (len(set(map(bits, off))) > 1) is (name not in WITHOUT_RACES)
    assert len(set(map(bits, on))) == 1
    # The true gradient of some weights is 0, so only the norm over all weights is compared.
    update = distance(off[0][0], args[0])
    assert update > 0
    assert distance(off[0][0], on[0][0]) < 1e-5 * update


@pytest.mark.parametrize("name", programs.WHOLE)
def test_the_audit_of_a_whole_program_finds_nothing_to_do(name):
    step, args = build(name)
    with impl.deterministic(guarantee="portable"):
        assert impl.audit(step)(*args).ok
    with impl.deterministic():
        report = impl.audit(impl.jit(step))(*args)
    # No document says whether a GPU library's singular values repeat.
    assert {finding.primitive for finding in report.select("unknown")} <= {"lax.linalg.svd"}
    assert not (*report.select("varies"), *report.select("raises"))
