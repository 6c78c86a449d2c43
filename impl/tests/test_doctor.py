"""The doctor: each verdict, from settings made here, and the command in processes of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import jax
import pytest

import impl
from impl import __main__ as command
from impl import diagnosis
from impl import random as impl_random
from impl._mode import modes
from impl.diagnosis import _environment, _program, _settings
from impl.diagnosis._report import Item, Report, Verdict

ROOT = Path(impl.__file__).parents[1]
FIXED, PROCESS, MACHINE = get_args(Verdict)
TABLE = _settings.table()
EXCLUDE = "xla_gpu_exclude_nondeterministic_ops"
LOAD = "xla_gpu_load_autotune_results_from"
COMPLETE = "xla_gpu_require_complete_aot_autotune_results"
GONE = {"xla_gpu_experimental_autotuner_cache_dir"}  # of jaxlib 0.10, not 0.12
USUAL = {
    "jax_compilation_cache_dir": "None",
    "jax_default_matmul_precision": "None",
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_x64": "False",
    "jax_threefry_partitionable": "True",
}


def judged(platform, flags="", variables=(), config=()):
    found = _settings.Found(_environment.flags(flags), dict(variables), USUAL | dict(config))
    judged = {item.name: item for item in _settings.items(found, platform)}
    assert all((item.remedy is not None) == item.varies for item in judged.values())
    return judged


@pytest.mark.parametrize(
    ("platform", "flags", "name", "verdict"),
    [
        ("gpu", "", EXCLUDE, PROCESS),
        ("gpu", f"--{EXCLUDE}=false", EXCLUDE, PROCESS),
        ("gpu", f"--{EXCLUDE}", EXCLUDE, FIXED),
        ("gpu", "--xla_gpu_deterministic_ops=1", EXCLUDE, FIXED),
        (None, "", EXCLUDE, PROCESS),
        ("cpu", f"--{EXCLUDE}=false", EXCLUDE, FIXED),
        ("gpu", "", "xla_gpu_autotune_level", PROCESS),
        ("gpu", "--xla_gpu_autotune_level=4", "xla_gpu_autotune_level", PROCESS),
        ("gpu", "--xla_gpu_autotune_level=0", "xla_gpu_autotune_level", FIXED),
        ("gpu", f"--{EXCLUDE}", "xla_gpu_autotune_level", PROCESS),
        ("gpu", "--xla_gpu_deterministic_ops", "xla_gpu_autotune_level", FIXED),
        ("gpu", "", "xla_gpu_experimental_enable_fusion_autotuner", PROCESS),
        ("gpu", f"--{EXCLUDE}", "xla_gpu_experimental_enable_fusion_autotuner", FIXED),
        (
            "gpu",
            "--xla_gpu_experimental_enable_fusion_autotuner=false",
            "xla_gpu_experimental_enable_fusion_autotuner",
            FIXED,
        ),
        ("gpu", "--xla_gpu_pgle_profile_file_or_directory_path=p", None, MACHINE),
        ("gpu", "--xla_gpu_per_fusion_autotune_cache_dir=d", None, MACHINE),
        (
            "gpu",
            "--xla_gpu_autotune_level=0 --xla_gpu_per_fusion_autotune_cache_dir=d",
            "xla_gpu_per_fusion_autotune_cache_dir",
            FIXED,
        ),
        ("gpu", f"--{LOAD}=f", None, PROCESS),
        ("gpu", f"--{LOAD}=f --{COMPLETE}", LOAD, FIXED),
        ("cpu", "", "xla_cpu_max_isa", MACHINE),
        ("cpu", "--xla_cpu_max_isa=AVX2", "xla_cpu_max_isa", FIXED),
        ("cpu", "--xla_cpu_enable_fast_math=true", None, MACHINE),
        ("cpu", "--xla_cpu_enable_fast_math=false", None, FIXED),
        ("cpu", "--xla_dump_to=d", None, FIXED),
        ("cpu", "--xla_of_another_day=3", None, FIXED),
    ],
)
def test_verdicts_of_flags(platform, flags, name, verdict):
    item = judged(platform, flags)[name or flags.removeprefix("--").split("=")[0]]
    assert item.verdict == verdict
    assert item.section == (
        "Caches" if "cache" in item.name or "load" in item.name else "XLA flags"
    )


@pytest.mark.parametrize(
    ("platform", "name", "value", "verdict"),
    [
        ("cpu", "PYTHONHASHSEED", None, PROCESS),
        ("cpu", "PYTHONHASHSEED", "random", PROCESS),
        ("cpu", "PYTHONHASHSEED", "0", FIXED),
        ("gpu", "CUBLAS_WORKSPACE_CONFIG", None, PROCESS),
        ("gpu", "CUBLAS_WORKSPACE_CONFIG", ":8:8", PROCESS),
        ("gpu", "CUBLAS_WORKSPACE_CONFIG", ":16:8", FIXED),
        ("cpu", "CUBLAS_WORKSPACE_CONFIG", ":8:8", FIXED),
        ("gpu", "TF_CUDNN_DETERMINISTIC", "1", FIXED),
        ("gpu", "XLA_PYTHON_CLIENT_PREALLOCATE", "false", FIXED),
        ("tpu", "LIBTPU_INIT_ARGS", "--xla_tpu_something", FIXED),
    ],
)
def test_verdicts_of_variables(platform, name, value, verdict):
    item = judged(platform, variables={} if value is None else {name: value})[name]
    assert (item.section, item.value, item.verdict) == ("Environment variables", value, verdict)


@pytest.mark.parametrize(
    ("platform", "name", "value", "verdict"),
    [
        ("cpu", "jax_enable_x64", "True", FIXED),
        ("cpu", "jax_default_matmul_precision", "None", FIXED),
        ("gpu", "jax_default_matmul_precision", "None", MACHINE),
        ("gpu", "jax_default_matmul_precision", "highest", FIXED),
        ("cpu", "jax_default_prng_impl", "rbg", MACHINE),
        ("cpu", "jax_random_seed_offset", "3", FIXED),
        ("gpu", "jax_enable_pgle", "True", PROCESS),
        ("gpu", "jax_bcoo_cusparse_lowering", "True", PROCESS),
        ("gpu", "jax_compilation_cache_dir", "None", FIXED),
        ("gpu", "jax_compilation_cache_dir", "/d", MACHINE),
        ("cpu", "jax_compilation_cache_dir", "/d", FIXED),
        ("cpu", "jax_disable_jit", "True", FIXED),
    ],
)
def test_verdicts_of_configs(platform, name, value, verdict):
    item = judged(platform, config={name: value})[name]
    assert (item.value, item.verdict) == (None if value == "None" else value, verdict)


def test_what_is_as_usual_is_left_out_and_what_the_platform_does_not_read_does_nothing():
    assert not judged("cpu", config={"jax_enable_pgle": "False"}).keys() & {"jax_enable_pgle"}
    assert "CUBLAS_WORKSPACE_CONFIG" not in judged("cpu")
    assert EXCLUDE not in judged("cpu")
    flag = judged("cpu", f"--{EXCLUDE}")[EXCLUDE]
    assert flag.reason == "It does nothing on a CPU."


def test_a_filled_cache_is_fixed_where_nothing_is_timed():
    cache = {"jax_compilation_cache_dir": "/d"}
    item = judged("gpu", "--xla_gpu_autotune_level=0", config=cache)["jax_compilation_cache_dir"]
    assert item.verdict == FIXED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("--a=1 --b", {"a": "1", "b": "true"}),
        ("  --a=1\n--a=2 ", {"a": "2"}),
        ("--a='x y' --b=\"z\"", {"a": "x y", "b": "z"}),
        ("--a='x", {"a": "'x"}),
        ("/no/such/file", {}),
    ],
)
def test_flags_are_taken_apart_as_xla_does(text, expected):
    assert _environment.flags(text) == expected


def test_flags_may_stand_in_a_file(tmp_path):
    (tmp_path / "flags").write_text("--a=1\n--b\n")
    assert _environment.flags(str(tmp_path / "flags")) == {"a": "1", "b": "true"}


@pytest.mark.parametrize("setting", TABLE.settings, ids=lambda setting: setting.name)
def test_an_entry_of_the_table_is_sound(setting):
    assert setting.kind in get_args(_settings.Kind)
    assert setting.section in _settings.SECTIONS
    assert sum(setting.name == other.name for other in TABLE.settings) == 1
    for case in setting.cases:
        assert case.verdict in get_args(Verdict)
        assert (case.remedy is not None) == (case.verdict != FIXED)
        assert case.reason.endswith(".")
        assert case.given is None or case.given in TABLE.conditions


def test_jaxlib_knows_every_flag_of_the_table(monkeypatch):
    value = {
        "xla_force_host_platform_device_count": "2",
        "xla_gpu_experimental_autotune_cache_mode": "AUTOTUNE_CACHE_MODE_READ",
    }
    flags = [
        f"--{setting.name}={value.get(setting.name, '0')}"
        for setting in TABLE.settings
        if setting.kind == "flag" and "*" not in setting.name and setting.name not in GONE
    ]
    assert len(flags) > 10
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))
    assert _environment.refusal() is None


def named(items, name):
    (item,) = [item for item in items if item.name == name]
    return item


@pytest.mark.parametrize(
    ("mode", "platform", "verdict"),
    [
        ({"mode": False}, "cpu", MACHINE),
        ({"mode": False}, "gpu", PROCESS),
        ({"mode": False}, None, PROCESS),
        ({"mode": True}, "gpu", FIXED),
        ({"mode": True, "warn_only": True}, "gpu", PROCESS),
        ({"mode": True, "warn_only": True, "profile": "complete"}, "gpu", FIXED),
    ],
)
def test_verdicts_of_the_mode(mode, platform, verdict):
    with impl.deterministic(**mode):
        item = named(_program.mode(platform), "deterministic algorithms")
    assert item.verdict == verdict
    assert (item.remedy is None) == (verdict == FIXED)


def test_unfilled_memory_varies_where_memory_is_not_zeroed():
    name = "fill_uninitialized_memory"
    assert named(_program.mode("gpu"), name).verdict == FIXED
    modes.set_fill_uninitialized_memory(False)
    assert named(_program.mode("gpu"), name).verdict == PROCESS
    assert named(_program.mode("cpu"), name).verdict == FIXED


def test_verdicts_of_seeds(monkeypatch):
    monkeypatch.setattr(impl_random, "_libraries_seed", None)
    with impl.fork_rng():
        impl.seed()
        assert [item.verdict for item in _program.seeds()] == [PROCESS] * 3
        impl.manual_seed(3)
        assert [item.verdict for item in _program.seeds()] == [FIXED, PROCESS, PROCESS]
        monkeypatch.setattr(impl_random, "_libraries_seed", 2**32 + 3)
        assert [item.verdict for item in _program.seeds()] == [FIXED] * 3
        assert [item.value for item in _program.seeds()] == ["3", str(2**32 + 3), "3"]


def test_threads_are_fixed_by_the_variables_that_xla_reads():
    unset = _program.threads({})
    assert unset.verdict == MACHINE
    assert _program.threads({"NPROC": "3"}).verdict == FIXED
    assert _program.threads({"NPROC": "3", "PJRT_NPROC": "2"}).value == "2"


def test_a_benchmark_varies_on_a_gpu():
    with impl.backends.cudnn.flags(benchmark=True):
        assert named(_program.compiler(None), "backends.cudnn.benchmark").verdict == PROCESS
        assert named(_program.compiler("cpu"), "backends.cudnn.benchmark").verdict == FIXED


def test_options_that_jaxlib_does_not_know_are_reported(monkeypatch):
    with impl.deterministic():
        asked = impl._mode.compilation.settings()
        known = [item for item in _program.compiler("gpu") if item.name == asked[0].option]
        monkeypatch.setattr(impl._mode.compilation, "unknown_options", lambda: asked[:1])
        lost = named(_program.compiler("gpu"), asked[0].option)
    assert [item.verdict for item in known] == [FIXED]
    assert (lost.verdict, lost.value) == (PROCESS, None)
    assert asked[0].row in lost.reason


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


def test_the_report_as_text_says_once_what_is_said_of_several():
    alike = [Item("S", name, "1", FIXED, "Alike.") for name in ("a", "bb")]
    other = Item("T", "c", None, MACHINE, "It differs.", "Set it.")
    fact = Item("T", "d", "x", MACHINE, "A fact.")
    report = Report("cpu", (*alike, other, fact))
    assert report.varying == (other,)
    assert str(report).splitlines() == [
        "S",
        "  a   fixed               1",
        "  bb  fixed               1",
        "      Alike.",
        "",
        "T",
        "  c   varies per machine  not set",
        "      It differs. To do: Set it.",
        "  d   varies per machine  x",
        "      A fact.",
        "",
        "Of 4 items 0 per process and 2 per machine vary; 1 have a remedy.",
    ]
    assert "Nothing here varies." in str(Report("cpu", tuple(alike)))


def validate(data):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = json.loads(Path(diagnosis.__file__).with_name("schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(data)


def test_the_command_prints_the_report_of_its_process(capsys, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert command.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "  deterministic algorithms" in text
    assert text.splitlines()[-1].startswith("The mode and the seeds are a new process's")
    assert command.main(["doctor", "--json", "--strict"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data == impl.doctor().as_dict()
    validate(data)
    with pytest.raises(SystemExit, match="2"):
        command.main(["doctor", "--after", "/no/such/file"])
    assert "there is no file '/no/such/file'" in capsys.readouterr().err


PROGRAM = """
import sys
import impl
import beside  # a module in the same folder
impl.use_deterministic_algorithms(True)
impl.seed_everything(3)
print("not in the report")
assert __name__ == "__main__" and len(sys.argv) == 1
sys.exit(0)
"""


def doctor(environment, *arguments):
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "impl", "doctor", "--json", "--strict", *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={"JAX_PLATFORMS": "cpu", **kept, **environment},
        text=True,
        timeout=120,
    )


def test_strict_succeeds_where_all_that_can_be_fixed_is(tmp_path):
    (tmp_path / "beside.py").touch()
    (tmp_path / "train.py").write_text(PROGRAM)
    settled = {"NPROC": "1", "PYTHONHASHSEED": "0", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    done = doctor(settled, "--after", str(tmp_path / "train.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)
    validate(data)
    values = {item["name"]: item["value"] for item in data["items"]}
    assert (values["deterministic algorithms"], values["numpy.random"]) == ("on", "3")
    # JAX's other settings are as usual, in this release too.
    shown = [item["name"] for item in data["items"] if item["section"] == "JAX settings"]
    assert set(shown) == USUAL.keys() - {"jax_compilation_cache_dir"} | {"jax_platforms"}


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


def test_a_reader_that_goes_away_is_an_error_in_words(monkeypatch, tmp_path, capsys):
    def cut(_):
        raise BrokenPipeError

    monkeypatch.setattr("impl._demo.run", cut)
    with (tmp_path / "closed").open("w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert command.main(["demo"]) == 1
    assert "the reader of the output went away" in capsys.readouterr().err
