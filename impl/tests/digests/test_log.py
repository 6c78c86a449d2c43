"""``impl.DigestLog``: runs that are killed and resumed, donated buffers, and files of others."""

import json
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.digests import _digest
from impl.digests._log import DIGITS, LogFile
from impl.tests.support import processes


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def logged(path, *steps, scale=1.0, **options):
    """Logs steps whose trees depend on the step."""
    with impl.DigestLog(path, **options) as log:
        for step in steps:
            log.log(step, params={"w": np.arange(3.0) * scale + step, "b": np.float32(step)})
    return path


def test_a_line_has_the_digests_of_a_step(tmp_path):
    path = logged(tmp_path / "a.jsonl", 0, 1)
    first, tree, *steps = lines(path)
    assert first["samebits_log"] == 1
    assert first["environment"]["jax"] == jax.__version__
    assert first["environment"]["mode"] == "off"
    assert tree == {"tree": "params", "leaves": [["['b']", "float32[]"], ["['w']", "float64[3]"]]}
    assert [step["step"] for step in steps] == [0, 1]
    digest = impl.digest({"w": np.arange(3.0), "b": np.float32(0)})
    assert steps[0]["trees"]["params"]["digest"] == digest
    assert len(steps[0]["trees"]["params"]["leaves"]) == 2 * DIGITS


def test_the_log_has_a_line_as_soon_as_a_step_is_logged(tmp_path):
    log = impl.DigestLog(tmp_path / "a.jsonl")
    log.log(0, loss=1.0)
    assert lines(tmp_path / "a.jsonl")[-1]["step"] == 0
    log.close()
    log.close()
    with pytest.raises(ValueError, match="is closed"):
        log.log(1, loss=1.0)


@pytest.mark.parametrize("on_device", [False, True])
def test_arrays_may_be_donated_after_they_are_logged(tmp_path, monkeypatch, on_device):
    if on_device:
        monkeypatch.setattr(_digest, "_ON_HOST", frozenset())
    step = jax.jit(lambda x: x * 1.5 + 1, donate_argnums=0)
    x, expected = jnp.arange(5000.0), []
    with impl.DigestLog(tmp_path / "a.jsonl", keep=["x"]) as log:
        for number in range(5):
            expected.append(impl.digest(np.array(x)))
            log.log(number, x=x)
            x = step(x)
    steps = [line for line in lines(tmp_path / "a.jsonl") if "step" in line]
    assert [line["trees"]["x"]["digest"] for line in steps] == expected


def test_a_half_written_line_is_dropped_as_the_log_is_continued(tmp_path):
    path = logged(tmp_path / "a.jsonl", 0, 1, 2)
    whole = path.read_bytes()
    for cut in (1, 30, len(whole.splitlines()[-1])):
        path.write_bytes(whole[:-cut])
        logged(path, 2, 3)
        assert [line["step"] for line in lines(path) if "step" in line] == [0, 1, 2, 3]
        assert len(LogFile(path).environments) == 2
    path.write_bytes(whole[:7])
    logged(path, 5)
    with path.open("ab") as file:
        file.write(b'{"step":1,' + b" " * 200_000)
    logged(path, 6)
    assert list(LogFile(path).steps) == [5, 6]


KILLED = """
import os, signal, sys
import impl
log = impl.DigestLog(sys.argv[1])
for step in range(3):
    log.log(step, loss=float(step))
os.kill(os.getpid(), signal.SIGKILL)
"""
#: It ends without a close, and its arrays are on eight devices, which compute the digests.
ENDED = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import impl
from impl.digests import _digest
x = np.arange(24000, dtype=np.float32).reshape(8, 3000)
mesh = Mesh(np.array(jax.devices()), ("d",))
log = impl.DigestLog(sys.argv[1])
for on_host in (frozenset({"cpu"}), frozenset()):
    _digest._ON_HOST = on_host
    for axes in [(), ("d",), (None, "d")]:
        sharded = jax.device_put(x, NamedSharding(mesh, PartitionSpec(*axes)))
        assert len(sharded.sharding.device_set) == 8
        log.log(0, x=sharded)
"""


@pytest.mark.parametrize(
    ("code", "steps"), [pytest.param(KILLED, [0, 1, 2], marks=pytest.mark.once), (ENDED, [0])]
)
def test_a_process_that_ends_without_a_close_leaves_its_lines(tmp_path, code, steps):
    done = processes.run("-c", code, tmp_path / "a.jsonl", devices=8)
    assert done.returncode == (-signal.SIGKILL if code == KILLED else 0), done.stderr
    log = LogFile(tmp_path / "a.jsonl")
    assert list(log.steps) == steps
    if code == ENDED:
        x = np.arange(24000, dtype=np.float32).reshape(8, 3000)
        assert [record.digest for record in log.steps[0]["x"]] == [impl.digest(x)] * 6


def test_a_file_that_is_no_log_is_left_alone(tmp_path):
    for text in ("notes", "notes\n", '{"step": 1}\n', "\n"):
        path = tmp_path / "notes.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match="is not a log of digests"):
            impl.DigestLog(path)
        assert path.read_text() == text
    path.write_text('{"samebits_log":9,"environment":{}}\n')
    with pytest.raises(ValueError, match="format 9, but this release"):
        impl.DigestLog(path)


def test_the_error_that_ends_the_scope_is_the_one_to_see(tmp_path):
    log = impl.DigestLog(tmp_path / "a.jsonl")
    log._pending = "damaged"
    with pytest.raises(ZeroDivisionError), log:
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="is closed"):
        log.log(0, loss=1.0)


@pytest.mark.parametrize(
    ("step", "trees", "message"),
    [
        (1.5, {"a": 1}, "argument 'step' must be an int, not float"),
        (1, {}, "pass at least one tree by name"),
        (1, {"a": {"f": jnp.sin}}, r"log\(\): tree 'a': the leaf \['f'\] is a"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, step, trees, message):
    with impl.DigestLog(tmp_path / "a.jsonl") as log, pytest.raises(TypeError, match=message):
        log.log(step, **trees)
    with pytest.raises(TypeError, match="argument 'keep' must have names"):
        impl.DigestLog(tmp_path / "b.jsonl", keep=[1])


def test_a_tree_may_change_its_leaves(tmp_path):
    with impl.DigestLog(tmp_path / "a.jsonl") as log:
        log.log(0, a=[1], b=2)
        log.log(1, a=[1, 2])
        log.log(2, a=[1, 2])
    assert sum("tree" in line for line in lines(tmp_path / "a.jsonl")) == 3
    assert [len(t["a"][0].types) for t in LogFile(tmp_path / "a.jsonl").steps.values()] == [1, 2, 2]
