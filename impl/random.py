"""Seeds and generators: the counterpart of ``torch.random``.

A generator is a seed and the number of its draws. Draw number n is Threefry-2x32 of n under the
seed, with all 64 bits of both. So a key is the same on every device, in every process, and under
every setting and release of JAX. The numbers that ``jax.random`` makes of a key depend on JAX, for
example on its setting ``jax_threefry_partitionable``. The state is five words: the format, and two
words each of the seed and of the number of draws::

    g = Generator(7)
    g.get_state()     # [1, 0, 7, 0, 0]
    g.key()           # the data [3625411723, 1954958720]: Threefry-2x32 of 0 under 7
    g.get_state()     # [1, 0, 7, 0, 1]

A forked child starts with the generators of its parent, and draws the same as its parent until it
seeds them anew.

Attributes:
    default_generator (Generator): The generator that ``manual_seed`` seeds. Before that, each
        process has another seed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import os
import random as _python_random
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt

from impl._threefry import threefry2x32, words

#: The seed of a ``Generator()``, as in PyTorch.
DEFAULT_SEED = 67280421310721

_FORMAT = 1  # the first word of a state
_SIZE = 5
_COUNTS = 1 << 64

_Value = TypeVar("_Value")

# One lock for all generators. It is re-entrant, since a handler of a signal may draw. It is held
# during a fork: if another thread held it then, nothing would release it in the child.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    seed: int
    count: int = 0
    chosen: bool = True  # False if the seed came from the operating system


class Generator:
    """A stream of keys for ``jax.random``.

    Two generators with one seed give the same keys in the same order; other seeds give other
    streams. Threads may share a generator: each draw is given once. A generator can be pickled and
    copied, with its state.

    Source: ``torch.Generator``. Differences: the seed may be an argument, and there is no device,
    since keys are the same on all devices.

    Args:
        seed: A seed as for ``manual_seed``; None for 67280421310721, as in PyTorch.
        device: None. A program written for PyTorch that gives a device gets a clear message.

    Raises:
        TypeError: A device is given.
        RuntimeError: ``seed`` is not an integer.
        ValueError: ``seed`` is out of range.
    """

    def __init__(self, seed: int | None = None, *, device: object = None) -> None:
        if device is not None or isinstance(seed, str):
            device = seed if device is None else device
            raise TypeError(
                f"Generator(): got the device {device!r}, but a generator has none: its keys are "
                "the same on every device. Leave it out; the argument is the seed, an integer"
            )
        self._state = _State(DEFAULT_SEED if seed is None else _checked_seed("Generator", seed))

    def manual_seed(self, seed: int) -> Generator:
        """Seeds the generator; its number of draws becomes 0.

        Args:
            seed: An integer from -2**63 to 2**64 - 1. A negative integer stands for
                ``2**64 + seed``, as in PyTorch's code; its documentation has another formula.

        Returns:
            The generator itself.

        Raises:
            RuntimeError: ``seed`` is not an integer (PyTorch's choice of exception).
            ValueError: ``seed`` is out of range.
        """
        self._state = _State(_checked_seed("manual_seed", seed))
        return self

    def seed(self) -> int:
        """Seeds the generator with 64 bits from the operating system, and returns them.

        ``manual_seed`` with the result reproduces the draws.
        """
        state = _State(secrets.randbits(64), chosen=False)
        self._state = state
        return state.seed

    def initial_seed(self) -> int:
        """Returns the seed of the generator, from 0 to 2**64 - 1."""
        return self._state.seed

    @property
    def seeded(self) -> bool:
        """True if a program chose the seed; False if it came from the operating system."""
        return self._state.chosen

    def get_state(self) -> npt.NDArray[np.uint32]:
        """Returns the state, which a checkpoint can keep for ``set_state``.

        Returns:
            uint32 [5]: the number 1 (of this format), then the high and the low word of the seed
            and of the number of draws. ``numpy.save`` and a ``jax.Array`` keep all their bits,
            with x64 on or off.
        """
        state = self._state
        return np.array([_FORMAT, *words(state.seed), *words(state.count)], np.uint32)

    def set_state(self, new_state: npt.ArrayLike) -> Generator:
        """Goes on from a state that ``get_state`` returned; an exception changes nothing.

        Args:
            new_state: uint32 [5], a NumPy or JAX array.

        Returns:
            The generator itself.

        Raises:
            TypeError: Not an array, or of another dtype.
            RuntimeError: Of another shape, or of another format.
        """
        format_, *numbers = _checked_state(new_state)
        if format_ != _FORMAT:
            raise RuntimeError(
                f"set_state(): argument 'new_state' has the format {format_}, but this release "
                f"reads the format {_FORMAT}; take a state that Generator.get_state() returned"
            )
        seed_high, seed_low, count_high, count_low = numbers
        self._state = _State(seed_high << 32 | seed_low, count_high << 32 | count_low)
        return self

    def key(self) -> jax.Array:
        """Draws the next key.

        Returns:
            A typed key array [] of Threefry-2x32, whatever ``jax_default_prng_impl`` is. Its two
            words are Threefry-2x32 of the number of draws so far, under the seed. They are the
            same on every device: the rows of the kind ``random`` state the guarantee.

        Raises:
            RuntimeError: JAX is tracing the function that calls this (``jax.jit``,
                ``jax.lax.scan`` and others), so all its calls would get one key. Nothing is drawn.
        """
        return self._draw(_key)

    def draw_seed(self) -> int:
        """Draws a number from 0 to 2**63 - 1 from the same stream, as a seed for another generator.

        This does not use JAX, so a forked process can call it.
        """
        return self._draw(lambda number: number >> 1)

    def _draw(self, make: Callable[[int], _Value]) -> _Value:
        # A draw counts only if `make` succeeds. `make` may call JAX, so it runs without the lock.
        while True:
            state = self._state
            if state.count == _COUNTS - 1:
                raise RuntimeError("Generator: all of its 2**64 - 1 draws are used; seed it anew")
            value = make(threefry2x32(state.seed, state.count))
            with _lock:
                if self._state is state:  # Otherwise another thread was faster.
                    self._state = dataclasses.replace(state, count=state.count + 1)
                    return value

    def __repr__(self) -> str:
        state = self._state
        return f"<impl.Generator: seed {state.seed}, {state.count} drawn>"


def _key(number: int) -> jax.Array:
    # An explicit transfer, which a transfer guard permits.
    data = jax.device_put(np.array(words(number), np.uint32))
    key: jax.Array = jax.random.wrap_key_data(data, impl="threefry2x32")
    if isinstance(key, jax.core.Tracer):
        raise RuntimeError(  # noqa: TRY004  # No argument has a wrong type.
            "Generator.key(): drawn in a function that JAX is tracing (jax.jit, jax.lax.scan and "
            "their kin), where one key would stand for every call. Draw the key outside, and pass "
            "it to the function as an argument"
        )
    return key


def _checked_seed(function: str, seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = None
    if number is None or isinstance(seed, bool):
        raise RuntimeError(f"{function} expected an integer seed, but got {type(seed).__name__}")
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(
            f"{function}(): argument 'seed' got {number}; it must be from -2**63 to 2**64 - 1"
        )
    return number % (1 << 64)


def _checked_state(new_state: Any) -> list[int]:
    is_array = isinstance(new_state, np.ndarray | jax.Array)
    if not is_array or isinstance(new_state, jax.core.Tracer) or new_state.dtype != np.uint32:
        kind = f"an array of {new_state.dtype}" if is_array else type(new_state).__name__
        raise TypeError(
            f"set_state(): argument 'new_state' must be an array of uint32, but got {kind}"
        )
    if new_state.shape != (_SIZE,):
        raise RuntimeError(
            f"set_state(): argument 'new_state' must have the shape [{_SIZE}], but got "
            f"{list(new_state.shape)}; take a state that Generator.get_state() returned"
        )
    return np.asarray(new_state).tolist()  # type: ignore[no-any-return]


_libraries_seed: int | None = None

default_generator = Generator()
default_generator.seed()  # As in PyTorch, only a program that sets a seed repeats its draws.


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator.

    Source: ``torch.manual_seed``. Difference: a number with a fraction is refused, not cut.

    Args:
        seed: A number from -2**63 to 2**64 - 1, or a value that ``int`` converts to such a
            number. A negative number stands for ``2**64 + seed``.

    Returns:
        The default generator.

    Raises:
        TypeError, ValueError: ``int`` does not accept ``seed``.
        ValueError: ``seed`` has a fraction or is out of range.
    """
    number = int(seed)
    if isinstance(seed, float | np.floating) and number != seed:
        raise ValueError(
            f"manual_seed(): argument 'seed' got {seed}; give an integer, from -2**63 to 2**64 - 1"
        )
    return default_generator.manual_seed(number)


def seed() -> int:
    """Seeds the default generator from the operating system, and returns the seed.

    ``manual_seed`` with the result reproduces the draws. Source: ``torch.seed``.
    """
    return default_generator.seed()


def initial_seed() -> int:
    """Returns the seed of the default generator, from 0 to 2**64 - 1.

    Source: ``torch.initial_seed``.
    """
    return default_generator.initial_seed()


def get_rng_state() -> npt.NDArray[np.uint32]:
    """Returns the state of the default generator, as ``Generator.get_state`` does.

    Source: ``torch.get_rng_state``.
    """
    return default_generator.get_state()


def set_rng_state(new_state: npt.ArrayLike) -> None:
    """Sets the state of the default generator.

    Source: ``torch.set_rng_state``.

    Args:
        new_state: An array that ``get_rng_state`` returned.

    Raises:
        TypeError: Not an array, or of another dtype.
        RuntimeError: Of another shape, or of another format.
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[object] | None = None, enabled: bool = True) -> Iterator[None]:
    """Restores the default generator at the end of a scope, also after an exception.

    All threads share the generator. So the draws that another thread makes during the scope are
    made again after it. Source: ``torch.random.fork_rng``.

    Args:
        devices: Ignored, since one generator serves all devices.
        enabled: False to restore nothing.

    Yields:
        None.
    """
    del devices
    state = default_generator._state  # noqa: SLF001  # of this module
    try:
        yield
    finally:
        if enabled:
            default_generator._state = state  # noqa: SLF001  # of this module


def seed_everything(seed: int) -> np.random.Generator:
    """Seeds this package, Python's ``random`` and NumPy's global generator with one seed.

    ``random`` gets the 64 bits of ``initial_seed()``. NumPy's global generator gets the lower 32,
    since it accepts no more. So a seed from 0 to 2**32 - 1 is the same in all three.

    Args:
        seed: A seed as for ``manual_seed``.

    Returns:
        A new NumPy generator, ``numpy.random.default_rng(initial_seed())``. Prefer it to NumPy's
        global generator, which every library shares.

    Raises:
        TypeError, ValueError: As for ``manual_seed``; nothing is seeded then.
    """
    number = manual_seed(seed).initial_seed()
    _python_random.seed(number)
    np.random.seed(number % (1 << 32))  # noqa: NPY002  # This function is to seed it.
    global _libraries_seed  # noqa: PLW0603  # For the doctor: neither library keeps its seed.
    _libraries_seed = number
    return np.random.default_rng(number)


def libraries_seed() -> int | None:
    """Returns the seed that ``seed_everything`` last set; None if it was not called."""
    return _libraries_seed
