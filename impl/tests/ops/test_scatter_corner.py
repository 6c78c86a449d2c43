"""scatter, scatter_add and scatter_reduce, whose index has as many dimensions as the input."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import ONE, POINT, SHORT, SQUARE, M, V, at, ones
from impl.tests.ops._scatters import (
    IN_RANGE,
    INDEX,
    SHAPES,
    SIZE,
    WIDE,
    assert_unique_indices_need_no_order,
    drawn,
)
from impl.tests.support import references
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import small, spread, whole
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.sums import in_order
from impl.tests.support.values import assert_reference_is_pytorch, assert_values

complete = pytest.mark.usefixtures("complete")

REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
]
#: The keywords of each op; the first are those that most tests use.
KEYWORDS = {
    "scatter": [{}, {"reduce": "add"}, {"reduce": "multiply"}],
    "scatter_add": [{}],
    "scatter_reduce": [REDUCTIONS[5], *REDUCTIONS],
}
every_op = pytest.mark.parametrize("op", KEYWORDS)


# Values.


def reference(op):
    options = {"reduce": "sum"} if op == "scatter_add" else {}
    return functools.partial(references.scattered, **options)


def cases(op):
    """Yields calls of all shapes and all keywords; an index may be smaller than the source."""
    for shape, dim, count in SHAPES:
        input, src, index, _ = drawn(shape, dim, count)
        for options in KEYWORDS[op] if len(shape) == 2 else KEYWORDS[op][:1]:
            yield f"{shape}, dim {dim}, {options}", ((input, dim, index, src), options)
    for dim in (0, 1):
        input, src, index, _ = drawn((4, 5), dim, 6)
        for options in KEYWORDS[op][:1]:
            yield f"smaller, dim {dim}, {options}", ((input, dim, index[:3, :4], src), options)


@every_op
@complete
def test_values(op):
    assert_values(getattr(impl, op), reference(op), dict(cases(op)))


@every_op
def test_the_mode_off(op):
    few = {name: case for name, case in cases(op) if name.startswith("(3, 4), dim 0")}
    assert_values(getattr(impl, op), reference(op), few)


@every_op
@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning")
@pytest.mark.filterwarnings("ignore:scatter_reduce.* in beta:UserWarning")
def test_the_reference_is_pytorch(torch, op):
    assert_reference_is_pytorch(torch, getattr(torch, op), reference(op), dict(cases(op)))


@complete
def test_a_number_stands_for_an_array_of_one_element():
    for input, index, src in itertools.product([(), (1,)], [(), (1,)], [(), (1,)]):
        got = impl.scatter_add(np.ones(input), 0, np.zeros(index, int), np.full(src, 2.0))
        assert got.shape == input
        assert got.tolist() == np.full(input, 3.0).tolist()
    one, two = np.ones(()), np.full(1, 2.0)
    for index in (np.zeros((), int), np.zeros(1, int)):
        assert impl.scatter(one, 0, index, two).shape == ()
        assert impl.scatter_reduce(two, 0, index, one, "sum").tolist() == [3]
    # A number as index takes one element of src alone.
    got = impl.scatter_add(np.zeros(3), 0, np.array(1), np.array([2.0, 7.0]))
    assert got.tolist() == [0, 2, 0]


NO_INDEX = np.zeros(0, np.int64)


@complete
def test_empty_arrays():
    some, empty = np.ones((3, 2), np.float32), np.ones((3, 0), np.float32)
    no_rows, longer = np.zeros((1, 0), int), np.ones(4, np.float32)
    mean, mean_without_self = REDUCTIONS[4:6]
    for got, want in [
        (impl.scatter(some, 0, NO_INDEX, longer), some),
        (impl.scatter(some, 0, NO_INDEX, 3), some),
        (impl.scatter(empty, 0, no_rows, empty), empty),
        (impl.scatter_add(some, 0, NO_INDEX, longer), some),
        (impl.scatter_add(empty, 0, no_rows, empty), empty),
        (impl.scatter_reduce(some, 0, NO_INDEX, longer, **mean), some),
        (impl.scatter_reduce(some, 0, NO_INDEX, longer, **mean_without_self), some),
        (impl.scatter_reduce(empty, 0, no_rows, empty, **mean), empty),
        (impl.scatter_reduce(empty, 0, no_rows, empty, **mean_without_self), empty),
        (jax.grad(lambda x: impl.scatter_add(x, 0, NO_INDEX, x).sum())(some), some),
    ]:
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


DTYPES = [np.float16, jnp.bfloat16, np.int8, np.uint8, np.int32, np.uint32, bool, np.complex64]
#: The values of ``reduce`` that a dtype does not have.
REFUSED = {"bool": {"mean"}, "complex64": {"multiply", "prod", "amax", "amin"}}


@every_op
@complete
def test_dtypes(op):
    function = getattr(impl, op)
    index = np.array([[2, 2], [0, 1], [2, 2], [1, 0], [2, 2]], np.int32)
    calls, wanted = {}, {}
    for dtype in DTYPES:
        input, src = small((4, 2), dtype, 0), small((5, 2), dtype, 1)
        name = np.dtype(dtype).name
        wide = np.complex128 if name == "complex64" else np.float64
        for options in KEYWORDS[op]:
            if options.get("reduce") in REFUSED.get(name, ()):
                with pytest.raises(NotImplementedError, match=name):
                    function(input, 0, index, src, **options)
                continue
            call = functools.partial(
                lambda x, i, s, o: function(x, 0, i, s, **o), i=index, o=options
            )
            calls[f"{name} {options}"] = lambda x, s, call=call: call(x, s=s), input, src
            want = reference(op)(input.astype(wide), 0, index, src.astype(wide), **options)
            integral = name.removeprefix("u").startswith("int")
            wanted[f"{name} {options}"] = (np.floor(want) if integral else want).astype(dtype)
    for name, got in run_together(calls).items():
        assert got.dtype == wanted[name].dtype, name
        wide = np.complex128 if "complex" in name else np.float64
        np.testing.assert_allclose(
            np.asarray(got).astype(wide), wanted[name].astype(wide), rtol=1e-6, err_msg=name
        )


@complete
def test_x64():
    rng = np.random.default_rng(0)
    wide, last = np.array([2**62, -(2**62), 5]), np.array([2, 2])
    forms = [
        ("scatter_add", {}),
        ("scatter", {"reduce": "multiply"}),
        *(("scatter_reduce", options) for options in REDUCTIONS[3:6]),
    ]
    with jax.enable_x64(True):
        input, src = rng.standard_normal((3, 2)), rng.standard_normal((9, 2))
        index = rng.integers(0, 3, (9, 2))
        results, mean = jax.jit(
            lambda x, s, w: (
                [getattr(impl, op)(x, 0, index, s, **options) for op, options in forms],
                impl.scatter_reduce(w, 0, last, w[:2], "mean"),
            )
        )(input, src, wide)
    for (op, options), got in zip(forms, results, strict=True):
        assert got.dtype == np.float64
        want = reference(op)(input, 0, index, src, **options)
        np.testing.assert_allclose(got, want, rtol=1e-13)
    assert mean.tolist() == [*wide[:2], 1]


# Bits. The suite tests them with the index as an argument; here it is part of the program.

RNG = np.random.default_rng(0)
MANY = RNG.integers(0, 4, 2100)
FACTORS = (1 + RNG.standard_normal(2100) / 16).astype(np.float32)


@complete
@pytest.mark.usefixtures("lowering")
def test_bits():
    rng = np.random.default_rng(0)
    initial, factors = spread(rng, (3, 2)), np.stack([FACTORS, FACTORS[::-1]], 1)
    index = np.stack([MANY % 3, MANY[::-1] % 3], 1)
    multiply = lambda x, i, s: impl.scatter(x, 0, i, s, reduce="multiply")  # noqa: E731
    calls = {"multiply": (multiply, initial, index, factors)}
    columns = zip(initial.T, index.T, factors.T, strict=True)
    products = [in_order(*column, np.multiply) for column in columns]
    wanted = {"multiply": np.stack(products, 1)}
    for dim in (0, 2):
        shape = [2, 3, 2]
        x = spread(rng, shape)
        shape[dim] = 1030
        src, index = spread(rng, shape), rng.integers(0, x.shape[dim], shape)
        name = f"add along {dim}"
        calls[name] = (
            functools.partial(lambda x, i, s, dim: impl.scatter_add(x, dim, i, s), dim=dim),
            x,
            index,
            src,
        )
        lanes = [
            np.moveaxis(array, dim, 0).reshape(array.shape[dim], -1) for array in (x, index, src)
        ]
        sums = [in_order(*(lane[:, c] for lane in lanes)) for c in range(lanes[0].shape[1])]
        moved = np.moveaxis(x, dim, 0)
        wanted[name] = np.moveaxis(np.stack(sums, 1).reshape(moved.shape), 0, dim)
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_elements_without_updates_keep_their_bits(name):
    initial = np.array([-0.0, 0, np.nan, 7], np.float32)
    initial[2:3] = np.array([0x7FC12345], np.uint32).view(np.float32)
    index, source = np.array([3, 3, 3]), np.array([1, 2, 3], np.float32)

    def calls(x, s):
        return [
            impl.scatter(x, 0, index, s),
            *(impl.scatter_reduce(x, 0, index, s, **options) for options in others),
        ]

    # An exact sum turns -0 into 0, since the initial value is one of its terms.
    others = [options for options in REDUCTIONS if options["reduce"] not in ("sum", "mean")]
    with LOWERINGS[name]():
        for got in jax.jit(calls)(initial, source):
            assert_same_bits(got[:3], initial[:3])


@complete
@pytest.mark.parametrize(
    ("op", "arguments", "want"),
    [
        ("scatter", (), [3, 1, 2, 4]),
        ("scatter", ("multiply",), [3, 1, 2, 4]),
        ("scatter_reduce", ("sum",), [4, 1, 3, 5]),
    ],
)
def test_unique_indices_need_no_order(op, arguments, want):
    index, source = np.array([[2], [0], [3]]), np.array([[2.0], [3], [4]], np.float32)
    options = {"reduce": arguments[0]} if arguments else {}
    function = functools.partial(
        lambda x, **more: getattr(impl, op)(x, 0, index, source, **options, **more)
    )
    assert_unique_indices_need_no_order(function, np.ones((4, 1), np.float32), want)


@complete
def test_vmap_of_kernels(rng):
    arrays = spread(rng, (2, 4, 3)), rng.integers(0, 3, (9, 3)), 1 + spread(rng, (2, 9, 3)) / 64

    def calls(x, i, s):
        return [
            impl.scatter(x, 0, i, s),
            impl.scatter(x, 0, i, s, reduce="multiply"),
            impl.scatter_reduce(x, 0, i, s, "mean", include_self=False),
            impl.scatter_reduce(x, 0, i, s, "amax", include_self=False),
        ]

    with LOWERINGS["seed 1"]():
        batched = jax.jit(jax.vmap(calls, (0, None, 0)))(*arrays)
        singles = [jax.jit(calls)(arrays[0][k], arrays[1], arrays[2][k]) for k in range(2)]
    for k, single in enumerate(singles):
        assert_all_same_bits([out[k] for out in batched], single)


# Bad arguments, and indices that are out of range.

I = ONE  # noqa: E741
S = np.ones(1, np.float32)
PAIR = np.ones((2, 2), np.float32)
CALLS: list[Call] = [
    ("scatter_add", (V, 1, ONE, ones(1)), {}, IndexError, "range of [-1, 0], but got 1"),
    ("scatter_add", (V, "0", ONE, ones(1)), {}, TypeError, "'dim' must be int, not str"),
    ("scatter_add", (V, 0, 0, ones(1)), {}, TypeError, "'index' must be"),
    ("scatter_add", (V, 0, SHORT, ones(1)), {}, RuntimeError, "for index but got: int16"),
    ("scatter_add", (V, 0, ONE, ones(1, dtype=np.int32)), {}, RuntimeError, "float32 and int32"),
    ("scatter_add", (M, 0, ONE, ones(1)), {}, RuntimeError, "as many dimensions"),
    ("scatter_add", (M, 0, POINT, ones(1, 1)), {}, RuntimeError, "as many dimensions"),
    (
        "scatter_add",
        (M, 0, np.zeros((2, 2), int), ones(1, 2)),
        {},
        RuntimeError,
        "index [2, 2] to be no larger than src [1, 2]",
    ),
    (
        "scatter_add",
        (M, 0, np.zeros((2, 3), int), ones(2, 3)),
        {},
        RuntimeError,
        "no larger than input [3, 2] apart from dimension 0",
    ),
    ("scatter_add", (V, 0, at(1, 3), ones(2)), {}, RuntimeError, "index 3 is out of bounds"),
    ("scatter_add", (V, 0, at(-1), ones(1)), {}, RuntimeError, "index -1 is out of bounds"),
    ("scatter", (V, 1, I, S), {}, IndexError, "range of [-1, 0], but got 1"),
    ("scatter", (V, 0.0, I, S), {}, TypeError, "'dim' must be int, not float"),
    ("scatter", (V, 0, [0], S), {}, TypeError, "'index' must be"),
    ("scatter", (V, 0, [0], 2), {}, TypeError, "'index' must be"),
    ("scatter", (V, 0, I, [1.0]), {}, TypeError, "'src' must be"),
    ("scatter", (V, 0, I, "1"), {}, TypeError, "'src' must be"),
    ("scatter", (V, 0, I), {}, TypeError, "but got neither"),
    ("scatter", (V, 0, I, S), {"value": 1}, TypeError, "but got both"),
    ("scatter", (V, 0, I), {"value": S}, TypeError, "'value' must be Number"),
    ("scatter", (V, 0, I.astype(np.int16), S), {}, RuntimeError, "for index but got: int16"),
    ("scatter", (V, 0, I.astype(np.int16), 2), {}, RuntimeError, "for index but got: int16"),
    ("scatter", (V, 0, I, S.astype(np.float16)), {}, RuntimeError, "float32 and float16"),
    ("scatter", (V, 0, I, S), {"reduce": "sum"}, RuntimeError, "'add', 'multiply', but got 'sum'"),
    ("scatter", (V, 0, I, S), {"reduce": 3}, TypeError, "'reduce' must be str, not int"),
    ("scatter", (V, 0, at(1, 3), PAIR[0]), {}, RuntimeError, "index 3 is out of bounds"),
    ("scatter", (V, 0, at(-1), S), {}, RuntimeError, "index -1 is out of bounds"),
    ("scatter", (V, 0, at(-1), 2), {}, RuntimeError, "position [0] of argument 'index'"),
    ("scatter", (M, 0, I, S), {}, RuntimeError, "as many dimensions"),
    ("scatter", (M, 0, I, 2), {}, RuntimeError, "as many dimensions"),
    ("scatter", (V, 0, at(0, 1), S), {}, RuntimeError, "no larger than src [1]"),
    ("scatter", (V, 0, I, 2j), {}, RuntimeError, "cannot be converted to float32"),
    ("scatter", (V, 0, I, 1e39), {}, RuntimeError, "without overflow, got 1e+39"),
    ("scatter", (V.astype(np.int8), 0, I, 128), {}, RuntimeError, "converted to int8"),
    ("scatter", (V.astype(np.int8), 0, I, math.nan), {}, RuntimeError, "got nan"),
    ("scatter", (V.astype(np.uint8), 0, I, -1.0), {}, RuntimeError, "converted to uint8"),
    ("scatter", (V.astype(np.float16), 0, I, 7e4), {}, RuntimeError, "converted to float16"),
    ("scatter_reduce", (V, 0, I, S, "add"), {}, RuntimeError, "'amin', but got 'add'"),
    ("scatter_reduce", (V, 0, I, S, None), {}, TypeError, "'reduce' must be str, not NoneType"),
    ("scatter_reduce", (V, 0, I, S, "sum"), {"include_self": 1}, TypeError, "must be bool"),
    ("scatter_reduce", (V, 0, I, 2.0, "sum"), {}, TypeError, "'src' must be"),
    ("scatter_reduce", ([0.0], 0, I, S, "sum"), {}, TypeError, "'input' must be"),
    ("scatter_reduce", (V, 1, I, S, "sum"), {}, IndexError, "but got 1"),
    ("scatter_reduce", (V, 0, at(3), S, "mean"), {}, RuntimeError, "index 3 is out of bounds"),
    ("scatter_reduce", (V, 0, I, S.astype(int), "sum"), {}, RuntimeError, "float32 and int"),
    ("scatter_reduce", (V > 0, 0, I, S > 0, "mean"), {}, NotImplementedError, "for bool"),
]
UNLIKE_TORCH: list[Call] = [
    # An IndexError about the dimension in PyTorch.
    ("scatter_add", (M, 0, SQUARE, ones(1)), {}, RuntimeError, "as many dimensions as 'src'"),
    ("scatter_add", (V, 0, ONE, ones(1)), {"unique_indices": None}, TypeError, "unique_indices"),
    ("scatter", (V, 0, I, S), {"unique_indices": 1}, TypeError, "unique_indices"),
    ("scatter_reduce", (V, 0, I, S, "sum"), {"unique_indices": 1}, TypeError, "unique_indices"),
    # An OverflowError in PyTorch.
    ("scatter", (V.astype(np.int32), 0, I, 2**70), {}, RuntimeError, "converted to int32"),
    # PyTorch multiplies complex numbers, in whatever order.
    (
        "scatter_reduce",
        (V.astype(np.complex64), 0, I, S.astype(np.complex64), "prod"),
        {},
        NotImplementedError,
        "jax.numpy.ndarray.at[].multiply",
    ),
]


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH


def test_bad_arguments_come_before_an_alert():
    with (
        impl.deterministic(profile="torch-2.12"),
        impl.testing.emulate("cuda"),
        pytest.raises(RuntimeError, match="index 3 is out of bounds"),
    ):
        impl.scatter_reduce(V, 0, at(3), S, "prod")


#: Ops, dimensions and keywords. Along the last dimension, an overrun would be in the next row.
FORMS = [
    ("scatter", 0, {}),
    ("scatter", 1, {}),
    ("scatter", 0, {"reduce": "add"}),
    ("scatter_add", 0, {}),
    ("scatter_add", 1, {}),
    ("scatter_reduce", 1, REDUCTIONS[5]),
    ("scatter_reduce", 1, REDUCTIONS[7]),
    ("scatter_reduce", 1, REDUCTIONS[2]),
]


def results_and_references(x, index, src, in_range):
    """Returns the results of all forms for traced arrays, and those of the indices in range.

    The arrays hold whole numbers, for which a reference has the bits of every order.
    """

    @jax.jit
    def program(x, i, s):
        wide = jnp.stack([i, i], 1)
        return [
            getattr(impl, op)(*((x, 0, wide, s) if dim == 0 else (x.T, 1, wide.T, s.T)), **options)
            for op, dim, options in FORMS
        ]

    wide = np.stack([index, index], 1)[in_range]
    wanted = []
    for op, dim, options in FORMS:
        arguments = (x, 0, wide, src[in_range])
        if dim:
            arguments = (x.T, 1, wide.T, src[in_range].T)
        wanted.append(reference(op)(*arguments, **options).astype(x.dtype))
    return program(x, index, src), wanted


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    rng = np.random.default_rng(0)
    input, source = whole(rng, (SIZE, 2)), whole(rng, (len(INDEX), 2))
    assert_all_same_bits(*results_and_references(input, INDEX, source, IN_RANGE))
    wide = np.stack([INDEX, INDEX], 1)
    got = jax.jit(lambda x, i: impl.scatter(x, 0, i, 2.0, reduce="add"))(input, wide)
    twos = np.full((len(INDEX), 2), np.float32(2))
    want = references.scattered(input, 0, wide[IN_RANGE], twos[IN_RANGE], "sum")
    assert_same_bits(got, want.astype(np.float32))


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_a_wide_index_is_not_narrowed_first(name):
    source = np.array([[8.0, 8], [2, 2], [8, 8]])
    with LOWERINGS[name](), jax.enable_x64(True):
        results = results_and_references(np.ones((3, 2)), WIDE, source, WIDE == 1)
    assert_all_same_bits(*results)


@complete
def test_gradients_of_dropped_updates_are_zero():
    rng = np.random.default_rng(0)
    input = rng.standard_normal((SIZE, 2)).astype(np.float32)
    source = rng.standard_normal((len(INDEX), 2)).astype(np.float32)

    @jax.jit
    def gradients(i, s):
        def calls(x, s):
            wide = jnp.stack([i, i], 1)
            return [getattr(impl, op)(x, 0, wide, s, **options) for op, _, options in FORMS]

        outs, pullback = jax.vjp(calls, input, s)
        return pullback([jnp.ones_like(out) for out in outs])

    of_input, of_source = gradients(INDEX, source)
    assert not np.asarray(of_source)[~IN_RANGE].any()
    want = gradients(INDEX[IN_RANGE], source[IN_RANGE])
    np.testing.assert_allclose(of_input, want[0], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(of_source)[IN_RANGE], want[1], rtol=1e-5)
