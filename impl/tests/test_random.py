"""Generators and keys; and the bits of Threefry, against JAX's.

Tests: impl._threefry.
"""

import copy
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.random import DEFAULT_SEED, Generator
from impl.tests.support import processes

SEED = 0x0123_4567_89AB_CDEF
#: The first three keys of Generator(SEED), as `threefry_by_jax` computes them.
KEYS = [[0x4D884901, 0xDC0E5397], [0x674AD376, 0x032ABCDB], [0x3BDB6692, 0x6BE05423]]


def words(key):
    return jax.random.key_data(key).tolist()


def threefry_by_jax(key, block):
    """The two words of Threefry-2x32 of a number from 0 to 2**64 - 1 under another."""
    split = (np.array([number >> 32, number & 0xFFFFFFFF], np.uint32) for number in (key, block))
    return jax.extend.random.threefry_2x32(*split).tolist()


def drawn(generator, count=3):
    return [words(generator.key()) for _ in range(count)]


def test_keys_do_not_depend_on_the_settings_of_jax():
    assert [threefry_by_jax(SEED, n) for n in range(3)] == KEYS
    assert drawn(Generator(SEED)) == KEYS
    settings = jax.config.jax_default_prng_impl, jax.config.jax_threefry_partitionable
    try:
        for prng in ("rbg", "threefry2x32"):
            jax.config.update("jax_default_prng_impl", prng)
            jax.config.update("jax_threefry_partitionable", prng == "rbg")
            with jax.enable_x64(prng == "rbg"), jax.transfer_guard("disallow"):
                keys = [Generator(SEED).key() for _ in range(2)]
            assert [words(key) for key in keys] == KEYS[:1] * 2
            assert {str(key.dtype) for key in keys} == {"key<fry>"}
    finally:
        jax.config.update("jax_default_prng_impl", settings[0])
        jax.config.update("jax_threefry_partitionable", settings[1])


def test_all_bits_of_the_count_reach_the_key():
    generator = Generator(SEED)
    for count in (2**32 - 1, 2**32, 2**64 - 2):
        state = [1, SEED >> 32, SEED & 0xFFFFFFFF, count >> 32, count & 0xFFFFFFFF]
        generator.set_state(np.array(state, np.uint32))
        assert words(generator.key()) == threefry_by_jax(SEED, count)
    with pytest.raises(RuntimeError, match=r"all of its .* draws are used; seed it anew"):
        generator.draw_seed()


def test_the_first_keys_are_what_jax_folds_in():
    base = jax.random.wrap_key_data(
        np.array([SEED >> 32, SEED % 2**32], np.uint32), impl="threefry2x32"
    )
    assert [words(jax.random.fold_in(base, n)) for n in range(3)] == KEYS


def test_a_drawn_seed_takes_the_place_of_a_key():
    generator = Generator(SEED)
    seeds = [generator.draw_seed() for _ in range(2)]
    assert seeds == [(high << 32 | low) >> 1 for high, low in KEYS[:2]]
    assert words(generator.key()) == KEYS[2]
    assert type(seeds[0]) is int


SEEDS = [0, 1, 2**63, 2**64 - 1, -1, -(2**63)]
OUTSIDE = [2**64, -(2**63) - 1]
OTHER_TYPES: list[Any] = [1.0, True, None, "1"]


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_are_taken_as_pytorch_takes_them(seed):
    assert impl.manual_seed(seed) is impl.default_generator
    assert impl.initial_seed() == Generator(seed).initial_seed() == seed % 2**64
    assert words(impl.default_generator.key()) == threefry_by_jax(seed % 2**64, 0)


@pytest.mark.parametrize("seed", OUTSIDE)
def test_seeds_out_of_range_are_refused_as_pytorch_refuses_them(seed):
    state = impl.get_rng_state()
    for take in (impl.manual_seed, impl.seed_everything, Generator, Generator().manual_seed):
        with pytest.raises(
            ValueError, match=rf"'seed' got {seed}; .* from -2\*\*63 to 2\*\*64 - 1"
        ):
            take(seed)
    np.testing.assert_array_equal(impl.get_rng_state(), state)


def test_manual_seed_takes_values_that_int_converts_without_loss():
    for seed in (7, np.int8(7), np.uint64(7), "7", 7.0, np.array(7), jnp.array(7)):
        assert impl.manual_seed(seed).initial_seed() == 7
    for seed, error in [(7.5, ValueError), (None, TypeError), ("a", ValueError)]:
        with pytest.raises(error):
            impl.manual_seed(seed)
    assert impl.initial_seed() == 7


@pytest.mark.parametrize("seed", OTHER_TYPES)
def test_a_generator_takes_only_integers(seed):
    generator = Generator(np.uint64(5))
    with pytest.raises(RuntimeError, match=f"expected an integer.*{type(seed).__name__}"):
        generator.manual_seed(seed)
    assert generator.initial_seed() == 5


def test_pytorch_has_the_same_rules(torch):
    assert torch.Generator().initial_seed() == DEFAULT_SEED
    for seed in SEEDS:
        expected = Generator(seed).initial_seed()
        assert torch.Generator().manual_seed(seed).initial_seed() == expected
    for seed in OUTSIDE:
        with pytest.raises(ValueError, match="Overflow"):
            torch.Generator().manual_seed(seed)
    for seed in OTHER_TYPES:
        with pytest.raises(RuntimeError):
            torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("arguments", "options"), [(["cuda:0"], {}), ([], {"device": "cuda:0"})])
def test_a_device_is_refused_with_a_reason(arguments, options):
    with pytest.raises(TypeError, match=r"got the device 'cuda:0', but .* same on every device"):
        Generator(*arguments, **options)


def test_a_seed_of_the_system_repeats_its_draws():
    first, second = impl.seed(), impl.seed()
    assert first != second == impl.initial_seed()
    keys = drawn(impl.default_generator)
    assert drawn(impl.manual_seed(second)) == keys
    assert Generator().initial_seed() == DEFAULT_SEED


def through_a_file(tmp_path, generator):
    np.save(tmp_path / "state.npy", generator.get_state())
    return Generator().set_state(np.load(tmp_path / "state.npy"))


def through_orbax(tmp_path, generator):
    orbax = pytest.importorskip("orbax.checkpoint", reason="orbax is not installed")
    with orbax.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "checkpoint", {"rng": generator.get_state()})
        return Generator().set_state(checkpointer.restore(tmp_path / "checkpoint")["rng"])


COPIES = {
    "pickle": lambda _, generator: pickle.loads(pickle.dumps(generator)),
    "copy": lambda _, generator: copy.copy(generator),
    "deepcopy": lambda _, generator: copy.deepcopy(generator),
    "numpy.save": through_a_file,
    "orbax": through_orbax,
    "jax": lambda _, generator: Generator().set_state(jnp.array(generator.get_state())),
}


@pytest.mark.filterwarnings("ignore")  # of orbax
@pytest.mark.parametrize("through", COPIES)
def test_a_state_goes_on_where_it_was_taken(through, tmp_path):
    generator = Generator(2**64 - 5)
    generator.key()
    restored = COPIES[through](tmp_path, generator)
    assert restored.initial_seed() == 2**64 - 5
    keys = drawn(generator)
    assert drawn(restored) == keys


GOOD = Generator(3).get_state()


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (GOOD.tolist(), TypeError, "array of uint32, but got list"),
        (None, TypeError, "array of uint32, but got NoneType"),
        (GOOD.astype(np.int64), TypeError, "array of uint32, but got an array of int64"),
        (GOOD[:-1], RuntimeError, r"the shape \[5\], but got \[4\]"),
        (GOOD[None], RuntimeError, r"the shape \[5\], but got \[1, 5\]"),
        (
            GOOD + np.uint32(1),
            RuntimeError,
            "has the format 2, but this release reads the format 1",
        ),
    ],
)
def test_a_state_that_is_refused_changes_nothing(state, error, message):
    impl.manual_seed(4)
    with pytest.raises(error, match=message):
        impl.set_rng_state(state)
    assert drawn(impl.default_generator) == drawn(Generator(4))


def drawing(traced):
    """A function of one number that draws a key, and appends it to ``traced``."""

    def function(x):
        traced.append(impl.default_generator.key())
        return x + jax.random.uniform(traced[-1])

    return function


TRACED = {
    "jit": lambda f: jax.jit(f)(1.0),
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), None), 1.0, length=2),
    "cond": lambda f: jax.lax.cond(jnp.array(True), f, lambda x: x, 1.0),
    "checkpoint": lambda f: jax.checkpoint(f)(1.0),
    "jit of grad": lambda f: jax.jit(jax.grad(f))(1.0),
    "eval_shape": lambda f: jax.eval_shape(f, 1.0),
}


@pytest.mark.parametrize("transform", TRACED)
def test_a_draw_in_a_trace_is_refused_and_not_counted(transform):
    impl.manual_seed(SEED)
    with pytest.raises(RuntimeError, match=r"JAX is tracing .* pass it to the function as an arg"):
        TRACED[transform](drawing([]))
    assert drawn(impl.default_generator) == KEYS


def evaluated(function):
    def inner(x):
        with jax.ensure_compile_time_eval():
            return function(x)

    return jax.jit(inner)(1.0)


def without_jit(function):
    with jax.disable_jit():
        return jax.jit(function)(1.0)


EAGER = {
    "grad": lambda f: jax.grad(f)(1.0),
    "vmap": lambda f: jax.vmap(f)(jnp.ones(2)),
    "disable_jit": without_jit,
    "ensure_compile_time_eval": evaluated,
}


@pytest.mark.parametrize("transform", EAGER)
def test_a_draw_outside_a_trace_is_counted(transform):
    impl.manual_seed(SEED)
    traced = []
    EAGER[transform](drawing(traced))
    assert [words(key) for key in traced] == KEYS[:1]
    assert drawn(impl.default_generator, 2) == KEYS[1:]


def test_threads_never_share_a_draw():
    generator = Generator(SEED)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            draws = list(pool.map(lambda _: generator.draw_seed(), range(2000)))
    finally:
        sys.setswitchinterval(interval)
    expected = Generator(SEED)
    assert sorted(draws) == sorted(expected.draw_seed() for _ in range(2000))


def test_fork_rng_restores_after_an_exception_too():
    impl.manual_seed(SEED)

    @impl.fork_rng([0])
    def fail():
        impl.manual_seed(9)
        impl.default_generator.key()
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert drawn(impl.default_generator, 1) == KEYS[:1]

    @impl.random.fork_rng()
    def draw():
        return words(impl.default_generator.key())

    assert draw() == draw() == KEYS[1]
    with impl.fork_rng(enabled=False):
        impl.default_generator.key()
    assert drawn(impl.default_generator, 1) == KEYS[2:]


@pytest.mark.parametrize("seed", [5, -1, SEED])
def test_seed_everything_seeds_all_three(seed):
    generator = impl.seed_everything(seed)
    unsigned = seed % 2**64
    assert impl.initial_seed() == unsigned
    assert random.random() == random.Random(unsigned).random()
    assert np.random.random() == np.random.RandomState(unsigned % 2**32).random()  # noqa: NPY002
    assert generator.random() == np.random.default_rng(unsigned).random()


# A process with other settings, and one device more, that forks while a thread holds the lock.
CHILD = f"""
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # that threads and fork do not mix
import jax, impl
print(impl.initial_seed())
impl.manual_seed({SEED})
key = impl.default_generator.key()
print(jax.random.key_data(key).tolist(), len(jax.devices()))
sys.stdout.flush()
holds = threading.Event()
def hold():
    with impl.random._lock:
        holds.set()
        time.sleep(0.1)
threading.Thread(target=hold).start()
holds.wait()
child = os.fork()
signal.alarm(30)
if child:
    assert os.waitpid(child, 0)[1] == 0
# Here, and in a thread: the lock that this thread holds during the fork must be released.
draw = lambda: print(impl.default_generator.draw_seed(), flush=True)
draw()
thread = threading.Thread(target=draw)
thread.start()
thread.join()
if not child:
    os._exit(0)
"""


def test_another_process_draws_the_same_and_a_forked_child_what_its_parent_does():
    settings = {"JAX_DEFAULT_PRNG_IMPL": "rbg", "JAX_ENABLE_X64": "1", "PYTHONHASHSEED": "7"}
    process = processes.run("-c", CHILD, devices=2, **settings)
    assert process.returncode == 0, process.stderr
    unseeded, key, *seeds = process.stdout.splitlines()
    assert key == f"{KEYS[0]} 2"
    assert [int(seed) for seed in seeds] == [(high << 32 | low) >> 1 for high, low in KEYS[1:]] * 2
    # As in PyTorch, a process without a seed draws its own.
    assert int(unseeded) not in (DEFAULT_SEED, impl.initial_seed())
