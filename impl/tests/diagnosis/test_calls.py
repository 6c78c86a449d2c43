"""The record of calls: a line for each call, with a digest of each value."""

import io
import json

import jax
import jax.numpy as jnp
import numpy as np

from impl.diagnosis import _calls, _programs

HERE = "impl/tests/diagnosis/test_calls.py"


def entries(run):
    programs, file = _programs.Recorder(), io.StringIO()
    calls = _calls.CallRecorder(programs, file)
    with programs.watched(calls.called):
        run()
    return [json.loads(line) for line in file.getvalue().splitlines()], programs.programs


def test_each_call_has_a_line_with_types_and_digests():
    f = jax.jit(lambda x, n: (x * n, x + n))

    def run():
        x, _ = f(np.float32(2), 3.0)
        f(x, 3.0)

    (first, second), _ = entries(run)
    assert first["main"] is True
    assert first["line"].startswith(HERE)
    assert first["function"].startswith("<lambda> at ")
    assert [name for name, _, _ in first["arguments"]] == ["x", "n"]
    assert first["arguments"][0][1] == "float32[]"
    assert [name for name, _, _ in first["outputs"]] == ["output 0", "output 1"]
    assert second["arguments"][0][2] == first["outputs"][0][2]
    assert second["arguments"][1] == first["arguments"][1]
    assert len({digest for _, _, digest in first["outputs"]}) == 2


def test_donated_arguments_and_keys_are_read():
    draw = jax.jit(lambda key, x: (key, x + 1), donate_argnums=1)
    key = jax.random.key(3)
    data = jax.random.key_data(key)
    (call,), recorded = entries(lambda: draw(key, jax.device_put(np.ones(4, np.float32))))
    kind, digest = call["arguments"][0][1:]
    assert (kind, digest) == (f"{key.dtype}[]", _calls._read(data)[1])
    assert call["outputs"][0][2] == digest
    assert call["arguments"][1][1] == "float32[4]"
    # Programs that read a value for its digest do not count as programs of the user.
    assert len(recorded) == 1


def test_a_bit_a_sign_and_a_small_dtype_count():
    digests = [
        _calls._read(value)
        for value in (
            jnp.float32(0),
            jnp.float32(-0.0),
            jnp.asarray([1, 2], jnp.bfloat16),
            jnp.asarray([1, 3], jnp.bfloat16),
            np.zeros((0, 3)),
            np.arange(6).reshape(2, 3).T,
            np.arange(6).reshape(3, 2),
        )
    ]
    assert len(set(digests)) == len(digests)
    assert _calls._read(object()) == ("object", _calls._read(object())[1])


def test_the_findings_of_a_function_are_those_of_its_device():
    def add(x, i):
        return jnp.zeros(4).at[i].add(x)

    _, recorded = entries(lambda: jax.jit(add)(np.ones(9, np.float32), np.zeros(9, np.int32)))
    ((function, lines),) = _calls._findings(recorded, "cuda").items()
    assert function.startswith("add at ")
    assert lines[0].startswith(f"lax.scatter_add at {HERE}:")
    assert _calls._findings(recorded, "cpu") == {}
