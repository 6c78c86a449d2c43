"""scatter, scatter_reduce, index_reduce, index_copy: values and dtypes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

pytestmark = pytest.mark.usefixtures("complete")

REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
]
#: Ops whose index has the shape of the source, and those whose index counts slices; with options.
SCATTERS = [
    ("scatter", {}),
    ("scatter", {"reduce": "add"}),
    ("scatter", {"reduce": "multiply"}),
    *(("scatter_reduce", options) for options in REDUCTIONS),
]
SLICES = [
    ("index_copy", {}),
    *(("index_reduce", options) for options in REDUCTIONS if options["reduce"] != "sum"),
]
FEW = [SCATTERS[0], ("scatter_reduce", {"reduce": "mean", "include_self": False})]
FEW_SLICES = [SLICES[0], ("index_reduce", {"reduce": "amax"})]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def label(case):
    op, options = case
    return "-".join([op, *map(str, options.values())])


def call(space, case, *arguments):
    op, options = case
    return getattr(space, op)(*arguments, **options)


# The reference: element by element, of a list of all terms.

FOLD = {
    None: lambda terms: terms[-1],
    "add": sum,
    "sum": sum,
    "multiply": math.prod,
    "prod": math.prod,
    "mean": lambda terms: sum(terms) / len(terms),
    "amax": max,
    "amin": min,
}


def wanted(case, input, dim, index, src, fold=FOLD):
    """What a call gives, in double precision; an index of slices is spread over them."""
    op, options = case
    out = np.atleast_1d(input).astype(np.result_type(input, np.float64))
    src, index = np.atleast_1d(src), np.atleast_1d(index)
    if op.startswith("index"):
        shape = [1] * src.ndim
        shape[dim] = -1
        index = np.broadcast_to(index.reshape(shape), src.shape)
    found = {}
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        found.setdefault(tuple(target), []).append(src[place].astype(out.dtype))
    for target, terms in found.items():
        own = [out[target]] if options.get("include_self", True) else []
        out[target] = fold[options.get("reduce")](own + terms)
    return out.reshape(input.shape)


def data(shape, dim, count, seed=0):
    """An input, a longer source, an index into the input for it, and one of slices."""
    rng = np.random.default_rng((seed, *shape))
    size = shape[dim] if shape else 1
    long = list(shape)
    if shape:
        long[dim] = count
    input, src = (rng.standard_normal(s).astype(np.float32) for s in (shape, long))
    return input, src, rng.integers(0, size, long), rng.integers(0, size, count)


PLACES = [
    ((), 0, 1),
    ((5,), -1, 8),
    ((3, 4), 0, 7),
    ((3, 4), -1, 6),
    ((2, 3, 4), 1, 5),
    ((2, 1, 3, 2, 2), -3, 4),
]


@pytest.mark.parametrize(("shape", "dim", "count"), PLACES)
def test_shapes_and_dimensions(shape, dim, count):
    input, src, index, slices = data(shape, dim, count)
    every = len(shape) == 2
    cases = [
        *((case, index) for case in (SCATTERS if every else FEW)),
        *((case, slices) for case in (SLICES if every else FEW_SLICES)),
    ]
    got = jax.jit(lambda x, s: [call(impl, case, x, dim, i, s) for case, i in cases])(input, src)
    for (case, i), own in zip(cases, got, strict=True):
        assert (own.shape, own.dtype) == (shape, np.float32)
        want = wanted(case, input, dim, i, src)
        np.testing.assert_allclose(own, want, err_msg=label(case), **CLOSE)


def test_the_mode_off():
    with impl.deterministic(False):
        test_shapes_and_dimensions((3, 4), 0, 7)


@pytest.mark.filterwarnings("ignore:.*in beta:UserWarning")
@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning")
def test_torch_agrees_with_the_reference():
    torch = pytest.importorskip("torch", reason="the peer is not installed")
    for shape, dim, count in PLACES:
        input, src, index, slices = data(shape, dim, count, seed=1)
        if shape:
            index = index[tuple(slice(max(1, n - 1)) for n in index.shape)]
        for case, i in [*((c, index) for c in SCATTERS), *((c, slices) for c in SLICES)]:
            x, i_, s = (torch.from_numpy(np.asarray(a)) for a in (input, i, src))
            theirs = call(torch, case, x, dim, i_, s).numpy()
            want = wanted(case, input, dim, i, src)
            np.testing.assert_allclose(theirs, want, err_msg=label(case), **CLOSE)


@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_smaller_than_input_and_src(dim):
    input, src, index, _ = data((4, 5), dim, 6)
    index = index[:3, :4]
    got = jax.jit(lambda x, s: [call(impl, case, x, dim, index, s) for case in FEW])(input, src)
    for case, own in zip(FEW, got, strict=True):
        np.testing.assert_allclose(own, wanted(case, input, dim, index, src), **CLOSE)


def test_a_number_stands_for_an_array_of_one_element():
    one, two = np.ones(()), np.full(1, 2.0)
    for index in (np.zeros((), int), np.zeros(1, int)):
        assert impl.scatter(one, 0, index, two).shape == ()
        assert impl.scatter_reduce(two, 0, index, one, "sum").tolist() == [3]
        assert impl.index_copy(two, 0, index, one).tolist() == [1]
        assert impl.index_copy(one, 0, index, two).shape == ()
        assert impl.index_reduce(one, 0, index, np.full((), 2.0), "prod") == 2
    assert impl.index_copy(one, 0, np.zeros(2, int), np.array([3.0, 4.0])) == 4


EMPTY = np.zeros(0, np.int64)


@pytest.mark.parametrize("include_self", [True, False])
def test_empty_arrays(include_self):
    some, none = np.ones((3, 2), np.float32), np.ones((3, 0), np.float32)
    options = {"reduce": "mean", "include_self": include_self}
    for got, want in [
        (impl.scatter(some, 0, EMPTY, np.ones(4, np.float32)), some),
        (impl.scatter(some, 0, EMPTY, 3), some),
        (impl.scatter_reduce(some, 0, EMPTY, np.ones(4, np.float32), **options), some),
        (impl.index_copy(some, 1, EMPTY, none), some),
        (impl.index_reduce(some, 1, EMPTY, none, **options), some),
        (impl.scatter(none, 0, np.zeros((1, 0), int), none), none),
        (impl.scatter_reduce(none, 0, np.zeros((1, 0), int), none, **options), none),
        (impl.index_copy(none, 0, np.array([1]), none[:1]), none),
        (impl.index_reduce(none, 0, np.array([1]), none[:1], **options), none),
    ]:
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


# dtypes

DTYPES = [np.float16, jnp.bfloat16, np.int8, np.uint8, np.int32, np.uint32, bool, np.complex64]
#: What has no such operation.
REFUSED = {
    "bool": {"mean"},
    "complex64": {"multiply", "prod", "amax", "amin"},
}
INDEX = np.array([2, 0, 2, 1, 2])


def small(shape, dtype, seed):
    """Small integers, whose sums and products every dtype holds."""
    value = np.random.default_rng(seed).integers(0, 4, shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * value[::-1]
    return value.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dtypes(dtype):
    input, src = small((4, 2), dtype, 0), small((5, 2), dtype, 1)
    index = np.stack([INDEX, INDEX[::-1]], 1).astype(np.int32)
    name = np.dtype(dtype).name
    cases = []
    for case, i in [*((c, index) for c in SCATTERS), *((c, INDEX) for c in SLICES)]:
        if case[1].get("reduce") in REFUSED.get(name, ()):
            with pytest.raises(NotImplementedError, match=name):
                call(impl, case, input, 0, i, src)
        else:
            cases.append((case, i))
    got = jax.jit(lambda x, s: [call(impl, case, x, 0, i, s) for case, i in cases])(input, src)
    for (case, i), own in zip(cases, got, strict=True):
        assert own.dtype == dtype
        wide = np.complex128 if name == "complex64" else np.float64
        want = wanted(case, input.astype(wide), 0, i, src.astype(wide))
        if name.removeprefix("u").startswith("int"):
            want = np.floor(want)
        np.testing.assert_allclose(
            np.asarray(own).astype(wide),
            want.astype(dtype).astype(wide),
            rtol=1e-6,
            err_msg=label(case),
        )


def test_means_of_integers_are_rounded_down_and_do_not_wrap_around():
    def mean(values, index, size, include_self):
        return impl.index_reduce(
            np.full(size, values[0]), 0, index, values, "mean", include_self=include_self
        )

    pairs = np.array([-3, -4, 7, 0, -1, 0], np.int32)
    assert mean(pairs, np.array([0, 0, 1, 1, 2, 2]), 3, include_self=False).tolist() == [-4, 3, -1]
    # PyTorch's sum of narrow integers wraps around before it is divided.
    for number, dtype in ((100, np.int8), (200, np.uint8)):
        many = np.full(300, number, dtype)
        assert mean(many, np.zeros(300, int), 1, include_self=True).tolist() == [number]
    large = np.full(1, 2**32 - 3, np.uint32)
    assert mean(large, np.zeros(1, int), 1, include_self=False).tolist() == large.tolist()


def test_x64():
    rng = np.random.default_rng(0)
    cases = [("scatter", {"reduce": "multiply"}), *SCATTERS[-7:-4]]
    with jax.enable_x64(True):
        input, src = rng.standard_normal((3, 2)), rng.standard_normal((9, 2))
        index = rng.integers(0, 3, (9, 2))
        wide, last = np.array([2**62, -(2**62), 5]), np.array([2, 2])
        got, mean, copied, lowest = jax.jit(
            lambda x, s, w: (
                [call(impl, case, x, 0, index, s) for case in cases],
                impl.scatter_reduce(w, 0, last, w[:2], "mean"),
                impl.index_copy(w, 0, last, w[:2] + 1),
                impl.index_reduce(w, 0, last[:1], w[1:2], "amax", include_self=False),
            )
        )(input, src, wide)
    for case, own in zip(cases, got, strict=True):
        assert own.dtype == np.float64
        np.testing.assert_allclose(own, wanted(case, input, 0, index, src), rtol=1e-13)
    assert mean.tolist() == [*wide[:2], 1]
    assert copied.tolist() == [*wide[:2], 1 - 2**62]
    assert lowest.tolist() == [*wide[:2], -(2**62)]


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (2.5, np.float32, 2.5),
        (2, np.float16, 2),
        (np.float32(2.5), np.float32, 2.5),
        (2.5, jnp.bfloat16, 2.5),
        (-2.5, np.int32, -2),
        (True, np.int8, 1),
        (-1, np.uint8, 255),
        (0.5, bool, True),
        (math.inf, np.float16, math.inf),
        (1 + 2j, np.complex64, 1 + 2j),
        (2**40, np.float32, 2.0**40),
        (2j, bool, True),
    ],
)
def test_a_number_in_place_of_src(value, dtype, want):
    input = np.array([1, 0, 1], dtype)
    index = np.array([2, 1, 2])
    for got in (
        impl.scatter(input, 0, index, value),
        impl.scatter(input, 0, index, value=value),
        impl.scatter(input, 0, index, value=np.asarray(want, dtype)),
    ):
        assert got.dtype == dtype
        assert got.tolist() == [1, want, want]
    if dtype is np.int32:
        assert impl.scatter(input, 0, index, value, reduce="add").tolist() == [1, -2, -3]
        assert impl.scatter(input, 0, index, value=value, reduce="multiply").tolist() == [1, 0, 4]


def test_a_number_that_is_traced():
    def function(x, v):
        return impl.scatter(x, 0, np.array([2, 1, 2]), value=v)

    assert jax.jit(function)(jnp.ones(4), 3).tolist() == [1, 3, 3, 1]
    assert jax.grad(lambda v: (function(jnp.ones(4), v) * jnp.arange(4.0)).sum())(3.0) == 3


def test_nans_and_infinities():
    inf, nan = math.inf, math.nan
    index = np.array([0, 0, 1, 2, 2, 3])
    src = np.array([1, nan, nan, -inf, -inf, inf], np.float32)
    input = np.array([0, 2, 5, -inf, nan], np.float32)
    for reduce, include_self, want in [
        ("amax", True, [nan, nan, 5, inf, nan]),
        ("amin", True, [nan, nan, -inf, -inf, nan]),
        ("amax", False, [nan, nan, -inf, inf, nan]),
        ("amin", False, [nan, nan, -inf, inf, nan]),
        ("mean", False, [nan, nan, -inf, inf, nan]),
        ("mean", True, [nan, nan, -inf, nan, nan]),
        ("prod", False, [nan, nan, inf, inf, nan]),
    ]:
        got = impl.scatter_reduce(input, 0, index, src, reduce, include_self=include_self)
        np.testing.assert_array_equal(got, np.array(want, np.float32), err_msg=reduce)
