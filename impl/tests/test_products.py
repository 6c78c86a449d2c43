"""mm, mv and bmm, with dense and with sparse left operands."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from impl._lowerings import matmul as lowerings
from impl._primitives import matmul as primitives
from impl.tests._dots import WAYS, assert_as_torch, exact, lowered, random
from impl.tests._support import LOWERINGS, assert_same_bits, bits, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")
RNG = np.random.default_rng(0)
VARIABLE = "CUBLAS_WORKSPACE_CONFIG"

SHAPES = [
    ("mm", (3, 5), (5, 4)),
    ("mm", (1, 1), (1, 1)),
    ("mm", (2, 0), (0, 4)),
    ("mm", (0, 3), (3, 4)),
    ("mv", (3, 5), (5,)),
    ("mv", (3, 0), (0,)),
    ("bmm", (2, 3, 5), (2, 5, 4)),
    ("bmm", (0, 3, 5), (0, 5, 4)),
]


@pytest.mark.parametrize(("op", "left", "right"), SHAPES)
def test_values_and_gradients_against_pytorch(op, left, right):
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    with jax.enable_x64(True):
        for dtype in (np.float64, np.complex128)[: 2 if left == (3, 5) else 1]:
            arrays = random(RNG, left, dtype), random(RNG, right, dtype)
            ours, theirs = getattr(impl, op), getattr(torch, op)
            assert_as_torch(torch, ours, theirs, arrays, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "int32", "uint8"])
@pytest.mark.parametrize("way", WAYS)
def test_every_lowering_of_every_dtype(way, dtype):
    # More terms than one part has, and no tile that is full.
    a, b = exact(RNG, (3, 1100), 2).astype(dtype), exact(RNG, (1100, 5), 2).astype(dtype)
    if dtype == "complex64":
        a, b = a + 1j * np.roll(a, 1), b - 1j * np.roll(b, 1, 0)
    wide = np.complex128 if dtype == "complex64" else np.float64
    right = a.astype(wide) @ b.astype(wide)
    want = (right.astype(np.int64) if dtype == "uint8" else jnp.asarray(right)).astype(dtype)
    with LOWERINGS[way]():
        assert_same_bits(impl.mm(a, b), want)


@pytest.mark.parametrize("way", WAYS)
def test_narrow_floats_are_rounded_once(way):
    # 256 plus one for each 32 terms, which a sum kept in bfloat16 would lose.
    ones = jnp.ones((1, 1024), jnp.bfloat16)
    terms = (ones.T / 32).at[0].set(256)
    with LOWERINGS[way]():
        assert float(impl.mm(ones, terms)[0, 0]) == 288


def test_a_schedule_changes_no_bits():
    a, b = spread(RNG, (2, 70, 1100)), spread(RNG, (2, 1100, 20))
    run, seed, found = jax.jit(impl.bmm), impl.testing.Seed(), set()
    for seed.value in range(4):
        with impl.testing.schedule(seed):
            out = run(a, b)
            found.add(bits(out))
    assert len(found) == 1
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-3, atol=1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4, 5), (3, 5, 2)),
        ((1, 9, 5), (1, 5, 2)),
        ((1, 2, 9), (1, 9, 2)),
        ((1, 2, 5), (1, 5, 9)),
    ],
)
def test_what_is_too_large_for_offsets_is_halved(left, right, monkeypatch):
    a, b = exact(RNG, left), exact(RNG, right)
    products = []
    run = lowerings.kernels.products
    monkeypatch.setattr(
        lowerings.kernels,
        "products",
        lambda *args, **rest: products.append(0) or run(*args, **rest),
    )
    monkeypatch.setattr(lowerings, "MAX_ELEMENTS", 15)
    launch = lowerings.Launch(interpret=True)
    out = lowerings.ordered_kernel(
        jnp.asarray(a), jnp.asarray(b), precision="highest", launch=launch
    )
    assert_same_bits(out, a @ b)
    assert len(products) > 1


def test_derivatives():
    a, b = random(RNG, (2, 2)), random(RNG, (2, 1))
    with jax.enable_x64(True):
        check_grads(lambda a, b: jnp.sin(impl.mm(a, b)), (a, b), order=2, rtol=1e-4)
    one = jax.checkpoint(lambda a: impl.mm(a, b.astype(np.float32)).sum())
    np.testing.assert_allclose(jax.grad(one)(np.ones((2, 2), np.float32))[0], b.sum(1), rtol=1e-5)


@pytest.mark.parametrize("axes", [(0, None), (None, 1), (1, 0)])
@pytest.mark.parametrize("way", WAYS)
def test_batches(axes, way):
    shapes = [(3, 2), (2, 4)]
    arrays = [
        exact(RNG, shape if axis is None else (*shape[:axis], 5, *shape[axis:]))
        for shape, axis in zip(shapes, axes, strict=True)
    ]
    with LOWERINGS[way]():
        out = jax.vmap(impl.mm, axes)(*arrays)
    each = [
        [a if axis is None else np.take(a, i, axis) for a, axis in zip(arrays, axes, strict=True)]
        for i in range(5)
    ]
    assert_same_bits(out, np.stack([a @ b for a, b in each]))


def test_shards():
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    a, b = exact(RNG, (4, 3)), exact(RNG, (3, 2))

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(PartitionSpec("x"), PartitionSpec()),
        out_specs=PartitionSpec("x"),
    )
    def product(a, b):
        return impl.mm(a, b)

    for way in ("native", "xla"):  # Pallas' interpreter knows nothing of what varies
        with LOWERINGS[way]():
            out, pullback = jax.vjp(jax.jit(product), a, b)
            _, gradient = pullback(jnp.ones_like(out))
        assert_same_bits(out, a @ b)
        assert_same_bits(gradient, a.sum(0)[:, None] + np.zeros_like(b))


def test_a_gpu_gets_a_kernel_that_nothing_tunes_and_without_the_mode_a_product():
    x = jnp.ones((20, 20))

    def both(x):
        return impl.mm(x, x), jax.grad(lambda x: impl.mm(x, x).sum())(x)

    on, off = (lowered(both, x, on=on) for on in (True, False))
    assert 'name = "product_ordered"' in on
    assert "stablehlo.dot_general" not in on
    assert "stablehlo.dot_general" in off
    assert "product_ordered" not in off


def test_precision_is_the_callers_and_else_full():
    seen = []
    x = np.ones((2, 2), np.float32)

    def product(x):
        seen.append(primitives.precision())
        return impl.mm(x, x)

    compiled = jax.jit(product)
    compiled(x)
    with jax.default_matmul_precision("tensorfloat32"):
        compiled(x)
        text = str(jax.make_jaxpr(product)(x))
    assert seen[:2] == ["highest", "tensorfloat32"]
    assert "precision=tensorfloat32" in text
    asked = ("highest", "float32", "tensorfloat32", "default", "bfloat16")
    assert [lowerings.rounds_operands(p) for p in asked] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("setting", "raises"), [(None, True), (":0:0", True), (":4096:8", False), (":16:8", False)]
)
@pytest.mark.parametrize("op", ["mm", "mv", "bmm"])
def test_the_rows_of_cublas_go_by_the_environment(op, setting, raises, monkeypatch):
    _, left, right = next(shapes for shapes in SHAPES if shapes[0] == op)
    a, b = jnp.ones(left), jnp.ones(right)
    monkeypatch.delenv(VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(VARIABLE, setting)

    # A function of its own: what is traced is not traced again for another environment.
    def product(a, b):
        return getattr(impl, op)(a, b)

    with impl.deterministic(profile="torch-1.10"):
        impl.testing.lower(product, a, b, platform="cpu")
        if raises:
            with pytest.raises(RuntimeError, match=f"{op} CUDA with CuBLAS does not have"):
                impl.testing.lower(product, a, b)
        else:
            impl.testing.lower(product, a, b)


# Sparse left operands.

#: Elements of [4, 6], two of one position, and one that BCOO put beyond the edge to fill up.
PLACES = np.array([[3, 5], [0, 1], [3, 5], [0, 0], [4, 6], [1, 2]], np.int32)
DATA = spread(RNG, 6)
DENSE = spread(RNG, (6, 3))


@pytest.mark.parametrize("way", ["native", "kernel"])
def test_a_sparse_operand_adds_its_elements_in_stored_order(way):
    kept = PLACES[:, 0] < 4
    rows, columns = PLACES[kept].T
    terms = DATA[kept, None] * DENSE[columns]
    want = oracles.panel(np.zeros((4, 3), np.float32), rows, terms)

    @jax.jit
    def products(data, places, dense):
        sparse = BCOO((data, places), shape=(4, 6))
        twice = BCOO((jnp.stack([data] * 2), jnp.stack([places] * 2)), shape=(2, 4, 6))
        return (
            impl.mm(sparse, dense),
            impl.mv(sparse, dense[:, 0]),
            impl.bmm(twice, jnp.stack([dense] * 2)),
        )

    with LOWERINGS[way]():
        found = products(DATA, PLACES, DENSE)
    for out, right in zip(found, (want, want[:, 0], np.stack([want] * 2)), strict=True):
        assert_same_bits(out, right)


def test_a_batch_may_be_sparse_too():
    places = np.array([[1, 2, 0], [0, 1, 1], [1, 2, 0]], np.int32)
    sparse = BCOO((jnp.asarray([2.0, 3.0, 4.0]), jnp.asarray(places)), shape=(2, 3, 2))
    dense = exact(RNG, (2, 2, 4))
    assert_same_bits(impl.bmm(sparse, dense), sparse.todense() @ dense)


def test_gradients_of_a_sparse_operand():
    ct = spread(RNG, (4, 3))

    def product(data, dense):
        return impl.mm(BCOO((data, PLACES), shape=(4, 6)), dense)

    of_data, of_dense = jax.vjp(product, DATA, DENSE)[1](ct)
    kept = PLACES[:, 0] < 4
    rows, columns = PLACES[kept].T
    sums = oracles.panel(
        np.zeros((1, kept.sum()), np.float32), np.zeros(3, int), (ct[rows] * DENSE[columns]).T
    )[0]
    want = np.zeros_like(DATA)
    want[kept] = sums
    assert_same_bits(of_data, want)
    assert_same_bits(
        of_dense,
        oracles.panel(np.zeros_like(DENSE), columns, DATA[kept, None] * ct[rows]),
    )


# Bad arguments.

M, V, B = np.ones((2, 3), np.float32), np.ones(3, np.float32), np.ones((2, 2, 3), np.float32)
DENSE_DIMENSION = BCOO((jnp.ones((1, 3)), jnp.zeros((1, 1), jnp.int32)), shape=(2, 3))
BAD = [
    ("mm", ([1.0], M), TypeError, "argument 'input' must be a jax.Array"),
    ("mm", (M, [1.0]), TypeError, "argument 'mat2' must be a jax.Array"),
    ("mm", (V, M), RuntimeError, "input must be a matrix, but got shape [3]"),
    ("mm", (M, V), RuntimeError, "mat2 must be a matrix, but got shape [3]"),
    ("mm", (M, M), RuntimeError, "cannot be multiplied (2x3 and 2x3)"),
    ("mm", (M, M.T.astype(int)), RuntimeError, "to have the same dtype, but got: float32 != int"),
    ("mm", (M > 0, M.T > 0), NotImplementedError, "not implemented for bool"),
    ("mm", (DENSE_DIMENSION, M.T), RuntimeError, "must have 0 dense dims, but has 1"),
    ("mm", (M, BCOO.fromdense(jnp.asarray(M.T))), TypeError, "argument 'mat2' must be"),
    ("mv", ([1.0], V), TypeError, "argument 'input' must be"),
    ("mv", (M, 1.0), TypeError, "argument 'vec' must be"),
    ("mv", (V, V), RuntimeError, "but got shapes [3] and [3]"),
    ("mv", (M, M), RuntimeError, "but got shapes [2, 3] and [2, 3]"),
    ("mv", (M, V[:2]), RuntimeError, "size mismatch, got input (2x3), vec (2)"),
    ("mv", (M, V.astype(np.float16)), RuntimeError, "float32 != float16"),
    ("mv", (M > 0, V > 0), NotImplementedError, "not implemented for bool"),
    ("bmm", (None, B), TypeError, "argument 'input' must be"),
    ("bmm", (B, None), TypeError, "argument 'mat2' must be"),
    ("bmm", (M, B), RuntimeError, "input must have three dimensions, but got shape [2, 3]"),
    ("bmm", (B, M), RuntimeError, "mat2 must have three dimensions, but got shape [2, 3]"),
    ("bmm", (B, B), RuntimeError, "of mat2 to be: [2, 3] but got: [2, 2]"),
    ("bmm", (B, B[:1]), RuntimeError, "of mat2 to be: [2, 3] but got: [1, 2]"),
    ("bmm", (B, np.ones((2, 3, 1), np.complex64)), RuntimeError, "float32 != complex64"),
    ("bmm", (B > 0, np.ones((2, 3, 1), bool)), NotImplementedError, "not implemented for bool"),
]


@pytest.mark.parametrize(("op", "arguments", "error", "said"), BAD)
def test_bad_arguments(op, arguments, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        getattr(impl, op)(*arguments)
    if error is not NotImplementedError or "bool" in said:
        assert str(caught.value).startswith(f"{op}(): ")
