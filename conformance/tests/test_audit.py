"""The findings of ``impl.audit`` against the racing scatters of the program lowered for CUDA.

The lowered text is read by itself, without the audit's facts: two readers of one program.
"""

import pytest

import impl
from conformance.tests._scatters import compared, racing_scatters
from impl.tests.support.user_programs import PROGRAMS


@pytest.mark.parametrize("build", PROGRAMS)
def test_the_findings_are_the_racing_scatters(build):
    step, args = build()
    report = impl.audit(step)(*args)
    scatters = [finding for finding in report.select("varies") if "scatter" in finding.primitive]
    text = impl.testing.lower(step, *args).as_text()
    assert scatters  # Each of the programs races.
    assert set(map(compared, scatters)) == racing_scatters(text)
    # Without the options of ``impl.jit`` XLA may pick the kernels of products by timing.
    products = {"lax.dot_general", "lax.conv_general_dilated"}
    assert {finding.primitive for finding in report.select("unknown")} <= products
    sources = {finding.source.partition(":")[0] for finding in report.findings}
    assert sources == {"impl/tests/support/user_programs.py"}

    with impl.deterministic():
        on = impl.audit(impl.jit(step))(*args)
    assert on.ok
    ordered = [f.shapes for f in on.select("deterministic") if f.races]
    assert ordered == [f.shapes for f in scatters]
