"""``python -m impl``: its arguments, the status of an audit, and a reader that closes the pipe."""

import json
import sys

import pytest

from impl import __main__ as command
from impl.tests.support import processes


@pytest.mark.parametrize(("words", "message"), [([], "python -m impl"), (["heal"], "'heal'")])
def test_without_a_known_command_it_is_an_error(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(words)
    assert message in capsys.readouterr().err


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


PROGRAM = """
import jax
import jax.numpy as jnp

import impl

def racing():
    print("printed by the program")
    return lambda x, i: x.at[i].add(1.0), (jnp.ones(3), jnp.zeros(9, int))

def safe():
    return jnp.sin, (1.0,)

def ordered():
    impl.use_deterministic_algorithms(True)
    return racing()

def refused():
    impl.use_deterministic_algorithms(True)
    return lambda x: impl.cumsum(x, 0), (jnp.ones(3),)

def unknown():
    return lambda x: jax.pure_callback(lambda x: x, x, x), (jnp.ones(3),)

def wrong():
    return jnp.sin

def failing():
    return lambda x: x @ x, (jnp.ones(3), 1, 2)

assert __name__ != "__main__"
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    return lambda name: f"{file}:{name}"


def test_the_form_of_an_audit(program, capsys):
    texts = []
    for form in ([], ["--summary"], ["--all"]):
        assert command.main(["audit", program("racing"), *form]) == 1
        texts.append(capsys.readouterr().out)
    assert "Varies from run to run (1 equation)" in texts[0]
    assert "  varies     1  lax.scatter_add\n" in texts[1]
    assert texts[2] == texts[0]  # There is one finding.


@pytest.mark.parametrize(
    ("name", "options", "status"),
    [
        ("racing", [], 1),
        ("racing", ["--device", "cpu"], 0),
        ("racing", ["--device", "cpu", "--level", "compiled"], 0),
        ("safe", [], 0),
        ("ordered", [], 0),
        ("unknown", [], 1),
        ("refused", [], 1),
        ("refused", ["--device", "cpu"], 0),
        ("racing", ["--device", "npu"], 2),
        ("racing", ["--level", "hlo"], 2),
        ("wrong", [], 2),
        ("failing", [], 2),
        ("missing", [], 2),
    ],
)
def test_the_status_of_an_audit(program, name, options, status, capsys):
    assert command.main(["audit", program(name), *options]) == status
    out, err = capsys.readouterr()
    assert bool(out) is (status < 2)
    assert ("python -m impl audit: " in err) is (status == 2)
    assert "printed by the program" not in out


@pytest.mark.parametrize("wrong", ["train.py", "absent.py:step", "{}:", "{}:1x"])
def test_the_program_of_an_audit_is_a_file_and_a_name(program, wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(["audit", wrong.format(program("")[:-1])])
    assert "FILE.py:NAME" in capsys.readouterr().err


def test_an_audit_in_a_process_of_its_own_prints_data(program):
    done = processes.run("-m", "impl", "audit", program("racing"), "--json", JAX_PLATFORMS="cpu")
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["source"].endswith("train.py:9")
    assert (finding["verdict"], finding["row"]) == ("varies", "R0400")
    assert "printed by the program" in done.stderr
