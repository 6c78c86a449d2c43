"""A process with flags of its own runs the cases in step with this one."""

import pytest

from conformance.benchmarks import flagged_process
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.families import elementary

pytestmark = pytest.mark.once


def test_the_process_runs_the_cases_that_it_is_asked_for():
    setting = Setting(times=1, quick=True, torch=None, memory=1 << 30)
    abouts = [{"function": name, "elements": "262,144"} for name in ("log", "logistic")]
    server = flagged_process.Server("elementary", setting)
    try:
        for about in abouts:
            names = {"here": elementary.BASE, "ours": elementary.OURS}
            for side in server.sides(about, names).values():
                assert isinstance(side(), float)
                assert side() > 0
    finally:
        server.close()


def test_a_process_that_ends_is_an_error_with_its_flags():
    setting = Setting(times=1, quick=True, torch=None, memory=1 << 30)
    server = flagged_process.Server("elementary", setting, "--no_such_flag=1")
    try:
        with pytest.raises(RuntimeError, match="--no_such_flag=1"):
            server.sides({}, {})
    finally:
        server.close()


def test_a_family_on_a_cpu_needs_no_process():
    setting = Setting(times=1, quick=True, torch=None, memory=1 << 30)
    with flagged_process.of_family("elementary", elementary, setting) as elsewhere:
        assert elsewhere(Case({}, {}, ours="")) == {}
