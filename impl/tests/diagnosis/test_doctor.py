"""``impl.doctor`` and ``python -m impl doctor``, in this process and in processes of their own.

Tests: impl.diagnosis.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import impl
from impl import __main__ as command
from impl import diagnosis

ROOT = Path(impl.__file__).parents[1]
EXCLUDE = "xla_gpu_exclude_nondeterministic_ops"
#: The settings of JAX that the report always shows.
SHOWN = {
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_platforms",
    "jax_threefry_partitionable",
}


def test_a_backend_that_does_not_start_is_an_item(monkeypatch):
    def fail():
        raise RuntimeError("Unable to initialize backend 'cuda':\nno GPU here")

    monkeypatch.setattr(jax, "devices", fail)
    report = impl.doctor()
    item = report.item("devices")
    assert report.platform is None
    assert "no GPU here" in item.reason
    assert item in report.varying
    assert EXCLUDE in [item.name for item in report.items]
    with pytest.raises(KeyError):
        report.item("another")


def validate(data):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = json.loads(Path(diagnosis.__file__).with_name("schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(data)


def test_the_command_prints_the_report_of_its_process(capsys, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert command.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "  deterministic algorithms" in text
    assert text.splitlines()[-1].startswith(
        "The report shows the mode and the seeds of a new process"
    )
    assert command.main(["doctor", "--json", "--strict"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data == impl.doctor().as_dict()
    validate(data)


PROGRAM = """
import sys
import jax.numpy as jnp
import impl
import neighbour  # a module in the same folder
impl.use_deterministic_algorithms(True)
impl.seed_everything(3)
print("not in the report")
jnp.zeros(4).at[jnp.zeros(9, int)].add(2.5)
assert __name__ == "__main__" and sys.argv[1:] == ["--json"]
sys.exit(0)
"""


def doctor(environment, *arguments):
    inherited = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "impl", "doctor", "--json", "--strict", *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={"JAX_PLATFORMS": "cpu", **inherited, **environment},
        text=True,
        timeout=120,
    )


def test_strict_succeeds_where_all_that_can_be_fixed_is(tmp_path):
    (tmp_path / "neighbour.py").touch()
    (tmp_path / "train.py").write_text(PROGRAM)
    settled = {"NPROC": "1", "PYTHONHASHSEED": "0", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    done = doctor(settled, "--after", str(tmp_path / "train.py"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)
    validate(data)
    values = {item["name"]: item["value"] for item in data["items"]}
    assert (values["deterministic algorithms"], values["numpy.random"]) == ("on", "3")
    # A new process has compiled nothing before, so that all of the file's operations are seen.
    assert data["ran"]["operations"] > 1
    assert values["all equations"].startswith(f"{data['ran']['equations']} equations of 0 ")
    # JAX's other settings are as usual, in this release too.
    shown = [item["name"] for item in data["items"] if item["section"] == "JAX settings"]
    assert set(shown) == SHOWN


def test_strict_fails_over_a_generator_without_a_seed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "train.py"
    file.write_text("import numpy as np\nnp.random.default_rng()\n1 / 0\n")
    assert (
        command.main(["doctor", "--json", "--strict", "--device", "cpu", "--after", str(file)]) == 1
    )
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    validate(data)
    assert f"{file}:2  a generator of NumPy" in data["varying"]
    assert (data["ran"]["device"], data["ran"]["failure"]) == ("cpu", "raised ZeroDivisionError")
    assert captured.err.endswith("train.py raised ZeroDivisionError, as shown above\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--after"], "--after needs a FILE"),
        (["--after", "/no/such/file"], "there is no file '/no/such/file'"),
        (["--twice", "/no/such/file"], "there is no file '/no/such/file'"),
        (["--device", "gpu"], "invalid choice: 'gpu'"),
    ],
)
def test_bad_arguments_are_errors(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        command.main(["doctor", *arguments])
    assert message in capsys.readouterr().err


def test_an_environment_over_which_xla_aborts_is_reported():
    done = doctor({"XLA_FLAGS": "--xla_dump_to=d --xla_of_another_day=1"})
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    validate(data)
    assert data["platform"] is None
    assert {"XLA_FLAGS", "devices", "PYTHONHASHSEED"} <= set(data["varying"])
    (refused,) = [item for item in data["items"] if item["name"] == "XLA_FLAGS"]
    assert "--xla_of_another_day=1" in refused["reason"]
    assert "xla_dump_to" not in refused["reason"]
