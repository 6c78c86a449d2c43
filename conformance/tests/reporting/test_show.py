"""The commands that print a report and compare two."""

import re

import pytest

from conformance import __main__ as command
from conformance.tests.reporting._records import PASSED, changed, written


@pytest.mark.parametrize(
    ("then", "text"),
    [
        ([changed(evidence="static")], "weaker: R0001 on cuda: scheduled before, static now"),
        ([], "weaker: R0001 on cuda: scheduled before, nothing now"),
        ([changed(outcome="failed", detail="why")], "fails: R0001 index_add .*: why"),
        ([changed(sha256="1" * 64)], f"other bits: R0001 .*: {'0' * 64} before, {'1' * 64} now"),
    ],
)
def test_a_difference_is_found_and_fails(tmp_path, capsys, then, text):
    old, new = written(tmp_path / "a.json", PASSED), written(tmp_path / "b.json", *then)
    assert command.main(["diff", str(old), str(new)]) == 1
    assert re.search(text, capsys.readouterr().out)
    assert command.main(["diff", str(old), str(old)]) == 0
    stronger = written(tmp_path / "c.json", PASSED, changed(evidence="hardware"))
    assert command.main(["diff", str(old), str(stronger)]) == 0


def test_show_prints_the_checks_that_failed(tmp_path, capsys):
    path = written(
        tmp_path / "r.json", PASSED, changed(row="R0002", outcome="failed", detail="why")
    )
    assert command.main(["show", str(path)]) == 1
    output = capsys.readouterr().out
    assert "1 failed, 1 passed" in output
    assert "failed: R0002" in output
    assert output.rstrip().endswith("why")
    assert command.main(["show", str(written(path, PASSED))]) == 0
