"""Calls outside of any trace: one program for each signature, and what that may not change.

Tests: impl._core.few_integers.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO

import impl
from impl._core import arguments, eager, few_integers
from impl.tests.support.public_ops import public_ops

X = jnp.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def no_programs():
    """Forgets the programs of other tests, and of this one."""
    eager.clear()
    yield
    eager.clear()


class Counted:
    """An op that counts how often its body runs; a compiled program runs without it."""

    def __init__(self, body):
        self.runs = 0
        self.body = body
        self.op = eager.compiled(self.run)

    def run(self, *args, **kwargs):
        self.runs += 1
        return self.body(*args, **kwargs)


def twice(x, *_, **__):
    return x * 2


@pytest.mark.parametrize(
    ("first", "second", "runs"),
    [
        ((X, 1), (X + 1, 1), 1),
        ((X, 1), (X, 2), 2),
        ((X, 1), (X, True), 2),
        ((X, 1), (X, 1.0), 2),
        ((X, 0.0), (X, -0.0), 2),
        ((X, float("nan")), (X, float("nan")), 1),
        ((X, (1, 2)), (X, (1, 2)), 1),
        ((X, (1, 2)), (X, [1, 2]), 2),
        ((X, (1, 2)), (X, (True, 2)), 2),
        ((X, (1, (2,))), (X, (1, 2)), 2),
        ((X, slice(0, 1)), (X, slice(0, 2)), 2),
        ((X, None), (X, ...), 2),
        ((X, jnp.float32), (X, jnp.int32), 2),
        ((X,), (X[:1],), 2),
        ((X,), (X.astype(int),), 2),
        ((X,), (np.asarray(X),), 1),
    ],
)
def test_a_signature_is_traced_once(first, second, runs):
    counted = Counted(twice)
    counted.op(*first)
    np.testing.assert_array_equal(counted.op(*second), np.asarray(second[0]) * 2)
    assert counted.runs == runs


def test_arguments_arrive_as_they_were_given():
    seen = []

    def body(*args, **kwargs):
        arrays = [name for name, value in kwargs.items() if isinstance(value, jax.Array)]
        seen.append((args[1:], arrays, kwargs["by_name"]))
        return X

    given = ([1, (True, -0.0)], slice(None, 3), ..., "name", None, jnp.dtype("int8"))
    eager.compiled(body)(X, *given, by_name=2, other=X)
    assert seen == [(given, ["other"], 2)]
    assert str(seen[0][0][0][1][1]) == "-0.0"


@pytest.mark.parametrize("array", [np.ones(2, ">f4"), np.ones(2, int), np.float32(1), [X]])
def test_what_jax_would_change_runs_as_it_is_written(array):
    counted = Counted(lambda value: value)
    for _ in range(2):
        assert counted.op(array) is array or array == [X]
    assert counted.runs == (2 if not isinstance(array, list) else 1)


def test_a_changed_mode_is_seen_at_once():
    asked = Counted(lambda x: x + impl.are_deterministic_algorithms_enabled())
    results = []
    for enabled in (False, True, False, True):
        with impl.deterministic(enabled):
            results.append(asked.op(X)[0, 0].item())
    assert results == [0, 1, 0, 1]
    assert asked.runs == 2


def test_a_check_of_a_computed_value_is_not_lost():
    def body(x, index):
        arguments.index_range("op", index + 1, 2, 0)
        return x

    op = eager.compiled(body)
    op(X, jnp.array([0]))
    with pytest.raises(RuntimeError, match="index 2 is out of bounds"):
        op(X, jnp.array([1]))


def test_an_op_that_asks_for_values_gets_those_of_each_call():
    op = eager.compiled(lambda x: jnp.ones(int(arguments.known(x).sum())))
    assert [op(jnp.array([n])).size for n in (2, 3)] == [2, 3]


def test_an_error_is_that_of_the_op_at_each_call():
    for _ in range(2):
        with pytest.raises(TypeError, match="must be int, not ArrayImpl"):
            impl.cumsum(X, jnp.array(0))
        with pytest.raises(IndexError, match="Dimension out of range"):
            impl.cumsum(X, 2)


def test_a_trace_leaks_nothing_and_makes_no_program():
    counted = Counted(twice)
    with jax.checking_leaks():
        jax.jit(counted.op)(X)
        jax.vmap(counted.op)(X)
        jax.grad(lambda x: counted.op(x).sum())(X)
        counted.op(X)
    assert eager._program.cache_info().currsize == 1


def test_programs_are_bounded_and_hold_no_array(monkeypatch):
    monkeypatch.setattr(eager, "VARIANTS", 3)
    counted = Counted(lambda x, n: x[n : n + 1])
    array = jnp.arange(9.0)
    before = len(jax.live_arrays())
    assert [counted.op(array, n).item() for n in range(5)] == list(range(5))
    for n in (0, 4):
        counted.op(array, n)
    assert counted.runs == 6
    assert len(jax.live_arrays()) <= before
    assert eager._program.cache_info().maxsize == eager.FUNCTIONS


def test_the_setting_of_a_library_is_read_at_each_call(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with impl.deterministic(profile="torch-1.10"), impl.testing.emulate("cuda", lowering="native"):
        for _ in range(2):
            impl.mm(X, X.T)
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
        with pytest.raises(RuntimeError, match="row R0137"):
            impl.mm(X, X.T)


def test_a_toggled_mode_is_seen_in_every_thread():
    asked = Counted(lambda x: x * 0 + impl.are_deterministic_algorithms_enabled())
    wrong = []

    def toggle(first):
        for step in range(20):
            enabled = (step + first) % 2 == 0
            with impl.deterministic(not enabled), impl.deterministic(enabled):
                inside = asked.op(X)[0, 0].item()
            if inside != enabled or asked.op(X)[0, 0].item() != 0:
                wrong.append((first, step))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(toggle, range(4)))
    assert wrong == []


def test_checks_belong_to_the_types_of_each_call():
    wide, narrow, index = jnp.arange(5.0), jnp.arange(2.0), jnp.array([0, 4])
    strided = jax.jit(lambda x: x + 0)(wide)
    for _ in range(2):
        for x in (wide, strided, wide.astype(int)):
            np.testing.assert_array_equal(impl.index_select(x, 0, index), [0, 4])
        with pytest.raises(IndexError, match="dimension 0 with size 2"):
            impl.index_select(narrow, 0, index)
        jax.clear_caches()
    with jax.enable_x64(True):
        far = np.array([0, 2**40])
        with pytest.raises(IndexError, match="index 1099511627776 is out of bounds"):
            impl.index_select(wide, 0, far)
        np.testing.assert_array_equal(impl.index_select(wide, 0, far[:1]), [0])


@pytest.mark.parametrize("toggled", [False, True])
def test_a_program_is_that_of_weak_types_and_of_numbers(toggled):
    weak = jnp.asarray(2.0) * 1.0
    numbers = np.float32(3), np.float64(3), np.int64(1), 2.0
    values = [jnp.asarray(1.5), weak, jnp.float16(1), *numbers]
    assert weak.weak_type != jnp.float32(2).weak_type
    add = Counted(lambda x, y: x + y)
    context = jax.enable_x64(True) if toggled else contextlib.nullcontext()
    for _ in range(2):
        for value in values:
            half = jnp.ones(2, jnp.float16)
            assert add.op(half, value).dtype == (half + value).dtype
            with context if toggled else contextlib.nullcontext():
                assert add.op(half, value).dtype == (half + value).dtype


NO_LABELS = np.zeros(0, np.int32)
#: Each call takes an index of zeros. With an index of fives, some calls raise an error.
OF_INDICES = [
    lambda index: impl.gather(X, 0, index),
    lambda index: impl.take(X, index + 2),
    lambda index: impl.take_along_dim(X[:, :2], index, 0),
    lambda index: impl.scatter(X, 0, index, X[:, :2]),
    lambda index: impl.index_select(X, 0, index[1]),
    lambda index: impl.getitem(X, index),
    lambda index: impl.nn.functional.embedding(index, X),
    lambda index: impl.nn.functional.max_unpool1d(X[None, :, :2], index[None], 2),
    lambda index: impl.nn.functional.nll_loss(X[:, :2], index[1]),
    lambda index: impl.nn.functional.ctc_loss(X[:, None], index[1:], [2], [1]),
    lambda index: impl.nn.functional.ctc_loss(X[:, None], index[1], [2], [2]),
    lambda index: impl.nn.functional.ctc_loss(X[:, None], NO_LABELS, index[1, :1], [0]),
    lambda index: impl.nn.functional.ctc_loss(X[:, None], NO_LABELS, [2], index[1, :1]),
]


@pytest.mark.once
@pytest.mark.parametrize(
    ("dtype", "array", "wrong"), [(np.int32, jnp.asarray, 5), (np.int64, np.asarray, -9)]
)
@pytest.mark.parametrize("call", OF_INDICES)
def test_an_index_out_of_range_gives_the_error_of_the_op_as_it_is_written(
    call, wrong, array, dtype
):
    def error(index):
        with pytest.raises((IndexError, RuntimeError)) as caught:
            call(index)
        return repr(caught.value)

    with jax.enable_x64(dtype is np.int64):
        inside = array(np.zeros((2, 2), dtype))
        outside = array(np.array([[0, 0], [wrong, 0]], dtype))
        with eager.as_written():
            expected = error(outside)
        assert error(outside) == expected
        call(inside)
        assert error(outside) == expected


def test_a_number_that_is_asked_for_makes_a_program_each():
    def body(x, counts):
        number = eager.ask(lambda values: int(values.sum()), counts)
        other = eager.ask(lambda values: int(values.min()), counts)
        return x[: len(x) if number is None else number], other

    counted = Counted(body)
    for counts, runs in [([1, 1], 3), ([0, 2], 4), ([1, 1], 4), ([2, 2], 6)]:
        out, least = counted.op(jnp.arange(5.0), jnp.array(counts))
        assert (out.size, int(least)) == (sum(counts), min(counts))
        assert counted.runs == runs
    shapes = jax.eval_shape(lambda *a: body(*a)[0], jnp.arange(5.0), jnp.array([1, 1]))
    assert shapes.shape == (5,)
    with eager.as_written():
        assert counted.op(jnp.arange(5.0), jnp.array([1, 2]))[0].size == 3


def test_a_program_asks_for_the_types_alone_with_which_the_op_asks():
    asked = []

    def read(counts):
        asked.append(counts.shape)
        return int(counts.sum())

    counted = Counted(lambda x, counts: x * (eager.ask(read, counts) if counts.ndim == 1 else 0))
    for counts in ([1, 2], [[1, 2]], [2, 1], [[3, 4]]):
        out = counted.op(jnp.arange(5.0), jnp.array(counts))
        np.testing.assert_array_equal(out, jnp.arange(5.0) * 3 * (np.ndim(counts) == 1))
    assert (asked, counted.runs) == ([(2,), (2,)], 3)


def test_a_sparse_matrix_is_part_of_the_signature():
    matrix = BCOO.fromdense(jnp.eye(2))
    np.testing.assert_array_equal(impl.mm(matrix, X), X)
    assert eager._program.cache_info().currsize == 1
    outside = BCOO((matrix.data, matrix.indices + 2), shape=(2, 2))
    with pytest.raises(RuntimeError, match="out of bounds"):
        impl.mm(outside, X)


def test_nan_is_found_in_an_eager_call():
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        impl.cumsum(jnp.array([jnp.inf, -jnp.inf]) * 1.0, 0)


def test_without_jit_an_op_runs_as_it_is_written():
    counted = Counted(twice)
    with jax.disable_jit():
        counted.op(X), counted.op(X)
    assert counted.runs >= 2


def test_every_public_op_is_compiled():
    assert [name for name, op in public_ops().items() if not hasattr(op, "__wrapped__")] == []


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_the_range_is_that_of_every_number(dtype):
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    passed = 0
    for _ in range(2000):
        end = int(rng.choice([0, 1, 2, 3, 7, 100, limits.max, limits.max + 1, 2**40]))
        low = int(rng.choice([0, -end]))
        edges = [limits.min, limits.max, low - 1, low, low + 1, -1, 0, 1, end - 1, end, end + 1]
        if rng.random() < 0.5:
            edges = [edge for edge in edges if low <= edge < end] or [low]
        values = rng.choice([edge for edge in edges if limits.min <= edge <= limits.max], 5)
        array = values.astype(dtype)
        inside = all(low <= int(value) < end for value in values)
        assert few_integers.range_test(low, end, array)(array) == inside, (low, end, array)
        passed += inside
    assert 500 < passed < 1500


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (few_integers.MOST,)])
@pytest.mark.parametrize("low", [0, -4])
def test_arrays_of_every_shape_are_read(shape, low):
    inside = jnp.full(shape, 3)
    test = few_integers.range_test(low, 4, inside)
    assert test(inside)
    for wrong in (4, low - 1):
        outside = inside.reshape(-1).at[-1].set(wrong).reshape(shape)
        assert not test(outside)
        assert not test(np.asarray(outside))


def test_values_are_those_of_a_computation_that_runs():
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, x: x @ x, x)[0, :4].astype(int) + 9)
    x = jnp.zeros((500, 500))
    assert not few_integers.range_test(0, 9, slow(x))(slow(x))


@pytest.mark.parametrize(
    "array",
    [np.zeros(0, int), np.zeros(few_integers.MOST + 1, int), np.zeros(3, np.uint8), np.ones(3)],
)
def test_other_arrays_have_no_test(array):
    assert few_integers.range_test(0, 4, array) is None


def test_an_array_in_parts_does_not_pass():
    test = few_integers.range_test(0, 4, np.zeros(3, int))
    assert not test(object())
    deleted = jnp.zeros(3, int)
    deleted.delete()
    assert not test(deleted)
