"""Every element of every kernel's result is written: what was in its memory shows nowhere."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import _kernels
from impl._core import reductions, scan_combines
from impl._core.convolution_window import ConvolutionWindow
from impl._core.window_table import WindowTable
from impl._kernels.matmul import Product
from impl._kernels.triton import Launch
from impl._mode.decide import Decision
from impl._mode.emulation import Emulation
from impl._primitives._common import Lowerings
from impl.tests._support import bits, spread

RNG = np.random.default_rng(5)


@dataclasses.dataclass(frozen=True)
class Poisoned(Launch):
    """Runs every kernel over two kinds of memory, and compares what comes of it."""

    launched: list[str] = dataclasses.field(default_factory=list)

    def __call__(self, kernel, grid, out, *args, **options):
        results = [
            Launch(True, self.seed, fill)(kernel, grid, out, *args, **options)
            for fill in (True, False)
        ]
        left = np.asarray(results[0] != results[1]) & ~np.isnan(results[1])
        assert bits(results[0]) == bits(results[1]), (
            f"{options['name']} left {left.sum()} of {left.size} elements as they were, "
            f"the first at {np.argwhere(left)[:1].tolist()}"
        )
        self.launched.append(options["name"])
        return results[0]


def floats(*shape):
    return jnp.asarray(spread(RNG, shape))


def places(shape, size):
    """Indices, some of which are out of range."""
    return jnp.asarray(RNG.integers(-1, size + 1, shape), jnp.int32)


def chains(launch, kernel, reduction, width, weighted=False):
    start = jnp.asarray([0, 3, 3, *range(4, 154)], jnp.int32)
    end = jnp.asarray([3, 3, 4, *range(5, 155)], jnp.int32)
    share = 2 if weighted else 1
    kernel(
        start,
        end,
        jnp.arange(160, dtype=jnp.int32)[::-1],
        floats(160 // share, width),
        reduction=reduction,
        launch=launch,
        weights=floats(160) if weighted else None,
    )


def atomic(launch, kernel, reduction, weighted=False):
    weights = floats(2, 150) if weighted else None
    updates = floats(2, 75 if weighted else 150, 3)
    index = places((1, 150, 1), 40)
    kernel(floats(2, 40, 3), index, updates, reduction=reduction, launch=launch, weights=weights)


def panels(launch, kernel, shape):
    kernel(floats(*shape), floats(shape[0], shape[2]), reduction=reductions.ADD, launch=launch)


def fold(launch, kernel, name, parts, shape, group):
    values = tuple(floats(*shape) for _ in range(parts))
    kernel(values, scan_combines.COMBINES[name], launch=launch, group=group)


def find(launch, kernel):
    keys = jnp.asarray(RNG.integers(0, 4, (3, 1030)), jnp.int32)
    kernel(keys, keys[:, -1], launch=launch)


def spread_windows(launch, kernel):
    tables = (
        WindowTable.of(5, [[0, 1], [3, 4]]),
        WindowTable.of(7, [[1, 2], [4, 5], [6, 7]], np.ones((3, 2))),
    )
    kernel(floats(30, 2, 3), tables, launch=launch)


def multiply(launch, kernel, apart):
    product = Product(2, 70, 33, 40, 32)

    def at(first, second):
        return lambda batch, i, j: ((batch * first + i) * second + j, True)

    kernel(
        floats(2, 70, 40),
        floats(2, 40, 33),
        product,
        at(70, 40),
        at(40, 33),
        launch=launch,
        tf32=False,
        apart=apart,
    )


def convolve(launch, kernel, wanted):
    strides = ConvolutionWindow((5, 6), (2, 4), (3, 2), (2, 1), (1, 2), (0, 0), 2)
    image, weights, result = floats(2, 4, 5, 6), floats(6, 2, 3, 2), floats(2, 6, 2, 4)
    pairs = {"result": (image, weights), "image": (result, weights), "weights": (image, result)}
    kernel(*pairs[wanted], wanted=wanted, strides=strides, tf32=False, launch=launch)


#: Calls of each kernel, of sizes that fill no block, and of several blocks.
CALLS = {
    "convolution.convolution": [
        functools.partial(convolve, wanted=w) for w in ("result", "image", "weights")
    ],
    "matmul.products": [functools.partial(multiply, apart=apart) for apart in (False, True)],
    "scan.fold_blocks": [
        functools.partial(fold, name="add", parts=1, shape=(3, 5, 50), group=None),
        functools.partial(fold, name="mul", parts=2, shape=(2, 7, 3), group=4),
    ],
    "scan.atomic_carry": [lambda launch, kernel: kernel(floats(3, 2100), launch=launch)],
    "scatter_accumulate.atomic": [
        functools.partial(atomic, reduction=reductions.ADD),
        functools.partial(atomic, reduction=reductions.MUL),
        functools.partial(atomic, reduction=reductions.ADD, weighted=True),
    ],
    "scatter_accumulate.any_writer": [
        lambda launch, kernel: kernel(places((2, 150, 3), 40), 40, launch=launch)
    ],
    "scatter_accumulate.fold_chains": [
        functools.partial(chains, reduction=reductions.ADD, width=1),
        functools.partial(chains, reduction=reductions.MUL, width=130),
        functools.partial(chains, reduction=reductions.ADD, width=3, weighted=True),
    ],
    "scatter_accumulate.fold_panels": [
        functools.partial(panels, shape=(50, 3, 5)),
        functools.partial(panels, shape=(3, 5, 130)),
    ],
    "select_kth.any_position": [find],
    "select_kth.first_position": [find],
    "windows.spread": [spread_windows],
}


def every_kernel():
    """The functions of ``impl._kernels`` that launch one, by the names of their modules."""
    found = {}
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"impl._kernels.{info.name}")
        for name, value in vars(module).items():
            public = inspect.isfunction(value) and not name.startswith("_")
            own = public and value.__module__ == module.__name__
            if own and "launch" in inspect.signature(value).parameters:
                found[f"{info.name}.{name}"] = value
    return found


def test_every_kernel_is_called_here():
    assert sorted(every_kernel()) == sorted(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_writes_every_element(name):
    for call in CALLS[name]:
        launch = Poisoned(True, 1)
        call(launch, every_kernel()[name])
        assert launch.launched


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32, jnp.bool_])
def test_an_element_left_as_it_was_is_found(dtype):
    def all_but_the_last(x_ref, out_ref):
        out_ref[:3] = x_ref[:3]

    def run(launch):
        return launch(
            all_but_the_last, (1,), jax.ShapeDtypeStruct((4,), dtype), x, name="all_but_the_last"
        )

    x = jnp.ones((4,), dtype)
    with pytest.raises(AssertionError, match=r"left 1 of 4 elements as they were.*\[\[3\]\]"):
        run(Poisoned(True))
    known = {"f": np.nan, "i": np.iinfo(np.int32).max, "b": True}[np.dtype(dtype).kind]
    np.testing.assert_array_equal(run(Launch(True, fill=True)), np.array([1, 1, 1, known], dtype))
    np.testing.assert_array_equal(run(Launch(True, fill=False)), np.array([1, 1, 1, 0], dtype))


@pytest.mark.parametrize(("mode", "setting"), [(True, True), (True, False), (False, True)])
def test_kernels_go_by_the_mode_and_its_setting(mode, setting):
    decision = Decision(emulation=Emulation("cuda", seed=3))
    impl.utils.deterministic.fill_uninitialized_memory = setting
    with impl.deterministic(mode):
        chosen = Lowerings(print, print, print).choose("cpu", decision)
    assert chosen.keywords["launch"] == Launch(True, 3, fill=mode and setting)


@pytest.mark.usefixtures("complete")
def test_ops_give_the_same_bits_over_any_memory():
    index = places((1500,), 40) % 40

    def ops(x):
        # What the mode and its setting are is part of the key: this is traced for each.
        return (
            impl.index_add(jnp.zeros((40, 3)), 0, index, x),
            impl.cumsum(x, 0),
            impl.kthvalue(x, 7, 0),
        )

    x = floats(1500, 3)
    found = []
    for setting in (True, False):
        impl.utils.deterministic.fill_uninitialized_memory = setting
        with impl.testing.schedule(1):
            found.append([bits(leaf) for leaf in jax.tree.leaves(jax.jit(ops)(x))])
    assert found[0] == found[1]
