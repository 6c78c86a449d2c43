"""Running a user's file: its arguments, its errors, its threads."""

import sys
import threading

import pytest

from impl.diagnosis import _running


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(text, *arguments):
        file = tmp_path / "program.py"
        file.write_text(text)
        return _running.attempt(file, arguments)

    return run


def test_a_program_has_its_arguments_and_the_report_its_output(attempt, capsys):
    assert attempt("import sys; print(__name__, sys.argv[1:])", "--fast", "3") is None
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "__main__ ['--fast', '3']\n")


def test_an_error_is_shown_as_python_shows_it(attempt, capsys):
    assert attempt("def f():\n    1 / 0\nf()\n") == "raised ZeroDivisionError"
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('program.py", line 3, in <module>')
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert attempt("1 +") == "raised SyntaxError"
    assert "_running.py" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "failure", "shown"),
    [
        ("0", None, ""),
        ("None", None, ""),
        ("3", "ended with the exit status 3", ""),
        ("'no data'", "ended with the exit status 1", "no data\n"),
    ],
)
def test_the_exit_status_of_a_program(attempt, capsys, end, failure, shown):
    assert attempt(f"import sys; sys.exit({end})") == failure
    assert capsys.readouterr().err == shown


def test_threads_end_first_as_in_python(attempt, capsys):
    text = "import threading, time\n"
    text += "def f():\n    time.sleep(0.05)\n    print('end')\n"
    assert attempt(f"{text}threading.Thread(target=f).start()\n") is None
    # The output of a thread is not moved to the standard error any more by then.
    assert "end\n" in "".join(capsys.readouterr())


def test_a_program_ends_after_its_threads_and_before_an_idle_executor(attempt, capsys):
    source = (
        "import time, threading, concurrent.futures as futures\n"
        "def late(word):\n    time.sleep(0.3)\n    print(word)\n"
        "pool = futures.ThreadPoolExecutor(1)\n"
        "pool.submit(late, 'pool 1'), pool.submit(late, 'pool 2')\n"
        "threading.Thread(target=late, args=('thread',)).start()\n"
    )
    assert attempt(source) is None
    printed = capsys.readouterr()
    assert {"pool 1", "pool 2", "thread"} == {*(printed.out + printed.err).splitlines()}


def test_threads_of_the_caller_are_not_waited_for(attempt):
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, args=(60,))
    thread.start()
    try:
        assert attempt("1 + 1") is None
        assert thread.is_alive()
    finally:
        ended.set()
        thread.join()
