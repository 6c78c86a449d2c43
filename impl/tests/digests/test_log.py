"""``impl.DigestLog``: runs that are killed and resumed, donated buffers, and files of others.

``impl.digests.compare``: the first step, tree and leaf that differ, and how far apart.

``impl.digest``: its definition, bit for bit, on hosts and devices, and what it refuses.

Tests: impl.digests._comparison, impl.digests._digest, impl.digests._log.
"""

import hashlib
import json
import signal
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.__main__ import main
from impl.digests import _digest, compare
from impl.digests._comparison import distance
from impl.digests._log import DIGITS, LogFile
from impl.tests.support import processes


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def append(path, *steps, keep=(), **trees):
    """Logs the same trees for each step."""
    with impl.DigestLog(path, keep=keep) as file:
        for step in steps:
            file.log(step, **trees)
    return path


def logged(path, *steps):
    """Logs steps whose trees depend on the step."""
    with impl.DigestLog(path) as log:
        for step in steps:
            log.log(step, params={"w": np.arange(3.0) + step, "b": np.float32(step)})
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
    log._pending = "damaged"
    with pytest.raises(ZeroDivisionError), log:  # The error that ends the scope is the one to see.
        raise ZeroDivisionError
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


PARAMS = {"dense": {"bias": np.zeros(2, np.float32), "kernel": np.ones((2, 3), np.float32)}}


@pytest.fixture
def files(tmp_path):
    return tmp_path / "a.jsonl", tmp_path / "b.jsonl"


def other_kernel():
    kernel = PARAMS["dense"]["kernel"].copy()
    kernel[1, 2] = np.nextafter(np.float32(1), np.float32(2))
    kernel[1, 0] = np.float32(1 - 2**-22)
    return {"dense": {"bias": PARAMS["dense"]["bias"], "kernel": kernel}}


def test_equal_runs_are_equal(files, capsys):
    for file in files:
        append(file, 0, 1, params=PARAMS, loss=1.0)
    compared = compare(*files)
    assert compared.equal
    assert (compared.steps, compared.equal_steps, compared.difference) == (2, 2, None)
    assert main(["compare", *map(str, files)]) == 0
    assert "2 of 2 steps that both have are equal" in capsys.readouterr().out


def test_the_first_step_tree_and_leaf_are_named(files, capsys):
    append(files[0], 0, 1, 2, params=PARAMS, loss=1.0)
    append(files[1], 0, params=PARAMS, loss=1.0)
    append(files[1], 1, 2, params=other_kernel(), loss=1.5)
    found = compare(*files).difference
    assert (found.step, found.tree, found.leaf) == (1, "params", "['dense']['kernel']")
    assert found.types == ("float32[2,3]", "float32[2,3]")
    assert found.digests[0] != found.digests[1]
    assert found.others == ("loss",)
    assert found.distance is None
    assert main(["compare", *map(str, files)]) == 1
    out = capsys.readouterr().out
    assert "first difference: step 1, tree 'params', leaf ['dense']['kernel']" in out
    assert "DigestLog(path, keep=['params']) keeps values" in out
    assert "1 of 3 steps that both have are equal" in out


def test_kept_values_tell_how_far_apart_they_are(files, capsys):
    append(files[0], 0, keep=["params"], params=PARAMS)
    append(files[0], 1, keep=["params"], params=PARAMS)
    append(files[1], 0, keep=["params"], params=PARAMS)
    append(files[1], 1, keep=["params"], params=other_kernel())
    found = compare(*files).difference.distance
    assert (found.elements, found.differing, found.ulp, found.nan) == (6, 2, 4, 0)
    assert (found.first, found.largest) == ((1, 0), (1, 0))
    assert found.values == ("1.0", "0.99999976")
    assert main(["compare", *map(str, files)]) == 1
    out = capsys.readouterr().out
    assert (
        "2 of 6 elements differ, by at most 4 ulp; the first is [1, 0]: 1.0 and 0.99999976" in out
    )
    (files[1].with_name("b.jsonl.values")).write_bytes(b"")
    assert compare(*files).difference.distance is None


@pytest.mark.parametrize(
    ("first", "second", "leaf", "types"),
    [
        ([1, 2], [1], "[1]", ("int64[]", None)),
        ([1], [1, 2], "[1]", (None, "int64[]")),
        ([np.zeros(2)], [np.zeros(3)], "[0]", ("float64[2]", "float64[3]")),
        ([np.zeros(2)], [np.zeros(2, np.float32)], "[0]", ("float64[2]", "float32[2]")),
        (1, 2, "", ("int64[]", "int64[]")),
    ],
)
def test_other_leaves_and_types_are_named(files, first, second, leaf, types):
    append(files[0], 0, a=first)
    append(files[1], 0, a=second)
    found = compare(*files).difference
    assert (found.leaf, found.types) == (leaf, types)
    assert found.text()


def test_a_step_or_a_tree_that_one_log_lacks_is_a_difference(files):
    append(files[0], 0, 1, 2, loss=1.0)
    append(files[1], 1, 2, 5, loss=1.0)
    compared = compare(*files)
    assert not compared.equal
    assert compared.difference is None
    assert compared.only == ((0,), (5,))
    assert "only in the first log: step 0" in compared.text()
    assert compare(*files, common=True).equal
    append(files[1], 2, more=1.0)
    assert compare(*files).difference.text() == "step 2: the tree 'more' is not in the first log"
    assert compare(*files, common=True).equal


def test_a_resumed_run_that_does_not_repeat_itself_is_found(files):
    append(files[0], 0, 1, 2, loss=1.0)
    append(files[0], 2, 3, loss=1.0)
    append(files[1], 0, 1, loss=1.0)
    append(files[1], 2, loss=2.0)
    append(files[1], 2, 3, loss=1.0)
    compared = compare(*files)
    assert not compared.equal
    assert compared.difference is None  # The last record of a step counts.
    (sentence,) = compared.repeats
    assert "b.jsonl does not repeat itself: step 2, tree 'loss' has other bits" in sentence
    assert compare(files[0], files[0]).equal


def test_the_environments_that_differ_are_named(files, monkeypatch):
    append(files[0], 0, loss=1.0)
    monkeypatch.setenv("XLA_FLAGS", "--other")
    with impl.deterministic(guarantee="portable"):
        append(files[1], 0, loss=1.0)
    environment = compare(*files).environment
    assert environment["mode"] == ("off", "on, portable, profile torch-2.12")
    assert environment["XLA_FLAGS"][1] == "--other"
    assert environment.keys() == {"mode", "XLA_FLAGS"}


def test_logs_without_a_common_tree_cannot_be_compared(files, capsys, tmp_path):
    append(files[0], 0, 1, a=1.0)
    append(files[1], 1, b=1.0)
    with pytest.raises(
        ValueError, match=r"no tree of a step in common: .* 2 steps, 0 to 1 with 'a'"
    ):
        compare(*files)
    for others in (files[1], tmp_path / "absent", tmp_path):
        assert main(["compare", str(files[0]), str(others)]) == 2
        assert "python -m impl compare: " in capsys.readouterr().err


def test_a_damaged_line_is_named_and_a_half_written_one_is_left_out(files):
    append(files[0], 0, 1, a=1.0)
    text = files[0].read_text()
    files[1].write_text(text + '{"step": 2, "tr')
    assert compare(*files).equal
    files[1].write_text(text + '{"step": 2, "tr\n')
    with pytest.raises(ValueError, match=r"line 5 of .* is damaged"):
        compare(*files)
    files[1].write_text(text.replace('"digest":"', '"digest":"0', 1))
    with pytest.raises(ValueError, match=r"step 0 have other digests.*was changed"):
        compare(*files)
    files[1].write_text("")
    with pytest.raises(ValueError, match="has no line yet"):
        compare(*files)


def test_the_comparison_is_data_too(files, capsys):
    append(files[0], 0, keep=["a"], a=[1.0, 2.0])
    append(files[1], 0, keep=["a"], a=[1.0, 3.0])
    assert main(["compare", "--json", *map(str, files)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["difference"]["leaf"] == "[1]"
    assert found["difference"]["distance"]["ulp"] == 2**51
    assert found["equal"] is False


def apart(dtype, first, second):
    arrays = [np.atleast_1d(np.array(values, dtype)) for values in (first, second)]
    name = f"{arrays[0].dtype.name}[{len(arrays[0])}]"
    return distance(name, *(array.tobytes() for array in arrays))


@pytest.mark.parametrize(
    ("dtype", "first", "second", "ulp", "nan"),
    [
        (np.float32, 0.0, -0.0, 0, 0),
        (np.float32, np.float32(1e-45), -np.float32(1e-45), 2, 0),
        (np.float64, -np.inf, np.inf, 2 * 0x7FF0000000000000, 0),
        (np.float32, [np.nan, 1.0], [1.0, 1.0], None, 1),
        (np.float32, [np.nan, 1.0], [1.0, 2.0], 2**23, 1),
        (jnp.bfloat16, 1.0, 1.0078125, 1, 0),
        (jnp.float8_e4m3fn, 1.0, 1.125, 1, 0),
        (np.complex64, 1 + 1j, 1 + 2j, 2**23, 0),
        (np.int8, -128, 127, 255, 0),
        (np.uint64, 0, 2**64 - 1, 2**64 - 1, 0),
        (np.int64, -(2**63), 2**63 - 1, 2**64 - 1, 0),
        (bool, True, False, 1, 0),
    ],
)
def test_the_distance_in_ulp(dtype, first, second, ulp, nan):
    found = apart(dtype, first, second)
    assert (found.ulp, found.nan) == (ulp, nan)
    assert found.text()
    assert apart(dtype, first, first) is None
    assert distance("key<fry>[1]", b"12345678", b"12345679") is None


RNG = np.random.default_rng(0)
#: Arrays of each kind of dtype, and of sizes near a word and near a chunk.
ARRAYS = [
    RNG.normal(size=shape).astype(dtype)
    for shape, dtype in [
        ((), np.float32),
        ((0, 3), np.float32),
        ((3, 4), np.float32),
        ((512,), np.int32),
        ((513,), jnp.bfloat16),
        ((2049,), jnp.float8_e4m3fn),
        ((5, 7), np.float16),
        ((300,), bool),
        ((129, 2), np.complex64),
        ((40_000,), np.uint8),
        ((40_000,), np.float32),
    ]
]


class Pair(NamedTuple):
    left: int
    right: int


def reference(tree):
    """The digest by its definition, with bytes and ``hashlib`` alone."""

    def root(data):
        count = max(1, -(-len(data) // 2048))
        data = data.ljust(2048 * count, b"\0")
        data = b"".join(
            hashlib.sha256(data[i : i + 2048]).digest() for i in range(0, len(data), 2048)
        )
        return data if count == 1 else root(data)

    parts = []
    for path, array in tree.items():
        sizes = ",".join(map(str, array.shape))
        text = f"{array.dtype.name}[{sizes}]\n".encode()
        leaf = hashlib.sha256(text + root(array.tobytes())).digest()
        parts.append((f"[{path!r}]".encode(), leaf))
    joined = b"".join(hashlib.sha256(path).digest() + leaf for path, leaf in sorted(parts))
    return hashlib.sha256(joined).hexdigest()


def test_the_digest_is_that_of_the_definition():
    tree = {f"a{i}": array for i, array in enumerate(ARRAYS)}
    assert impl.digest(tree) == reference(tree)
    assert impl.digest(jax.tree.map(jnp.asarray, tree)) == reference(tree)


def test_a_device_computes_the_digest_of_the_definition(monkeypatch):
    monkeypatch.setattr(_digest, "_ON_HOST", frozenset())  # Also where the device is a CPU.
    monkeypatch.setattr(_digest, "_TOGETHER", 5000)  # So that leaves are in several groups.
    tree = {f"a{i}": array for i, array in enumerate(ARRAYS)}
    called = []
    monkeypatch.setattr(_digest, "on_host", called.append)
    assert impl.digest(jax.tree.map(jnp.asarray, tree)) == reference(tree)
    assert called == []


def test_a_digest_is_the_same_for_ever():
    # Logs of other releases have these digests. A change needs another version of the format.
    tree = {"w": np.arange(1500, dtype=np.float32).reshape(3, 500), "n": [np.int8(3), 2.5, True]}
    assert impl.digest(tree) == "c86cbe3e754e5e0888447f17882c6dfb8240e6afffe8941d9ab621330905061d"
    assert impl.digest([]) == impl.digest({"a": None, "b": ()}) == hashlib.sha256().hexdigest()
    keys = jax.random.split(jax.random.key(0, impl="threefry2x32"))
    assert impl.digest(keys) == "08eb4137be7f922d8ab279c5f6798196c6c3a74d2d4aeb5011dcef69594d03d0"


def bits(number):
    return np.array(number, np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "trees",
    [
        [np.float32(0.0), np.float32(-0.0), bits(1), bits(0x7FC00000), bits(0x7FC00001)],
        [np.ones(4, np.float32), np.ones((2, 2), np.float32), np.ones((4, 1), np.float32)],
        [np.zeros(2, np.float32), np.zeros(2, np.int32), np.zeros(4, np.float16)],
        [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "c": 2}, [1, 2]],
        [Pair(1, 2), {"left": 1, "right": 2}],
        [1, 1.0, True, 1 + 0j, np.int32(1)],
        [jax.random.key(0), jax.random.key(1), jax.random.key_data(jax.random.key(0))],
        [np.zeros(2048, np.uint8), np.zeros(2049, np.uint8), np.zeros(0, np.uint8)],
        [np.array([1, 2], jnp.int4), np.array([2, 1], jnp.int4), np.array([1, 2], np.int8)],
    ],
)
def test_each_bit_and_each_name_counts(trees):
    assert len({impl.digest(tree) for tree in trees}) == len(trees)


def test_the_form_of_an_array_does_not_count():
    plain = np.arange(12, dtype=np.float32).reshape(3, 4)
    forms = [
        plain,
        jnp.asarray(plain),
        np.asfortranarray(plain),
        plain.astype(">f4"),
        np.repeat(plain, 2, axis=0)[::2],
    ]
    assert len({impl.digest({"a": [form]}) for form in forms}) == 1
    assert impl.digest((plain, plain)) == impl.digest([plain, plain])
    small = np.array([-1, 3, -8], jnp.int4)
    assert impl.digest(small) == impl.digest(jnp.asarray(small))
    assert impl.digest(np.float64(2.5)) == impl.digest(2.5)


def test_the_mode_and_64_bits_change_no_digest(monkeypatch):
    tree = [jnp.arange(600, dtype=jnp.float32), jnp.ones(3, jnp.bfloat16)]
    expected = impl.digest(tree)
    monkeypatch.setattr(_digest, "_ON_HOST", frozenset())
    with impl.deterministic(guarantee="portable"), jax.enable_x64(True):
        assert impl.digest(tree) == expected


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"f": jnp.sin}, TypeError, r"the leaf \['f'\] is a \w+, but must be a number or an array"),
        ({"a": "text"}, TypeError, r"eqx\.filter"),
        (2**70, TypeError, "the argument is a int"),
        (jax.ShapeDtypeStruct((2,), jnp.float32), TypeError, "ShapeDtypeStruct"),
    ],
)
def test_a_leaf_without_bits_is_refused(tree, error, message):
    with pytest.raises(error, match=message):
        impl.digest(tree)


def test_a_traced_or_donated_leaf_is_refused():
    with pytest.raises(TypeError, match=r"is traced: its bits are not known inside of jax\.jit"):
        jax.jit(lambda x: impl.digest([x]))(1.0)
    x = jnp.ones(3)
    x.delete()
    with pytest.raises(ValueError, match=r"the leaf \[0\] has no bits any more: .* donated"):
        impl.digest([x])


def test_arrays_that_other_processes_have_are_refused():
    class Spread:
        is_fully_replicated = is_fully_addressable = False

    with pytest.raises(ValueError, match="process_allgather"):
        _digest._whole("digest(): the leaf ['w']", Spread())
