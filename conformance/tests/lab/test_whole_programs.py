"""Whole programs, as newcomers bring them, keep their bits on eight devices by one added line.

They are a language model that is trained and sampled, a convolutional net over augmented images, a
graph net with a differential equation, and a policy that plays, learns and logs a spectrum.
"""

import importlib.util
from pathlib import Path

import pytest

import impl
from conformance import programs
from impl.tests.support import processes

MISSING = [name for name in programs.REQUIREMENTS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"`nox -s tests-3.11` has {MISSING}")

SCRIPT = Path(__file__).with_name("programs_on_devices.py")
#: The transformers of other tests stand for the language model. The graph net, whose equation takes
#: longest to compile, is audited alone; ``lab/portable`` has loops on eight devices, and each op.
ON_EIGHT = ["flax_augmented", "optax_ppo"]


def test_one_device_and_eight_give_the_same_bits_by_one_line():
    done = processes.run(SCRIPT, "portable", *ON_EIGHT, devices=8, PYTHONPATH=str(processes.ROOT))
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [[n, d] for n in ON_EIGHT for d in ("1", "8")]
    assert len({digest for _, _, digest in lines}) == len(ON_EIGHT)


@pytest.mark.parametrize("name", programs.WHOLE)
def test_the_audit_finds_nothing_to_do(name):
    step, args = programs.build(name)
    with impl.deterministic(guarantee="portable"):
        assert impl.audit(step)(*args).ok
    with impl.deterministic():
        report = impl.audit(impl.jit(step))(*args)
    # No document says whether a GPU library's singular values repeat.
    assert {finding.primitive for finding in report.select("unknown")} <= {"lax.linalg.svd"}
    assert not (*report.select("varies"), *report.select("raises"))
