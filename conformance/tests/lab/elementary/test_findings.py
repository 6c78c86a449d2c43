"""The report of the exhaustive trial, and the table that the site shows of it."""

import pytest

from conformance.lab.elementary import findings
from conformance.lab.elementary.findings import Outcome
from impl._exact.elementary import FUNCTIONS
from impl.tests.exact import elementary_samples as samples

pytestmark = pytest.mark.once

REPORT = findings.read()
OF_TWO = {*samples.OF_TWO, "integer_pow"}


def test_the_report_has_every_function():
    assert set(REPORT) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_result_is_wrong(name):
    dtypes = REPORT[name]["dtypes"]
    assert list(dtypes) == ["float32", "float16", "bfloat16"]
    for each in dtypes.values():
        assert (each["wrong"], each["contracted"]) == (0, 0)
    if name == "log2":
        assert dtypes["float32"]["tried"] == 1 << 28
    elif name not in OF_TWO:
        assert [each["tried"] for each in dtypes.values()] == [1 << 32, 1 << 16, 1 << 16]


def test_a_report_is_updated(tmp_path):
    path = tmp_path / "report.json"
    exp = Outcome(tried=8, by_mpmath=2, hardest=[(0.1, (0.5,))])
    wrong = Outcome(tried=4, wrong=[((1.0,), 2.0)], error=0.6)
    first = findings.entry("every", {"float32": exp, "bfloat16": wrong}, 1.6)
    findings.write({"exp": first}, "jax 1", path)
    pair = Outcome(tried=1000, hardest=[(0.2, (0.5, 3.0)), (0.3, (1.0, 2.0))])
    findings.write({"atan2": findings.entry("random", {"float32": pair}, 3)}, "jax 2", path)
    assert list(findings.read(path)) == ["atan2", "exp"]
    assert findings.read(path)["atan2"]["hardest"] == [
        "0x1.0000000000000p-1 0x1.8000000000000p+1",
        "0x1.0000000000000p+0 0x1.0000000000000p+1",
    ]
    assert list(findings.table(path)) == [
        "# Elementary functions against correctly rounded values",
        "",
        "- jax 2",
        "- jax 1",
        "",
        "| function | tried | float32 | float16 | bfloat16 | by mpmath | wrong | seconds |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| `atan2` | random pairs | 1,000 |  |  | 0 | 0 | 3 |",
        "| `exp` | every argument | 8 |  | 4 | 2 | 1 | 2 |",
    ]


def test_outcomes_are_added():
    total = Outcome(tried=1, hardest=[(0.4, (1.0,))])
    total.add(Outcome(tried=2, hardest=[(i / 100, (float(i),)) for i in range(9)]))
    assert total.tried == 3
    assert [argument for _, (argument,) in total.hardest] == [0, 1, 2, 3]
    assert total.is_faultless()
    total.add(Outcome(contracted=[1.0]))
    assert not total.is_faultless()
