"""scatter, scatter_add and scatter_reduce, whose index has as many dimensions as the input.

Tests: impl.ops.scatter_add, impl.ops.scatter_reduce.
"""

import functools
import itertools

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._scatters import (
    REDUCTIONS,
    SHAPES,
    assert_dtypes,
    assert_unique_indices_need_no_order,
    drawn,
    reference,
)
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import spread
from impl.tests.support.programs import run_together
from impl.tests.support.sums import in_order
from impl.tests.support.values import assert_reference_is_pytorch, assert_values

complete = pytest.mark.usefixtures("complete")

#: The keywords of each op; the first are those that most tests use.
KEYWORDS = {
    "scatter": [{}, {"reduce": "add"}, {"reduce": "multiply"}],
    "scatter_add": [{}],
    "scatter_reduce": [REDUCTIONS[5], *REDUCTIONS],
}
every_op = pytest.mark.parametrize("op", KEYWORDS)


# Values.


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


@every_op
@complete
def test_dtypes(op):
    index = np.array([[2, 2], [0, 1], [2, 2], [1, 0], [2, 2]], np.int32)
    assert_dtypes(op, index, KEYWORDS[op])


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


@pytest.mark.triton
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
    writes = op == "scatter" and not arguments
    assert_unique_indices_need_no_order(function, np.ones((4, 1), np.float32), want, writes=writes)


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
