"""The command ``python -m conformance compile``, without compiling a program."""

import argparse
import importlib.util
import tempfile

import pytest

from conformance.lab import compiled
from conformance.lab.compiled import compile_command
from conformance.tests.lab.compiled.examples import checked_call


def test_a_failure_names_the_command_and_the_files():
    calls = [checked_call("it races"), checked_call("it races", profile="torch-2.12")]
    (failure,) = compile_command._failures(calls)
    lines = failure.splitlines()
    assert lines[0] == "R0001-index_add-complete for h200, and under 1 more profiles: it races"
    again = "python -m conformance compile --target h200 -k R0001-index_add-complete"
    assert lines[1] == f"again: {again}"
    assert lines[2].startswith("edit:  index_add in impl.ops._scatters")
    assert lines[3].startswith("       spec/rows/index_add.toml")


def test_bad_options_are_refused(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    compiled.add_options(parser)
    assert compiled.run(parser.parse_args(["-n", "0"])) == 2
    assert "at least one process" in capsys.readouterr().err
    assert compiled.run(parser.parse_args(["--report", str(tmp_path / "no" / "r.json")])) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert compiled.run(parser.parse_args(["-k", "no such row"])) == 2
    assert "nothing has no such row in its name" in capsys.readouterr().err


@pytest.mark.skipif(
    importlib.util.find_spec("jax_plugins") is not None, reason="XLA for CUDA is installed"
)
def test_a_missing_compiler_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parser = argparse.ArgumentParser()
    compiled.add_options(parser)
    assert compiled.run(parser.parse_args(["-n", "1", "-k", "R0001"])) == 2
    assert "pip install jax==0.11.2 jax-cuda13-plugin" in capsys.readouterr().err
    assert list(tmp_path.glob("samebits-*")) == []  # The files of the processes are gone.
