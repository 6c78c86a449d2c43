"""The programs of the elementary functions, and the records of their exhaustive trial.

Tests: conformance.lab.elementary.findings, conformance.lab.elementary.programs.
"""

import json
import pathlib
import re
from importlib.resources import files

import numpy as np
import pytest
from jax import lax

from conformance.lab.elementary import findings, programs
from conformance.lab.elementary.findings import Outcome
from conformance.reporting import report
from impl._exact.elementary import FUNCTIONS
from impl._native import functions
from impl.tests.exact import elementary_samples as samples

pytestmark = pytest.mark.once

REPORT = files("conformance") / "reports" / "elementary.json"
OF_TWO = {*samples.OF_TWO, "integer_pow"}


def test_the_file_has_the_programs_of_the_equations():
    assert json.loads(programs.text()) == json.loads(functions.PROGRAMS.read_text("utf-8"))


def test_the_steps_in_c_plus_plus_are_the_ones_in_python():
    text = (pathlib.Path(functions.__file__).parent / "src/functions.h").read_text("utf-8")
    assert tuple(re.findall(r" STEP\((\w+)\)", text)) == programs.STEPS


def test_an_equation_without_a_step_is_named():
    with pytest.raises(NotImplementedError, match="nextafter of float32"):
        programs.assembled(lambda x: lax.nextafter(x, x), [np.dtype(np.float32)])


def test_the_report_has_every_argument_of_every_function():
    records = {(each.op, each.sample): each for each in report.read(REPORT).records}
    dtypes = {"float32": 1 << 32, "float16": 1 << 16, "bfloat16": 1 << 16}
    assert set(records) == {(name, dtype) for name in FUNCTIONS for dtype in dtypes}
    for (name, dtype), record in records.items():
        assert (record.check, record.outcome) == (findings.CHECK, "passed")
        count = 1 << 28 if (name, dtype) == ("log2", "float32") else dtypes[dtype]
        assert name in OF_TWO or f": {count:,} arguments, " in record.detail


def test_a_record_counts_what_is_wrong(tmp_path):
    exp = Outcome(tried=8, by_mpmath=2, hardest=[(0.1, (0.5, 3.0))])
    wrong = Outcome(tried=4000, wrong=[((1.0,), 2.0)], error=0.6)
    hardest = "0x1.0000000000000p-1 0x1.8000000000000p+1"
    records = [
        findings.record("exp", "every", "float32", exp, 1.61),
        findings.record("exp", "random", "bfloat16", wrong, 1.61),
    ]
    report.update(tmp_path / "r.json", {}, records)
    assert [(r.outcome, r.detail) for r in report.read(tmp_path / "r.json").records] == [
        ("passed", f"every argument: 8 arguments, 2 decided by mpmath; hardest {hardest}"),
        (
            "failed",
            "random pairs: 4,000 arguments, 0 decided by mpmath, 1 wrong, 0 depend on contraction",
        ),
    ]


def test_outcomes_are_added():
    total = Outcome(tried=1, hardest=[(0.4, (1.0,))])
    total.add(Outcome(tried=2, hardest=[(i / 100, (float(i),)) for i in range(9)]))
    assert total.tried == 3
    assert [argument for _, (argument,) in total.hardest] == [0, 1, 2, 3]
    assert total.is_faultless()
    total.add(Outcome(contracted=[1.0]))
    assert not total.is_faultless()
