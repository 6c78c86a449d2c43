"""The state of a worker: its work, its seeds, and the information about it.

``Work`` is the same for all workers and epochs; an ``Epoch`` is of one worker. A worker seeds three
generators when an epoch begins, as PyTorch's workers do: Python's, NumPy's global one and this
package's default one. Their states go back to the main process with each batch, so that a later run
can go on from there. A class ``Noise`` that holds ``numpy.random.default_rng()`` has a generator
that no state has::

    [*generators("dataset", Noise(), [])]     ["a Generator of numpy in dataset"]

Source: ``torch/utils/data/_utils/worker.py``.
"""

from __future__ import annotations

import dataclasses
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from impl import random as _random
from impl._mode import modes

#: Settings of JAX that change what a data set computes with JAX.
_JAX_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)


@dataclasses.dataclass(frozen=True)
class Work:
    """The data set, and how its samples become batches.

    ``batched`` is whether ``collate_fn`` gets the samples of a list of indices; otherwise it gets
    the sample of one index.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int

    def batch(self, indices: Any) -> Any:
        """Returns the batch of the given indices."""
        if isinstance(indices, np.ndarray):
            indices = indices.tolist()  # A data set gets Python's integers.
        if not self.batched:
            return self.collate_fn(self.dataset[indices])
        getitems = getattr(self.dataset, "__getitems__", None)
        if getitems is not None:
            return self.collate_fn(getitems(indices))
        return self.collate_fn([self.dataset[index] for index in indices])


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of the main process that its workers take over."""

    jax_settings: dict[str, Any]
    mode: modes.Mode
    fill: bool

    def apply(self) -> None:
        """Gives this process the settings."""
        for name, value in self.jax_settings.items():
            jax.config.update(name, value)
        enabled, *_ = self.mode
        options = {name: getattr(self.mode, name) for name in modes.Mode._fields[1:]}
        modes.use_deterministic_algorithms(enabled, **options)
        modes.set_fill_uninitialized_memory(self.fill)


def settings() -> Settings:
    """Returns the settings of this process."""
    return Settings(
        {name: getattr(jax.config, name) for name in _JAX_SETTINGS},
        modes.current(),
        modes.fill_uninitialized_memory(),
    )


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The part of an epoch that one worker does."""

    base_seed: int
    batches: Sequence[Any]  # The indices of the worker's batches, in their order.
    #: Whether ``worker_init_fn`` ran in an earlier epoch, so that this epoch's seeds replace its
    #: seeds. A process that starts in such an epoch has to do the same.
    reseeded: bool
    states: GeneratorStates | None  # To go on from, in the middle of an epoch.
    settings: Settings  # of the main process


#: The states of ``random``, of NumPy's global generator and of the default generator, in numbers,
#: strings, lists and dicts.
GeneratorStates = list[Any]


def numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """Returns the four words that seed NumPy's global generator, as in PyTorch."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]


def seed_generators(base_seed: int, worker_id: int) -> None:
    """Seeds the three generators of a worker."""
    random.seed(base_seed + worker_id)
    np.random.seed(numpy_seed(base_seed, worker_id))  # noqa: NPY002  # PyTorch seeds this one.
    _random.manual_seed(base_seed + worker_id)


def generator_states() -> GeneratorStates:
    """Returns the states of the three generators."""
    version, words, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002  # PyTorch seeds this one.
    numpy_state = jax.tree.map(lambda entry: np.asarray(entry).tolist(), numpy_state)
    return [[version, list(words), gauss], numpy_state, _random.get_rng_state().tolist()]


def set_generator_states(states: GeneratorStates) -> None:
    """Sets the three generators to states that ``generator_states`` returned."""
    (version, words, gauss), numpy_state, words_of_default = states
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(numpy_state)  # noqa: NPY002  # PyTorch seeds this one.
    _random.set_rng_state(np.array(words_of_default, np.uint32))


#: The global generators of Python and NumPy, and the methods that may use others.
_GLOBAL: Any = (random.random.__self__, np.random.rand.__self__)  # type: ignore[attr-defined]
_METHODS = ("__getitem__", "__getitems__", "__call__")


def generators(argument: str, value: Any, known: Iterable[object]) -> Iterator[str]:
    """Yields the generators that an object holds or its functions use, but for the ``known`` ones.

    The three of ``GeneratorStates`` are known. It does not look into modules, classes and arrays.
    """
    seen = set(map(id, [*_GLOBAL, _random.default_generator, *known]))
    queue = [value]
    for item in queue:  # It grows meanwhile.
        kind = type(item)
        if id(item) in seen or isinstance(item, type | ModuleType | np.ndarray | jax.Array):
            continue
        seen.add(id(item))
        if kind.__name__ in ("Generator", "Random", "RandomState"):  # PyTorch's may be absent.
            yield f"a {kind.__name__} of {kind.__module__.partition('.')[0]} in {argument}"
        elif isinstance(item, FunctionType):
            codes = [item.__code__]
            for code in codes:  # Also its lambdas and, before Python 3.12, its comprehensions.
                codes += [part for part in code.co_consts if isinstance(part, CodeType)]
            queue += [item.__closure__, item.__defaults__, item.__kwdefaults__]
            queue += [item.__globals__.get(name) for code in codes for name in code.co_names]
        elif len(queue) < 500:  # A library may be all that a data set refers to.
            queue += gc.get_referents(item)[:100]
            queue += [getattr(kind, name, None) for name in _METHODS]


@dataclasses.dataclass(frozen=True)
class WorkerInfo:
    """The value that ``get_worker_info`` returns in a worker.

    Attributes:
        id: The number of the worker, from 0 to ``num_workers - 1``.
        num_workers: The number of workers of the loader.
        seed: The seed of this worker in this epoch: the base seed of the epoch plus ``id``.
        dataset: The worker's own copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Returns information about this worker; None in a process that is not a worker.

    Source: ``torch.utils.data.get_worker_info``.
    """
    return _worker_info


def set_worker_info(value: WorkerInfo) -> None:
    """Sets the information about the worker of this process."""
    global _worker_info  # noqa: PLW0603  # There is one worker in a process.
    _worker_info = value
