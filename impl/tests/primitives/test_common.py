"""The choice of a lowering: the kernels of ops that are lowered for CUDA, on both paths.

The files of one primitive are named alike.
"""

import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import _kernels, _lowerings, _primitives
from impl._kernels.launch import Launch
from impl._mode.decide import Decision
from impl._mode.emulation import Emulation
from impl._primitives._common import Lowerings
from impl.testing import lower
from impl.tests.support.programs import (
    ATOMIC_SUM,
    EXACT,
    HAS_KERNELS,
    kernels,
    scatters_floats,
)

# JAX keeps the dtype of a constant array that it met with x64 on, so int64 would not do here.
INDEX = np.array([0, 1, 1, 3], np.int32)
MATRIX = np.broadcast_to(INDEX[:, None], (4, 3))

SCATTER = {
    "atomic": ATOMIC_SUM,
    "ordered": {EXACT},
}
#: With the mode off it is JAX's cumsum.
SCAN: dict[str, set[str]] = {
    "atomic": set(),
    "ordered": {"scan_ordered_tiles"} if HAS_KERNELS else set(),
}
NONE: dict[str, set[str]] = {"atomic": set(), "ordered": set()}
#: The gradient of a read is JAX's scatter.
OF_READ = {"atomic": set(), "ordered": {EXACT}}

#: A function of one [4, 3] array; its kernels; the kernels of its gradient.
OPS = {
    "index_add": (lambda x: impl.index_add(x, 0, INDEX, x), SCATTER, NONE),
    "scatter_add": (lambda x: impl.scatter_add(x, 0, MATRIX, x), SCATTER, NONE),
    "gather": (lambda x: impl.gather(x, 0, MATRIX), NONE, OF_READ),
    "index_select": (lambda x: impl.index_select(x, 0, INDEX), NONE, OF_READ),
    "bincount": (lambda x: impl.bincount(INDEX, x[:, 0]), SCATTER, NONE),
    "cumsum": (lambda x: impl.cumsum(x, 0, dtype=x.dtype), SCAN, SCAN),
}

#: XLA's scatter serves for integers, whose sum has the same bits in every order. bincount of
#: integers adds floats.
KERNELS_FOR_INTEGERS = {"bincount"}


@pytest.mark.parametrize("path", ["atomic", "ordered"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32], ids=lambda d: d.__name__)
@pytest.mark.parametrize("op", OPS)
def test_forward(op, dtype, path):
    function, names, _ = OPS[op]
    with impl.deterministic(path == "ordered", profile="complete"):
        lowered = lower(function, jnp.ones((4, 3), dtype))
    if dtype is jnp.int32 and op not in KERNELS_FOR_INTEGERS:
        assert kernels(lowered) == set()
        return
    assert kernels(lowered) == names[path]
    # XLA's scatter of floats on CUDA leaves the order to the hardware.
    assert path == "atomic" or not scatters_floats(lowered.as_text())


@pytest.mark.parametrize("path", ["atomic", "ordered"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("op", OPS)
def test_gradient(op, dtype, path):
    function, _, names = OPS[op]
    with impl.deterministic(path == "ordered", profile="complete"):
        lowered = lower(
            jax.grad(lambda x: function(x).sum().astype(jnp.float32)), jnp.ones((4, 3), dtype)
        )
    assert kernels(lowered) == names[path]
    # The test takes a column of the operand of bincount, whose gradient is a scatter.
    if op != "bincount" and path == "ordered":
        assert not scatters_floats(lowered.as_text())


@pytest.mark.parametrize("platform", ["cpu", "rocm"])
@pytest.mark.parametrize("op", ["index_add", "cumsum"])
def test_other_platforms_have_no_kernels(op, platform):
    with impl.deterministic(profile="complete"):
        lowered = lower(OPS[op][0], jnp.ones((4, 3)), platform=platform)
    is_sum = op == "index_add" and platform == "rocm"
    assert kernels(lowered) == ({EXACT} if is_sum else set())
    if platform == "rocm" and not is_sum:
        assert not scatters_floats(lowered.as_text())


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
def test_a_profile_changes_the_path_of_the_platforms_that_it_lists(platform):
    impl.use_deterministic_algorithms(True, profile="torch-2.12")  # Lists index_add on CUDA.
    lowered = lower(OPS["index_add"][0], jnp.ones((4, 3)), platform=platform)
    assert kernels(lowered) == (set() if platform == "cpu" else {EXACT})


@pytest.mark.parametrize("path", ["atomic", "ordered"])
def test_float64(path):
    with jax.enable_x64(True), impl.deterministic(path == "ordered", profile="complete"):
        x = np.ones((4, 3))
        # XLA's scatter adds float64 with every release.
        added = SCATTER["ordered"] if path == "ordered" else set()
        assert kernels(lower(OPS["index_add"][0], x)) == added
        assert kernels(lower(OPS["cumsum"][0], x)) == SCAN[path]


def test_complex_numbers_are_added_by_parts():
    x = jnp.ones((4, 3), jnp.complex64)
    with impl.deterministic(profile="complete"):
        assert kernels(lower(OPS["index_add"][0], x)) == SCATTER["ordered"]
        assert kernels(lower(OPS["cumsum"][0], x)) == SCAN["ordered"]


def test_unique_indices_need_no_order():
    index = np.array([2, 0, 1, 3])
    with impl.deterministic(profile="complete"):
        lowered = lower(
            lambda x: impl.index_add(x, 0, index, x, unique_indices=True), jnp.ones((4, 3))
        )
    assert kernels(lowered) == SCATTER["atomic"]


@pytest.mark.parametrize("kind", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"])
def test_other_devices(kind):
    lowered = lower(OPS["index_add"][0], jnp.ones((4, 3)), device_kind=kind)
    assert kernels(lowered) == SCATTER["atomic"]


@pytest.mark.parametrize(("mode", "setting"), [(True, True), (True, False), (False, True)])
def test_interpreted_kernels_fill_memory_by_the_mode_and_its_setting(mode, setting):
    decision = Decision(emulation=Emulation("cuda", seed=3))
    impl.utils.deterministic.fill_uninitialized_memory = setting
    with impl.deterministic(mode):
        chosen = Lowerings(print, print, print).choose("cpu", decision)
    assert chosen.keywords["launch"] == Launch(True, 3, fill=mode and setting).possible()


def public_modules(package):
    names = {info.name for info in pkgutil.iter_modules(package.__path__)}
    return {name for name in names if not name.startswith("_")}


def test_files_of_one_primitive_are_named_alike():
    primitives = public_modules(_primitives)
    lowerings = public_modules(_lowerings)
    kernels = public_modules(_kernels) - {"launch", "pallas", "triton"}
    names = lowerings | kernels
    parts = {name for name in names if any(name.startswith(f"{p}_") for p in primitives)}
    assert names - parts <= primitives
    for name in primitives:
        assert f"``{name}``" in _primitives.__doc__ or "derivatives" in name
