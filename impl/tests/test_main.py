"""``python -m impl``: its arguments, and a reader that closes the pipe."""

import sys

import pytest

from impl import __main__ as command


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main([])
    assert stopped.value.code == 2
    assert "python -m impl" in capsys.readouterr().err


def test_an_unknown_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["heal"])
    assert stopped.value.code == 2
    assert "'heal'" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_an_error_with_a_message(monkeypatch, tmp_path, capsys):
    def broken(_):
        raise BrokenPipeError

    monkeypatch.setattr("impl._demo.run", broken)
    with (tmp_path / "closed").open("w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert command.main(["demo"]) == 1
    assert "the reader of the output went away" in capsys.readouterr().err
