"""Checks and conversions of arguments, of numbers among them, and symbolic sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._core import arguments


@pytest.mark.parametrize("value", [np.ones(2), np.float32(1), jnp.ones(2)])
def test_an_array_is_an_array_of_jax_or_numpy(value):
    assert isinstance(arguments.array("op", "x", value), jax.Array)


@pytest.mark.parametrize(
    ("value", "count", "result"),
    [(3, 2, (3, 3)), ((3, 4), 2, (3, 4)), ([5], 1, (5,)), (np.int64(3), 1, (3,))],
)
def test_one_int_stands_for_several(value, count, result):
    assert arguments.integers("op", "k", value, count) == result


@pytest.mark.parametrize(
    ("given", "by_name", "result"),
    [((2, 3), None, (2, 3)), (((2, 3),), None, (2, 3)), ((4,), None, (4,)), ((), (5,), (5,))],
)
def test_sizes_have_three_forms(given, by_name, result):
    assert arguments.sizes("op", given, by_name) == result


@pytest.mark.parametrize(
    ("dim", "ndim", "result"), [(0, 3, 0), (-1, 3, 2), (2, 3, 2), (0, 0, 0), (-1, 0, 0)]
)
def test_a_dimension_counts_from_the_front(dim, ndim, result):
    assert arguments.dimension(dim, ndim, "op") == result


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: arguments.array("op", "x", [1]), TypeError, "argument 'x' must be a jax.Array"),
        (lambda: arguments.integer("op", "k", True), TypeError, "'k' must be int, not bool"),
        (lambda: arguments.integers("op", "k", (1, 2), 3), RuntimeError, "an int or 3 of them"),
        (lambda: arguments.integers("op", "k", (1, "a"), 2), TypeError, r"'k\[1\]' must be int"),
        (lambda: arguments.sizes("op", (), None), TypeError, "argument 'size' once"),
        (lambda: arguments.sizes("op", (2,), (3,)), TypeError, "argument 'size' once"),
        (lambda: arguments.sizes("op", ("a",), None), TypeError, "must be tuple of ints, not str"),
        (lambda: arguments.sizes("op", (2, -1)), RuntimeError, "negative dimension -1"),
        (lambda: arguments.flag("op", "k", 1), TypeError, "argument 'k' must be bool, not int"),
        (lambda: arguments.dimension(3, 3, "op"), IndexError, r"\[-3, 2\], but got 3"),
        (
            lambda: arguments.dimension(0, 0, "op", numbers_have_one=False),
            IndexError,
            "input has none",
        ),
        (
            lambda: arguments.index_array("op", np.ones(1)),
            RuntimeError,
            "int32/int64 for index but got: float64",
        ),
        (
            lambda: arguments.index_vector("op", np.ones((1, 1), int)),
            IndexError,
            "supposed to be a vector",
        ),
        (
            lambda: arguments.index_range("op", np.array([0, 3]), 3, 1),
            RuntimeError,
            r"index 3 .* dimension 1 with size 3, at position \[1\]",
        ),
        (
            lambda: arguments.index_range("op", np.array([-1]), 3, None, IndexError),
            IndexError,
            "an input of 3 elements",
        ),
        (lambda: arguments.choice("op", "k", 1, "ab"), TypeError, "must be str, not int"),
        (lambda: arguments.choice("op", "k", "c", "ab"), RuntimeError, "one of 'a', 'b', but got"),
    ],
)
def test_errors_name_the_op_and_what_is_allowed(check, error, message):
    with pytest.raises(error, match=message) as caught:
        check()
    assert type(caught.value) is error
    assert str(caught.value).startswith("op()")


def test_an_index_is_checked_where_its_values_are_known():
    arguments.index_range("op", np.array([-3, 2]), 3, 0, wrap=True)
    arguments.index_range("op", np.array([], int), 0, 0)
    jax.jit(lambda i: arguments.index_range("op", i, 3, 0))(np.array([9]))
    assert arguments.known(np.array([1])).tolist() == [1]
    jax.jit(lambda i: [] if arguments.known(i) is None else 1 / 0)(np.array([9]))


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(bool, "bool"), (np.uint8, "integer"), (jnp.bfloat16, "floating"), (np.complex64, "complex")],
)
def test_the_facts_of_an_input(dtype, kind):
    facts = arguments.facts(jnp.zeros((2, 3), dtype), unique=True)
    assert facts == {"dtype": kind, "input_ndim": 2, "unique": True}


@pytest.mark.parametrize(
    ("value", "dtype", "result"),
    [
        (2.7, np.int32, 2),
        (-1, np.uint8, 255),
        (0, bool, False),
        (1.5, np.float16, 1.5),
        (2, np.complex64, 2),
        (np.int8(3), np.float32, 3),
        (jnp.int32(7), np.float32, 7),
    ],
)
def test_a_number_is_converted(value, dtype, result):
    converted = arguments.number_as("op", "value", value, dtype)
    assert (converted.dtype, converted.shape) == (np.dtype(dtype), ())
    assert converted == result


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: arguments.number("op", "k", "a"), TypeError, "must be Number, not str"),
        (
            lambda: arguments.number_as("op", "k", 300, np.uint8),
            RuntimeError,
            "to uint8 without overflow, got 300",
        ),
        (
            lambda: arguments.number_as("op", "k", 1j, np.float32),
            RuntimeError,
            "to float32 without overflow",
        ),
        (
            lambda: arguments.number_as("op", "k", np.complex64(1j), np.float32),
            RuntimeError,
            "got an array of complex64|got .*1j",
        ),
    ],
)
def test_errors_of_numbers_name_what_is_allowed(check, error, message):
    with pytest.raises(error, match=message) as caught:
        check()
    assert str(caught.value).startswith("op()")


def test_one_is_known_to_be_one():
    assert all(map(arguments.is_one, (1, 1.0, 1 + 0j)))
    assert not any(map(arguments.is_one, (2, "1", np.ones(1))))
    assert not jax.jit(lambda x: jnp.asarray(arguments.is_one(x)))(1)


def export(function, *shapes):
    """Exports a call. ``shapes`` are pairs of a text, such as ``"b, 3"``, and a dtype."""
    scope = jax.export.SymbolicScope()
    arguments = (
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype)
        for shape, dtype in shapes
    )
    return jax.export.export(jax.jit(function))(*arguments)


@pytest.mark.usefixtures("complete")
def test_a_call_that_depends_on_no_size_is_exported():
    exported = export(lambda x, i: impl.index_select(x, 0, i), ("4, 3", "float32"), ("b", "int32"))
    assert str(exported.out_avals[0].shape) == "(b, 3)"


@pytest.mark.usefixtures("complete")
def test_an_argument_whose_size_is_compared_is_named():
    with pytest.raises(NotImplementedError, match=r"gather\(\).*'index' of shape \[3, b\]"):
        export(lambda x, i: impl.gather(x, 0, i), ("3, 3", "float32"), ("3, b", "int32"))


@pytest.mark.usefixtures("complete")
def test_a_running_sum_needs_no_size():
    exported = export(lambda x: impl.cumsum(x, 0), ("b, 3", "float32"))
    assert str(exported.out_avals[0].shape) == "(b, 3)"
