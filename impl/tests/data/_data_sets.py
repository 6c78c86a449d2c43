"""Data sets and functions for workers, which import this module and no test; and loaders."""

import os
import random
import threading
import time

import jax
import numpy as np

import impl
from impl.utils import data
from impl.utils.data import _work


def draws():
    # Two draws of each generator: if a state is saved too early or too late, the second one
    # differs.
    return [
        [random.random(), np.random.random(), impl.default_generator.draw_seed() % 2**32]  # noqa: NPY002
        for _ in range(2)
    ]


def arrays():
    """Arrays that travel as buffers, and some that are too small for that."""
    return [np.full(size, size % 251, np.uint8) for size in (1_000_000, 3, 70_000, 0)]


class PickyError(Exception):
    """An exception whose class cannot be called with its ``args``."""

    def __init__(self, name, *, reason):
        super().__init__(f"{name}: {reason}")
        self.reason = reason


class OneWay:
    """An object that can be pickled, and not unpickled."""

    def __reduce__(self):
        return int, ("one way",)


class Commands:
    """A data set whose indices are the names of its methods."""

    def __getitem__(self, command):
        return getattr(self, command)()

    def draw(self):
        return draws()

    def settings(self):
        return (
            impl.get_deterministic_profile(),
            impl.get_deterministic_guarantee(),
            impl.get_deterministic_debug_mode(),
            jax.config.jax_enable_x64,
            jax.config.jax_platforms,
        )

    def pid(self):
        return os.getpid()

    def large(self):
        return bytes(range(256)) * 1000, *arrays()

    def picky(self):
        raise PickyError("picky", reason="told to")

    def stop(self):
        raise StopIteration

    def leave(self):
        raise SystemExit

    def lock(self):
        return threading.Lock()

    def draw_lock(self):
        return draws(), threading.Lock()

    def one_way(self):
        return OneWay()

    def sleep(self):
        time.sleep(1000)

    def quit(self):
        os._exit(0)


def same(sample):
    """A ``collate_fn`` for single samples."""
    return sample


def failing_init(_):
    """A ``worker_init_fn`` that fails."""
    worker = data.get_worker_info()
    raise PickyError(f"{worker.id} of {worker.num_workers}", reason=type(worker.dataset).__name__)


def init_that_seeds(worker_id):
    """A ``worker_init_fn`` that replaces the seeds of the epoch."""
    random.seed(worker_id)
    np.random.seed(worker_id)  # noqa: NPY002
    impl.manual_seed(worker_id)


class Squares:
    """A data set of numbers, which needs no worker."""

    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return index * index


class Noisy(Squares):
    """A data set that draws."""

    def __getitem__(self, index):
        return index, draws()


class NoisyOrder(data.RandomSampler):
    """A sampler that also draws from a global generator."""

    def __iter__(self):
        return iter(np.random.permutation([*super().__iter__()]).tolist())  # noqa: NPY002


def noisy_order():
    return NoisyOrder(Squares(), generator=impl.Generator(1))


def noisy(**options):
    """A loader whose data set and ``collate_fn`` draw from the global generators."""
    options = {"generator": impl.Generator(5)} | options
    return data.DataLoader(Noisy(), collate_fn=lambda samples: (samples, draws()), **options)


def two_epochs_from(path):
    """The batches from a position on; for a process of its own."""
    loader = noisy(sampler=noisy_order())
    loader.restore(path)
    return [list(loader), list(loader)]


def shuffled(**options):
    """A loader without workers; equal options give equal batches."""
    options = {"batch_size": 3, "shuffle": True, "generator": impl.Generator(0)} | options
    return data.DataLoader(**{"dataset": Squares()} | options)


def batches(loader):
    """The batches of an epoch, as lists."""
    return [np.asarray(batch).tolist() for batch in loader]


def streams(base_seed):
    """Yields the results of ``draws`` in worker 0 of an epoch, one for each call."""
    python = random.Random(base_seed)
    numpy = np.random.RandomState(_work.numpy_seed(base_seed, 0))
    generator = impl.Generator(base_seed)
    while True:
        yield [[python.random(), numpy.random(), generator.draw_seed() % 2**32] for _ in range(2)]
