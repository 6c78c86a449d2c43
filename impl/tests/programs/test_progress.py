"""The lines by which a long call says what it does."""

import sys
import time

from impl.programs._differences import progress as _progress
from impl.programs._differences.progress import Progress


def test_steps_are_printed_where_they_are_asked_for(capsys):
    with Progress("record", True) as progress:
        progress.step("traces")
    assert capsys.readouterr().err == "record: traces (0 s)\n"
    for shown in (False, None):  # The stderr of a test is not a terminal.
        with Progress("record", shown) as progress:
            progress.step("traces")
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_the_step_of_a_long_call_and_those_that_follow(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("record", None) as progress:
        progress.step("traces")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_progress, "PATIENCE", 0.01)
    with Progress("record", None) as progress:
        time.sleep(0.02)  # The timer and the step both find the call long.
        progress.step("compiles")
        progress._later.join()
        progress.step("runs")
    assert capsys.readouterr().err == "record: compiles (0 s)\nrecord: runs (0 s)\n"
