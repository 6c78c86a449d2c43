"""``impl.doctor`` and ``python -m impl doctor``, in this process and in processes of their own.

``doctor --twice``: the log of calls, and the first call, argument or output that differs.

Tests: impl.diagnosis, impl.diagnosis._twice.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import __main__ as command
from impl import diagnosis
from impl.diagnosis import _after, _twice
from impl.digests import DigestLog
from impl.digests._log import LogFile

HERE = "impl/tests/diagnosis/test_doctor.py"
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


@pytest.fixture
def logged(tmp_path):
    """Returns the log of the calls that a function makes, and the programs that it compiles."""

    def log(run):
        programs = _after.Recorder()
        with (
            _twice.CallLog(tmp_path / "calls.jsonl", programs) as calls,
            programs.watched(calls.called),
        ):
            run()
        return LogFile(tmp_path / "calls.jsonl"), programs.programs

    return log


def leaves(log, number, tree):
    """Returns the name, type and digest of each argument or output of a call."""
    (record,) = log.steps[number][tree]
    return [(path, of.type, of.digest) for path, of in log.leaves(record, tree).items()]


def test_each_call_has_a_step_with_types_and_digests(logged):
    f = jax.jit(lambda x, n: (x * n, x + n))

    def run():
        x, _ = f(np.float32(2), 3.0)
        f(x, 3.0)

    log, _ = logged(run)
    line, function, *counts = log.origins[1]
    assert line.startswith(HERE)
    assert function.startswith("<lambda> at ")
    assert counts == [2, 2]
    x, n = leaves(log, 1, "arguments")
    assert (x[:2], n[0]) == (("x", "float32[]"), "n")
    outputs = leaves(log, 1, "outputs")
    assert [name for name, _, _ in outputs] == ["output 0", "output 1"]
    assert outputs[0][2] != outputs[1][2]
    again = leaves(log, 2, "arguments")
    assert again[0][2] == outputs[0][2]
    assert again[1] == n


def test_donated_arguments_and_keys_are_read_and_what_has_no_bits_is_named(logged):
    draw = jax.jit(lambda key, x: (key, x + 1), donate_argnums=1)
    key = jax.random.key(3)
    log, recorded = logged(lambda: draw(key, jax.device_put(np.ones(4, np.float32))))
    of_key, of_x = leaves(log, 1, "arguments")
    (data,) = _twice._leaves("data", jax.random.key_data(key))
    assert of_key[1:] == (data.type, _twice.Pending([data]).result().of_leaves[0].hex()[:16])
    assert leaves(log, 1, "outputs")[0][1:] == of_key[1:]
    assert of_x[1] == "float32[4]"
    # Programs that read a value for its digest do not count as programs of the user.
    assert len(recorded) == 1
    (token,) = _twice._leaves("x", object())
    assert (token.path, token.type) == ("x", "object, not read")


def test_the_findings_of_a_function_are_those_of_its_device(logged):
    def add(x, i):
        return jnp.zeros(4).at[i].add(x)

    _, recorded = logged(lambda: jax.jit(add)(np.ones(9, np.float32), np.zeros(9, np.int32)))
    ((function, lines),) = _twice._findings(recorded, "cuda").items()
    assert function.startswith("add at ")
    assert lines[0].startswith(f"lax.scatter_add at {HERE}:")
    assert _twice._findings(recorded, "cpu") == {}


def call(arguments=(), outputs=(), line="a.py:3", function="f at a.py:1", main=True, size=1):
    """Returns a call whose arguments and outputs are one array for each letter."""
    trees = {"arguments": ("x", arguments), "outputs": ("output ", outputs)}
    for tree, (name, texts) in trees.items():
        arrays = {f"{name}{i}": np.full(size, ord(text[-1])) for i, text in enumerate(texts)}
        trees[tree] = _twice.Pending([_twice.Leaf(n, f"i[{size}]", a) for n, a in arrays.items()])
    return main, trees, (line, function, len(arguments), len(outputs))


@pytest.fixture
def compared(tmp_path):
    def compare(*runs, findings=()):
        folders = [tmp_path / f"{number}" for number in range(2)]
        for folder, calls in zip(folders, runs, strict=True):
            for name, of_main in zip(_twice._LOGS, (True, False), strict=True):
                folder.mkdir(exist_ok=True)
                (folder / name).unlink(missing_ok=True)
                with DigestLog(folder / name) as log:
                    mine = [each[1:] for each in calls if each[0] is of_main]
                    for number, (trees, origin) in enumerate(mine, 1):
                        step = {tree: (pending, None) for tree, pending in trees.items()}
                        log._write_step(number, step, origin=origin)
        logs = [[_twice.LogFile(each / name) for each in folders] for name in _twice._LOGS]
        return list(_twice.differences(*logs, dict(findings)))

    return compare


def test_equal_runs_do_not_differ(compared):
    run = [call("ab", "c"), call("c", "d"), call("x", "y", main=False)]
    assert compared(run, run) == []


def test_an_argument_is_named_and_what_comes_from_it_is_not(compared):
    first = [call("a", "b"), call("bk", "c", "a.py:5"), call("c", "d"), call("n", "e", "a.py:9")]
    second = [call("a", "b"), call("bl", "C", "a.py:5"), call("C", "D"), call("N", "E", "a.py:9")]
    found, later = compared(first, second)
    assert (found.kind, found.name, found.line, found.number) == ("argument", "x1", "a.py:5", 2)
    assert "made outside of compiled programs" in found.reason
    assert (later.line, later.name, later.reason) == ("a.py:9", "x0", "")
    comparison = _twice.Comparison("a.py", (4, 4), None, (found, later), ("a.py:2",))
    validate(comparison.as_dict())
    text = comparison.text()
    assert text.index("The first difference") < text.index("a.py:5") < text.index("a.py:9")
    assert text.endswith("Generators without a seed: a.py:2.")


def test_an_output_of_equal_arguments_names_the_equations_that_vary(compared):
    first, second = [call("a", "bc")], [call("a", "bC")]
    findings = {"f at a.py:1": ["lax.scatter_add at a.py:2"]}
    (found,) = compared(first, second, findings=findings)
    assert (found.kind, found.name) == ("output", "output 1")
    assert found.reason.endswith("varies: lax.scatter_add at a.py:2.")
    (found,) = compared(first, second)
    assert "No row of the spec states why" in found.reason


@pytest.mark.parametrize(
    ("second", "name", "number"),
    [
        ([call("a", "b"), call("b", "c", function="g at a.py:7")], "g (a.py:7) at a.py:3", 2),
        ([call("a", "b"), call("b", "c", "a.py:8")], "f (a.py:1) at a.py:8", 2),
        ([call("a", "b")], "the end of the run", 2),
        ([call("a", "b"), call("b", "c"), call("c", "d")], "the end of the run", 3),
    ],
)
def test_another_call_or_shape_is_a_difference(compared, second, name, number):
    first = [call("a", "b"), call("b", "c")]
    (found,) = compared(first, second)
    assert (found.kind, found.number) == ("call", number)
    assert name in (found.name, found.function)
    (found,) = compared(first[:1], [call("a", "b", size=4)])
    assert (found.kind, found.type) == ("argument", "i[1] and i[4]")


def test_threads_are_compared_without_their_order(compared):
    one, other = call("a", "b", main=False), call("c", "d", main=False)
    assert compared([one, other], [other, one]) == []
    (found,) = compared([one, other], [other, call("a", "B", main=False)])
    assert (found.kind, found.name, found.number) == ("output", "output 0", None)
    (found,) = compared([one], [one, other])
    assert found.kind == "call"


def test_a_line_counts_once(compared):
    first = [call("a", "b") for _ in range(30)]
    second = [call([chr(1000 + i)], "b") for i in range(30)]
    assert len(compared(first, second)) == 1
    first = [call([chr(100 + i)], "b", f"a.py:{i}") for i in range(30)]
    second = [call([chr(1000 + i)], "b", f"a.py:{i}") for i in range(30)]
    assert [found.number for found in compared(first, second)] == list(range(1, 12))


def test_hash_seeds_give_sets_of_strings_another_order_in_each_run(monkeypatch):
    seeds = []

    def run(folder, seed, *_):
        seeds.append(seed)
        for name in _twice._LOGS:
            (folder / name).touch()

    monkeypatch.setattr(_twice, "_run", run)
    assert _twice.compared(Path("train.py"), []).calls == (0, 0)
    # Neither seed is 0, with which Python does not randomize hashes.
    assert len(set(seeds) - {"0"}) == 2


def test_a_run_that_fails_is_not_compared(monkeypatch):
    def run(folder, *_):
        (folder / _twice._END).write_text(json.dumps({"failure": "raised ZeroDivisionError"}))
        return 1

    monkeypatch.setattr(_twice, "_run", run)
    comparison = _twice.compared(Path("train.py"), [])
    validate(comparison.as_dict())
    assert not comparison.equal
    assert comparison.failure == "The first run raised ZeroDivisionError"
    assert "So nothing was compared" in comparison.text()


def test_equal_is_said_only_of_what_was_seen():
    equal = _twice.Comparison("a.py", (3, 3), None, (), ())
    assert equal.equal
    assert "All 3 calls of compiled programs" in equal.text()
    assert "It did not see other values" in equal.text()
    nothing = dataclasses.replace(equal, calls=(0, 0))
    assert not nothing.equal
    assert "called no compiled program" in nothing.text()
