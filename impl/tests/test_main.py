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


def test_the_flags_of_a_profile_are_printed_after_those_of_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    assert command.main(["flags", "--profile", "complete"]) == 0
    printed = capsys.readouterr().out.split()
    assert printed[0] == "--xla_cpu_max_isa=AVX2"
    assert "--xla_gpu_autotune_level=0" in printed
    assert "--xla_gpu_enable_scatter_determinism_expander=true" in printed
    assert command.main(["flags", "--profile", "none"]) == 2
    assert "'none'" in capsys.readouterr().err
